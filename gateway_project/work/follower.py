"""Keeps the snapshot fresh: a thread that asks the change feed several times a second."""

import logging
import threading
import time

from django.db import Error as DatabaseError
from django.db import connection

from gateway_project.background import BackgroundThread, RepeatedErrors
from gateway_project.changes import ChangeFeed, Position
from gateway_project.errors import ServiceUnavailable
from gateway_project.work import loading
from gateway_project.work.snapshot import KeySnapshot, Snapshot

log = logging.getLogger("gateway.snapshot")

PRUNE_EVERY_SECONDS = 300
WAIT_SECONDS = 6.0
LEAST_PAUSE_SECONDS = 0.01
FRESH_SECONDS = 5.0
REMEMBERED_UNKNOWN = 20_000
PROMPT_SECONDS = 0.5


class Follower(BackgroundThread):
    """Polls for changes and applies them; requests may wait for the next poll."""

    def __init__(self, snapshot: Snapshot, *, interval: float) -> None:
        super().__init__("snapshot", log, every=interval)
        self.snapshot = snapshot
        self.last_success = 0.0
        self._feed = ChangeFeed(connection)
        self._position = None
        self._polls = threading.Condition()
        self._begun = self._ended = self._succeeded = 0
        self._database_errors = RepeatedErrors(
            log, "snapshot", database_message="The database does not answer; known keys are served on"
        )
        self._wanted_keys: set[str] = set()
        self._wanted_sessions: dict[str, int | None] = {}  # those who wait keep theirs: each poll begins another
        self._unknown: set[str] = set()
        self._is_prompt = True
        self._pruned = time.monotonic()

    def start(self) -> None:
        """Load what there is, as far as the database answers, and go on following it."""
        self.poll()
        super().start()

    @property
    def fresh(self) -> bool:
        """Whether the database has told what changed until a moment ago."""
        return (
            self.snapshot.loaded and not self._database_errors and time.monotonic() - self.last_success < FRESH_SECONDS
        )

    def find_key(self, public_id: str) -> KeySnapshot | None:
        """The key, asking the database (in the follower's thread) where memory does not have it.

        Raises ServiceUnavailable where it cannot be asked: nobody knows then that the key is bad.
        """
        key = self.snapshot.keys.get(public_id)
        if key is None and public_id not in self._unknown:
            with self._polls:
                self._wanted_keys.add(public_id)
                self._wait()
            key = self.snapshot.keys.get(public_id)
        return key

    def session_owner(self, session_id: str) -> int | None:
        """The id of the user whose live session this is at this moment, None where it has ended.

        Raises ServiceUnavailable where the database is away: the session may have ended meanwhile.
        """
        with self._polls:
            owners = self._wanted_sessions
            owners[session_id] = None
            self._wait()
        return owners[session_id]

    def _wait(self) -> None:
        """Wait for a poll that begins after this call, and so looks for what is wanted; holds the condition."""
        wanted = self._begun + 1
        self.wake()
        done = self._polls.wait_for(lambda: self._ended >= wanted, timeout=WAIT_SECONDS)
        if not done or self._succeeded < wanted:
            raise ServiceUnavailable("The database cannot be asked now, and this credential is not known yet.")

    def poll(self) -> None:
        """Ask for changes once and apply them."""
        with self._polls:
            self._begun += 1
            begun = self._begun
            keys, self._wanted_keys = self._wanted_keys, set()
            sessions, self._wanted_sessions = self._wanted_sessions, {}
        with self._database_errors.caught():
            self._follow(keys, sessions)
        with self._polls:
            self._ended = begun
            if not self._database_errors:
                self._succeeded = begun
            self._polls.notify_all()

    def run_once(self) -> None:
        self.poll()
        time.sleep(LEAST_PAUSE_SECONDS)  # however many unknown keys are tried

    def _follow(self, keys: set[str], sessions: dict[str, int | None]) -> None:
        if self._position is None:
            position = self._feed.position()
            loading.load_all(self.snapshot)
            self._position = position  # only now: a load that failed half-way begins anew
        else:
            self._apply_changes()
        self._look_up(keys)
        if sessions:
            sessions.update(loading.live_sessions(sessions.keys()))
        self._prune()
        self.last_success = time.monotonic()

    def _apply_changes(self) -> None:
        changes, position = self._news()
        if "key" in changes:
            self._unknown.clear()
        # Keys last: a request that finds a new key must find its owner and the rules too.
        for kind, ids in sorted(changes.items(), key=lambda change: change[0] == "key"):
            loading.load(self.snapshot, kind, ids)
        # Only now: what could not be applied is asked for again.
        self._position = position

    def _news(self) -> tuple[dict[str, set[int]], Position]:
        """What changed. One connection of which nothing comes any more says nothing of the database: another is asked.

        A database that takes its time over every answer is not hurried: it would have to make connections too.
        """
        if self._is_prompt and connection.vendor == "postgresql":
            connection.ensure_connection()  # where there is none to be had the database is away
            try:
                with connection.statement_timeout(PROMPT_SECONDS):
                    return self._feed.since(self._position)
            except DatabaseError:
                connection.close()
        asked = time.monotonic()
        told = self._feed.since(self._position)
        self._is_prompt = time.monotonic() - asked < PROMPT_SECONDS
        return told

    def _look_up(self, wanted: set[str]) -> None:
        missing = wanted - self.snapshot.keys.keys()
        if missing and not self.snapshot.keys_complete:
            loading.load_wanted_keys(self.snapshot, missing)
            missing -= self.snapshot.keys.keys()
        if len(self._unknown) > REMEMBERED_UNKNOWN:
            self._unknown.clear()
        self._unknown |= missing

    def _prune(self) -> None:
        if time.monotonic() - self._pruned > PRUNE_EVERY_SECONDS:
            self._pruned = time.monotonic()
            self._feed.prune()
