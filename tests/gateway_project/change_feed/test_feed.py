"""The change feed: whatever changes a watched row, by whatever path, every reader learns of it."""

import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import CharField
from django.utils import timezone

from accounts.models import Feature, Group, Role, Session, User
from gateway_project.change_feed import triggers
from gateway_project.change_feed.cuts import Credential, cuts_in, order_cuts
from gateway_project.change_feed.feed import RETENTION_SECONDS, ChangeFeed, has_reached
from gateway_project.change_feed.triggers import KINDS
from gateway_project.models import Change
from keys.models import ApiKey
from licensing.models import Licence, Limit
from providers.models import Model, ModelPrice, Provider, ProviderFormat
from rules.models import Rule
from tests.support.change_feed.readers import EVERYTHING, Reader, execute

# Outside a transaction, as readers are; and on PostgreSQL one's own transaction is told again and again.
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def ann():
    return User.objects.create(username="ann")


@pytest.fixture
def key(ann):
    return ApiKey.objects.create(owner=ann, name="laptop", public_id="a", digest=b"x")


@pytest.fixture
def provider():
    openai = ProviderFormat.objects.get(name="openai")
    return Provider.objects.create(name="p", url="https://api.example.org", format=openai)


@pytest.fixture
def reader(ann, key, provider):
    return Reader()


def test_nothing_is_news_when_nothing_changed(reader):
    assert reader.news() == {}


def test_what_the_orm_saves_and_deletes_is_noted_once(reader, ann):
    group = Group.objects.create(name="team")
    assert reader.news() == {"group": {group.pk}}
    group.name = "crew"
    group.save()
    assert reader.news() == {"group": {group.pk}}
    group_id = group.pk
    group.delete()
    assert reader.news() == {"group": {group_id}}
    assert reader.news() == {}


def test_bulk_writes_are_noted_row_by_row(reader, ann):
    keys = ApiKey.objects.bulk_create(
        [ApiKey(owner=ann, name=f"k{n}", public_id=f"b{n}", digest=b"x") for n in range(500)]
    )
    ids = {key.pk for key in keys}
    assert reader.news() == {"key": ids}
    ApiKey.objects.filter(pk__in=ids).update(is_deleted=True)
    assert reader.news() == {"key": ids}
    ApiKey.objects.filter(pk__in=ids).delete()
    assert reader.news() == {"key": ids}


def test_plain_sql_is_noted(reader, key):
    execute("UPDATE keys_apikey SET locked_time = CURRENT_TIMESTAMP WHERE id = %s", key.pk)
    assert reader.news() == {"key": {key.pk}}
    execute("DELETE FROM keys_apikey")
    assert reader.news() == {"key": {key.pk}}


def test_the_last_use_of_a_key_is_nobodys_business(reader, key, ann):
    ApiKey.objects.update(last_used=timezone.now())
    key.last_used = timezone.now()
    key.save()
    User.objects.update(last_login=timezone.now())
    assert reader.news() == {}
    ApiKey.objects.update(last_used=timezone.now(), name="other")
    assert reader.news() == {"key": {key.pk}}


def test_an_update_that_changes_no_row_is_no_news(reader):
    ApiKey.objects.filter(name="nosuch").update(is_deleted=True)
    ApiKey.objects.update(name="laptop")
    assert reader.news() == {}


def test_roles_and_memberships_are_news_of_the_user(reader, ann):
    role, group = Role.objects.get(name="admin"), Group.objects.create(name="team")
    assert reader.news() == {"group": {group.pk}}
    ann.roles.add(role)
    assert reader.news() == {"user": {ann.pk}}
    group.members.add(ann)
    assert reader.news() == {"user": {ann.pk}}
    group.members.clear()
    assert reader.news() == {"user": {ann.pk}}
    ann.roles.clear()
    assert reader.news() == {"user": {ann.pk}}


def test_a_membership_that_moves_is_news_of_both_users(reader, ann):
    bob, group = User.objects.create(username="bob"), Group.objects.create(name="team")
    group.members.add(ann)
    reader.news()
    execute("UPDATE accounts_group_members SET user_id = %s", bob.pk)
    assert reader.news() == {"user": {ann.pk, bob.pk}}


def test_a_row_that_gets_another_id_is_news_under_both(reader):
    group = Group.objects.create(name="team")
    reader.news()
    execute("UPDATE accounts_group SET id = 4711")
    assert reader.news() == {"group": {group.pk, 4711}}


def test_features_are_news_of_roles(reader):
    role = Role.objects.create(name="viewers")
    assert reader.news() == {"role": {role.pk}}
    feature = Feature.objects.create(name="new.feature")
    assert reader.news() == {"role": {0}}
    role.features.add(feature)
    assert reader.news() == {"role": {role.pk}}


def test_a_session_is_news_when_it_ends_and_not_before(reader, ann):
    session = Session.objects.create(user=ann, expires_at=timezone.now() + timedelta(hours=1))
    Session.objects.update(last_used_at=timezone.now(), refresh_digest="x")
    assert reader.news() == {}
    Session.objects.update(ended_at=timezone.now())
    assert reader.news() == {"session": {0}}
    session.refresh_from_db()
    session.delete()
    assert reader.news() == {}


def test_only_a_session_that_was_live_is_news_when_its_row_goes(reader, ann):
    Session.objects.create(user=ann, expires_at=timezone.now() - timedelta(seconds=5))
    Session.objects.all().delete()
    assert reader.news() == {}
    Session.objects.create(user=ann, expires_at=timezone.now() + timedelta(hours=1))
    Session.objects.all().delete()
    assert reader.news() == {"session": {0}}


def test_models_are_news_of_their_provider(reader, provider):
    Model.objects.create(provider=provider, name="fast")
    assert reader.news() == {"provider": {provider.pk}}
    Model.objects.update(name="slow")
    assert reader.news() == {"provider": {provider.pk}}
    Provider.objects.update(enabled=False)
    assert reader.news() == {"provider": {provider.pk}}


def test_rules_limits_and_the_licence_are_news(reader, ann):
    rule = Rule.objects.create(name="r")
    limit = Limit.objects.create(user=ann, measure="requests", window="day", amount=1)
    Licence.objects.create(key="k")
    assert reader.news() == {"rule": {rule.pk}, "limit": {limit.pk}, "licence": {1}}


def test_prices_are_news_as_a_whole(reader, provider):
    ModelPrice.objects.create(provider=provider, model="m", currency="USD", input=1, output=1)
    assert reader.news() == {"price": {0}}
    ModelPrice.objects.update(input=2)
    assert reader.news() == {"price": {0}}
    Provider.objects.all().delete()
    assert reader.news() == {"price": {0}, "provider": {provider.pk}}


def test_every_kind_is_watched_in_every_table_that_exists():
    with connection.cursor() as cursor:
        cursor.execute(triggers._FIND[connection.vendor], ["gateway_change_%"])
        results = {name for name, _ in cursor.fetchall()}
    tables = set(connection.introspection.table_names())
    assert results == set(triggers._names(connection.vendor, tables))
    assert len({table for _, table in triggers._installable_watches(tables)}) == len(triggers.WATCHED)


def test_what_is_rolled_back_is_no_news(reader):
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        Group.objects.create(name="team")
        raise ZeroDivisionError
    assert reader.news() == {}


def test_two_readers_do_not_take_each_others_news(reader):
    other = Reader()
    group = Group.objects.create(name="team")
    assert reader.news() == other.news() == {"group": {group.pk}}


def test_a_reader_that_slept_reloads_everything(reader):
    long_ago = time.time() - RETENTION_SECONDS
    reader.position = replace(reader.position, time=long_ago)
    assert reader.news() == EVERYTHING
    assert reader.news() == {}


def test_old_changes_are_pruned_and_young_ones_never(reader):
    group = Group.objects.create(name="team")
    Change.objects.update(at=timezone.now() - timedelta(seconds=RETENTION_SECONDS - 60))
    assert reader.feed.prune() == 0
    assert reader.news() == {"group": {group.pk}}
    Change.objects.update(at=timezone.now() - timedelta(seconds=RETENTION_SECONDS + 60))
    assert reader.feed.prune() > 0
    assert not Change.objects.exists()
    Group.objects.update(name="crew")
    assert reader.news() == {"group": {group.pk}}


@pytest.mark.parametrize("ahead", [timedelta(hours=-3), timedelta(hours=3)])
def test_what_is_old_does_not_depend_on_the_clock_of_who_looks(reader, monkeypatch, ahead):
    """A worker whose clock is wrong deletes nobody's news."""
    right, group = time.time, Group.objects.create(name="team")
    monkeypatch.setattr(time, "time", lambda: right() + ahead.total_seconds())
    monkeypatch.setattr(timezone, "now", lambda: datetime.fromtimestamp(time.time(), UTC))
    assert ChangeFeed(connection).prune() == 0
    assert reader.news() == {"group": {group.pk}}
    assert reader.news() == {}


def test_one_query_tells_where_and_one_tells_what(reader, django_assert_num_queries):
    with django_assert_num_queries(1):
        reader.feed.position()
    with django_assert_num_queries(1):
        reader.news()


def test_the_triggers_stand_after_a_flush_and_once_only(reader, ann):
    call_command("flush", interactive=False, verbosity=0)
    call_command("flush", interactive=False, verbosity=0)
    assert 0 in reader.news()["role"]
    group = Group.objects.create(name="team")
    assert reader.news() == {"group": {group.pk}}
    assert Change.objects.filter(kind="group", row_id=group.pk).count() == 1


def test_a_flush_is_news_of_everything_whichever_table_it_emptied_last(reader):
    execute("DELETE FROM gateway_project_change")
    if connection.vendor == "sqlite":
        execute("UPDATE sqlite_sequence SET seq = 0")
    triggers.install(using="default")
    assert reader.news() == EVERYTHING
    group = Group.objects.create(name="team")
    assert reader.news() == {"group": {group.pk}}


def test_a_migrate_that_had_nothing_to_do_is_no_news(reader):
    triggers.install(using="default", plan=[])
    assert reader.news() == {}


def test_after_migrations_every_kind_counts_as_changed(reader):
    triggers.drop_before_migrations(using="default", plan=[("a migration", False)])
    Group.objects.create(name="team")
    triggers.install(using="default", plan=[("a migration", False)])
    news = reader.news()
    assert news.keys() == set(KINDS)
    assert all(0 in ids for ids in news.values())


def test_a_table_that_a_migration_rebuilt_is_watched_again(reader):
    triggers.drop_before_migrations(using="default", plan=[("a migration", False)])
    short, long = Group._meta.get_field("name"), CharField(max_length=120)
    long.set_attributes_from_name("name")
    with connection.schema_editor() as editor:
        editor.alter_field(Group, short, long)
        editor.alter_field(Group, long, short)
    triggers.install(using="default", plan=[("a migration", False)])
    reader.news()
    group = Group.objects.create(name="crew")
    assert reader.news() == {"group": {group.pk}}


def test_a_trigger_of_an_older_release_is_taken_down(reader):
    name = "gateway_change_accounts_group_older"
    if connection.vendor == "postgresql":
        execute(
            f"CREATE TRIGGER {name} AFTER INSERT ON accounts_group"
            " FOR EACH STATEMENT EXECUTE FUNCTION gateway_change_accounts_user()"
        )
    else:
        execute(f"CREATE TRIGGER {name} AFTER INSERT ON accounts_group BEGIN SELECT 1; END")
    triggers.install(using="default")
    with connection.cursor() as cursor:
        cursor.execute(triggers._FIND[connection.vendor], [name])
        assert cursor.fetchall() == []


class TestOwnMark:
    """A change knows where it stands, and a position whether it is beyond that."""

    def test_a_position_from_before_has_not_reached_it_and_one_from_after_has(self, key):
        feed = ChangeFeed(connection)
        before = feed.position()
        with transaction.atomic():
            ApiKey.objects.filter(pk=key.pk).update(is_deleted=True)
            change = feed.own_mark()
        _, after = feed.read_since(before)
        assert (has_reached(before.mark, change), has_reached(after.mark, change)) == (False, True)

    def test_a_transaction_without_changes_has_one_too(self, key):
        feed = ChangeFeed(connection)
        before = feed.position()
        change = feed.own_mark()
        assert has_reached(feed.read_since(before)[1].mark, change)

    @pytest.mark.parametrize(
        ("mark", "is_reached"),
        [(7, True), (8, True), (6, False), ("8:8:", True), ("7:8:", True), ("7:9:7", False), ("5:9:6,8", True),
         ("5:7:", False), ("5:9:17,7", False), ("5:99:17,70", True)],
    )  # fmt: skip
    def test_snapshots_of_postgresql_say_which_transactions_they_saw(self, mark, is_reached):
        assert has_reached(mark, 7) == is_reached

    def test_orders_to_end_requests_are_told_with_the_change(self, key):
        feed = ChangeFeed(connection)
        before = feed.position()
        order_cuts([Credential("key", key.pk), Credential("user", 3), Credential("user", 3)])
        changes, _ = feed.read_since(before)
        assert sorted(cuts_in(changes)) == [Credential("key", key.pk), Credential("user", 3)]
