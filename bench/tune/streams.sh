#!/bin/sh
# Time the stream kernel for several shares (elements per thread and tile) and blocks per multiprocessor.
# Usage: streams.sh [output folder]
set -u
here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../.." && pwd); out=${1:-$here/out}; work=$out/work
mkdir -p "$work"
flags="-std=c++17 -O3 --fmad=false -arch=sm_90 -I$root/src/backend/cuda/kernels -I$root/src -I$root/include -I$here"
for share in 2 4 8; do
  nvcc $flags -DTS_CUDA_STREAM_SHARE=$share -DTS_CUDA_STREAM_BLOCKS=4 -x cu "$here/tune.cpp" -o "$work/tune$share" 2>/dev/null &
  for blocks in 2 3 4 6 8; do
    nvcc $flags -DTS_CUDA_STREAM_SHARE=$share -DTS_CUDA_STREAM_BLOCKS=$blocks -cubin "$here/stream.cu" -o "$work/$share-$blocks.cubin" &
  done
done
wait
for share in 2 4 8; do
  for blocks in 2 3 4 6 8; do
    echo "share $share blocks $blocks"
    STREAMS=1 timeout 20 "$work/tune$share" "$out/stream-$share-$blocks.txt" "$work/$share-$blocks.cubin"
  done
done
