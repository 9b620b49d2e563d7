"""compose.yaml passes on every setting, and gives no container more than it needs."""

import os
import re
import shutil
import subprocess
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import redis
import requests
import yaml
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from tests.support.promises import promise
from tests.support.running import ROOT, RunningGateway, free_port, fresh_store
from tests.support.world import World

pytestmark = [pytest.mark.long, pytest.mark.either_store]

DOCUMENT = (ROOT / "compose.yaml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()
# What .env has to hold at least: docs/operations.md.
SECRETS = {
    "SECRET_KEY": "s" * 64,
    "GATEWAY_ENCRYPTION_KEYS": "e" * 64,
    "POSTGRES_PASSWORD": "p" * 32,
    "REDIS_PASSWORD": "r" * 32,
}
# These belong to the container: docs/operations.md says so.
OF_THE_CONTAINER = {"HOST": "0.0.0.0", "PORT": "8000", "GATEWAY_VAR_DIR": "/var/lib/gateway"}
PATIENT = Retry(ConstantBackoff(0.1), 100)  # while it starts
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])((?:[^{}]|\$\{[^{}]*\})*))?\}")


def interpolated(node: Any, variables: dict[str, str]) -> Any:
    """The document as Compose fills it in: `${X}`, `${X:-default}`, in which others may stand, and `${X:?}`."""

    def value(match: re.Match[str]) -> str:
        name, kind, default = match.groups()
        if not variables.get(name):
            assert kind != "?", f"{name} is required"
            return interpolated(default or "", variables)
        return variables[name]

    if isinstance(node, dict):
        return {name: interpolated(child, variables) for name, child in node.items()}
    if isinstance(node, list):
        return [interpolated(child, variables) for child in node]
    return VARIABLE.sub(value, node) if isinstance(node, str) else node


def services(**variables: str) -> dict[str, dict[str, Any]]:
    """The services with these variables in .env."""
    return interpolated(yaml.safe_load(DOCUMENT)["services"], SECRETS | variables)


def environment(**variables: str) -> dict[str, str]:
    """What the gateway's process sees: of the image, of the file, and of the service, which goes before both."""
    (line,) = re.findall(r"^ENV (.*)$", DOCKERFILE, re.MULTILINE)
    image = dict(pair.split("=", 1) for pair in line.split())
    gateway = services(**variables)["gateway"]
    file = SECRETS | variables if gateway["env_file"] == ".env" else {}
    return image | file | {name: str(value) for name, value in gateway["environment"].items()}


def documented_settings() -> set[str]:
    lines = (ROOT / "docs/settings.md").read_text().splitlines()
    return {name for line in lines if line.startswith("| `") for name in re.findall(r"`([A-Z_]+)`", line.split("|")[1])}


def test_every_setting_reaches_the_gateway():
    settings = documented_settings()
    assert {"GATEWAY_TRUSTED_PROXIES", "GATEWAY_METRICS_TOKEN", "GATEWAY_LICENCE_PUBLIC_KEY"} < settings
    # The port of the machine is used outside of the container only.
    own = {name: "8123" if name == "PORT" else f"of the operator: {name}" for name in settings}
    assert {name: environment(**own)[name] for name in settings} == own | OF_THE_CONTAINER
    assert services(**own)["gateway"]["ports"] == ["127.0.0.1:8123:8000"]


def test_secrets_are_enough():
    reached = environment()
    assert reached["DATABASE_URL"] == f"postgresql://gateway:{SECRETS['POSTGRES_PASSWORD']}@database/gateway"
    assert reached["REDIS_URL"] == f"redis://:{SECRETS['REDIS_PASSWORD']}@cache:6379/0"
    assert reached["GATEWAY_BASE_URL"] == "http://localhost:8000"
    assert environment(PORT="8010")["GATEWAY_BASE_URL"] == "http://localhost:8010"
    assert (reached["GATEWAY_MODE"], reached["ALLOWED_HOSTS"]) == ("production", "localhost")
    assert services()["gateway"]["ports"] == ["127.0.0.1:8000:8000"]


@pytest.mark.parametrize("missing", SECRETS)
def test_without_a_secret_nothing_starts(missing):
    with pytest.raises(AssertionError, match=f"{missing} is required"):
        services(**{missing: ""})


@pytest.mark.parametrize("name", services())
def test_a_container_can_do_what_it_needs_and_no_more(name):
    service = services()[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert "cap_add" not in service
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "pid", "network_mode", "devices"} & service.keys()
    # The images of the database and the cache start as root and change the user, which takes capabilities.
    assert "\nUSER gateway\n" in DOCKERFILE if name == "gateway" else service["user"] in ("postgres", "redis")


def shell(text: str) -> str:
    """A text as a container's shell gets it: Compose makes one $ of two."""
    return text.replace("$$", "$")


@promise("The Redis of compose.yaml answers to its password alone", target="no command without it", suite="attack")
@pytest.mark.skipif(shutil.which("redis-server") is None, reason="needs redis-server")
def test_the_cache_accepts_its_password_alone(tmp_path):
    cache, port = services()["cache"], free_port()
    program, option, script = cache["command"]
    script = shell(script).replace("redis-server - ", f"redis-server - --port {port} --dir {tmp_path} ")
    environ = {"PATH": os.environ["PATH"], **cache["environment"]}
    process = subprocess.Popen([program, option, script], env=environ, stdout=subprocess.DEVNULL)
    try:
        with redis.Redis(port=port, password=SECRETS["REDIS_PASSWORD"], retry=PATIENT) as client:
            assert client.ping()
            assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        for password in (None, "", "wrong"):
            with redis.Redis(port=port, password=password) as stranger, pytest.raises(redis.AuthenticationError):
                stranger.ping()
        assert SECRETS["REDIS_PASSWORD"].encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        check = shell(cache["healthcheck"]["test"]).replace("redis-cli", f"redis-cli -p {port}")
        for password, status in ((SECRETS["REDIS_PASSWORD"], 0), ("wrong", 1)):
            healthy = ["sh", "-c", f"{check} 2> /dev/null"]
            assert subprocess.run(healthy, env=environ | {"REDISCLI_AUTH": password}, check=False).returncode == status
    finally:
        process.terminate()
        assert process.wait(10) == 0  # the shell has become the server, which gets the signal


def test_a_stop_waits_as_long_as_the_gateway():
    assert services()["gateway"]["stop_grace_period"] == "70s"
    assert services(STOP_GRACE_PERIOD="310s")["gateway"]["stop_grace_period"] == "310s"


# Makes every mounted file system read-only but for a folder, and mounts a temporary one. Then the process gives up its
# user, the way back, and all capabilities but the one to read: the interpreter may be in a folder of root's.
CONFINED = r"""
set -e
mount --make-rprivate /
mount --bind "$GATEWAY_VAR_DIR" "$GATEWAY_VAR_DIR"
awk '{print $5}' /proc/self/mountinfo | grep -vE '^/(proc|dev|sys)(/|$)' | grep -vxF "$GATEWAY_VAR_DIR" |
    while read -r point; do mount -o remount,bind,ro "$(printf '%b' "$point")"; done
mount -t tmpfs -o mode=1777,noexec,nosuid,nodev none "$TMPDIR"
exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs \
    --inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search --bounding-set=-all,+dac_read_search "$@"
"""


def confinement_problem() -> str:
    """Why no process can be confined on this machine, or ''."""
    if os.getuid() != 0 or shutil.which("unshare") is None or shutil.which("setpriv") is None:
        return "only root can mount, with unshare and setpriv"
    mount = ["unshare", "-m", "mount", "--make-rprivate", "/"]
    return subprocess.run(mount, capture_output=True, text=True, check=False).stderr.strip()


@pytest.fixture
def folder():
    """A folder that every user can pass through, unlike pytest's own."""
    with TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        yield Path(name)


@pytest.fixture
def confined(folder, django_db_blocker):
    """A gateway as in its container: not root, on a read-only file system with one volume and one temporary folder."""
    gateway = services()["gateway"]
    assert [volume.split(":")[1] for volume in gateway["volumes"]] == [OF_THE_CONTAINER["GATEWAY_VAR_DIR"]]
    assert gateway["tmpfs"] == ["/tmp"]
    volume, temporary = folder / "volume", folder / "temporary"
    volume.mkdir()
    temporary.mkdir()
    with django_db_blocker.unblock(), fresh_store(volume) as store, store.used_by_orm(), ExitStack() as resources:
        for path in (volume, *volume.rglob("*")):
            os.chown(path, 65534, 65534)
        running = RunningGateway(store, volume, TMPDIR=str(temporary), HOME="/nonexistent")
        running.launcher = ["unshare", "-m", "sh", "-c", CONFINED, "sh"]
        yield World(resources.enter_context(running), resources)


@pytest.mark.skipif(confinement_problem() != "", reason=confinement_problem())
def test_a_gateway_needs_no_more_than_its_container_has(confined):
    world = confined
    (worker,) = world.gateway.workers()
    status = Path(f"/proc/{worker}/status").read_text()
    assert re.search(r"^Uid:\t65534\t65534", status, re.MULTILINE)
    assert re.search(r"^NoNewPrivs:\t1$", status, re.MULTILINE)
    read_only = f"/proc/{worker}/root{ROOT}"
    assert os.statvfs(read_only).f_flag & os.ST_RDONLY
    world.allow()
    provider = world.provider()
    provider.answers(text="x" * 100_000)
    assert world.ask("hello").status_code == 200
    assert world.ask("a long one " * 400_000).status_code == 200
    for page in ("/admin/login/", "/static/gateway/console.css", "/docs/", "/schema/", "/version", "/metrics"):
        assert requests.get(world.gateway.url + page, timeout=20).status_code == 200, page
    assert world.gateway.stop() == 0
    assert "Traceback" not in world.gateway.log()
    assert "Read-only" not in world.gateway.log()
