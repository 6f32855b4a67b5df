#!/bin/sh
# Shapes of small products by teams of warps on the CUDA device of this machine: where TS_CUDA_TEAM_SHAPES comes from.
# Usage: teams.sh [output folder] [size ...]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/one.sh"
time_kernels teams "$@"
