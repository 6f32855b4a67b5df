#!/bin/sh
# Time the move kernel for several tiles, stages and blocks per multiprocessor, beside a copy. Usage: move.sh [output folder]
set -u
here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../.." && pwd); out=${1:-$here/out}; work=$out/work
mkdir -p "$work"
flags="-std=c++17 -O3 --fmad=false -arch=${ARCH:-sm_90} -I$root/src/backend/cuda/kernels -I$root/src -I$root/include"
variants="2-16384-4 1-16384-4 3-16384-4 2-8192-4 2-32768-3 2-16384-5"
for v in $variants; do
  stages=${v%%-*}; blocks=${v##*-}; tile=${v#*-}; tile=${tile%-*}
  nvcc $flags -DTS_CUDA_MOVE_STAGES=$stages -DTS_CUDA_MOVE_TILE=$tile -DTS_CUDA_MOVE_BLOCKS=$blocks "$here/move.cu" -o "$work/move-$v" &
done
wait
timeout 120 "$work/move-2-16384-4" | tee "$out/move.txt"
for v in $variants; do timeout 60 "$work/move-$v" brief > "$out/move-$v.txt"; done
