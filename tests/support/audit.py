"""Looks up known vulnerabilities of everything in the lock files: python -m tests.support.audit

Where no feed of vulnerabilities can be reached, it says so and succeeds: a build without the Internet is no worse.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from tests.support.running import ROOT

LOCK_FILES = ("requirements.lock", "requirements-dev.lock")
FEEDS = ("pypi", "osv")
SECONDS = 60

Report = tuple[list[dict[str, Any]], str]


def report_of(feed: str) -> Report:
    """What a feed knows of each dependency, and why it knows nothing if it cannot be reached."""
    files = [part for name in LOCK_FILES for part in ("--requirement", str(ROOT / name))]
    options = ("--disable-pip", "--require-hashes", "--progress-spinner", "off", "--format", "json")
    command = [sys.executable, "-m", "pip_audit", *options, "--vulnerability-service", feed, *files]
    try:
        process = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SECONDS)
        return json.loads(process.stdout)["dependencies"], ""
    except subprocess.TimeoutExpired:
        return [], f"no answer within {SECONDS} s"
    except ValueError:  # it fails with a stack
        return [], (process.stderr.strip().splitlines() or ["no output"])[-1][:200]


def judge(dependencies: list[dict[str, Any]]) -> tuple[list[str], int]:
    """A line for each known vulnerability, and how many dependencies the feed knows."""
    values = [one for one in dependencies if "vulns" in one]
    lines = [
        f"{one['name']} {one['version']}: {flaw['id']}, fixed in {', '.join(flaw['fix_versions']) or 'no version'}"
        for one in values
        for flaw in one["vulns"]
    ]
    return lines, len(values)


def main(report: Callable[[str], Report] = report_of) -> int:
    """Ask one feed after the other; 1 if one knows of a vulnerability."""
    for feed in FEEDS:
        dependencies, problem = report(feed)
        lines, count = judge(dependencies)
        if count:
            print("\n".join([*lines, f"pip-audit: {count} of {len(dependencies)} dependencies looked up at {feed}."]))
            return 1 if lines else 0
        print(f"pip-audit: the feed {feed} cannot be used: {problem or 'it knows none of the dependencies'}.")
    print("pip-audit: SKIPPED. No vulnerability was looked up; run make lint where a feed can be reached.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
