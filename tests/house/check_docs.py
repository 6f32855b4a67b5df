#!/usr/bin/env python3
"""The pages agree with the library: the table of pairs is the library's own, links lead somewhere, the examples of the
README compile and print what it says.

    check_docs.py LIBTENSUM.SO CC [--write]      --write brings the table up to date
"""
import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples"))
from compare import same  # noqa: E402

SEMANTICS = ROOT / "docs" / "semantics.md"
START, END = "<!-- pairs: written by tests/house/check_docs.py --write -->\n", "<!-- end of pairs -->\n"
MODES = ((1, "V"), (2, "W"), (4, "G"), (8, "D"))


def names(function):
    """All names of an enum, asked for until NULL."""
    function.restype = ctypes.c_char_p
    found = []
    while function(len(found)) is not None:
        found.append(function(len(found)).decode())
    return found


def table(library):
    semirings, dtypes = names(library.tensum_semiring_name), names(library.tensum_dtype_name)
    lines = ["| | " + " | ".join(f"`{name}`" for name in dtypes) + " |", "|---" * (len(dtypes) + 1) + "|"]
    for row, semiring in enumerate(semirings):
        cells = ["".join(letter for bit, letter in MODES if library.tensum_supports(row, column) & bit)
                 for column in range(len(dtypes))]
        lines.append(f"| `{semiring}` | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def check_table(library, write):
    text = SEMANTICS.read_text()
    before, rest = text.split(START)
    old, after = rest.split(END)
    new = table(library)
    if write:
        SEMANTICS.write_text(before + START + new + END + after)
        return []
    return [] if old == new else [f"the table in {SEMANTICS.relative_to(ROOT)} is not the library's:\n{new}"]


def check_links():
    """Relative links of every page."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md"), *ROOT.glob("python/*.md")]
    problems = [] if len(pages) >= 3 else ["no pages were found: the search is broken"]
    for page in pages:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists():
                problems.append(f"{page.relative_to(ROOT)}: {target} does not exist")
    return problems


def unindent(lines):
    return "".join(line[4:] + "\n" for line in lines)


def check_commands(build):
    """Each indented '$ command' of the pages prints the indented lines that follow it (notes on standard error aside)."""
    problems, count = [], 0
    for page in [ROOT / "README.md", *ROOT.glob("docs/guide/*.md")]:
        for block in re.findall(r"(?:^    .*\n)+", page.read_text(), re.MULTILINE):
            lines = block.splitlines()
            if not lines[0].startswith("    $ build/tensum "):
                continue
            count += 1
            starts = [n for n, line in enumerate(lines) if line.startswith("    $ ")] + [len(lines)]
            for start, end in zip(starts, starts[1:]):
                command = lines[start][6:].replace("build/tensum", str(build / "tensum"), 1)
                run = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True)
                got, wanted = run.stdout.split(), unindent(lines[start + 1:end]).split()
                if len(got) != len(wanted) or not all(map(same, got, wanted)):
                    problems.append(f"{page.relative_to(ROOT)}: {lines[start][4:]} prints\n{run.stdout}{run.stderr}")
    return problems if count >= 2 else problems + ["no commands were found: the search is broken"]


def check_c_program(build, compiler):
    """The C program of the README prints the indented lines after 'It prints'."""
    program, after = re.search(r"```c\n(.*?)```(.*)", (ROOT / "README.md").read_text(), re.DOTALL).groups()
    wanted = unindent(re.search(r"It prints\n\n((?:    .*\n)+)", after).group(1).splitlines())
    with tempfile.TemporaryDirectory() as folder:
        source, binary = pathlib.Path(folder) / "readme.c", pathlib.Path(folder) / "readme"
        source.write_text(program)
        made = subprocess.run([compiler, "-std=c17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", f"-I{ROOT}/include", source,
                               "-o", binary, f"-L{build}", "-ltensum", f"-Wl,-rpath,{build}"], capture_output=True, text=True)
        if made.returncode:
            return [made.stderr]
        run = subprocess.run([binary], capture_output=True, text=True)
    return [] if run.stdout == wanted else [f"the program prints\n{run.stdout}{run.stderr}"]


def main():
    build = pathlib.Path(sys.argv[1]).resolve().parent
    library = ctypes.CDLL(str(pathlib.Path(sys.argv[1]).resolve()))
    checks = [("table of pairs", check_table(library, "--write" in sys.argv)), ("links", check_links()),
              ("commands of the pages", check_commands(build)), ("C program of the README", check_c_program(build, sys.argv[2]))]
    failed = 0
    for name, problems in checks:
        print(f"{'FAIL' if problems else 'ok'} {name}")
        for problem in problems:
            print(f"  {problem}")
        failed += bool(problems)
    print(f"{len(checks) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
