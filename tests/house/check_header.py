#!/usr/bin/env python3
"""The public header stands alone in C11, C17 and C++17, and the library exports exactly what it declares.

    check_header.py LIBTENSUM.SO CC [CXX]
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "include" / "tensum" / "tensum.h"
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-fsyntax-only", f"-I{ROOT}/include"]


def without_comments(text):
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"^\s*#.*?(?<!\\)$", "", text, flags=re.MULTILINE | re.DOTALL)


def declared():
    text = without_comments(HEADER.read_text())
    return set(re.findall(r"TENSUM_API[^;(]*?\b(\w+)\s*\(", text))


def exported(library):
    lines = subprocess.run(["nm", "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {fields[2].split("@")[0] for fields in map(str.split, lines.splitlines()) if len(fields) == 3}


def check_exports(library):
    names, symbols = declared(), exported(library)
    problems = [f"declared and not exported: {name}" for name in sorted(names - symbols)]
    problems += [f"exported and not declared: {name}" for name in sorted(symbols - names)]
    problems += [f"declared without the prefix: {name}" for name in sorted(names) if not name.startswith("tensum_")]
    if len(names) < 40:
        problems.append(f"only {len(names)} declarations were found: the search is broken")
    return problems


def check_compiles(command, suffix):
    """The header alone, then every initializer macro used on its struct."""
    macros = re.findall(r"#define (TENSUM_(\w+)_INIT)\b", HEADER.read_text())
    lines = ["#include <tensum/tensum.h>", "#include <tensum/tensum.h>"]
    for number, (macro, name) in enumerate(macros):
        lines.append(f"size_t use{number}(void);")
        lines.append(f"size_t use{number}(void) {{ tensum_{name.lower()} object = {macro}; return object.size; }}")
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / f"alone{suffix}"
        source.write_text("\n".join(lines) + "\n")
        run = subprocess.run([*command, *STRICT, str(source)], capture_output=True, text=True)
    return [] if run.returncode == 0 and macros else [run.stderr or "no initializer macros were found"]


def main():
    library, compiler = sys.argv[1:3]
    checks = [("exported symbols are the declared ones", check_exports(library)),
              ("C11", check_compiles([compiler, "-std=c11", "-Wstrict-prototypes"], ".c")),
              ("C17", check_compiles([compiler, "-std=c17", "-Wstrict-prototypes"], ".c"))]
    if len(sys.argv) > 3:
        checks.append(("C++17", check_compiles([sys.argv[3], "-std=c++17"], ".cc")))
    failed = 0
    for name, problems in checks:
        print(f"{'FAIL' if problems else 'ok'} {name}")
        for problem in problems:
            print(f"  {problem}")
        failed += bool(problems)
    skipped = len(sys.argv) <= 3
    if skipped:
        print("skipped C++17: no C++ compiler was found")
    print(f"{len(checks) - failed} passed, {failed} failed" + (", 1 skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
