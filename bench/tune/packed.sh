#!/bin/sh
# Shapes of packed products on the CUDA device of this machine: where TS_CUDA_PACKED_CLASSES comes from. If PyTorch is there,
# its products (cuBLAS, without TF32) in the same run. With TENSUM=the command: from which sizes on packing pays, too.
# Usage: packed.sh [output folder] [size ...]
set -eu
here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../.." && pwd)
out=${1:-$here/out}; [ $# -gt 0 ] && shift
mkdir -p "$out"
flags="-std=c++17 --fmad=false -gencode=arch=compute_90,code=sm_90 -I$root/src/backend/cuda/kernels -I$root/src -I$root/include -I$here"
if [ -z "${BUILT-}" ]; then
  nvcc $flags -O3 -Xptxas -v -split-compile 0 -cubin "$here/packed.cu" -o "$out/packed.cubin" 2>"$out/packed.log" &
  nvcc $flags -O2 -x cu "$here/packed.cpp" -o "$out/packed"
  wait
fi
[ -n "${BUILD_ONLY-}" ] && exit 0
"$out/packed" "$out/packed.cubin" "$@"
python3 "$here/peers.py" "$@" || echo "no PyTorch"
if [ -n "${TENSUM-}" ]; then
  for size in 256 512 1024 2048 4096; do
    for pair in "log_sum_exp f32" "log_sum_exp f64" "sum_product f32" "sum_product f16" "sum_product c64" "max_plus f64" "or_and bool" \
      "max_plus f32" "max_plus i32" "max_plus i16" "max_plus f16"; do
      for how in never always; do
        printf '%s %s, packed: %s:' "$pair" "$size" "$how"
        TENSUM_CUDA_PACKED=$how "$TENSUM" bench gemm --device cuda:0 --semiring "${pair% *}" --dtype "${pair#* }" --size "$size" --repeats 15 | tail -1
      done
    done
  done
fi
