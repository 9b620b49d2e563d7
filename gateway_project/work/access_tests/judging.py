"""Judges access tests by a snapshot of its own, which contains the uncommitted rows of the transaction."""

from collections.abc import Collection, Iterator, Sequence

from accounts.group_tree import with_ancestors
from accounts.models import Group
from gateway_project.database.guarding import Access
from gateway_project.errors import AuthenticationFailed
from gateway_project.work.access_tests.reasons import missing_subject, reasons_of, unusable_subject
from gateway_project.work.access_tests.stored_rules import StoredRules
from gateway_project.work.explain.subjects import Subject
from gateway_project.work.snapshot.loading import (
    key_records,
    load_aliases,
    load_callers,
    load_providers,
)
from gateway_project.work.snapshot.records import Caller, KeySnapshot, Snapshot
from gateway_project.work.stages.authentication import FEATURE, may_work, require_usable
from gateway_project.work.stages.rules import Question, judge_question
from keys.models import ApiKey
from rules.access_tests.models import AccessTest

ANYONE = 0  # the id of a made-up member of a group


class StoredJudge:
    """Judges these tests."""

    def __init__(self, tests: Sequence[AccessTest]) -> None:
        self._tests = tests
        self._snapshot = Snapshot()
        self._rules = StoredRules()
        self._keys: dict[tuple[int, str], KeySnapshot] = {}
        self._groups: dict[int, str] = {}
        self._parents: dict[int, int] = {}
        self.reload(Access)

    def reload(self, parts: Collection[Access]) -> None:
        """Load these rows again."""
        if Access.PROVIDERS in parts:
            load_providers(self._snapshot)
        if Access.ALIASES in parts:
            load_aliases(self._snapshot)
        if Access.KEYS in parts:
            self._load_keys()
        if Access.CALLERS in parts:
            self._load_callers()
        if not {Access.CALLERS, Access.RULES}.isdisjoint(parts):
            self._snapshot.put_rules(self._rules.load(*self._audiences()))
        self._rules.prepare(self._snapshot.rules, frozenset(self._names()))

    def _audiences(self) -> tuple[set[int], set[int]]:
        """The users and the groups whose rules are for somebody whom the tests are about."""
        callers = self._snapshot.callers
        groups = {group_id for caller in callers.values() for group_id in caller.group_ids}
        return set(callers), groups.union(with_ancestors(self._groups, self._parents))

    def _names(self) -> Iterator[str]:
        """All names that rules may be asked about: of models, with and without their provider, and of aliases."""
        for model in {test.model for test in self._tests}:
            yield from (model, model.partition("/")[2])
            alias = self._snapshot.aliases.resolve(model)
            yield from (one.target.model for tier in (alias.tiers if alias is not None else ()) for one in tier)

    def holds(self, test: AccessTest) -> bool:
        """Whether the test holds; a user, key or group that is gone, or cannot send work, may use nothing."""
        question = self._question(test)
        is_served = question is not None and bool(judge_question(question, self._snapshot).targets)
        return is_served is not test.expects_denial

    def explain(self, test: AccessTest) -> str:
        """Why the request would be served or refused, in sentences."""
        subject = self._subject(test)
        if subject is None:
            return missing_subject(test)
        question = self._question(test)
        if question is None:
            return unusable_subject(subject)
        return " ".join(reasons_of(question, self._snapshot))

    def _question(self, test: AccessTest) -> Question | None:
        """What the test asks; None if its subject is gone or cannot send work."""
        subject = self._subject(test)
        if subject is None or not _is_usable(subject):
            return None
        caller, key = subject
        own_tags = key.restrictions.tags if key is not None and key.restrictions is not None else {}
        return Question(test.model, caller, key, None if test.expects_denial else own_tags, test.provider_id)

    def _subject(self, test: AccessTest) -> Subject | None:
        """Whose request it is; None if they are gone."""
        if test.group_id is not None:
            return self._member_of(test.group_id)
        caller = self._snapshot.callers.get(test.user_id or 0)
        if caller is None or not test.key_name:
            return None if caller is None else Subject(caller)
        key = self._keys.get((caller.id, test.key_name))
        return None if key is None else Subject(caller, key)

    def _member_of(self, group_id: int) -> Subject | None:
        """A member of the group who is in no other one; None if the group is gone."""
        if group_id not in self._groups:
            return None
        name, groups = f"a member of group {self._groups[group_id]}", with_ancestors([group_id], self._parents)
        return Subject(Caller(ANYONE, name, True, frozenset({FEATURE}), groups))

    def _load_callers(self) -> None:
        self._snapshot.callers = {}
        load_callers(self._snapshot, {test.user_id for test in self._tests if test.user_id is not None})
        self._parents = Group.objects.parents()
        ids = {test.group_id for test in self._tests}
        self._groups = dict(Group.objects.filter(pk__in=ids).values_list("pk", "name"))

    def _load_keys(self) -> None:
        names = {(test.user_id, test.key_name) for test in self._tests if test.key_name}
        rows = ApiKey.objects.live().filter(
            owner__in={owner for owner, _ in names}, name__in={name for _, name in names}
        )
        # Of a rotated key the newest secret comes last.
        self._keys = {(key.owner_id, key.name): key for _, key in key_records(rows)} if names else {}


def _is_usable(subject: Subject) -> bool:
    """Whether caller and key may send work now."""
    caller, key = subject
    try:
        return caller.usable and (key is None or require_usable(key) is key) and may_work(caller, key)
    except AuthenticationFailed:
        return False
