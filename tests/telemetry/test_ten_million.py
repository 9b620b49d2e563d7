"""Ten million entries, 100,000 keys and 10,000 rules slow nothing down: figures are compared with a hundredth of them.

They lie in a hundred partitions, three times as many as there would be, filled as fast as PostgreSQL can, in a database
that is dropped afterwards. TEST_EXACT_BOUNDS=1 applies the bounds as they stand here, on a
machine that has nothing else to do; otherwise they get `patience`.
"""

import statistics
import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from urllib.parse import urlencode

import pytest
import requests
from django.contrib.admin import site
from django.db import connection
from django.test import override_settings
from django.utils import timezone

from accounts.models import Group, Role, User
from gateway_project.console.period import LIST_FILTERS
from keys.models import ApiKey
from keys.secrets import generate_key
from providers.models import Provider
from providers.services import create_provider
from rules.models import Rule
from telemetry.journal.batches import insert_log_entries
from telemetry.models import LogEntry
from telemetry.retention import deletion, partitions
from telemetry.usage import rollups
from telemetry.usage.dashboard_sums import PERIODS, dashboard_sums
from telemetry.usage.verification import differences
from tests.console.conftest import PASSWORD, Visitor
from tests.console.test_pages import lists, pages
from tests.support import many_rows
from tests.support.management import new_admin, new_user, token_of
from tests.support.pace import bound
from tests.support.running import RunningGateway, fresh_store
from tests.support.usage_entries import done

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(connection.vendor != "postgresql", reason="ten million rows are for PostgreSQL"),
]
LOG, DAY = partitions.LOG, timedelta(days=1)
LOG_LIST = "telemetry/logentry/"
# Days, and entries a day.
FEW, MANY = (10, 10_000), (100, 100_000)
TAKES, CONSOLE_TAKES, BATCH, PRUNED = 15, 3, 500, 5
# Keys of a thousand users, and rules.
FEW_ROWS, MANY_ROWS = (1000, 100), (100_000, 10_000)
USERS, GROUPS, PROVIDERS, MODELS = 1000, 10, 3, 20
OWNERS = {"user": User, "group": Group, "key": ApiKey, "provider": Provider}  # the first of which is in the entries
OWN_USER = 7  # the number of the user who opens their own pages
USAGE_TABLES = (rollups.USAGE, *(rollup.table for rollup in rollups.ROLLUPS))
USED_DAYS = 31  # of which the usage is added up: what the first page and the statistics ask for
HOME_SECONDS, PAGE_SECONDS, CONSOLE_SECONDS, STATISTICS_SECONDS = 0.3, 0.2, 0.1, 1.0
# Names that one entry a day has, only an entry of the oldest day, and none.
RARE, RAREST, UNUSED = RARE_NAMES = "rare", "rarest", "unused"

FILL = """
INSERT INTO "{name}" (id, timestamp, entry_type, entry_source, correlation_id, message, payload, user_id, username,
    group_ids, key_id, key_name, model, served_model, provider_id, provider_name, outcome, status, cache_status,
    attempts, input_tokens, output_tokens, cost, currency, cost_status, duration_ms, alias, trusted_issuer,
    tags, severity)
SELECT %(first)s + n, %(start)s::timestamptz + n * interval '1 day' / %(rows)s,
    CASE WHEN n %% 10 = 0 THEN 'Message' ELSE 'WorkRequest' END, CASE WHEN n %% 5 = 0 THEN 'Cache' ELSE 'Worker' END,
    md5((%(first)s + n)::text), 'It was served.', 'p', %(user)s + n %% 1000, 'person-' || n %% 1000,
    jsonb_build_array(%(group)s + n %% 10), %(key)s + n %% 1000, 'key ' || n %% 1000,
    CASE WHEN n = 11 THEN %(rare)s ELSE 'model-' || n %% 20 END,
    CASE WHEN n = 11 THEN %(rare)s ELSE 'model-' || n %% 20 END,
    %(provider)s + n %% 20 %% 3, 'provider-' || n %% 20 %% 3,
    CASE WHEN n %% 50 = 1 THEN 'failed' ELSE 'completed' END, CASE WHEN n %% 50 = 1 THEN 502 ELSE 200 END,
    CASE WHEN n = 11 AND %(rare)s = 'rare' THEN 'BYPASS' WHEN n %% 5 = 0 THEN 'HIT' ELSE 'MISS' END,
    1, n %% 3000, n %% 700, n * 0.000001, 'USD', 'known', n %% 9000,
    CASE WHEN n = 11 THEN %(rare)s WHEN n %% 4 = 0 THEN 'alias-' || n %% 8 END,
    CASE WHEN n = 11 THEN %(rare)s WHEN n %% 20 = 3 THEN 'issuer-3' END,
    CASE WHEN n = 11 THEN jsonb_build_object('team', %(rare)s::text)
        WHEN n %% 4 = 0 THEN jsonb_build_object('team', 'team-' || n %% 100) ELSE '{{}}' END,
    CASE WHEN n = 11 THEN 'warning' WHEN n %% 50 = 1 THEN 'error' ELSE 'info' END
FROM generate_series(0, %(rows)s - 1) n
"""
# Hours of one of the ten days, for which the log counts minutes.
PERIOD = "timestamp_from_0={day}&timestamp_from_1=10:00:00&timestamp_to_0={day}&timestamp_to_1=12:00:00"
LOGS = ["", "page[number]=5", "id=7", "type=WorkRequest", "source=Cache", "id=7&type=Message", "end={old}"]
LOGS += ["search=model-7", "search=person-7", "search=served"]  # of the model, the user's name and the message
# One of a thousand users or keys, one of 20 models and of three providers, a fiftieth, and rows without any request.
LOG_LISTS = ["user=person-7", "key=key 7", "key_id={key}", "model_name=model-7", "served=model-7"]
LOG_LISTS += ["provider=provider-1"]
LOG_LISTS += ["result=errors", "outcome__exact=failed", "group={group}", "q=model-7", "q=person-7", "q=served"]
LOG_LISTS += ["user=person-10", "key=key 10", "provider=idle", "request=none"]
LOG_LISTS += [f"user=person-7&{PERIOD}", f"model_name=model-1&result=errors&{PERIOD}", "tab=messages"]
LOG_LISTS += [f"{name}={value}" for name in ("model_name", "served", "alias", "issuer") for value in RARE_NAMES]
LOG_LISTS += [f"tag=team%3D{value}" for value in ("team-8", *RARE_NAMES)]
LOG_LISTS += ["outcome__exact=revoked", "result=denied"]
LOG_LISTS += [f"severity__exact={value}" for value in ("error", "warning", "debug")]
LOG_LISTS += [f"cache_status__exact={value}" for value in ("HIT", "BYPASS")]
RARE_LOGS = [f"{name}={value}" for name in ("model", "trustedIssuer") for value in RARE_NAMES]
RARE_LOGS += ["outcome=revoked", "groupId=999999"]
FROM_LISTS = ["user=person-7", "model_name=model-1&result=errors"]
LIVE = ["", "?user=person-7", "?model_name=model-7", "?result=errors"]
STATISTICS = ["by=user&then=model", "by=day&then=model", "by=hour&then=model", "by=model&then=provider&chart=cost"]
STATISTICS += ["by=day&then=user", "by=user&then=key", "by=day&then=model&chart=p95_ms"]
OWN_PAGES = ["", "keys/", "models/", "usage/", "usage/?days=90", "requests/", "requests/?page=5", "account/"]
OWN_PAGES += ["access/", "groups/"]
GROUP_TABS = ["", "keys/", "limits/", "rules/", "log/", "usage/"]
USAGE_OF_A_GROUP = ["by=day", "by=user", "by=day&then=model"]
SEARCHES = ["keys/apikey/?q=key 7", "keys/apikey/?q=key 9999", "keys/apikey/?q=unused", "keys/apikey/?state=active"]
SEARCHES += ["accounts/user/?q=person-7", "rules/rule/?q=team-7", "rules/rule/?for_model=team-7/large"]
NAMES = ["key 7", "person-7", "rule 7"]
USAGE = ["by=day", "by=user", "by=model,day", "by=provider&userId=7"]


def midnight(days):
    today = timezone.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - days * DAY


def execute(*statements, **parameters):
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, parameters or None)


def fill(days, rows):
    """So many days of entries up to today, a partition each, and their usage, merged as the housekeeper leaves it."""
    owners = {name: table.objects.earliest("pk").pk for name, table in OWNERS.items()}
    owners["user"] = User.objects.get(username="person-0").pk
    for back in reversed(range(1, days + 1)):
        start = midnight(back)
        name, rare = f"{LOG}_{start:%Y%m%d}", RAREST if back == days else RARE
        # Filled before it has indexes, and without a log that would only be written: three times as fast.
        execute(f'CREATE UNLOGGED TABLE "{name}" (LIKE "{LOG}" INCLUDING DEFAULTS INCLUDING CONSTRAINTS)')
        execute(FILL.format(name=name), first=back * rows + 1, start=start, rows=rows, rare=rare, **owners)
        bounds = f"FROM ('{start:%Y-%m-%d}T00:00Z') TO ('{start + DAY:%Y-%m-%d}T00:00Z')"
        execute(f'ALTER TABLE "{LOG}" ATTACH PARTITION "{name}" FOR VALUES {bounds}', f'VACUUM (ANALYZE) "{name}"')
        if back <= USED_DAYS:
            entries = rollups.log_rows('"timestamp" >= %(start)s AND "timestamp" < %(end)s')
            execute(rollups.aggregate_insert(entries), start=start, end=start + DAY)
            for merge in (deletion.merge_hours, deletion.merge_days):
                while merge(timezone.now()):
                    pass
            execute(*(f"VACUUM ANALYZE {table}" for table in USAGE_TABLES))
    execute(f"SELECT setval(pg_get_serial_sequence('{LOG}', 'id'), {(days + 1) * rows})")


def create_owners():
    """A thousand users in ten groups, one of whom can log in and administers a group, and providers with models."""
    models = [f"model-{number}" for number in range(MODELS)]
    url = "http://127.0.0.1:9/v1"
    for number in range(PROVIDERS):
        create_provider(name=f"provider-{number}", url=url, format_name="openai", models=models)
    create_provider(name="idle", url=url, format_name="openai", models=models[:1])
    User.objects.bulk_create(User(username=f"person-{number}", name_key=f"person-{number}") for number in range(USERS))
    users = list(User.objects.filter(username__startswith="person-"))
    Role.objects.get(name="user").users.set(users)
    for number in range(GROUPS):
        Group.objects.create(name=f"owners {number}").members.set(users[number::GROUPS])
    own = User.objects.get(username=f"person-{OWN_USER}")
    own.set_password(PASSWORD)
    own.save()
    Group.objects.get(name=f"owners {OWN_USER}").admins.add(own)


def fill_tables(keys, rules):
    """Add keys and rules of those users until there are so many."""
    users = list(User.objects.filter(username__startswith="person-").order_by("pk"))
    numbers = range(ApiKey.objects.count(), keys)
    ApiKey.objects.bulk_create(
        (
            ApiKey(name=f"key {n}", owner=users[n % USERS], public_id=secret.public_id, digest=secret.digest)
            for n, secret in zip(numbers, iter(generate_key, None), strict=False)
        ),
        batch_size=5000,
    )
    Rule.objects.bulk_create(
        (
            Rule(name=f"rule {n}", regex=f"team-{n}/.*", user=users[n % USERS])
            for n in range(Rule.objects.count(), rules)
        ),
        batch_size=5000,
    )
    for table in ("keys_apikey", "rules_rule", "accounts_user"):
        execute(f"VACUUM ANALYZE {table}")


def row_pages():
    """Name and address of the page of a row of each table but the log: of the large tables a late one."""
    chosen = {table: table.objects.order_by("-pk") for table in (ApiKey, Rule)}
    chosen |= {User: User.objects.filter(username=f"person-{USERS - 1}"), Group: Group.objects.filter(name="owners 9")}
    for table in site._registry.keys() - {LogEntry}:
        row = chosen.get(table, table._default_manager.order_by("pk")).first()
        path = f"{table._meta.app_label}/{table._meta.model_name}"
        yield f"{path}/…/change/", f"{path}/{row.pk}/change/"


def console_pages(days):
    """Name and address of each page: without a row, of a row, and with what somebody looks for."""
    values = {"key": ApiKey.objects.get(name=f"key {OWN_USER}").pk, "group": f"owners {OWN_USER}"}
    values |= {"day": f"{midnight(1):%Y-%m-%d}"}
    filtered = [f"{LOG_LIST}?{query.format(**values)}" for query in LOG_LISTS]
    filtered += [f"{LOG_LIST}tail/{query}" for query in LIVE]
    group_id = Group.objects.get(name=values["group"]).pk
    filtered += [f"statistics/?{query}&group={group_id}" for query in USAGE_OF_A_GROUP]
    paths = ((path, path) for path in (*pages(), *lists(), *SEARCHES, *filtered))
    return [*paths, *row_pages(), *entry_pages(days)]


def entry_pages(days):
    """The page of a new and of an old entry, and of one that was opened from a list with filters."""
    for name, back in (("new", 1), ("old", days)):
        entry = LogEntry.objects.filter(timestamp__gte=midnight(back), entry_type="WorkRequest").earliest("timestamp")
        yield f"{LOG_LIST}{name}/change/", f"{LOG_LIST}{entry.pk}/change/"
        for query in FROM_LISTS:
            address = f"{LOG_LIST}{entry.pk}/change/?{urlencode({LIST_FILTERS: query})}"
            yield f"{LOG_LIST}{name}/change/ of {query}", address


def own_pages():
    """The same of the pages of a user who administers a group."""
    user = User.objects.get(username=f"person-{OWN_USER}")
    group = user.administered_groups.get()
    entries = LogEntry.objects.of_user(user.pk).filter(entry_type="WorkRequest")
    for name, entry in (("new", entries.latest("timestamp")), ("old", entries.earliest("timestamp"))):
        yield f"requests/{name}/", f"requests/{entry.pk}/"
        yield f"groups/…/log/{name}/", f"groups/{group.pk}/log/{entry.pk}/"
    yield from ((path, path) for path in OWN_PAGES)
    yield from ((f"groups/…/{tab}", f"groups/{group.pk}/{tab}") for tab in GROUP_TABS)


def clear():
    for partition in partitions.partitions():
        execute(f'DROP TABLE "{partition.name}"')
    execute(f'TRUNCATE "{LOG}", {", ".join(USAGE_TABLES)}')
    with override_settings(GATEWAY_LOG_DAYS=partitions.MAX_DAYS_DAILY):
        partitions.create_ahead(timezone.now())


def size():
    """Of all partitions with their indexes, in megabytes."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT sum(pg_total_relation_size(relid)) / 1000000 FROM pg_partition_tree('{LOG}')")
        return int(cursor.fetchone()[0])


def median(action, takes=TAKES):
    """Milliseconds; what comes first warms up, where there are many takes, and does not count."""
    took = []
    for _ in range(takes + 1 if takes == TAKES else takes):
        begun = time.perf_counter()
        action()
        took.append((time.perf_counter() - begun) * 1000)
    return statistics.median(took[-takes:])


def measured(gateway, days):
    """The median of each thing that is done, in milliseconds."""
    admin = new_admin(password=PASSWORD)
    visitor, client = Visitor(gateway.url), requests.Session()
    visitor.sign_in(admin.username)
    client.headers["Authorization"] = f"Bearer {token_of(admin)}"
    old = f"{midnight(1) - timedelta(minutes=5):%Y-%m-%dT%H:%M:%SZ}"

    def answered(get, path):
        response = get(path)
        assert response.status_code == 200, response.text
        return response

    def median_seconds(path):
        return median(lambda: answered(client.get, gateway.url + path))

    values = {f"page {query}": median_seconds(f"/logs/?{query.format(old=old)}") for query in LOGS}
    values |= {f"rare page {query}": median_seconds(f"/logs/?{query}") for query in RARE_LOGS}
    values["page of the console"] = median(lambda: answered(visitor.get, "telemetry/logentry/"))
    for name, path in console_pages(days):
        values[f"console {name}"] = median(lambda path=path: answered(visitor.get, path), CONSOLE_TAKES)
    for query in STATISTICS:
        values[f"statistics page {query}"] = median(
            lambda query=query: answered(visitor.get, f"statistics/?{query}"), CONSOLE_TAKES
        )
    own = Visitor(gateway.url, "me")
    own.sign_in(f"person-{OWN_USER}")
    for name, path in own_pages():
        values[f"own {name}"] = median(lambda path=path: answered(own.get, path), CONSOLE_TAKES)
    for text in NAMES:
        find = partial(visitor.post, "find/", text=text)
        values[f"console find {text}"] = median(lambda find=find: find().raise_for_status(), CONSOLE_TAKES)
    values |= {f"statistics {query}": median_seconds(f"/stats/usage/?{query}") for query in USAGE}
    for name, period in PERIODS.items():
        # The page shows figures again for a while: the first one is that which has to add them up.
        values[f"home {name}"] = median(lambda name=name: answered(visitor.get, f"?period={name}"), 1)
        values[f"figures {name}"] = median(lambda period=period: dashboard_sums(period))
    batch = [done(f"new-{number}", datetime.now(UTC), user_id=number % 50) for number in range(BATCH)]
    values["insert"] = median(lambda: insert_log_entries(batch))
    with override_settings(GATEWAY_LOG_DAYS=days - PRUNED, GATEWAY_PAYLOAD_DAYS=days - PRUNED - 2):
        empty = deletion.PayloadEraser()
        values["empty payloads"] = median(lambda: empty(timezone.now()))
        before = len(partitions.partitions())
        values["prune"] = median(lambda: deletion.delete_entries(timezone.now()), PRUNED)
        assert len(partitions.partitions()) == before - PRUNED
    return values


@pytest.fixture(scope="module")
def figures(tmp_path_factory, django_db_blocker):
    """What was measured with few entries and with many, by name."""
    with ExitStack() as resources:
        resources.enter_context(django_db_blocker.unblock())
        store = resources.enter_context(fresh_store(tmp_path_factory.mktemp("store")))
        resources.enter_context(store.used_by_orm())
        resources.callback(connection.close)
        directory = tmp_path_factory.mktemp("gateway")
        gateway = resources.enter_context(RunningGateway(store, directory, GATEWAY_HOUSEKEEPING_INTERVAL="86400"))
        create_owners()
        many_rows.fill(new_user(), 0, 1)  # one of everything
        results = []
        for (days, rows), table_rows in ((FEW, FEW_ROWS), (MANY, MANY_ROWS)):
            clear()
            begun = time.perf_counter()
            fill_tables(*table_rows)
            fill(days, rows)
            print(f"\n{days * rows:,} entries, {size():,} MB, filled in {time.perf_counter() - begun:.0f} s")
            begun = time.perf_counter()
            assert differences(midnight(2), midnight(0)) == []
            print(f"Two days verified in {time.perf_counter() - begun:.1f} s")
            results.append(measured(gateway, days))
        print("\n".join(f"{results[0][name]:9.1f} ms {results[1][name]:9.1f} ms  {name}" for name in results[1]))
        yield {name: (results[0][name], results[1][name]) for name in results[0]}


def slower(figures, kind, times, seconds):
    """What takes more than so many times as long with many entries as with few, and then so much longer."""
    more = bound(seconds) * 1000
    return {name: took for name, took in figures.items() if name.startswith(kind) and took[1] > times * took[0] + more}


def longer(figures, kind, seconds):
    """What takes longer with many entries than it may."""
    most = bound(seconds) * 1000
    return {name: took for name, took in figures.items() if name.startswith(kind) and took[1] > most}


def test_the_newest_pages_are_as_fast(figures):
    assert slower(figures, "page", 2, 0.01) == {}
    assert longer(figures, "page", PAGE_SECONDS) == {}


def test_each_first_page_of_a_rare_name_is_there_within_100_ms(figures):
    assert longer(figures, "rare page", CONSOLE_SECONDS) == {}


def test_each_page_of_the_console_is_there_within_100_ms(figures):
    assert longer(figures, "console", CONSOLE_SECONDS) == {}


def test_each_of_a_users_own_pages_is_there_within_100_ms(figures):
    assert longer(figures, "own", CONSOLE_SECONDS) == {}


def test_writing_is_as_fast(figures):
    assert slower(figures, "insert", 1.5, 0.01) == {}


def test_pruning_is_as_fast(figures):
    # The files of a partition that has ten times as many entries take a little longer to go.
    assert slower(figures, "prune", 2, 0.1) == {}
    assert slower(figures, "empty payloads", 2, 0.02) == {}


def test_the_first_page_is_there_within_300_ms(figures):
    assert longer(figures, "home", HOME_SECONDS) == {}
    assert longer(figures, "figures", HOME_SECONDS) == {}


def test_a_month_is_added_up_within_a_second(figures):
    assert longer(figures, "statistics", STATISTICS_SECONDS) == {}
