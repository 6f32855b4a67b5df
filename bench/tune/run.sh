#!/bin/sh
# Compile the kernels, check them and time them on the CUDA device of this machine. Usage: run.sh [output folder] [jobs]
set -u
# MODULES: the semirings to compile (all by default); UNROLLS: values of TS_UNROLL to compile the tile list with.
here=$(cd "$(dirname "$0")" && pwd); root=$(cd "$here/../.." && pwd)
out=${1:-$here/out}; jobs=${2:-$(nproc)}; work=$out/work
mkdir -p "$work"
flags="-std=c++17 -O3 --fmad=false -gencode=arch=compute_90,code=sm_90 -I$root/src/backend/cuda/kernels -I$root/src -I$root/include -I$here"
compile() { echo "nvcc $flags -Xptxas -v -cubin $2 $3 -o $work/$1.cubin 2>$work/$1.log || echo FAILED $1"; }
{
  echo "nvcc -std=c++17 -O2 -Xcompiler -ffp-contract=off $flags -x cu $here/tune.cpp -o $work/tune 2>$work/tunehost.log || echo FAILED tune"
  echo "nvcc -std=c++17 -O2 -Xcompiler -ffp-contract=off $flags -x cu $here/check.cpp -o $work/check 2>$work/checkhost.log || echo FAILED check"
  sed -n 's/^TENSUM_SEMIRING(\([A-Z_]*\), \([a-z_]*\), "[^"]*", \([a-z]*\), \([a-z]*\), \([A-Z]*\), \([01]\).*/\2 \3 \4 \5 \6/p' "$root/include/tensum/semirings.def" |
  while read -r s a m d sel; do
    case " ${MODULES-$s} " in *" $s "*) ;; *) continue ;; esac
    compile "$s" "-DTS_MODULE_SEMIRING=$s -DTS_MODULE_ADD=$a -DTS_MODULE_MUL=$m -DTS_MODULE_DTYPES=$d -DTS_MODULE_SELECTIVE=$sel" "$root/src/backend/cuda/kernels/module.cu"
  done
  for unroll in ${UNROLLS-4}; do compile "tunelist$unroll" "-split-compile 0 -DTS_UNROLL=$unroll" "$here/tune.cu"; done
  compile common "" "$root/src/backend/cuda/kernels/common.cu"
} | sed 's/-std=c++17 -O2 -Xcompiler/-O2 -Xcompiler/' | tr '\n' '\0' | xargs -0 -P "$jobs" -n 1 sh -c
date
modules=$(ls "$work"/*.cubin | grep -v tunelist)
timeout 200 "$work/check" $modules 2>&1 | tee "$out/check.txt" | tail -45
date
for unroll in ${UNROLLS-4}; do
  echo "TS_UNROLL $unroll"
  timeout 100 "$work/tune" "$out/tune$unroll.txt" "$work/tunelist$unroll.cubin" $modules
  modules=
done
date
