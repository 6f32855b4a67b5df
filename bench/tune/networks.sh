#!/bin/sh
# Time a network, its values and its gradients, with other constants for chains, trees and folds: one at a time, beside those of the
# sources. Usage: networks.sh NETWORK [output folder]
# SEMIRINGS: what to time; VARIANTS: constants of the host's side; KERNELS: those that kernels are compiled with too; OPTIONS: more
# for cmake, such as -DTENSUM_CUDA_ARCHITECTURES=80. The medians, in seconds, are in networks.txt there; a constant is worth
# changing where values and gradients of networks of several kinds gain by more than two runs of `as-is` differ.
set -u
network=$(realpath "${1:?a network file}"); here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../.." && pwd); out=${2:-$here/out}; work=$out/work
semirings=${SEMIRINGS-max_plus sum_product}
variants=${VARIANTS-TS_CHAIN_TILE_BYTES=16384 TS_CHAIN_TILE_BYTES=49152 TS_CHAIN_BACK_TILE_BYTES=8192 TS_CHAIN_BACK_TILE_BYTES=32768
  TS_CHAIN_RUN_BYTES=32 TS_CHAIN_RUN_BYTES=128 TS_CHAIN_LONGEST_RUN=4 TS_CHAIN_LONGEST_RUN=32 TS_CHAIN_LEAST_ELEMENTS=64
  TS_CHAIN_LEAST_ELEMENTS=1024 TS_TREE_MOST_RESULTS=256 TS_TREE_MOST_RESULTS=4096 TS_TREE_MOST_PAIRS=65536 TS_TREE_MOST_BYTES=32768
  TS_FOLD_LEAST_TILES=1 TS_FOLD_LEAST_TILES=8}
kernels=${KERNELS-TS_CUDA_CHAIN_THREADS=256 TS_CUDA_BACK_THREADS=128 TS_CUDA_BACK_THREADS=512 TS_CUDA_BACK_BLOCKS=1 TS_CUDA_BACK_BLOCKS=3
  TS_CUDA_TREE_THREADS=64 TS_CUDA_TREE_THREADS=256 TS_CUDA_FOLD_TERMS=32 TS_CUDA_FOLD_TERMS=128 TS_CUDA_FOLD_SHARE=8}
mkdir -p "$work"
build() { # name, flags of the host's compiler, flags of nvcc beside
  export NVCC_APPEND_FLAGS="$3"
  if cmake -S "$root" -B "$work/build" -DCMAKE_SKIP_BUILD_RPATH=ON -DCMAKE_C_FLAGS="$2" "-DTENSUM_CUDA_SEMIRINGS=$(echo $semirings | tr ' ' ';')" \
      ${OPTIONS-} >"$work/$1.log" 2>&1 && cmake --build "$work/build" --target tensum_command -j "$(nproc)" >>"$work/$1.log" 2>&1; then
    mkdir -p "$work/$1" && cp -L "$work/build/tensum" "$work/build/libtensum.so.0" "$work/$1"
  else
    echo "FAILED $1: see $work/$1.log"
  fi
}
bench() { # name, semiring, further arguments
  name=$1; semiring=$2; shift 2
  LD_LIBRARY_PATH=$work/$name timeout 60 "$work/$name/tensum" bench network "$network" --device cuda:0 --dtype "${DTYPE:-f32}" --semiring "$semiring" \
    "$@" --json 2>&1 | sed -n 's/.*"seconds_median": *\([0-9.e+-]*\).*/\1/p'
}
build as-is "" ""
for v in $variants; do build "$v" "-D$v" ""; done
for v in $kernels; do # they are made anew
  rm -f "$work"/build/src/backend/cuda/*.fatbin
  build "$v" "-D$v" "-D$v"
done
{
  printf '%-36s' constant; for s in $semirings; do printf '%14s%14s' "$s" gradient; done; echo
  for v in as-is $variants $kernels as-is; do
    [ -x "$work/$v/tensum" ] || continue
    printf '%-36s' "$v"
    for s in $semirings; do
      value=$(bench "$v" "$s"); gradient=$(bench "$v" "$s" --gradient)
      printf '%14.5g%14.5g' "${value:-nan}" "${gradient:-nan}"
    done
    echo
  done
} | tee "$out/networks.txt"
