# Sourced by scripts that time one program with its own kernels: compiles NAME.cu and NAME.cpp, and runs them on the CUDA device of this
# machine. time_kernels NAME [output folder] [arguments of the program]
time_kernels() {
    name=$1 root=$(cd "$here/../.." && pwd) out=${2:-$here/out}
    shift; [ $# -eq 0 ] || shift
    mkdir -p "$out"
    flags="-std=c++17 --fmad=false -gencode=arch=compute_90,code=sm_90 -I$root/src/backend/cuda/kernels -I$root/src -I$root/include -I$here"
    nvcc $flags -O3 -Xptxas -v -split-compile 0 -cubin "$here/$name.cu" -o "$out/$name.cubin" 2>"$out/$name.log"
    nvcc $flags -O2 -x cu "$here/$name.cpp" -o "$out/$name"
    "$out/$name" "$out/$name.cubin" "$@"
}
