"""What docs/operations.md tells people to do, done as written."""

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from django.db import connection

from tests.support.management import Client, body, new_admin
from tests.support.running import ROOT, RunningGateway, Store, fresh_store, manage
from tests.support.world import World, sends

pytestmark = pytest.mark.long

LOCAL = "unset DATABASE_URL REDIS_URL SECRET_KEY GATEWAY_ENCRYPTION_KEYS GATEWAY_TOKEN_KEY\nexport GATEWAY_VAR_DIR"
UNSET = {"SECRET_KEY": "", "GATEWAY_ENCRYPTION_KEYS": "", "REDIS_URL": ""}


def commands(section: str, place: int = 0) -> str:
    """A code block of a section, the first unless told."""
    text = (ROOT / "docs/operations.md").read_text().partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return re.findall(r"```sh\n(.*?)```", text, re.DOTALL)[place]


def run(text: str, directory: Path) -> str:
    environ = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    process = subprocess.run(
        ["bash", "-ec", text], cwd=directory, env=environ, capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_health_is_asked_with_these_commands(world):
    process = run(f"GATEWAY={world.gateway.url}\n{commands('Health')}", ROOT)
    assert process.count("HTTP/1.1 200 OK") == 2
    assert '"database":"ok","cache":"ok"' in process


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_metrics_are_asked_with_these_commands(own_gateway):
    token = "a token of more than thirty-two characters"
    world = own_gateway(GATEWAY_METRICS_TOKEN=token)
    process = run(f"GATEWAY={world.gateway.url} GATEWAY_METRICS_TOKEN='{token}'\n{commands('Metrics')}", ROOT)
    assert process.count("gateway_info{") == 2


@pytest.mark.skipif(connection.vendor != "sqlite", reason="one machine has SQLite")
def test_a_backup_of_one_machine_made_while_it_serves_works_elsewhere(tmp_path, django_db_blocker):
    store = Store(f"sqlite:///{tmp_path}/var/gateway.sqlite3")
    (tmp_path / "var").mkdir()
    with django_db_blocker.unblock(), store.used_by_orm(), ExitStack() as resources:
        manage(store, tmp_path / "var", "migrate", "-v0", **UNSET)
        world = World(resources.enter_context(RunningGateway(store, tmp_path / "var", **UNSET)), resources)
        world.allow()
        provider = world.provider(credential="")
        admin = Client(world.gateway.url)
        row = world.row(provider).pk
        secret = (tmp_path / "var/secrets/secret_key").read_text()
        admin = admin.with_credential(token_signed_with(secret))
        assert admin.send("PATCH", f"/providers/{row}/", json=body(apiKey="sk-backed-up")).status_code == 200
        world.until(lambda: sends(world, provider) == "Bearer sk-backed-up")
        block = f"{LOCAL}={tmp_path}/var\n{commands('Backup').replace('manage.py', f'{ROOT}/manage.py')}"
        run(f"{block}\nsleep 1\n{block}", tmp_path)  # there is one of yesterday as well
        assert world.ask("after").status_code == 200
        _, last = sorted((tmp_path / "backup").iterdir())
        assert [path for path in (last, *last.rglob("*")) if path.stat().st_mode & 0o077] == []
        original = world.gateway
        copy = Store(f"sqlite:///{last}/gateway.sqlite3")
        with RunningGateway(copy, last, **UNSET) as restored:
            world.gateway = restored
            assert sends(world, provider) == "Bearer sk-backed-up"
        assert original.stop() == 0
        connection.close()
        for path in (tmp_path / "var").glob("gateway.sqlite3*"):
            path.unlink()
        shutil.rmtree(tmp_path / "var/secrets")
        steps = commands("Backup", 1).replace("manage.py", f"{ROOT}/manage.py")
        run(f"{LOCAL}={tmp_path}/var\nto={last}\n{steps}", tmp_path)
        assert (tmp_path / "var/gateway.sqlite3").stat().st_mode & 0o077 == 0
        world.gateway = original.start()
        assert sends(world, provider) == "Bearer sk-backed-up"


def token_signed_with(secret: str) -> str:
    """An administrator's access token, as the gateway with this SECRET_KEY issues it."""
    import hashlib

    from django.test import override_settings

    from tests.support.management import token_of

    key = hashlib.blake2b(b"gateway access tokens", key=secret.encode()[:64]).hexdigest()
    with override_settings(GATEWAY_TOKEN_KEY=key):
        return token_of(new_admin())


@pytest.mark.servers
@pytest.mark.skipif(shutil.which("pg_dump") is None, reason="there is no pg_dump on this machine")
def test_a_backup_of_postgresql_made_while_it_serves_is_put_back(tmp_path, django_db_blocker):
    with django_db_blocker.unblock(), fresh_store(tmp_path) as store, store.used_by_orm(), ExitStack() as resources:
        world = World(resources.enter_context(RunningGateway(store, tmp_path)), resources)
        world.allow()
        world.provider()
        assert world.ask("before").status_code == 200
        run(f"DATABASE_URL='{store.database_url}'\n{commands('Backup', 2)}", tmp_path)
        assert (tmp_path / "gateway.dump").stat().st_mode & 0o077 == 0
        later = world.new_key()
        assert world.ask("later", key=later.text).status_code == 200
        assert world.gateway.stop() == 0
        restore(store, tmp_path)
        world.gateway.start()
        assert world.ask("of the backup").status_code == 200
        assert world.ask("unknown to it", key=later.text).status_code == 401


@pytest.mark.slow
@pytest.mark.servers
@pytest.mark.skipif(shutil.which("psql") is None, reason="there is no psql on this machine")
def test_sqlite_moves_to_postgresql(tmp_path, django_db_blocker):
    """With this folder and these variables in place of an operator's."""
    unset = "unset DATABASE_URL REDIS_URL SECRET_KEY GATEWAY_ENCRYPTION_KEYS GATEWAY_TOKEN_KEY"
    local = f"{unset}\nexport GATEWAY_VAR_DIR={tmp_path}"
    with django_db_blocker.unblock(), fresh_store(tmp_path) as store:
        run(f"{local}\npython manage.py quickstart --json > {tmp_path}/before.json", ROOT)
        steps = re.sub(r"(DATABASE_URL)=\S+", rf"\1='{store.database_url}'", commands("From SQLite to PostgreSQL"))
        run(f"{local}\n{steps.replace('gateway.json', f'{tmp_path}/gateway.json')}", ROOT)
        moved = f"{local}\nexport DATABASE_URL='{store.database_url}'\npython manage.py"
        again = run(f"{moved} quickstart --json; echo; {moved.splitlines()[-1]} verify_usage", ROOT)
    assert again.startswith((tmp_path / "before.json").read_text().strip())  # nothing had to be made anew
    assert "the difference between log and usage is 0" in again


def restore(store: Store, directory: Path) -> None:
    """Drop the database, and put the backup in its place."""
    connection.close()
    connection.close_pool()
    server = urlunsplit(urlsplit(store.database_url)._replace(path="/postgres"))
    for statement in (f'DROP DATABASE "{store.name}" WITH (FORCE)', f'CREATE DATABASE "{store.name}"'):
        run(f"psql -q '{server}' -c '{statement}'", directory)
    run(f"DATABASE_URL='{store.database_url}'\n{commands('Backup', 3)}", directory)
