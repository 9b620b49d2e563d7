"""Memory follows the tables, whoever changes them and whatever becomes of the database."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import connection
from django.utils import timezone

from accounts.models import Group, Role, Session, User
from accounts.services import create_user
from gateway_project.errors import ServiceUnavailable
from gateway_project.work.limits.kinds import Subject
from gateway_project.work.snapshot import loading
from gateway_project.work.snapshot.follower import Follower
from gateway_project.work.snapshot.records import Snapshot
from keys.models import ApiKey
from keys.services import issue_key
from licensing.models import Limit
from providers.models import Model, Provider
from providers.services import create_provider
from rules.models import Rule
from rules.services import create_rule
from tests.support.pace import patience

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ann():
    return create_user(username="ann", password="a long pass phrase")


@pytest.fixture
def key(ann):
    return issue_key(owner=ann, name="laptop").key


@pytest.fixture
def follower(key):
    """A follower that polls when a test says so."""
    follower = Follower(Snapshot(), interval=0.05)
    follower.poll()
    return follower


@contextmanager
def running(follower):
    """The same with its thread, which answers those who wait."""
    follower.start()
    try:
        yield follower
    finally:
        follower.stop()
        follower._thread.join(5)


def execute(sql, *params):
    with connection.cursor() as cursor:
        cursor.execute(sql, params)


def after(follower, change):
    change()
    follower.poll()
    return follower.snapshot


def test_what_is_there_at_the_start_is_known(follower, key, ann):
    assert follower.snapshot.loaded
    assert follower.snapshot.keys.keys() == {key.public_id}
    assert follower.snapshot.callers[ann.id].usable
    assert follower.last_success > 0


CHANGES = {
    "save": lambda key: setattr(key, "locked_time", timezone.now()) or key.save(),
    "update": lambda key: ApiKey.objects.filter(id=key.id).update(locked_time=timezone.now()),
    "bulk update": lambda key: ApiKey.objects.bulk_update(
        [ApiKey(id=key.id, locked_time=timezone.now())], ["locked_time"]
    ),
    "SQL": lambda key: execute("UPDATE keys_apikey SET locked_time = CURRENT_TIMESTAMP WHERE id = %s", key.id),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_key_that_is_locked_by_whatever_path_is_locked(follower, key, change):
    snapshot = after(follower, lambda: change(key))
    assert snapshot.keys[key.public_id].locked


GOODBYES = {
    "mark": lambda key: ApiKey.objects.update(is_deleted=True),
    "delete": lambda key: key.delete(),
    "bulk delete": lambda key: ApiKey.objects.all().delete(),
    "SQL": lambda key: execute("DELETE FROM keys_apikey"),
}


@pytest.mark.parametrize("goodbye", GOODBYES.values(), ids=GOODBYES)
def test_a_key_that_is_deleted_by_whatever_path_is_gone(follower, key, goodbye):
    assert after(follower, lambda: goodbye(key)).keys == {}


def test_a_row_that_cannot_be_read_keeps_no_revoked_key_alive(follower, key, monkeypatch, caplog):
    position = follower.mark

    def fail(snapshot, ids):
        raise ValueError("a value of another version")

    monkeypatch.setitem(loading.BY_ID, "rule", fail)
    create_rule(name="new", user_id=0)
    assert after(follower, lambda: ApiKey.objects.update(is_deleted=True)).keys == {}
    assert follower.mark == position, "what failed is tried again"
    assert "a value of another version" in caplog.text
    monkeypatch.undo()
    assert "new" in {rule.name for rule in after(follower, lambda: None).rules.rules}


def test_keys_made_in_bulk_are_known(follower, ann):
    rows = [ApiKey(owner=ann, name=f"k{n}", public_id=f"p{n}", digest=b"x") for n in range(300)]
    assert len(after(follower, lambda: ApiKey.objects.bulk_create(rows)).keys) == 301


def test_a_user_loses_and_gains_what_is_changed_about_them(follower, ann):
    assert "rules.view" not in follower.snapshot.callers[ann.id].features
    snapshot = after(follower, lambda: ann.roles.add(Role.objects.get(name="admin")))
    assert "rules.view" in snapshot.callers[ann.id].features
    group = Group.objects.create(name="team")
    assert after(follower, lambda: group.members.add(ann)).callers[ann.id].group_ids == (group.id,)
    assert after(follower, group.delete).callers[ann.id].group_ids == ()
    assert not after(follower, lambda: User.objects.update(is_active=False)).callers[ann.id].usable


def amounts(snapshot, key):
    return [check.amount for check in snapshot.limits.checks_for(Subject("key", key.id))]


def test_rules_providers_models_and_limits_are_followed(follower, key):
    rule = create_rule(name="r", user_id=0)
    provider = create_provider(name="p", url="https://api.example.org", format_name="openai")
    assert after(follower, lambda: Model.objects.create(provider=provider, name="m")).targets_for("m")
    assert follower.snapshot.rule_rows.keys() == {rule.id}
    limit = {"key": key, "measure": "requests", "window": "minute"}
    amounts = [
        after(follower, lambda: Limit.objects.create(amount=7, **limit)).limits.checks_for(Subject("key", key.id))
    ]
    amounts += [after(follower, lambda: Limit.objects.all().delete()).limits.checks_for(Subject("key", key.id))]
    assert [[check.amount for check in checks] for checks in amounts] == [[7], [600]]
    assert after(follower, lambda: Rule.objects.update(enabled=False)).rule_rows == {}
    assert after(follower, lambda: Provider.objects.update(enabled=False)).targets_for("m") == ()


def test_a_poll_without_changes_is_one_query(follower, django_assert_num_queries):
    with django_assert_num_queries(1):
        follower.poll()


def test_a_change_is_known_within_a_second(follower, key):
    with running(follower):
        ApiKey.objects.update(locked_time=timezone.now())
        deadline = time.monotonic() + patience(1)
        while not follower.snapshot.keys[key.public_id].locked and time.monotonic() < deadline:
            time.sleep(0.01)
        assert follower.snapshot.keys[key.public_id].locked


def test_a_key_made_a_moment_ago_is_found_at_once(follower, ann):
    with running(follower):
        for number in range(5):
            row = issue_key(owner=ann, name=f"new {number}").key
            assert follower.find_key(row.public_id).id == row.id


def test_an_unknown_key_is_asked_for_once_and_remembered(follower):
    with running(follower):
        assert follower.find_key("nosuch") is None
        begun = follower._begun
        assert [follower.find_key("nosuch") for _ in range(1000)] == [None] * 1000
        assert follower._begun - begun <= 3
        assert "nosuch" in follower._unknown_keys


def test_a_key_that_was_unknown_is_found_once_it_exists(follower, ann):
    with running(follower):
        assert follower.find_key("p1") is None
        ApiKey.objects.create(owner=ann, name="late", public_id="p1", digest=b"x")
        deadline = time.monotonic() + patience(1)
        while follower.find_key("p1") is None and time.monotonic() < deadline:
            time.sleep(0.02)
        assert follower.find_key("p1").name == "late"


def test_what_is_remembered_of_unknown_keys_is_bounded(follower):
    follower._unknown_keys = {str(number) for number in range(20_001)}
    follower._look_up({"one more"})
    assert follower._unknown_keys == {"one more"}


@pytest.fixture
def crowded(ann, settings):
    """More keys than memory may hold."""
    settings.GATEWAY_SNAPSHOT_KEYS = 5
    rows = [ApiKey(owner=ann, name=f"k{n}", public_id=f"p{n}", digest=b"x") for n in range(30)]
    ApiKey.objects.bulk_create(rows)
    return Follower(Snapshot(), interval=0.05)


@pytest.mark.long
def test_keys_beyond_what_memory_holds_are_found_and_memory_stays_bounded(crowded):
    with running(crowded):
        for number in range(30):
            assert crowded.find_key(f"p{number}").name == f"k{number}"
            assert len(crowded.snapshot.keys) <= 5
            assert len(crowded.snapshot.public_ids) <= 5
        assert crowded.find_key("nosuch") is None


def test_many_threads_look_for_many_keys_at_once(crowded):
    crowded.snapshot.loaded = False
    with running(crowded), ThreadPoolExecutor(5) as pool:
        results = list(pool.map(crowded.find_key, [f"p{number % 5}" for number in range(50)]))
    assert {key.name for key in results} == {f"k{number}" for number in range(5)}


def test_a_session_is_asked_for_each_time_and_gone_when_it_ended(follower, ann):
    session = Session.objects.create(user=ann, expires_at=timezone.now() + timezone.timedelta(hours=1))
    with running(follower):
        assert follower.session_owner(session.id.hex) == ann.id
        Session.objects.update(ended_at=timezone.now())
        assert follower.session_owner(session.id.hex) is None
        assert follower.session_owner("0" * 32) is None


@pytest.mark.long
def test_sessions_asked_for_at_once_are_all_answered(follower, ann):
    expires = timezone.now() + timezone.timedelta(hours=1)
    sessions = [Session.objects.create(user=ann, expires_at=expires).id.hex for _ in range(20)] * 10
    with running(follower), ThreadPoolExecutor(20) as pool:
        assert list(pool.map(follower.session_owner, sessions)) == [ann.id] * 200


@pytest.mark.slow
def test_a_follower_that_has_stopped_lets_nobody_wait_for_ever(follower):
    with running(follower):
        pass
    begun = time.monotonic()
    with pytest.raises(ServiceUnavailable):
        follower.find_key("nosuch")
    assert time.monotonic() - begun < 8


@pytest.mark.servers
@pytest.mark.skipif(not os.environ.get("DATABASE_URL", "").startswith("postgres"), reason="a database behind a network")
@pytest.mark.parametrize("fault", ["refuse", pytest.param("hang", marks=pytest.mark.slow)])
def test_without_the_database_known_keys_are_served_and_unknown_ones_are_not_called_bad(
    follower, key, database_proxy, fault, caplog
):
    with running(follower):
        assert follower.find_key(key.public_id)
        getattr(database_proxy, fault)()
        assert follower.find_key(key.public_id).id == key.id
        begun = time.monotonic()
        with pytest.raises(ServiceUnavailable):
            follower.find_key("nosuch")
        assert time.monotonic() - begun < 7
        with pytest.raises(ServiceUnavailable):
            follower.session_owner("0" * 32)
        database_proxy.heal()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            try:
                assert follower.find_key("nosuch") is None
                break
            except ServiceUnavailable:
                time.sleep(0.1)
        assert follower.find_key("nosuch") is None
    away, back = [record.getMessage() for record in caplog.records if record.name == "gateway.snapshot"]
    assert away.startswith("The database does not answer")
    assert back == "The snapshot resumed."
