"""docs/licence.md does what it says: its commands run in their order, as they are written."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from licensing.models import Licence
from tests.support.management import new_admin, token_of
from tests.support.pace import patience
from tests.support.running import ROOT, RunningGateway, fresh_store

pytestmark = [pytest.mark.embedded, pytest.mark.long]

BLOCKS = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/licence.md").read_text(), re.DOTALL)


@pytest.fixture
def shell(tmp_path: Path):
    """Runs a block in a directory of its own, as an operator with the gateway's environment; its output."""
    (tmp_path / "manage.py").symlink_to(ROOT / "manage.py")
    environ = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "GATEWAY_VAR_DIR": str(tmp_path)}

    def run(block: str, **more: str) -> str:
        process = subprocess.run(
            ["bash", "-e", "-c", block],
            cwd=tmp_path,
            env=os.environ | environ | more,
            capture_output=True,
            text=True,
            check=False,
            timeout=patience(40),
        )
        assert process.returncode == 0, process.stdout + process.stderr
        return process.stdout

    return run


def test_the_page_is_followed_from_the_first_key_to_the_installed_licence(shell, tmp_path, django_db_blocker):
    keygen, issue, install, curl, stats = BLOCKS
    public = re.search(r"^GATEWAY_LICENCE_PUBLIC_KEY=(\S+)$", shell(keygen), re.MULTILINE)[1]
    shell(issue)
    with fresh_store(tmp_path) as store, RunningGateway(store, tmp_path, GATEWAY_LICENCE_PUBLIC_KEY=public) as gateway:
        operators = store.environ() | {"GATEWAY_LICENCE_PUBLIC_KEY": public, "GATEWAY": gateway.url}
        assert "valid until the end of 2099-12-31" in shell(install, **operators)
        with django_db_blocker.unblock(), store.used_by_orm():
            Licence.objects.all().delete()
            token = token_of(new_admin(username="admin"))
        answers = shell(curl, **operators, TOKEN=token).replace("}{", "}\n{").splitlines()
        installed, status = map(json.loads, answers)
        assert installed["code"] == 200
        assert status["data"]["attributes"]["maxActiveUses"] == 25
        assert len(json.loads(shell(stats, **operators, TOKEN=token))["data"]["stats"]["peakDailyUses"]) == 7
        assert {f"`{name}`" for name in status["data"]["attributes"]} <= named_in_the_table()


def named_in_the_table() -> set[str]:
    lines = (ROOT / "docs/licence.md").read_text().splitlines()
    return {name for line in lines if line.startswith("| `") for name in re.findall(r"`\w+`", line.split("|")[1])}
