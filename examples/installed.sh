#!/bin/sh
# Install the library into a scratch folder, build a program against it with pkg-config alone, and compare its output.
#
#   installed.sh BUILD COMPILER
set -eu
build=$1 compiler=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
DESTDIR=$scratch cmake --install "$build" >/dev/null
pc=$(find "$scratch" -name tensum.pc)
PKG_CONFIG_PATH=$(dirname "$pc") PKG_CONFIG_SYSROOT_DIR=$scratch
export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR
# shellcheck disable=SC2046 # lists of options
$compiler shortest_paths.c -o "$scratch/program" $(pkg-config --cflags --libs tensum)
LD_LIBRARY_PATH=$(dirname "$(dirname "$pc")") "$scratch/program" >"$scratch/output"
diff shortest_paths.expected "$scratch/output"
