"""Keeps the snapshot up to date: a thread that polls the change feed several times a second."""

import logging
import threading
import time
from collections.abc import Callable, Collection

from django.db import Error as DatabaseError
from django.db import connection

from gateway_project.background import BackgroundThread, RepeatedErrors
from gateway_project.change_feed.cuts import Credential, cuts_in
from gateway_project.change_feed.feed import ChangeFeed, Position
from gateway_project.errors import ServiceUnavailable
from gateway_project.work.snapshot import loading
from gateway_project.work.snapshot.records import KeySnapshot, Snapshot

log = logging.getLogger("gateway.snapshot")

PRUNE_EVERY_SECONDS = 300
WAIT_SECONDS = 6.0
MIN_PAUSE_SECONDS = 0.01
FRESH_SECONDS = 5.0
MAX_UNKNOWN = 20_000
PROMPT_SECONDS = 0.5


class Follower(BackgroundThread):
    """Polls for changes and applies them; requests may wait for the next poll.

    `cut` ends the running requests of credentials, once the snapshot has the change that ordered it.
    """

    def __init__(self, snapshot: Snapshot, *, interval: float) -> None:
        super().__init__("snapshot", log, every=interval)
        self.snapshot = snapshot
        self.changes_applied = 0  # the number of polls that returned some
        self.cut: Callable[[Collection[Credential]], None] | None = None
        self.last_success = 0.0
        self._feed = ChangeFeed(connection)
        self._position: Position | None = None
        self._polls = threading.Condition()
        self._begun = self._ended = self._succeeded = 0
        self._database_errors = RepeatedErrors(log, "snapshot", database_message=self._database_message)
        self._wanted_keys: set[str] = set()
        self._wanted_sessions: dict[str, int | None] = {}  # each poll begins a new one; waiting requests keep theirs
        self._wanted_owners: dict[str, int | None] = {}  # as these
        self._unknown_keys: set[str] = set()
        self._is_prompt = True
        self._last_prune = time.monotonic()

    def start(self) -> None:
        """Load everything, if the database answers, and start following changes."""
        self.poll()
        super().start()

    def _database_message(self) -> str:
        """What a database that does not answer means for clients: without a snapshot no key is known."""
        effect = (
            "requests with known keys are still served"
            if self.snapshot.loaded
            else "every key is refused until it answers"
        )
        return f"The database does not answer; {effect}"

    @property
    def fresh(self) -> bool:
        """Whether the snapshot has all changes up to FRESH_SECONDS ago."""
        return (
            self.snapshot.loaded and not self._database_errors and time.monotonic() - self.last_success < FRESH_SECONDS
        )

    @property
    def mark(self) -> int | str | None:
        """That of the position up to which the snapshot has every change; None before it is loaded."""
        position = self._position
        return None if position is None else position.mark

    def find_key(self, public_id: str) -> KeySnapshot | None:
        """The key from memory, else from the database (in the follower's thread); None if it does not exist.

        Raises ServiceUnavailable if the database does not answer.
        """
        key = self.snapshot.keys.get(public_id)
        if key is None and public_id not in self._unknown_keys:
            with self._polls:
                self._wanted_keys.add(public_id)
                self._wait()
            key = self.snapshot.keys.get(public_id)
        return key

    def session_owner(self, session_id: str) -> int | None:
        """The user id of a session that is live now, by the database; None if it has ended.

        Raises ServiceUnavailable if the database does not answer: the session may have ended meanwhile.
        """
        with self._polls:
            owners = self._wanted_sessions
            owners[session_id] = None
            self._wait()
        return owners[session_id]

    def state_owners(self, digests: Collection[str]) -> dict[str, int]:
        """The user ids of those of these things that the database knows (telemetry's KeptState).

        Raises ServiceUnavailable if it does not answer.
        """
        with self._polls:
            owners = self._wanted_owners
            owners.update(dict.fromkeys(digests))
            self._wait()
        return {digest: owner for digest in digests if (owner := owners[digest]) is not None}

    def _wait(self) -> None:
        """Wait for a poll that begins after this call; the caller holds the condition."""
        next_poll = self._begun + 1
        self.wake()
        has_ended = self._polls.wait_for(lambda: self._ended >= next_poll, timeout=WAIT_SECONDS)
        if not has_ended or self._succeeded < next_poll:
            raise ServiceUnavailable("The database does not answer, and this credential is not in memory yet.")

    def poll(self) -> None:
        """Fetch changes once and apply them."""
        with self._polls:
            self._begun += 1
            poll_number = self._begun
            keys, self._wanted_keys = self._wanted_keys, set()
            sessions, self._wanted_sessions = self._wanted_sessions, {}
            owners, self._wanted_owners = self._wanted_owners, {}
        with self._database_errors.caught():
            self._follow(keys, sessions)
            if owners:
                owners.update(loading.state_owners(owners.keys()))
        with self._polls:
            self._ended = poll_number
            if not self._database_errors:
                self._succeeded = poll_number
            self._polls.notify_all()

    def run_once(self) -> None:
        self.poll()
        time.sleep(MIN_PAUSE_SECONDS)  # bounds the load when many unknown keys are tried

    def _follow(self, keys: set[str], sessions: dict[str, int | None]) -> None:
        if self._position is None:
            position = self._feed.position()
            loading.load_all(self.snapshot)
            self._position = position  # set last: after a failed load everything is loaded again
        else:
            self._apply_changes(self._position)
        self._look_up(keys)
        if sessions:
            sessions.update(loading.live_sessions(sessions.keys()))
        self._prune()
        self.last_success = time.monotonic()

    def _apply_changes(self, since: Position) -> None:
        changes, position = self._changes(since)
        if "key" in changes:
            self._unknown_keys.clear()
        failure: Exception | None = None
        # Keys last: a request that finds a new key must also find its owner and the rules.
        for kind, ids in sorted(changes.items(), key=lambda change: change[0] == "key"):
            try:
                loading.load_rows(self.snapshot, kind, ids)
            except DatabaseError:
                raise
            except Exception as error:  # a row that cannot be read must not keep a revoked key alive
                failure = failure or error
        if self.cut is not None and (credentials := cuts_in(changes)):
            self.cut(credentials)
        if failure is not None:
            raise failure
        # Set last: changes that could not be applied are fetched again.
        self._position = position
        self.changes_applied += bool(changes)

    def _changes(self, since: Position) -> tuple[dict[str, set[int]], Position]:
        """What changed. A connection that stays silent may be dead although the database is up: a new one is tried.

        A database that answers slowly in general is not hurried: new connections would only add to its load.
        """
        if self._is_prompt and hasattr(connection, "statement_timeout"):  # PostgreSQL
            connection.ensure_connection()  # if this fails the database is down
            try:
                with connection.statement_timeout(PROMPT_SECONDS):
                    return self._feed.read_since(since)
            except DatabaseError:
                connection.close()
        begin = time.monotonic()
        changes = self._feed.read_since(since)
        self._is_prompt = time.monotonic() - begin < PROMPT_SECONDS
        return changes

    def _look_up(self, public_ids: set[str]) -> None:
        missing = public_ids - self.snapshot.keys.keys()
        if missing and not self.snapshot.keys_complete:
            loading.load_wanted_keys(self.snapshot, missing)
            missing -= self.snapshot.keys.keys()
        if len(self._unknown_keys) > MAX_UNKNOWN:
            self._unknown_keys.clear()
        self._unknown_keys |= missing

    def _prune(self) -> None:
        if time.monotonic() - self._last_prune > PRUNE_EVERY_SECONDS:
            self._last_prune = time.monotonic()
            self._feed.prune()
