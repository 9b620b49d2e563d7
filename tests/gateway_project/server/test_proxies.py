"""Who the client is where proxies stand in between."""

from ipaddress import ip_network

import pytest

from gateway_project.server.proxies import TrustedProxies, is_local, read_address
from telemetry.models import LogEntry
from tests.support.management import PASSWORD, Client, body, new_admin, refused
from tests.support.promises import promise

pytestmark = pytest.mark.either_store

PROXIES = TrustedProxies([ip_network("10.0.0.0/8"), ip_network("fd00::/8"), ip_network("127.0.0.1")])


def resolved(peer, **headers):
    """The environment of a request from this peer, after the proxies were seen through."""
    environ = {"REMOTE_ADDR": peer, "wsgi.url_scheme": "http"} | headers
    PROXIES.resolve_client(environ)
    return environ


@pytest.mark.parametrize(
    ("peer", "forwarded", "client"),
    [
        ("10.0.0.1", "203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "203.0.113.7, 10.9.9.9", "203.0.113.7"),
        ("10.0.0.1", "1.1.1.1,203.0.113.7 ,10.9.9.9,\t10.8.8.8", "203.0.113.7"),
        ("fd00::1", "2001:DB8::0007", "2001:db8::7"),
        ("::ffff:10.0.0.1", "::ffff:203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "203.0.113.7:4711", "203.0.113.7"),
        ("10.0.0.1", "[2001:db8::7]:4711", "2001:db8::7"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),  # a client inside our own network
        ("203.0.113.9", "198.51.100.1", "203.0.113.9"),  # a stranger says what it likes
        ("203.0.113.9", "", "203.0.113.9"),
        ("", "198.51.100.1", ""),
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, unknown", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1, unknown, 10.0.0.2", "10.0.0.2"),
        ("10.0.0.1", "198.51.100.1,", "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1 203.0.113.7", "10.0.0.1"),
        ("10.0.0.1", "fe80::1%<script>", "10.0.0.1"),
        ("10.0.0.1", "010.1.1.1", "10.0.0.1"),
        ("10.0.0.1", "0x7f000001", "10.0.0.1"),
        ("10.0.0.1", "١.1.1.1", "10.0.0.1"),
        ("10.0.0.1", "[203.0.113.7", "203.0.113.7"),
        ("10.0.0.1", "1:" * 4000, "10.0.0.1"),
        ("10.0.0.1", "198.51.100.1" + ", 10.1.1.1" * 1000, "10.1.1.1"),
        ("10.0.0.1", "\0, ' OR 1=1 --", "10.0.0.1"),
    ],
)
def test_the_client_is_the_rightmost_address_that_is_no_proxy_of_ours(peer, forwarded, client):
    assert resolved(peer, HTTP_X_FORWARDED_FOR=forwarded)["REMOTE_ADDR"] == client


@pytest.mark.parametrize(
    ("peer", "proto", "scheme"),
    [
        ("10.0.0.1", "https", "https"),
        ("10.0.0.1", "HTTPS ", "https"),
        ("10.0.0.1", "http, https", "https"),
        ("10.0.0.1", "javascript", "http"),
        ("10.0.0.1", "", "http"),
        ("203.0.113.9", "https", "http"),
    ],
)
def test_the_scheme_is_the_one_that_a_trusted_proxy_was_spoken_to_in(peer, proto, scheme):
    assert resolved(peer, HTTP_X_FORWARDED_PROTO=proto)["wsgi.url_scheme"] == scheme


def test_other_headers_say_nothing():
    environ = resolved("10.0.0.1", HTTP_FORWARDED="for=1.1.1.1", HTTP_X_REAL_IP="1.1.1.1", HTTP_X_FORWARDED_HOST="evil")
    assert environ["REMOTE_ADDR"] == "10.0.0.1"


def test_without_trusted_proxies_nothing_is_touched():
    environ = {"REMOTE_ADDR": "127.0.0.1", "HTTP_X_FORWARDED_FOR": "1.1.1.1", "HTTP_X_FORWARDED_PROTO": "https"}
    before = environ.copy()
    TrustedProxies([]).resolve_client(environ)
    assert environ == before


@pytest.mark.parametrize("proxies", [PROXIES, TrustedProxies([])])
def test_who_comes_by_ipv4_has_one_address_also_where_the_server_listens_on_ipv6(proxies):
    environ = {"REMOTE_ADDR": "::ffff:203.0.113.9"}
    proxies.resolve_client(environ)
    assert environ == {"REMOTE_ADDR": "203.0.113.9"}


@pytest.mark.parametrize("text", ["", " ", "x", "1.2.3", "1.2.3.4.5", "1.2.3.4/8", "::1::", "256.1.1.1", "1" * 70])
def test_what_is_no_address_is_none(text):
    assert read_address(text) == ""


@pytest.mark.parametrize(
    ("peer", "headers", "local"),
    [
        ("127.0.0.1", {}, True),
        ("::1", {}, True),
        ("::ffff:127.0.0.1", {}, True),
        ("10.0.0.1", {}, False),
        ("", {}, False),
        ("127.0.0.1", {"HTTP_X_FORWARDED_FOR": "127.0.0.1"}, True),
        ("127.0.0.1", {"HTTP_X_FORWARDED_FOR": "203.0.113.7"}, False),
        ("127.0.0.1", {"HTTP_X_FORWARDED_FOR": "127.0.0.5, 203.0.113.7"}, False),
        ("127.0.0.1", {"HTTP_X_REAL_IP": "203.0.113.7"}, False),
        ("127.0.0.1", {"HTTP_FORWARDED": "for=203.0.113.7"}, False),
        ("127.0.0.2", {"HTTP_X_FORWARDED_FOR": "203.0.113.7"}, False),  # a proxy that nobody called trusted
        ("10.0.0.1", {"HTTP_X_FORWARDED_FOR": "127.0.0.1"}, False),  # another machine's own loopback
    ],
)
def test_local_is_who_asks_from_this_machine_for_itself(peer, headers, local):
    assert is_local(resolved(peer, **headers)) is local


class TestUnlistedProxies:
    def reported(self, *networks, **environ):
        peers = []
        TrustedProxies(networks, peers.append).resolve_client({"REMOTE_ADDR": "::ffff:203.0.113.9"} | environ)
        return peers

    @pytest.mark.parametrize("header", ["HTTP_X_FORWARDED_FOR", "HTTP_FORWARDED", "HTTP_X_REAL_IP"])
    @pytest.mark.parametrize("networks", [[], [ip_network("10.0.0.0/8")]])
    def test_are_reported_by_their_own_address(self, networks, header):
        assert self.reported(*networks, **{header: "198.51.100.1"}) == ["203.0.113.9"]

    def test_are_none_of_the_listed_ones_and_no_peers_without_such_a_header(self):
        assert self.reported(ip_network("203.0.113.0/24"), HTTP_X_FORWARDED_FOR="198.51.100.1") == []
        assert self.reported(HTTP_VIA="1.1 a-proxy-of-the-client") == []

    def test_are_a_warning_once_in_the_log_of_each_process(self, own_gateway):
        world = own_gateway()
        for _ in range(20):
            Client(world.gateway.url).get("/version/", headers={"X-Forwarded-For": "198.51.100.1"})
        lines = [line for line in world.gateway.log().splitlines() if "GATEWAY_TRUSTED_PROXIES" in line]
        processes = {line.partition("[")[2].partition("]")[0] for line in lines}
        assert 1 <= len(lines) == len(processes)
        assert "WARNING gateway.proxies" in lines[0]
        assert "127.0.0.1 sends X-Forwarded-For" in lines[0]
        assert "198.51.100.1" not in lines[0], "what clients send stays out of the server's log"


class TestWhereAddressesAreUsed:
    FORGED = {"X-Forwarded-For": "203.0.113.7", "X-Forwarded-Proto": "https", "X-Real-IP": "203.0.113.8"}

    @promise("S18: only a trusted proxy says who the client is", target="the peer's address", suite="attack")
    def test_a_stranger_is_taken_for_who_it_is(self, world):
        world.allow()
        world.provider()
        assert world.entry(world.ask(headers=self.FORGED)).address == "127.0.0.1"

    def test_a_trusted_proxys_client_is_in_the_log(self, own_gateway):
        world = own_gateway(GATEWAY_TRUSTED_PROXIES="127.0.0.0/8, ::1")
        world.allow()
        world.provider()
        assert world.entry(world.ask(headers=self.FORGED)).address == "203.0.113.7"
        hostile = {"X-Forwarded-For": "203.0.113.7, <b>"}
        assert world.entry(world.ask("again", headers=hostile)).address == "127.0.0.1"
        admin = Client(world.gateway.url).as_user(new_admin())
        response = admin.send("POST", "/roles/", json=body(name=world.name("role")), headers=self.FORGED)
        assert response.status_code == 201
        entry = LogEntry.objects.get(correlation_id=response.headers["X-Svc-Request-ID"])
        assert entry.address == "203.0.113.7"

    def test_guesses_are_counted_for_the_client_and_not_for_the_proxy(self, own_gateway):
        world = own_gateway(GATEWAY_TRUSTED_PROXIES="127.0.0.1", GATEWAY_LOGIN_FAILURES="2")
        nobody, user = Client(world.gateway.url), world.new_user()

        def log_in(address, password="wrong"):
            request = body(grantType="password", userName=user.username, password=password)
            return nobody.send("POST", "/auth/login", json=request, headers={"X-Forwarded-For": address})

        for row_up in ("1.1.1.1", "2.2.2.2"):
            refused(log_in(f"{row_up}, 203.0.113.7"), 401, "AuthenticationFailed")
        refused(log_in("3.3.3.3, 203.0.113.7"), 429, "RateLimited")
        assert log_in("203.0.113.8", PASSWORD).status_code == 200

    def test_the_own_origin_has_the_scheme_that_the_client_used(self, own_gateway):
        world = own_gateway(GATEWAY_TRUSTED_PROXIES="127.0.0.1", ALLOWED_HOSTS="gateway.example")
        user = world.new_user()
        headers = {"Host": "gateway.example", "X-Forwarded-For": "203.0.113.7", "Origin": "https://gateway.example"}
        nobody = Client(world.gateway.url)
        request = body(grantType="password", userName=user.username, password=PASSWORD)
        login = nobody.send("POST", "/auth/login", json=request, headers=headers)
        headers["Cookie"] = f"SvcUserCookie={login.cookies['SvcUserCookie']}"

        def rename(proto):
            changed = body(displayName="New")
            return nobody.send("PATCH", "/users/", json=changed, headers={**headers, "X-Forwarded-Proto": proto})

        assert rename("https").status_code == 200
        refused(rename("http"), 403, "PermissionDenied", "origin")
