#!/bin/sh
# Install the package from this checkout into a virtual environment and run its tests.
#
#   tests/python/run.sh FOLDER [python|gpu] [PYTEST OPTIONS...]
#
# FOLDER keeps the environment and the build between runs. What other libraries cannot be installed is skipped, with a
# reason, by the tests that need it. PYTHON names the interpreter (python3).
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
folder=${1:-$root/build/python}
kind=${2:-python}
[ $# -gt 2 ] && shift 2 || shift $#
python=${PYTHON:-python3}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
venv=$folder/venv

give_up() {
    echo "the Python tests are skipped: $1"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
}

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || give_up "$python is not Python 3.11 or later"
header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h
[ -f "$header" ] || give_up "$header is missing (Debian: python3-dev)"

# The GPU tests use the libraries that the machine has; the others use exactly what is installed here.
options=
[ "$kind" = gpu ] && options=--system-site-packages
if [ ! -x "$venv/bin/python" ]; then
    rm -rf "$venv"
    # shellcheck disable=SC2086
    "$python" -m venv $options "$venv" || give_up "no virtual environment can be made (Debian: python3-venv)"
    # Where $python itself is of a virtual environment, that one's libraries are what the machine has.
    if [ "$kind" = gpu ]; then
        "$python" -c 'import sys, sysconfig; sys.prefix != sys.base_prefix and print(sysconfig.get_path("purelib"))' \
            >"$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/machine.pth"
    fi
fi
pip="$venv/bin/python -m pip --disable-pip-version-check --quiet --no-input"
# Small tensors gain nothing from threads, and threads that spin for others slow everything down on a busy machine.
export OMP_NUM_THREADS=1
has() { "$venv/bin/python" -c "import $1" >/dev/null 2>&1; }

# install SECONDS MODULE REQUIREMENT
install() {
    has "$2" && return 0
    # shellcheck disable=SC2086
    timeout "$1" $pip install --retries 1 --timeout 20 "$3" >"$folder/pip.log" 2>&1 || echo "not installed: $3 ($(tail -n 1 "$folder/pip.log"))"
    has "$2"
}
install 300 numpy "numpy>=2" && install 120 pytest pytest && install 120 scikit_build_core scikit-build-core ||
    give_up "NumPy, pytest and scikit-build-core could not be installed"
# The package is built while other libraries are fetched.
rm -rf "$folder/wheel"
# shellcheck disable=SC2086
CMAKE_BUILD_PARALLEL_LEVEL=${JOBS:-2} timeout 900 $pip wheel --no-build-isolation --no-deps -w "$folder/wheel" \
    --config-settings=build-dir="$folder/build" --config-settings=cmake.define.TENSUM_WERROR=ON "$root" >"$folder/install.log" 2>&1 &
building=$!
install 120 hypothesis hypothesis
if [ "$kind" = python ]; then
    # PyPI's is several gigabytes: only one that lies on this machine, or by request.
    if [ -n "${TENSUM_TEST_TORCH:-}" ] || $pip install --no-index --no-deps --dry-run torch==2.13.0 >/dev/null 2>&1; then
        install 600 torch "torch==2.13.0"
    else
        echo "not installed: torch (TENSUM_TEST_TORCH=1 installs it)"
    fi
    install 300 jax jax
    install 60 opt_einsum opt_einsum
    install 60 cotengra cotengra
    install 300 sklearn scikit-learn
    install 60 tqdm tqdm
fi

# shellcheck disable=SC2086
if ! wait "$building" || ! $pip install --no-deps --force-reinstall "$folder"/wheel/*.whl >>"$folder/install.log" 2>&1; then
    tail -n 60 "$folder/install.log"
    echo "the package could not be built and installed (whole log: $folder/install.log)"
    echo "0 passed, 1 failed"
    exit 1
fi
marker="not gpu"
[ "$kind" = gpu ] && marker=gpu
cd "$folder" && exec "$venv/bin/python" -m pytest -p no:cacheprovider -q -rs -m "$marker" --rootdir "$root" "$@" "$root/tests/python"
