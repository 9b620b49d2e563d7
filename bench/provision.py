"""The gateway's side of a measurement: databases with so many keys and rules, on PostgreSQL and Redis."""

import json
import os
import secrets
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from bench.standin import KINDS

ROOT = Path(__file__).resolve().parent.parent
SIZES = {"small": (10, 10), "large": (100_000, 10_000)}
DATABASE = os.environ.get("BENCH_DATABASE_URL", "postgresql://postgres@127.0.0.1:5432/postgres")
REDIS = os.environ.get("BENCH_REDIS_URL", "redis://127.0.0.1:6379/9")


def prepare(scenario: str, *, standin: str, directory: Path) -> dict[str, Any]:
    """A database of its own with keys, rules and the stand-in as providers; what the servers need to know of it."""
    name = f"gateway_bench_{secrets.token_hex(4)}"
    _administer(f'CREATE DATABASE "{name}"')
    keys, rules = SIZES[scenario]
    environ = {
        "DATABASE_URL": urlunsplit(urlsplit(DATABASE)._replace(path=f"/{name}")),
        "REDIS_URL": REDIS,
        "GATEWAY_REDIS_PREFIX": name,
        "GATEWAY_VAR_DIR": str(directory / name),
        "GATEWAY_KEY_REQUESTS_PER_MINUTE": "1000000000",
        "GATEWAY_USER_CONCURRENT": "0",  # one user sends all requests, a thousand at once
    }
    run = [sys.executable, "-m", "bench.fill", str(keys), str(rules), standin]
    done = subprocess.run(run, cwd=ROOT, env=os.environ | environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"The bench database could not be filled:\n{done.stderr}")
    return {
        "environ": environ,
        "credentials": json.loads(done.stdout.splitlines()[-1]),
        "models": {kind: kind for kind in KINDS} | {"alias": "alias"},
        "database": DATABASE,
        "redis": REDIS,
        "stop": lambda: _administer(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)'),
    }


def _administer(statement: str) -> None:
    import psycopg

    with psycopg.connect(DATABASE, autocommit=True) as connection:
        connection.execute(statement)
