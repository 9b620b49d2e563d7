"""Every kind of limit of every subject under pressure: never one too many, and never a refusal while there was room."""

import json
import os
import secrets
import subprocess
import sys
from collections import defaultdict
from contextlib import ExitStack

import pytest

from gateway_project.work.state.shared import LocalState
from tests.gateway_project.work.conftest import needs_redis, redis_state
from tests.support.limits.pressure_on_limits import (
    KINDS,
    SUBJECTS,
    Seen,
    make_whole,
    most_at_once,
    press,
    refused_for_nothing,
)
from tests.support.pace import in_one_minute, patience
from tests.support.running import ROOT

# The clocks of the processes: one is right, the others are wrong by hours, days and more than a month.
WRONG_SECONDS = (0, 5 * 3600, -2 * 86_400, 40 * 86_400)
LONG = pytest.param(30, marks=pytest.mark.slow)


def assert_exact(request: list[Seen], amounts: dict[str, int]) -> None:
    of_limit = defaultdict(list)
    for one in request:
        of_limit[one.limit].append(one)
    assert of_limit.keys() == amounts.keys()
    assert len(amounts) == len(KINDS) * len(SUBJECTS)
    for name, some in of_limit.items():
        assert most_at_once(some) <= amounts[name], f"{name}: one too many"
        assert refused_for_nothing(some, amounts[name]) == [], f"{name}: refused while there was room"
        if name.startswith("requests"):
            assert sum(one.amount for one in some) == amounts[name], f"{name}: not all of it was had"
    refused = {one.limit.split(":")[0] for one in request if not one.ending}
    assert refused == {measure for measure, _ in KINDS}, "there was no pressure"


@pytest.mark.long
@pytest.mark.parametrize("rounds", [6, LONG])
def test_fifty_threads_of_one_process(rounds):
    state = LocalState(cache_bytes=0)
    in_one_minute(10)
    amounts = make_whole(state)
    assert_exact(press(state, 1, rounds), amounts)


@pytest.mark.servers
@needs_redis
@pytest.mark.parametrize("rounds", [3, LONG])
def test_four_processes_of_fifty_threads_each_whose_clocks_are_wrong(rounds):
    prefix = f"test-{secrets.token_hex(6)}"
    environ = os.environ | {"DJANGO_SETTINGS_MODULE": "gateway_project.settings"}
    command = [sys.executable, "-m", "tests.support.limits.pressure_on_limits", prefix]
    with ExitStack() as resources:
        running = [
            resources.enter_context(
                subprocess.Popen(
                    [*command, str(1000 * number), str(rounds), str(wrong)],
                    cwd=ROOT, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                )
            )
            for number, wrong in enumerate(WRONG_SECONDS)
        ]  # fmt: skip
        for process in running:
            resources.callback(process.kill)
            assert process.stdout.readline() == "ready\n"
        in_one_minute(15)
        amounts = make_whole(redis_state(prefix=prefix))
        for process in running:
            process.stdin.write("go\n")
            process.stdin.flush()
        bodies = [Seen(*one) for process in running for one in json.loads(process.communicate(timeout=patience(35))[0])]
    assert_exact(bodies, amounts)
