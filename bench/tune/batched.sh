#!/bin/sh
# Kernels of many small products on the CUDA device of this machine: where the constants of batched_abi.h come from.
# Usage: batched.sh [output folder] [products rows columns terms]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/one.sh"
time_kernels batched "$@"
