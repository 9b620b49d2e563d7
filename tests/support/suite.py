"""`python -m tests.support.suite MODULE ARGUMENT...`: runs pytest (or a module that runs it) with these arguments.

Tests with bounds on time can fail only because others run beside them on a busy machine. So a few that fail run once
more, one at a time, and the run fails if one of them fails again. What was repeated is printed: look at it.
"""

import json
import subprocess
import sys
from pathlib import Path

MAX_REPEATED = 10
TESTS_FAILED = 1  # pytest's exit code; others say that the run itself went wrong
FAILURES = Path(".pytest_cache/v/cache/lastfailed")


def main(module: str, *arguments: str) -> int:
    """The exit code: 0 if every test passes, in the crowd or alone."""
    FAILURES.unlink(missing_ok=True)  # those of earlier runs
    code = run(module, *arguments)
    failures = sorted(json.loads(FAILURES.read_text())) if code == TESTS_FAILED and FAILURES.exists() else []
    if not 0 < len(failures) <= MAX_REPEATED:
        return code
    print("These failed beside others, and run once more, one at a time:", *failures, sep="\n  ", flush=True)
    return run(module, *arguments, "-n", "0", "--last-failed", "--last-failed-no-failures", "none")


def run(module: str, *arguments: str) -> int:
    return subprocess.run([sys.executable, "-m", module, *arguments], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
