#!/usr/bin/env python3
"""Runs the few tests that failed once more, each alone, and names those that only then passed.

    failed_tests_again.py LOG REPORT

LOG is what `cargo test --no-fail-fast` printed. A test that fails again is a failure. One that passes alone depends on what
else the machine does: it is written to REPORT, which CI repeats in its last lines, and is to be repaired. More than
FAILURES_MAX failures, a failed doc test or a build that failed are never tried again.
"""
import re
import subprocess
import sys

# A busy machine makes one or two tests fail. More than that is the code.
FAILURES_MAX = 3


def failed_tests(log):
    """Returns the names of the tests that failed, or None if something else failed too."""
    lists = re.findall(r"^failures:\n((?:    \S+\n)+)\ntest result: FAILED", log, re.MULTILINE)
    names = [name for names in lists for name in names.split()]
    ended = [int(count) for count in re.findall(r"^test result: FAILED\. \d+ passed; (\d+) failed", log, re.MULTILINE)]
    targets = re.findall(r"^    `(.*)`$", log.rsplit("error: ", 1)[-1], re.MULTILINE)
    # Each target that failed has its closing line, and each failure counted there has a name.
    is_complete = names and len(names) == sum(ended) and len(targets) == len(ended)
    return names if is_complete and not any("--doc" in target for target in targets) else None


def main():
    log_path, report_path = sys.argv[1:]
    with open(log_path, encoding="utf-8", errors="replace") as file:
        names = failed_tests(file.read())
    if names is None:
        sys.exit("more failed than single tests: not tried again")
    if len(names) > FAILURES_MAX:
        sys.exit(f"{len(names)} tests failed: too many to try again")
    for name in names:
        print(f"\n-- once more, alone: {name}", flush=True)
        again = subprocess.run(
            ["cargo", "test", "--workspace", "--", "--exact", name], stdout=subprocess.PIPE, text=True, check=False
        )
        print(again.stdout, flush=True)
        passed = sum(int(count) for count in re.findall(r"^test result: ok\. (\d+) passed", again.stdout, re.MULTILINE))
        if again.returncode != 0 or passed == 0:
            sys.exit(f"{name} failed again")
        with open(report_path, "a", encoding="utf-8") as report:
            report.write(f"{name}\n")


main()
