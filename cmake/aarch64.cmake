# Cross compilation for 64-bit ARM, whose tests run in QEMU's user mode: gcc-aarch64-linux-gnu, qemu-user-static, and
# libcmocka-dev, libjansson-dev, libzip-dev and zlib1g-dev of architecture arm64.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig)
