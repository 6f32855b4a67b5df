# The commands people type. The build itself is CMake's; everything it makes lies under build/.
#
#   make            build/tensum and build/libtensum.so
#   make run        solve the models in examples/
#   make test       every test, in the plain and the sanitizer builds
#   make install    to PREFIX (/usr/local), below DESTDIR if set
#   also: sanitize, clang, test-gpu, coverage, docs, clean

PREFIX ?= /usr/local
MODELS ?= examples/asia examples/Grids_12

ifneq ($(shell command -v ccache),)
export CMAKE_C_COMPILER_LAUNCHER := ccache
endif

.PHONY: all run test test-gpu sanitize clang coverage docs install clean

all:
	@scripts/dependencies build
	@test -f build/CMakeCache.txt || cmake -S . -B build -G Ninja -DTENSUM_TESTS=OFF
	cmake --build build

run: all
	@for model in $(MODELS); do \
	  echo "# the most probable explanation of $$model.uai (log10, then the value of each variable)"; \
	  build/tensum solve $$model.uai --evidence $$model.uai.evid --task map || exit $$?; \
	done

test:
	@scripts/dependencies test
	@scripts/test

sanitize:
	@scripts/dependencies test
	@scripts/test address thread

clang:
	@scripts/dependencies clang
	@scripts/test clang

# On a machine with an NVIDIA GPU and its driver.
test-gpu:
	@scripts/dependencies gpu
	@scripts/test gpu

coverage:
	@scripts/dependencies coverage
	@scripts/coverage

docs:
	@scripts/dependencies docs
	@scripts/docs

install: all
	cmake -S . -B build -DCMAKE_INSTALL_PREFIX=$(PREFIX)
	cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build
