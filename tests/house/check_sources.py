#!/usr/bin/env python3
"""The rules of the house that a text search can prove: who may include whom, and what the library never does."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

# The dependency law: a folder of src/ may include itself and what is listed.
BELOW = {
    "core": [],
    "algebra": ["core"],
    "tensor": ["core", "algebra"],
    "network": ["core", "algebra", "tensor"],
    "order": ["core", "algebra", "tensor", "network"],
    "plan": ["core", "algebra", "tensor", "network", "order"],
    # The seam and the step backends know tensors only.
    "backend": ["core", "algebra", "tensor"],
    "backend/reference": ["core", "algebra", "tensor", "backend"],
    "backend/cpu": ["core", "algebra", "tensor", "backend"],
    # A program backend compiles whole plans.
    "backend/cuda": ["core", "algebra", "tensor", "network", "order", "plan", "execute", "backend"],
    "execute": ["core", "algebra", "tensor", "network", "order", "plan", "backend"],
    "io": ["core", "algebra", "tensor", "network", "order", "plan"],
    "problems": ["core", "algebra", "tensor", "network", "order", "plan", "io"],
}
# Only these may look at TENSUM_TESTING: the testing library is built anew from them alone.
TESTING = {"src/core/core.h", "src/core/memory.c"}
# Outside these the allocator, and what prints or ends the process, is out of bounds for the library.
RAW_MEMORY = {"src/core/memory.c"}
FORBIDDEN = [
    (re.compile(r"\b(?:malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|strndup|asprintf)\s*\("),
     "allocates outside ts_allocate", RAW_MEMORY),
    (re.compile(r"(?<![\w.>])free\s*\("), "frees outside ts_free", RAW_MEMORY),
    (re.compile(r"(?<![\w.>])(?:abort|exit|_exit|assert)\s*\("), "ends the process", set()),
    (re.compile(r"(?<![\w.>])(?:printf|vprintf|puts|putchar|perror)\s*\(|\bf(?:printf|puts)\s*\(\s*std(?:out|err)"),
     "prints", set()),
    (re.compile(r"(?<![\w.>])signal\s*\(|\bsigaction\s*\("), "handles signals", set()),
    (re.compile(r"^\s*#\s*pragma\s+omp", re.MULTILINE), "uses OpenMP", set()),
]
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)


def blank(match):
    """A comment or literal as blanks of the same number of lines."""
    text = match.group(0)
    return text if text.startswith(("\"", "'")) and len(text) == 2 else "\n" * text.count("\n") + '""' * (text[0] == '"')


def sources(folder):
    base = ROOT / folder
    return sorted(p for p in base.rglob("*") if p.suffix in (".c", ".h", ".cu", ".cuh", ".inc", ".def"))


def layer(path):
    """'backend/cpu' for backends, else the first folder below src."""
    parts = path.relative_to(ROOT / "src").parts
    if parts[0] == "backend" and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if len(parts) > 1 else ""


def included_layer(path, name):
    """The layer of an included project header, or None for a system or library header."""
    for base in (path.parent, ROOT / "src"):
        found = (base / name).resolve()
        if found.is_file() and (ROOT / "src") in found.parents:
            return layer(found)
    return None


def check_dependency_law():
    count = 0
    for path in sources("src"):
        mine = layer(path)
        if mine not in BELOW:
            yield f"{path.relative_to(ROOT)}: folder src/{mine} is not in the table of the dependency law"
            continue
        for _, name in INCLUDE.findall(path.read_text()):
            theirs = included_layer(path, name)
            count += 1
            if theirs is not None and theirs != mine and theirs not in BELOW[mine]:
                yield f"{path.relative_to(ROOT)}: includes {name}: src/{mine} may not use src/{theirs}"
    if count < 20:
        yield f"only {count} includes were found: the search is broken"


def check_public_header_only():
    """The command, the examples and the Python package use tensum.h and nothing else of ours."""
    for folder in ("cli", "examples", "python"):
        for path in sources(folder):
            for kind, name in INCLUDE.findall(path.read_text()):
                if name.startswith("tensum/") and name != "tensum/tensum.h":
                    yield f"{path.relative_to(ROOT)}: includes {name}, expected tensum/tensum.h alone"
                if kind == '"' and not (path.parent / name).is_file() and not (ROOT / folder / name).is_file():
                    yield f"{path.relative_to(ROOT)}: includes {name}, which is not in {folder}/"


def check_what_the_library_never_does():
    for path in sources("src"):
        if path.suffix in (".cu", ".cuh") or "kernels" in path.parts:
            continue
        text = COMMENT.sub(blank, path.read_text())
        for pattern, what, excepted in FORBIDDEN:
            if str(path.relative_to(ROOT)) in excepted:
                continue
            for match in pattern.finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                yield f"{path.relative_to(ROOT)}:{line}: {match.group(0).strip()} {what}"


def check_testing_hooks():
    for path in sources("src"):
        if "TENSUM_TESTING" in path.read_text() and str(path.relative_to(ROOT)) not in TESTING:
            yield f"{path.relative_to(ROOT)}: looks at TENSUM_TESTING but is shared with the library (tests/CMakeLists.txt)"


def check_names():
    """Functions visible between files are ts_ or tensum_ (seen in headers); no _t typedefs."""
    for path in sources("src"):
        for match in re.finditer(r"^typedef\b[^;{]*?\b(\w+_t)\s*;|^\}\s*(\w+_t)\s*;", path.read_text(), re.MULTILINE):
            yield f"{path.relative_to(ROOT)}: typedef {match.group(1) or match.group(2)} ends in _t"


def check_arithmetic_flags():
    """No build file may ask for arithmetic that differs from the documented one (docs/semantics.md, point 7)."""
    files = [ROOT / "CMakeLists.txt", *ROOT.glob("*/**/CMakeLists.txt"), *ROOT.glob("cmake/*.cmake")]
    for path in files:
        if "build" in path.relative_to(ROOT).parts[:1]:
            continue
        for flag in re.findall(r"-ffast-math|-ffinite-math-only|-Ofast|--use_fast_math|-funsafe-math\S*|-ffp-contract=fast",
                               path.read_text()):
            yield f"{path.relative_to(ROOT)}: {flag}"
    if "-ffp-contract=off" not in (ROOT / "CMakeLists.txt").read_text():
        yield "CMakeLists.txt: -ffp-contract=off is gone"


def check_includes_of_headers():
    """Every header has a guard."""
    for path in sources("src") + sources("include") + sources("cli"):
        text = path.read_text()
        if path.suffix == ".h" and not re.search(r"#ifndef (\w+)\n#define \1\b", text):
            yield f"{path.relative_to(ROOT)}: no include guard"


def main():
    passed = failed = 0
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            problems = list(check())
            print(f"{'FAIL' if problems else 'ok'} {name[6:].replace('_', ' ')}")
            for problem in problems:
                print(f"  {problem}")
            passed, failed = passed + (not problems), failed + bool(problems)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
