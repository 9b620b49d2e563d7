"""A flood of logins: health checks are answered at once meanwhile, and work goes on."""

import subprocess
import sys

import pytest

from tests.support.floods import PATIENT, Measurement, measure, measuring
from tests.support.pace import bound, patience
from tests.support.promises import promise
from tests.support.running import ROOT
from tests.support.world import World

pytestmark = pytest.mark.embedded

HEALTH_SECONDS = 0.25
SHARE = 0.8
WAVE_SECONDS = 4
# One worker with the usual time-outs.
USUAL = {"GATEWAY_THREADS": "1200", "GATEWAY_CLIENT_TIMEOUT": "20", "GATEWAY_KEY_REQUESTS_PER_MINUTE": "0"}


def under_flood(
    world: World, *form: str, logins: int, addresses: int, waves: int
) -> tuple[Measurement, Measurement, str]:
    """What honest clients get without and under the flood, and the attacker's answers by status."""
    world.allow()
    world.provider()
    assert world.ask("a first question").status_code == 200
    quiet = measure(world, 3)
    command = [
        sys.executable,
        "-m",
        "tests.support.login_flood",
        *map(str, (world.gateway.port, logins, addresses, waves, WAVE_SECONDS)),
        *form,
    ]
    with measuring(world) as flooded:
        attacker = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=patience(35))
    return quiet, flooded, attacker.stdout.strip()


@pytest.mark.parametrize("form", [(), pytest.param(("late",), marks=pytest.mark.slow)], ids=["at once", "bodies later"])
@promise("A flood of logins delays no health check and refuses no work", target="healthz p99 ≤ 250 ms, 0 refused")
def test_health_and_work_go_on_under_a_flood_of_logins(own_gateway, figure, form):
    world = own_gateway(GATEWAY_THREADS="64", GATEWAY_KEY_REQUESTS_PER_MINUTE="0", **PATIENT)
    quiet, flooded, answers = under_flood(world, *form, logins=150, addresses=14, waves=3)
    figure(f"{flooded}; quiet: {quiet}; logins: {answers}")
    print(f"quiet: {quiet}\nflooded: {flooded}\nlogins: {answers}")
    assert flooded.health_p99 <= bound(HEALTH_SECONDS)
    assert set(flooded.statuses) == {200}
    # Other tests run beside this one: the share is exact in the next test, which runs alone.
    assert flooded.throughput >= SHARE * quiet.throughput / patience(1)
    assert "503" in answers  # who would wait long for a hash is told to come again


@pytest.mark.slow
@promise(
    f"Under 1,250 logins at once, every {WAVE_SECONDS} s, work keeps its throughput",
    target="healthz p99 ≤ 250 ms, work ≥ 80 %",
)
def test_work_keeps_its_throughput_under_a_flood_of_logins(own_gateway, figure):
    quiet, flooded, answers = under_flood(own_gateway(**USUAL), logins=1250, addresses=14, waves=4)
    figure(f"{flooded}; quiet: {quiet}; logins: {answers}")
    print(f"quiet: {quiet}\nflooded: {flooded}\nlogins: {answers}")
    assert flooded.health_p99 <= HEALTH_SECONDS
    assert set(flooded.statuses) == {200}
    assert flooded.throughput >= SHARE * quiet.throughput
