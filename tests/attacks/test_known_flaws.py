"""Published flaws of other gateways, tried here under the names that the review gave them."""

import ast
import re
from collections.abc import Iterator

import pytest
import requests

from accounts.builtin import FEATURES
from accounts.models import Role
from gateway_project.api.routes import routes
from gateway_project.env import Env
from gateway_project.work.doors import ENDPOINTS
from keys import secrets
from keys.models import ApiKey
from tests.support.logins import by_password
from tests.support.management import Client, new_admin, new_user, refused, token_of
from tests.support.promises import promise
from tests.support.running import ROOT
from tests.test_structure import PACKAGES, modules

pytestmark = pytest.mark.either_store

SECRET_NAMES = re.compile(r"password|passwd|hash|digest|secret|salt|credential", re.IGNORECASE)
LISTS = ("users", "roles", "features", "groups", "providers", "formats", "prices", "keys", "rules", "limits", "cache",
         "logs")  # fmt: skip
# Modules that run text as code or other programs, and the reviewed files that call fixed programs and functions.
CODE_RUNNERS = {"pickle", "marshal", "shelve", "jinja2", "subprocess", "code", "codeop", "runpy", "ctypes"}
REVIEWED = {
    "gateway_project/status/version.py",  # git says which commit this is
    "gateway_project/management/commands/serve.py",  # starts gunicorn
    "gateway_project/work/tasks/what_if.py",  # starts manage.py, which replays in a process of its own
    "gateway_project/server/memory.py",  # malloc_trim of the C library
}
SQL = {"raw", "extra", "RawSQL"}
# Modules that make statements of their own: of names of tables and columns, and of numbers; values are parameters.
STATEMENTS = {
    "gateway_project/change_feed/feed.py",
    "gateway_project/change_feed/triggers.py",
    "gateway_project/console/system/page.py",
    "telemetry/audit/recording.py",
    "telemetry/journal/batches.py",
    "telemetry/journal/ingestion.py",
    "telemetry/journal/shipping.py",
    "telemetry/paging.py",
    "telemetry/retention/deletion.py",
    "telemetry/retention/partitions.py",
    "telemetry/search.py",
    "telemetry/usage/key_costs.py",
    "telemetry/usage/model_traffic.py",
    "telemetry/usage/dashboard_sums.py",
    "telemetry/usage/quotas.py",
    "telemetry/usage/rollups.py",
    "telemetry/usage/statistics.py",
    "telemetry/usage/unpriced.py",
    "telemetry/usage/verification.py",
}


def trees() -> Iterator[tuple[str, ast.Module]]:
    for path in modules():
        yield str(path.relative_to(ROOT)), parse(path.read_text())


def parse(source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except SystemError:  # CPython 3.11, if another thread parses at the same moment
        return ast.parse(source)


@promise("V-L5, V-L9, V-L10, S1: no text is run as code", target="0 imports and calls")
def test_no_module_runs_text():
    found = set()
    for path, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else [node.module or ""]
                found |= {(path, name) for name in names if name.partition(".")[0] in CODE_RUNNERS}
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("eval", "exec"):
                found.add((path, node.func.id))
    assert {item for item in found if item[0] not in REVIEWED} == set()


@promise("V-L1, V-L2: no value becomes part of a statement", target="0 calls of raw, extra and RawSQL")
def test_no_module_writes_sql_around_the_orm():
    calls = [
        f"{path}:{node.lineno}"
        for path, tree in trees()
        if "/migrations/" not in path
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in SQL
    ]
    assert calls == []


def makes_statement(tree: ast.AST) -> bool:
    """Whether something is executed that is no literal text."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    statements = [call for call in calls if call.func.attr in ("execute", "executemany", "executescript")]
    return any(not call.args or not isinstance(call.args[0], ast.Constant) for call in statements)


@promise("V-L1, V-L2: no value becomes part of a statement", target="0 calls of raw, extra and RawSQL")
def test_only_reviewed_modules_make_statements():
    makers = {path for path, tree in trees() if "/migrations/" not in path and makes_statement(tree)}
    assert makers == STATEMENTS


@pytest.mark.parametrize(
    ("source", "is_found"),
    [
        ('cursor.execute(f"SELECT {name}")', True),
        ('cursor.execute("SELECT %s" % name)', True),
        ("connection.cursor().execute(statement, [name])", True),
        ('cursor.executemany("INSERT " + name, rows)', True),
        ('cursor.execute("SELECT %s", [name])', False),
        ("pool.submit(name)", False),
    ],
)
def test_a_statement_that_is_made_is_found(source, is_found):
    assert makes_statement(ast.parse(source)) is is_found


@promise("V-L27, F4: what is installed is what was locked", target="a hash for every package")
@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_package_is_locked_by_its_hash(name):
    text = (ROOT / name).read_text().replace("\\\n", " ")
    packages = [line for line in text.splitlines() if line and not line.lstrip().startswith("#")]
    assert packages
    assert [line for line in packages if "==" not in line or "--hash=sha256:" not in line] == []
    assert "--require-hashes" in (ROOT / "Makefile").read_text()


@promise("V-K4: only this machine reaches a gateway that nobody configured", target="127.0.0.1")
def test_a_gateway_listens_on_loopback_unless_told():
    defaults = re.findall(r'env\.host\("HOST", "([^"]*)"\)', (ROOT / "gateway_project/settings.py").read_text())
    assert defaults == ["127.0.0.1"]
    assert Env({}).host("HOST", defaults[0]) == "127.0.0.1"


@promise("V-L7: keys and tokens that begin alike are told apart", target="401 after the right one was used")
def test_what_begins_like_a_known_key_is_another(world):
    world.allow()
    world.provider()
    key = world.key
    assert world.ask().status_code == 200
    # Its last character differs, too: one in 62 would be the same.
    texts = (secrets.generate_key().text for _ in range(1000))
    other = next(text for text in texts if text[secrets.SECRET_END - 1] != key[secrets.SECRET_END - 1])
    for length in (secrets.ID_END, 20, 40, secrets.SECRET_END - 1, secrets.LENGTH - 1):
        text = key[:length] + other[length : secrets.SECRET_END]
        for sent in (text + secrets._checksum(text), key[:length], f"{key}{other[:length]}"):
            assert world.ask(key=sent).status_code == 401, length
    token = token_of(world.user)
    assert world.ask(key=token).status_code == 200
    for length in (20, 64, len(token) - 5):
        assert world.ask(key=token[:length] + "A" * (len(token) - length)).status_code == 401
    assert world.ask().status_code == 200


@promise("V-L8, V-N5: no answer shows a password hash", target="0 fields")
def test_no_field_is_named_like_a_secret(nobody):
    admin = nobody.as_user(new_admin())
    admin.post("/keys/", name="shown")

    def names(value) -> Iterator[str]:
        for name, inner in value.items() if isinstance(value, dict) else ():
            yield name
            yield from names(inner)
        for inner in value if isinstance(value, list) else ():
            yield from names(inner)

    for path in LISTS:
        found = {name for name in names(admin.get(f"/{path}/").json()) if SECRET_NAMES.search(name)}
        assert found <= {"requestHash"}, path  # the name of a cached answer


@promise("V-L8: a stored hash is no password", target="401")
def test_a_stored_hash_logs_nobody_in(nobody, ann):
    assert by_password(nobody, username="ann").status_code == 200
    assert by_password(nobody, username="ann", password=ann.password).status_code == 401
    assert by_password(nobody, username="ann", password="").status_code in (400, 401)


@promise("V-L11, S16: a key has no right that its owner has not", target="403, or 401 once the owner lost it")
@pytest.mark.parametrize("feature", FEATURES)
def test_a_key_has_no_right_that_its_owner_has_not(nobody, feature):
    owner = nobody.as_user(new_user("work" if feature != "work" else "models.create"))
    refused(owner.post("/keys/", name="k", permissions=[{"name": feature}]), 403, "PermissionDenied")
    refused(owner.post("/keys/", name="k", permissions=[{"name": "*"}]), 400, "ValidationError")
    user = new_user(feature)
    text = nobody.as_user(user).post("/keys/", name="k", permissions=[{"name": feature}]).json()["key"]
    lacking = "users.manage" if feature != "users.manage" else "rules.modify"
    later = nobody.as_user(user).patch("/keys/", name="k", permissions=[{"name": lacking}])
    refused(later, 403, "PermissionDenied", lacking)
    assert ApiKey.objects.get(owner=user).permissions == [feature]
    user.roles.set(Role.objects.none())
    assert nobody.with_credential(text).get("/roles/").status_code in (401, 403)


@promise("V-L17: a credential that fails is not replaced by another one", target="401")
def test_a_failing_credential_is_not_replaced(nobody):
    good = token_of(new_admin())
    for header in ("Bearer x", "Bearer", "Basic x", f"Bearer {good}x"):
        response = nobody.get("/users/", headers={"Authorization": header, "Cookie": f"SvcUserCookie={good}"})
        assert response.status_code == 401, header


@promise("V-L23: a body of another media type is refused before it is read", target="415, or 401 without a credential")
@pytest.mark.parametrize("media_type", ["multipart/form-data; boundary=" + "-" * 5000, "text/plain", "application/xml",
                                        "application/x-www-form-urlencoded", "multipart/mixed"])  # fmt: skip
@pytest.mark.parametrize("path", ENDPOINTS)
def test_a_body_of_another_media_type_is_refused(world, path, media_type):
    body = b"-" * 100_000
    assert world.post(body, path=path, headers={"Content-Type": media_type}).status_code == 415
    anonymous = requests.post(f"{world.gateway.url}{path}", data=body, headers={"Content-Type": media_type}, timeout=30)
    assert anonymous.status_code == 401


@promise("V-L25: a rule holds for every client API and every form of a request", target="403 on each")
@pytest.mark.parametrize("path", ENDPOINTS)
def test_what_no_rule_allows_is_refused_at_every_door(world, path):
    provider = world.provider()
    world.allow(regex="another-model")
    for stream in (False, True):
        body = {"model": world.model, "stream": stream, "max_tokens": 5, "input": "x", "prompt": "x",
                "messages": [{"role": "user", "content": "x"}]}  # fmt: skip
        assert world.post(body, path=path).status_code == 403
    assert provider.seen == []


@promise("V-O1, S19: a key counts alike in every place that takes one", target="the same decision, and 401 for two")
@pytest.mark.parametrize("path", ["/v1/messages", "/openai/responses"])
def test_a_key_counts_alike_in_every_place(world, path):
    world.provider()
    world.allow(regex="another-model")
    name = "X-Api-Key" if "messages" in path else "Api-Key"
    body = {"model": world.model, "max_tokens": 5, "messages": [], "input": "x"}
    url = f"{world.gateway.url}{path}"
    world.settle()
    for key, status in ((world.key, 403), (f"{world.key}x", 401)):
        for headers in ({"Authorization": f"Bearer {key}"}, {name: key}):
            assert requests.post(url, json=body, headers=headers, timeout=30).status_code == status, headers


@promise("V-LF1: no other site reads an answer", target="no CORS header on any route")
def test_no_route_allows_another_origin(world):
    client = Client(world.gateway.url).as_user(new_admin(username=world.name("admin")))
    for path in {re.sub(r"\{\w+\}", "1", route.path) for route in routes() if route.name != "admin"}:
        for method in ("GET", "OPTIONS"):
            headers = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
            answer = client.send(method, path, headers=headers)
            assert not [name for name in answer.headers if name.lower().startswith("access-control")], path


def test_the_packages_are_those_of_the_product():
    assert {path.partition("/")[0] for path, _ in trees()} == set(PACKAGES)


@promise("V-L22: health says whether the stores answer, and nothing else", target="at most 3 words")
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer x"}, {"X-Forwarded-For": "127.0.0.1"}])
@pytest.mark.parametrize("query", ["", "?verbose=1", "?details=true&debug=1"])
def test_health_says_nothing_else(world, headers, query):
    world.allow()
    provider = world.provider()
    provider.answers(status=401, body={"error": {"message": "sk-secret-of-the-provider is no key"}})
    world.ask()
    expected = {"healthz": {"status": "ok"}, "readyz": {"status": "ok", "database": "ok", "cache": "ok"}}
    for path, document in expected.items():
        for end in ("", "/"):
            response = requests.get(f"{world.gateway.url}/{path}{end}{query}", headers=headers, timeout=30)
            assert response.status_code == 200
            assert response.json() == document
            assert "sk-" not in str(response.headers)
    for path in ("health", "health/liveliness", "health/readiness", "health/services", "debug", "config", "env"):
        assert requests.get(f"{world.gateway.url}/{path}{query}", headers=headers, timeout=30).status_code in (401, 404)


@promise("A forwarding header of a peer that is no trusted proxy warns", target="1 line an hour, the header ignored")
def test_a_header_of_an_unlisted_proxy_warns(own_gateway):
    world = own_gateway()
    world.allow()
    world.provider()
    for number in range(3):
        entry = world.entry(world.ask(f"{number}", headers={"X-Forwarded-For": "198.51.100.7"}))
        assert entry.address == "127.0.0.1"
    lines = [line for line in world.gateway.log().splitlines() if "is not in GATEWAY_TRUSTED_PROXIES" in line]
    assert len(lines) == 1
    assert "127.0.0.1 sends X-Forwarded-For" in lines[0]
