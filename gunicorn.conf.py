"""gunicorn's configuration, made from the gateway's settings."""

import gc
import os
import signal
import sys

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

# Imported without Django, which the master does not need: it is 10 MB.
from gateway_project.env import InvalidSetting
from telemetry.metrics import slots

try:
    from gateway_project import settings
except InvalidSetting as refused:
    sys.exit(str(refused))

os.umask(0o077)  # gunicorn's own setting of this name is for its control files alone
bind = f"{settings.HOST}:{settings.PORT}"
workers = settings.WEB_CONCURRENCY
threads = settings.GATEWAY_THREADS
# More than threads: connections above this number wait until others end.
worker_connections = max(settings.GATEWAY_THREADS * 4, 4000)
worker_class = (
    "gateway_project.server.worker.GatewayThreadWorker" if settings.GATEWAY_WORKER_CLASS == "thread" else "gevent"
)
backlog = 2048
keepalive = 75
timeout = 120
graceful_timeout = int(settings.GATEWAY_GRACEFUL_TIMEOUT)
max_requests = 0  # a thread worker that restarts itself stops accepting long before its successor starts
control_socket_disable = True
http_parser = "auto"
header_map = "refuse"
limit_request_line = 8190  # the most that gunicorn allows: filters and searches of the console stand in the address
forwarded_allow_ips = ""  # GATEWAY_TRUSTED_PROXIES says whose headers count, not gunicorn
accesslog = None
errorlog = "-"
loglevel = "warning"
proc_name = "language-model-gateway"

if slots.shared is None:  # not when this file is read again at SIGHUP: old workers and new ones share it
    slots.shared = slots.Slots(2 * workers + 2)
    slots.signals = slots.Slots(slots.shared.number)


def pre_exec(server):
    """At SIGUSR2: start the new master with -m, since by its file gunicorn would import its own `http` as Python's."""
    server.START_CTX["args"] = [sys.executable, "-m", "gunicorn", *sys.argv[1:]]


def when_ready(server):
    """In the master: its memory is shared with the workers as long as their garbage collectors do not touch it."""
    server.handle_int = server.handle_term  # the first Ctrl-C stops like SIGTERM, gunicorn's stop() obeys a second
    settle_memory()


def pre_fork(server, worker):
    """In the master: the new process continues the metrics of a slot that is free."""
    worker.slot = slots.shared.take()


def post_fork(server, worker):
    """In the worker, before it loads the application: nothing of what it loads is garbage."""
    slots.own_slot = worker.slot
    gc.disable()


def child_exit(server, worker):
    """In the master: free the worker's slot for the next one."""
    slots.shared.release(worker.slot)


def post_worker_init(worker):
    """Start the gateway's threads in the worker, never in the process that forks it."""
    refuse_wrong_configuration()
    claim_database_file()
    bound_statements()
    from gateway_project.work.runtime import gateway

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the master too, which tells its workers
    gateway()
    settle_memory()


def claim_database_file():
    """Keep `manage.py restore` away from the file of SQLite; stop gunicorn while it is at work."""
    if settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        from pathlib import Path

        from gateway_project.database.sqlite.usage_lock import InUse, claim_use

        try:
            claim_use(Path(settings.DATABASES["default"]["NAME"]))
        except InUse:
            sys.stderr.write("The database is being restored. Start the gateway when the restore has ended.\n")
            sys.exit(3)


def bound_statements():
    """Set the time-out of statements, so that no request waits for a frozen database; commands have none."""
    if settings.DATABASES["default"]["ENGINE"].endswith("postgresql"):
        from gateway_project.database.postgresql.base import TimeoutConnection

        TimeoutConnection.statement_timeout = settings.GATEWAY_DATABASE_TIMEOUT


def refuse_wrong_configuration():
    """Stop gunicorn at a configuration error: `manage.py serve` has checked before, a start by hand has not."""
    from gateway_project.checks import check_configuration

    if problems := check_configuration():
        sys.stderr.write("\n".join(str(problem) for problem in problems) + "\n")
        sys.exit(3)  # gunicorn's exit code of a worker that cannot start


def settle_memory():
    """Release what imports left behind, a seventh of the worker, and exclude the rest from garbage collection."""
    from gateway_project.server.memory import release_free_memory

    gc.collect()
    gc.freeze()
    gc.enable()
    release_free_memory()


def worker_exit(server, worker):
    """Ship what the journal holds before the worker is gone; one that is stopped while it loads has no journal."""
    if "gateway_project.work.runtime" in sys.modules:
        from gateway_project.work.runtime import stop_gateway

        stop_gateway()
