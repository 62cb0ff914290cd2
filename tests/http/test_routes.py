# SPDX-License-Identifier: Apache-2.0
"""Paths, queries, hosts and origins."""

import pytest


@pytest.mark.parametrize("sent,name", [("plain", "plain"), ("a%20b", "a b"), ("%C3%A9", "é"), ("a%2Fb", "a/b"), ("a+b", "a+b"), ("..", "..")])
def test_a_path_parameter_is_decoded(server, sent, name):
    assert server.ask("GET", f"/v1/items/{sent}").json()["name"] == name


@pytest.mark.parametrize("sent", ["%00", "a%00b", "%ff", "%zz", "%4", "%", "%c0%af", "%ed%a0%80"])
def test_a_path_parameter_that_is_no_text_is_refused(server, sent):
    assert server.ask("GET", f"/v1/items/{sent}").status == 400


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/items", "/v1/items/", "/v1/items//", "//v1/items/a", "/v1/hello/", "/V1/hello", "/v1/items/a/b"])
def test_an_unknown_path_is_not_found(server, path):
    answer = server.ask("GET", path)
    assert answer.status == 404
    assert answer.json()["type"] == "not_found"


def test_an_encoded_literal_is_the_same_path(server):
    assert server.ask("GET", "/v1/hell%6f").status == 200


def test_a_literal_wins_over_a_parameter_and_falls_back_to_it(server):
    assert server.ask("GET", "/v1/items/special").json()["name"] == "special"
    assert server.ask("GET", "/v1/items/special/fixed").json()["status"] == "running"


def test_a_query_is_decoded(server):
    answer = server.ask("GET", "/v1/items/x?path=%2Ftmp%2Fa+b&metadata.k=v%3D1&empty=&bare&&last=%E2%82%AC")
    assert answer.json()["path"] == "/tmp/a b"
    assert answer.json()["query"] == {"path": "/tmp/a b", "metadata.k": "v=1", "empty": "", "bare": "", "last": "€"}


def test_head_answers_like_get_without_a_body(server):
    get, head = server.ask("GET", "/v1/hello"), server.ask("HEAD", "/v1/hello")
    assert head.status == 200 and head.headers["content-length"] == get.headers["content-length"]


def test_head_of_a_stream_ends_its_producer(server):
    answer = server.ask("HEAD", "/v1/download?size=5000000")
    assert answer.status == 200 and answer.headers["content-length"] == "5000000"
    assert server.counters()["streams"] == 0


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND"])
@pytest.mark.parametrize("rest", ["", "/", "/a/b", "/a%00b/%ff", "/a//b/", "/" + "x/" * 60])
def test_a_proxied_path_passes_as_it_was_sent(server, method, rest):
    answer = server.ask(method, f"/v1/ports/3000{rest}?q=%00&%zz", body=b"anything")
    assert answer.status == 200, answer.body
    assert answer.json()["rest"] == rest[1:]
    assert answer.json()["path"] == f"/v1/ports/3000{rest}"
    assert answer.json()["query"] == "q=%00&%zz"
    assert answer.json()["method"] == method


ID = "abcdefghij0123456789"


@pytest.mark.parametrize("host", [f"8080-{ID}.localhost", f"8080-{ID.upper()}.preview.example:7070"])
def test_a_preview_host_goes_to_its_handler(server, host):
    answer = server.ask("GET", "/any/path?x", host=host)
    assert answer.status == 200
    assert answer.json() == {"method": "GET", "path": "/any/path", "query": "x", "port": "8080", "id": ID}


@pytest.mark.parametrize("host", ["preview.example", f"8080-{ID}x.localhost", f"808080-{ID}.localhost", f"x8080-{ID}.localhost", f"-{ID}.localhost"])
def test_another_host_does_not(server, host):
    assert server.ask("GET", "/any/path", host=host).status == 404


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "localhost.", "127.0.0.1", "127.0.0.1:7070", "127.1.2.3", "[::1]", "[::1]:80", "app.localhost",
                                  "preview.example", "a.preview.example:80"])
def test_a_name_of_ours_is_answered(server, host):
    assert server.ask("GET", "/v1/hello", host=host).status == 200


@pytest.mark.parametrize("host", ["evil", "evil:7070", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "preview.example.evil.example",
                                  "evilpreview.example", "192.0.2.1", "[2001:db8::1]", "0", "2130706433", "0x7f.1", "", "[::1", "[::1]evil", "localhost:evil", "::1", f"8080-{ID}.evil.example"])
def test_another_name_is_not(server, host):
    for headers in ([], [("Origin", f"http://{host}")]):
        answer = server.ask("POST", "/v1/echo", body=b"{}", host=host, headers=headers)
        assert answer.status == 403 and "host_names" in answer.json()["error"]


@pytest.mark.parametrize("entry,allowed,refused", [
    ("vial.example", ["vial.example", "VIAL.example:443"], ["a.vial.example", "evil.example"]),
    ("*.vial.example", ["a.vial.example", "a.b.vial.example"], ["vial.example", "evilvial.example"]),
    ("*", ["evil.example", "192.0.2.1"], []),
])
def test_names_can_be_added(start, entry, allowed, refused):
    server = start("--name", entry)
    assert [server.ask("GET", "/v1/hello", host=host).status for host in allowed + refused] == [200] * len(allowed) + [403] * len(refused)


def test_the_address_connected_to_is_a_name_of_ours(start):
    server = start(listen="127.0.0.3:0")
    assert server.ask("GET", "/v1/hello", host="127.0.0.3").status == 200
    assert server.ask("GET", "/v1/hello", host="%s:%d" % server.address).status == 200


def test_on_a_unix_socket_any_name_will_do(start, tmp_path):
    assert start(listen=f"unix:{tmp_path / 's'}").ask("GET", "/v1/hello", host="whatever").status == 200


def test_a_preview_host_needs_a_key_too(server):
    assert server.ask("GET", "/", host=f"8080-{ID}.localhost", key=None).status == 401


def test_the_key_may_come_as_x_api_key(server):
    assert server.ask("GET", "/v1/hello", key=None, headers=[("X-API-Key", "secret")]).status == 200
    # Behind the proxy, Authorization may be meant for somebody else.
    assert server.ask("GET", "/v1/hello", key="other", headers=[("X-API-Key", "secret")]).status == 200
    assert server.ask("GET", "/v1/hello", headers=[("X-API-Key", "wrong")]).status == 401


def test_the_answer_to_a_stranger_says_how_to_authenticate(server):
    assert server.ask("GET", "/v1/hello", key=None).headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize("origin,status", [
    ("http://localhost", 200), ("http://localhost:80", 200), ("http://LOCALHOST", 200), ("http://evil.example", 403),
    ("http://localhost:8080", 403), ("https://localhost.evil.example", 403), ("null", 403), ("", 403), ("file://", 403),
])
def test_a_page_of_another_origin_may_not_change_things(server, origin, status):
    assert server.ask("POST", "/v1/echo", body=b"{}", headers=[("Origin", origin)]).status == status


def test_a_page_of_another_origin_may_not_open_a_websocket(server):
    assert server.ask("GET", "/v1/websocket", headers=[("Origin", "http://evil.example"), ("Upgrade", "websocket"), ("Connection", "Upgrade")]).status == 403


def test_a_page_of_another_origin_cannot_read(server):
    answer = server.ask("GET", "/v1/hello", headers=[("Origin", "http://evil.example")])
    assert "access-control-allow-origin" not in answer.headers


def test_a_configured_origin_may_do_both(start):
    server = start("--origin", "https://app.example")
    answer = server.ask("POST", "/v1/echo", body=b"{}", headers=[("Origin", "https://app.example")])
    assert answer.status == 200 and answer.headers["access-control-allow-origin"] == "https://app.example"
    preflight = server.ask("OPTIONS", "/v1/echo", key=None, headers=[("Origin", "https://app.example"), ("Access-Control-Request-Method", "POST")])
    assert preflight.status == 204 and "POST" in preflight.headers["access-control-allow-methods"]
    foreign = server.ask("OPTIONS", "/v1/echo", key=None, headers=[("Origin", "https://evil.example"), ("Access-Control-Request-Method", "POST")])
    assert "access-control-allow-origin" not in foreign.headers
