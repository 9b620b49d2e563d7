"""`python -m tests.support.suite MODULE ARGUMENT...`: runs pytest (or a module that runs it) with these arguments.

Tests with bounds on time can fail only because others run beside them on a busy machine. So a few that fail run once
more, one at a time, and the run fails if one of them fails again. What was repeated is printed: look at it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

MAX_REPEATED = 10
TESTS_FAILED = 1  # pytest's exit code; others say that the run itself went wrong
PROCESSES = os.cpu_count() or 1
FAILURES = Path(".pytest_cache/v/cache/lastfailed")


def main(module: str, *arguments: str) -> int:
    """The exit code: 0 if every test passes, in the crowd or alone."""
    compile_tests()
    FAILURES.unlink(missing_ok=True)  # those of earlier runs
    code = run(module, *arguments)
    failures = sorted(json.loads(FAILURES.read_text())) if code == TESTS_FAILED and FAILURES.exists() else []
    if not 0 < len(failures) <= MAX_REPEATED:
        return code
    print("These failed beside others, and run once more, one at a time:", *failures, sep="\n  ", flush=True)
    return run(module, *arguments, "-n", "0", "--last-failed", "--last-failed-no-failures", "none")


def compile_tests() -> None:
    """After a checkout, compile the tests once for all: else each process of the run compiles all of them."""
    if any(Path("tests").rglob("*-pytest-*.pyc")):
        return
    files = sorted(map(str, Path("tests").rglob("test_*.py")))
    shares = [share for first in range(PROCESSES) if (share := files[first::PROCESSES])]
    command = [sys.executable, "-m", "pytest", "--collect-only", "--quiet"]
    for process in [subprocess.Popen([*command, *share], stdout=subprocess.DEVNULL) for share in shares]:
        process.wait()  # what is wrong with a test is told by the run


def run(module: str, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
