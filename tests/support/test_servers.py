"""Where there is no PostgreSQL or no Redis, the tests that need them are left out, but not from a table of promises."""

import pytest

from tests.support import promises, servers

pytestmark = pytest.mark.embedded


@pytest.fixture(params=["find_postgresql", "find_redis"])
def no_server(request, monkeypatch) -> None:
    def find(resources: object) -> servers.Server:
        raise servers.NotFound("none could be started.")

    monkeypatch.setattr(servers, "find_postgresql", lambda resources: servers.Server("postgresql://x", "a test's"))
    monkeypatch.setattr(servers, request.param, find)


def test_without_servers_the_tests_are_skipped(no_server, capsys):
    assert servers.main(["-m", "servers"]) == 0
    assert (
        "SKIPPED: the tests with PostgreSQL and Redis were not run: none could be started." in capsys.readouterr().out
    )


@pytest.mark.parametrize("option", [["--promises=table.json"], ["--promises", "table.json"]])
def test_without_servers_there_is_no_table_of_promises(no_server, option):
    status = servers.main(["-m", "attack", *option])
    assert status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)


@pytest.mark.parametrize(
    ("status", "is_stored"), [(0, True), (pytest.ExitCode.NO_TESTS_COLLECTED, True), (servers.NOT_RUN, False)]
)
def test_a_table_that_lacks_the_tests_with_servers_is_not_stored(monkeypatch, tmp_path, status, is_stored):
    stored: list[str] = []

    def run(command: list[str], **options: object) -> object:
        return promises.subprocess.CompletedProcess(command, status if "tests.support.servers" in command else 0)

    monkeypatch.setattr(promises.subprocess, "run", run)
    monkeypatch.setattr(promises, "write_page", lambda marker, table: stored.append(marker))
    assert (promises.main(["attack", "--update"]) == 0) is is_stored
    assert stored == (["attack"] if is_stored else [])


@pytest.mark.parametrize("url", ["postgresql://u:p@127.0.0.1:5432/db", "postgresql://u:@/db?host=/tmp/a"])
def test_commits_of_tests_do_not_wait_for_the_disk(url):
    options = "options=-c%20synchronous_commit%3Doff"
    assert servers.with_asynchronous_commits(f"{url}&options=-c" if "?" in url else f"{url}?options=-c").endswith("=-c")
    assert servers.with_asynchronous_commits(url) == f"{url}{'&' if '?' in url else '?'}{options}"
