# The commands people type. The build itself is CMake's; everything it makes lies under build/.
#
#   make            build/tensum and build/libtensum.so
#   make run        solve the model in examples/
#   make test       every test, in the plain and the sanitizer builds
#   make install    to PREFIX (/usr/local), below DESTDIR if set
#   also: sanitize, clang, test-gpu, coverage, docs, clean

PREFIX ?= /usr/local
MODEL ?= examples/asia.uai
EVIDENCE ?= examples/asia.uai.evid

ifneq ($(shell command -v ccache),)
export CMAKE_C_COMPILER_LAUNCHER := ccache
endif

.PHONY: all run test test-gpu sanitize clang coverage docs install clean

all:
	@scripts/dependencies build
	@test -f build/CMakeCache.txt || cmake -S . -B build -G Ninja -DTENSUM_TESTS=OFF
	cmake --build build

run: all
	build/tensum solve $(MODEL) --evidence $(EVIDENCE) --task map

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
	@scripts/dependencies test
	@scripts/test gpu

coverage:
	@scripts/dependencies coverage
	@scripts/coverage

docs:
	@scripts/dependencies docs
	@scripts/docs

install: all
	cmake --install build --prefix $(PREFIX)

clean:
	rm -rf build
