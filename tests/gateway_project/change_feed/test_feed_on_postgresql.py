"""The change feed where several transactions write at once, which commit in any order."""

import time
from dataclasses import replace

import pytest
from django.db import connection, transaction

from accounts.models import Group, User
from gateway_project.models import Change
from keys.models import ApiKey
from tests.support.change_feed.readers import EVERYTHING, Reader, execute
from tests.support.thoroughness import number_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif("connection.vendor != 'postgresql'", reason="needs several writers at once"),
]


@pytest.fixture
def ann():
    return User.objects.create(username="ann")


@pytest.fixture
def reader(ann):
    return Reader()


@pytest.fixture
def second():
    """Another connection to the same database, in a transaction of its own."""
    other = connection.copy()
    other.set_autocommit(False)
    yield other
    other.rollback()
    other.close()


def test_a_late_commit_is_found_behind_later_ids(reader, second):
    execute("INSERT INTO accounts_group (name) VALUES ('late')", on=second)
    group = Group.objects.create(name="early")
    assert reader.news() == {"group": {group.pk}}
    assert reader.news() == {}
    second.commit()
    late = Group.objects.get(name="late").pk
    assert reader.news() == {"group": {late}}
    assert Change.objects.get(row_id=late, kind="group").pk < Change.objects.get(row_id=group.pk, kind="group").pk
    assert reader.news() == {}


def test_a_commit_that_began_before_the_reader_did_is_found(second, ann):
    execute("UPDATE accounts_user SET is_active = false", on=second)
    reader = Reader()
    assert reader.news() == {}
    second.commit()
    assert reader.news() == {"user": {ann.pk}}


def test_a_long_transaction_elsewhere_does_not_repeat_the_news(reader, second):
    execute("INSERT INTO accounts_group (name) VALUES ('long')", on=second)
    for name in ("a", "b", "c"):
        group = Group.objects.create(name=name)
        assert reader.news() == {"group": {group.pk}}
    second.rollback()
    assert reader.news() == {}


def test_a_reader_inside_a_transaction_sees_its_own_changes(reader):
    with transaction.atomic():
        group = Group.objects.create(name="team")
        position = reader.feed.position()
        crew = Group.objects.create(name="crew")
        assert reader.feed.read_since(position)[0] == {"group": {group.pk, crew.pk}}


def test_truncate_reloads_the_kind(reader):
    execute("TRUNCATE rules_rule")
    assert reader.news() == {"rule": {0}}


def test_a_server_that_lags_behind_the_last_one_reloads_everything(reader):
    xmin, xmax, _ = reader.position.mark.split(":")
    ahead = f"{int(xmin) + 10**6}:{int(xmax) + 10**6}:"
    reader.position = replace(reader.position, mark=ahead)
    assert reader.news() == EVERYTHING
    assert reader.news() == {}


def test_changes_restored_from_another_server_are_no_news(reader):
    execute("INSERT INTO gateway_project_change (kind, row_id, xid) VALUES ('key', 7, '999999999999'::xid8)")
    assert reader.news() == {}


def test_a_bulk_write_costs_one_statement_more_and_not_one_a_row(reader, ann):
    keys = [ApiKey(owner=ann, name=f"k{n}", public_id=f"c{n}", digest=b"x") for n in range(number_of(20_000))]
    ApiKey.objects.bulk_create(keys, batch_size=5_000)
    reader.news()
    began = time.perf_counter()
    ApiKey.objects.update(is_deleted=True)
    assert time.perf_counter() - began < 10
    assert len(reader.news()["key"]) == len(keys)


def test_the_triggers_work_whatever_the_search_path(reader, second):
    execute("SET LOCAL search_path TO pg_catalog", on=second)  # the pool keeps the connection
    execute("INSERT INTO public.accounts_group (name) VALUES ('team')", on=second)
    second.commit()
    assert reader.news() == {"group": {Group.objects.get().pk}}
