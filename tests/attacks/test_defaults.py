"""The bounds on what one caller takes, as they are where nobody sets them."""

import json
import os
import subprocess
import sys

import pytest

from tests.support.promises import promise
from tests.support.running import ROOT

pytestmark = pytest.mark.embedded
READ = """
import json, os
os.environ["DJANGO_SETTINGS_MODULE"] = "gateway_project.settings"
from django.conf import settings
print(json.dumps({name: getattr(settings, name) for name in NAMES}))
"""
NAMES = (
    "GATEWAY_USER_CONCURRENT",
    "GATEWAY_USER_REQUESTS_PER_MINUTE",
    "GATEWAY_LOGIN_REQUESTS_PER_MINUTE",
    "GATEWAY_MAX_KEYS_PER_USER",
    "GATEWAY_MAX_MODELS_PER_PROVIDER",
    "GATEWAY_WRITES_PER_MINUTE",
)


def defaults(**environ: str) -> dict[str, int]:
    """What the settings are in a process that nobody has configured."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("GATEWAY_")}
    code = READ.replace("NAMES", repr(NAMES))
    command = [sys.executable, "-c", code]
    return json.loads(subprocess.run(command, cwd=ROOT, env=own | environ, capture_output=True, check=True).stdout)


@pytest.mark.parametrize(
    ("threads", "workers", "concurrent"),
    [(8, 1, 4), (16, 1, 4), (64, 1, 16), (128, 1, 16), (256, 1, 32), (1200, 1, 150), (16, 4, 16), (1200, 2, 300)],
)
@promise("Without any setting one caller has a share", target="an eighth of the threads; a quarter, up to 16, of few")
def test_the_defaults_bound_each_caller(threads, workers, concurrent):
    values = defaults(GATEWAY_THREADS=str(threads), WEB_CONCURRENCY=str(workers))
    assert values.pop("GATEWAY_USER_CONCURRENT") == concurrent
    assert list(values.values()) == [6000, 600, 500, 1000, 600]
