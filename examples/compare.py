#!/usr/bin/env python3
"""Run a command and compare its output with a file, word by word; numbers may differ by 1e-9 of their size.

    compare.py EXPECTED COMMAND...
"""
import subprocess
import sys


def same(got, expected):
    if got == expected:
        return True
    try:
        return abs(float(got) - float(expected)) <= 1e-9 * abs(float(expected))
    except ValueError:
        return False


def main():
    expected = open(sys.argv[1], encoding="utf-8").read().splitlines()
    run = subprocess.run(sys.argv[2:], stdout=subprocess.PIPE, text=True)
    got = run.stdout.splitlines()
    good = run.returncode == 0 and len(got) == len(expected)
    for line, wanted in zip(got, expected):
        words, wanted_words = line.split(), wanted.split()
        if len(words) != len(wanted_words) or not all(map(same, words, wanted_words)):
            good = False
            print(f"got      {line}\nexpected {wanted}")
    if not good:
        print(f"exit status {run.returncode}, {len(got)} lines, expected 0 and {len(expected)}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
