#!/bin/sh
# Shapes of small products by teams of warps on the CUDA device of this machine: where TS_CUDA_TEAM_SHAPES comes from.
# Usage: teams.sh [output folder] [size ...]
set -eu
here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../.." && pwd)
out=${1:-$here/out}; [ $# -gt 0 ] && shift
mkdir -p "$out"
flags="-std=c++17 --fmad=false -gencode=arch=compute_90,code=sm_90 -I$root/src/backend/cuda/kernels -I$root/src -I$root/include -I$here"
nvcc $flags -O3 -Xptxas -v -split-compile 0 -cubin "$here/teams.cu" -o "$out/teams.cubin" 2>"$out/teams.log"
nvcc $flags -O2 -x cu "$here/teams.cpp" -o "$out/teams"
"$out/teams" "$out/teams.cubin" "$@"
