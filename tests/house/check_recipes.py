#!/usr/bin/env python3
"""CONTRIBUTING.md's recipes work: in a copy of the sources add a semiring, a file format and an optimizer as it says,
build that copy, and use what was added.

    check_recipes.py SOURCE SCRATCH CC

The semiring is gcd_times on i64: multiplication distributes over the greatest common divisor, whose zero is 0.
"""
import ctypes
import pathlib
import shutil
import subprocess
import sys

SEMIRING = 'TENSUM_SEMIRING(GCD_TIMES, gcd_times, "divisors", gcd, times, RESIDUE, 0, "common divisor of products")\n'
ELEMENT = """
TS_ELEMENT_INLINE int64_t ts_add_gcd_i64(int64_t x, int64_t y, int64_t m)
{
    (void)m;
    while (y != 0) {
        int64_t rest = x % y;
        x = y;
        y = rest;
    }
    return x;
}
TS_ELEMENT_INLINE int64_t ts_finish_gcd_times_i64(int64_t x) { return x; }
TS_ELEMENT_INLINE int64_t ts_zero_gcd_times_i64(void) { return 0; }
TS_ELEMENT_INLINE int64_t ts_one_gcd_times_i64(void) { return 1; }

#endif
"""
FORMAT = """
/* The number of operands, for the test of the recipe. */
#include "io/formats.h"

static bool recognize(const ts_source *source)
{
    (void)source;
    return false;
}

static tensum_status write_count(const ts_writing *writing, ts_text *text)
{
    tensum_status status = TENSUM_OK;
    TRY(ts_write_needs(writing, "count", true, false));
    ts_text_add(text, "%d operands\\n", (int)writing->network->operand_count);
    status = text->status;
done:
    return status;
}

const ts_format ts_format_count = {"count", "the number of operands", recognize, NULL, write_count};
"""


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("index", ctypes.c_int32)]


class Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("dtype", ctypes.c_int), ("rank", ctypes.c_int32),
                ("extents", ctypes.c_void_p), ("strides", ctypes.c_void_p), ("device", Device)]


def replace(path, old, new):
    text = path.read_text()
    if text.count(old) < 1:
        raise SystemExit(f"{path}: '{old}' is gone: CONTRIBUTING.md and this test have to follow")
    path.write_text(text.replace(old, new, 1) if old != "#endif\n" else new.join(text.rsplit(old, 1)))


def copy(source, scratch):
    """Bring the copy up to date, touching only what changed, so that a second run builds little."""
    for name in ("CMakeLists.txt", "LICENSE", "include", "src", "cmake"):
        for path in [source / name, *(source / name).rglob("*")]:
            target = scratch / path.relative_to(source)
            if path.is_file() and (not target.is_file() or target.read_bytes() != path.read_bytes()):
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(path, target)


def edit(tree):
    """The recipes."""
    semirings = tree / "include/tensum/semirings.def"
    semirings.write_text(semirings.read_text() + SEMIRING)
    replace(tree / "src/algebra/element.h", "#endif\n", ELEMENT.lstrip("\n"))
    replace(tree / "src/algebra/sums.c", "#define DEFINE_modsum(", "#define DEFINE_gcd(s, a, m, d) EXACT_SUM(s, a, m, d)\n#define DEFINE_modsum(")
    (tree / "src/io/formats/count.c").write_text(FORMAT.lstrip("\n"))
    replace(tree / "src/io/formats.c", "    X(graph)\n", "    X(graph) \\\n    X(count)\n")
    replace(tree / "src/order/order.c", "    {\"exact\", &exact,", "    {\"hottest\", &annealing, \"the test's own\"},\n    {\"exact\", &exact,")


def names(function):
    function.restype = ctypes.c_char_p
    found = []
    while function(len(found)) is not None:
        found.append(function(len(found)).decode())
    return found


def use(library, scratch):
    problems = []
    text = lambda function, *arguments: (setattr(function, "restype", ctypes.c_char_p), function(*arguments))[1].decode()
    semiring, dtype = ctypes.c_int(-1), ctypes.c_int(-1)
    if library.tensum_semiring_find(b"divisors", ctypes.byref(semiring)) or library.tensum_dtype_find(b"i64", ctypes.byref(dtype)):
        return [text(library.tensum_last_error)]
    extents = (ctypes.c_int64 * 2)(2, 2)
    a, b, c = (ctypes.c_int64 * 4)(12, 18, 8, 0), (ctypes.c_int64 * 4)(1, 5, 1, 7), (ctypes.c_int64 * 4)()
    tensor = lambda data: Tensor(ctypes.addressof(data), dtype.value, 2, ctypes.addressof(extents), None, Device(0, 0))
    operands, output = (Tensor * 2)(tensor(a), tensor(b)), tensor(c)
    if library.tensum_einsum(None, semiring, b"ij,jk->ik", ctypes.c_int64(2), operands, ctypes.byref(output)):
        return [text(library.tensum_last_error)]
    # gcd(12, 18), gcd(60, 126), gcd(8, 0), gcd(40, 0)
    if list(c) != [6, 6, 8, 40]:
        problems.append(f"gcd_times gives {list(c)}, expected [6, 6, 8, 40]")
    if library.tensum_supports(semiring, dtype) != 1:
        problems.append("gcd_times on i64 should support values and nothing else")
    if "count" not in names(library.tensum_file_format_name):
        problems.append("the format is not listed")
    network, tree = ctypes.c_void_p(), ctypes.c_void_p()
    ranks = (ctypes.c_int32 * 2)(2, 2)
    rows = (ctypes.c_void_p * 2)(ctypes.addressof(extents), ctypes.addressof(extents))
    library.tensum_network_parse(b"ij,jk->ik", ctypes.c_int64(2), ranks, rows, ctypes.c_int64(0), None, None,
                                 ctypes.byref(network))
    path = scratch / "network.count"
    if library.tensum_file_write(str(path).encode(), b"count", network, None, None) or path.read_text() != "2 operands\n":
        problems.append(f"the format: {text(library.tensum_last_error)}")

    class Options(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("method", ctypes.c_char_p), ("seed", ctypes.c_uint64),
                    ("work", ctypes.c_double), ("time_limit", ctypes.c_double), ("minimize", ctypes.c_char_p),
                    ("memory_limit", ctypes.c_double), ("element_bytes", ctypes.c_size_t), ("progress", ctypes.c_void_p),
                    ("user", ctypes.c_void_p), ("start", ctypes.c_void_p)]
    options = Options(ctypes.sizeof(Options), b"hottest", 0, -1.0)
    if library.tensum_order(network, ctypes.byref(options), None, ctypes.byref(tree)):
        problems.append(f"the optimizer: {text(library.tensum_last_error)}")
    return problems


def main():
    source, scratch, compiler = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    copy(source, scratch)
    edit(scratch)
    # One set of CPU kernels and no CUDA: neither changes what is proven here, and both take minutes.
    for command in (["cmake", "-S", scratch, "-B", scratch / "build", "-G", "Ninja", "-DTENSUM_TESTS=OFF", "-DTENSUM_CLI=OFF",
                     "-DTENSUM_WERROR=ON", "-DTENSUM_GENERIC_KERNELS=ON", "-DTENSUM_CUDA=OFF", "-DCMAKE_BUILD_TYPE=Debug", f"-DCMAKE_C_COMPILER={compiler}"],
                    ["cmake", "--build", scratch / "build", "--target", "tensum", "-j", "2"]):
        made = subprocess.run(command, capture_output=True, text=True)
        if made.returncode:
            print(made.stdout[-4000:], made.stderr[-2000:])
            print("0 passed, 1 failed")
            return 1
    problems = use(ctypes.CDLL(str(scratch / "build" / "libtensum.so")), scratch)
    for problem in problems:
        print(f"FAIL {problem}")
    print("3 passed, 0 failed" if not problems else f"0 passed, {len(problems)} failed")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
