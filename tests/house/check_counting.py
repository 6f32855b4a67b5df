#!/usr/bin/env python3
"""scripts/count-tests counts what the programs said, and never turns a failure into a success."""
import pathlib
import subprocess
import sys
import tempfile
from xml.sax.saxutils import escape

COUNT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "count-tests"


def report(*cases):
    body = "".join(f'<testcase name="t" status="{status}">{extra}<system-out>{escape(text)}</system-out></testcase>'
                   for status, text, extra in cases)
    return f"<testsuite>{body}</testsuite>"


def run(*cases, options=()):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "report.xml"
        path.write_text(report(*cases))
        done = subprocess.run([sys.executable, COUNT, *options, path], capture_output=True, text=True)
    return done.returncode, done.stdout.splitlines()[-1]


CMOCKA = "[==========] 15 test(s) run.\n[  PASSED  ] 14 test(s).\n"
FAILURE = '<failure message=""/>'
NOT_THERE = '<skipped message="Unable to find executable: x"/>'
EXPECTED = [
    ("cmocka", [("run", CMOCKA, "")], (0, "14 passed, 0 failed")),
    ("cmocka failing", [("fail", CMOCKA + "[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] x\n", FAILURE)],
     (1, "14 passed, 1 failed")),
    ("cmocka skipping", [("run", CMOCKA + "[  SKIPPED ] 1 test(s), listed below:\n", "")], (0, "14 passed, 0 failed, 1 skipped")),
    ("plain", [("run", "x\n120000 passed, 0 failed, 3 skipped\n", "")], (0, "120000 passed, 0 failed, 3 skipped")),
    ("pytest", [("run", "===== 12 passed, 2 skipped, 1 xfailed in 3.21s =====\n", "")], (0, "13 passed, 0 failed, 2 skipped")),
    ("pytest quiet", [("fail", "1 failed, 12 passed in 0.50s\n", FAILURE)], (1, "12 passed, 1 failed")),
    ("silent", [("run", "", ""), ("fail", "", FAILURE)], (1, "1 passed, 1 failed")),
    ("crash after success", [("fail", "5 passed, 0 failed\n", FAILURE)], (1, "5 passed, 1 failed")),
    ("program missing", [("notrun", "", NOT_THERE), ("run", "", "")], (1, "1 passed, 1 failed")),
    ("disabled", [("disabled", "", ""), ("run", "", "")], (0, "1 passed, 0 failed, 1 skipped")),
    ("nothing", [], (1, "0 passed, 0 failed")),
]


def main():
    failed = 0
    for name, cases, expected in EXPECTED:
        got = run(*cases)
        if got != expected:
            failed += 1
            print(f"FAIL {name}: {got}, expected {expected}")
    total = len(EXPECTED) + 1
    if run(("run", "", ""), options=("--broken", "1")) != (1, "1 passed, 1 failed"):
        failed += 1
        print("FAIL broken build")
    print(f"{total - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
