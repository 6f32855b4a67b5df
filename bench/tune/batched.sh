#!/bin/sh
# Kernels of many small products on the CUDA device of this machine: where the constants of batched_abi.h come from.
# Usage: batched.sh [output folder] [products rows columns terms]
set -eu
here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../.." && pwd)
out=${1:-$here/out}; [ $# -gt 0 ] && shift
mkdir -p "$out"
flags="-std=c++17 --fmad=false -gencode=arch=compute_90,code=sm_90 -I$root/src/backend/cuda/kernels -I$root/src -I$root/include -I$here"
nvcc $flags -O3 -Xptxas -v -split-compile 0 -cubin "$here/batched.cu" -o "$out/batched.cubin" 2>"$out/batched.log"
nvcc $flags -O2 -x cu "$here/batched.cpp" -o "$out/batched"
"$out/batched" "$out/batched.cubin" "$@"
