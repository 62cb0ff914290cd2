# SPDX-License-Identifier: Apache-2.0
"""The ports proxy: HTTP and WebSockets to a program that listens in a sandbox."""

import hashlib
import http.client
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from vial import WebSocket, WebSocketRefused, slow

PORT = 8000
SOURCE = (Path(__file__).parent / "guest_server.py").read_text()
PIECE = bytes(range(256)) * 256
MEGABYTE = 1024 * 1024


@pytest.fixture(scope="module", autouse=True)
def server(sandbox):
    sandbox.serve(PORT, SOURCE)


class Port:
    """Requests to a port of a sandbox, through the path or through the preview host."""

    def __init__(self, sandbox, port=PORT, host=None):
        self.client = sandbox.client
        self.prefix = "" if host else f"{sandbox.path}/ports/{port}"
        self.headers = {"Host": host} if host else {}

    def open(self, method, path, body=None, headers=None, **options):
        return self.client.open(method, self.prefix + path, body, {**self.headers, **(headers or {})}, **options)

    def ask(self, method, path, body=None, headers=None, **options):
        return self.client.ask(method, self.prefix + path, body, {**self.headers, **(headers or {})}, **options)


@pytest.fixture(params=["path", "host"])
def port(request, sandbox):
    return Port(sandbox, host=f"{PORT}-{sandbox.id}.localhost" if request.param == "host" else None)


@pytest.fixture
def inner(sandbox):
    return Port(sandbox)


def headers_of(answer):
    return {name.lower(): value for name, value in answer.json()["headers"]}


def until(condition, seconds=20):
    deadline = time.monotonic() + slow(seconds)
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def check_error(answer, status):
    assert answer.status == status, answer.body
    body = answer.json()
    assert body["code"] == status and body["error"] and body["type"] and body["request_id"]
    return body


# Requests


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_method_path_query_and_body_arrive_as_they_were_sent(port, method):
    answer = port.ask(method, "/a%20b//c/../d?x=1&y=%2F&z", b"hello" if method != "GET" else None)
    assert answer.status == 200
    seen = answer.json()
    assert (seen["method"], seen["path"]) == (method, "/a%20b//c/../d?x=1&y=%2F&z")
    assert seen["body"] == ("hello" if method != "GET" else "")
    assert answer.headers.get_all("Set-Cookie") == ["a=1", "b=2"]


def test_a_port_without_a_path_means_the_root(sandbox, client):
    assert client.ask("GET", f"{sandbox.path}/ports/{PORT}").json()["path"] == "/"
    assert client.ask("GET", f"{sandbox.path}/ports/{PORT}?q=1").json()["path"] == "/?q=1"


def test_the_program_never_sees_our_key(port, client):
    answer = port.ask("GET", "/echo")
    assert client.key not in answer.text
    answer = port.ask("GET", "/echo", headers={"X-API-Key": client.key, "Authorization": "Basic aW5uZXI6c2VjcmV0"}, key=False)
    assert client.key not in answer.text
    assert headers_of(answer)["authorization"] == "Basic aW5uZXI6c2VjcmV0", "the program's own authentication comes through"
    answer = port.ask("GET", "/echo", headers={"X-API-Key": client.key, "Authorization": f"Bearer {client.key}"}, key=False)
    assert client.key not in answer.text


def test_forwarding_headers_say_who_asks_and_under_which_name(sandbox, inner):
    host = f"{PORT}-{sandbox.id}.localhost"
    seen = headers_of(Port(sandbox, host=host).ask("GET", "/echo", headers={"X-Forwarded-Host": "forged", "X-Forwarded-For": "192.0.2.1"}))
    assert seen["host"] == f"localhost:{PORT}"
    assert seen["x-forwarded-host"] == host
    assert seen["x-forwarded-proto"] == "http"
    assert seen["x-forwarded-for"] == "192.0.2.1, 127.0.0.1"
    assert "x-forwarded-prefix" not in seen
    assert headers_of(inner.ask("GET", "/echo"))["x-forwarded-prefix"] == inner.prefix


def test_hop_by_hop_headers_end_at_the_proxy(port):
    seen = headers_of(port.ask("GET", "/echo", headers={"Connection": "X-Hop, keep-alive", "X-Hop": "1", "Keep-Alive": "5", "TE": "trailers",
                                                        "Proxy-Authorization": "x", "Upgrade": "h2c"}))
    assert seen["connection"] == "close"
    assert not {"x-hop", "keep-alive", "te", "proxy-authorization", "upgrade"} & set(seen)


def test_own_origin_becomes_the_inner_one_and_a_foreign_one_stays(sandbox):
    host = f"{PORT}-{sandbox.id}.localhost"
    port = Port(sandbox, host=host)
    assert headers_of(port.ask("GET", "/echo", headers={"Origin": f"http://{host}"}))["origin"] == f"http://localhost:{PORT}"
    assert headers_of(port.ask("GET", "/echo", headers={"Origin": "http://evil.example"}))["origin"] == "http://evil.example"


def test_a_chunked_request_stays_whole(port):
    pieces = [b"a" * 10, b"b" * 100000, b"", b"c"]
    answer = port.ask("POST", "/digest", iter([piece for piece in pieces if piece]))
    assert answer.json() == {"sha256": hashlib.sha256(b"".join(pieces)).hexdigest(), "size": 100011}


def test_a_large_upload_streams(port, daemon):
    size, digest = 64 * MEGABYTE, hashlib.sha256()

    def body():
        for _ in range(size // len(PIECE)):
            digest.update(PIECE)
            yield PIECE

    before = daemon.rss_kb()
    answer = port.ask("POST", "/digest", body(), {"Content-Length": str(size)})
    assert answer.json() == {"sha256": digest.hexdigest(), "size": size}
    assert daemon.rss_kb() - before < 16 * 1024


def test_a_slow_program_slows_the_upload_down(inner, daemon):
    size = 16 * MEGABYTE
    before = daemon.rss_kb()
    answer = inner.ask("POST", "/digest?pause=0.004", iter([PIECE] * (size // len(PIECE))), {"Content-Length": str(size)})
    assert answer.json()["size"] == size
    assert daemon.rss_kb() - before < 8 * 1024


def test_expect_continue_is_answered_only_when_somebody_listens(sandbox, client):
    for port, expected in [(PORT, b"HTTP/1.1 100 Continue"), (9, b"HTTP/1.1 503")]:
        with socket.create_connection(client.address, timeout=20) as raw:
            raw.sendall(f"POST {sandbox.path}/ports/{port}/echo HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {client.key}\r\n"
                        "Content-Length: 5\r\nExpect: 100-continue\r\n\r\n".encode())
            file = raw.makefile("rb")
            assert file.readline().startswith(expected)
            if port == PORT:
                file.readline()
                raw.sendall(b"hello")
                assert file.readline().startswith(b"HTTP/1.1 200")


# Responses


@pytest.mark.parametrize("form", ["length", "chunked", "close"])
def test_a_large_download_streams(port, daemon, form):
    size, digest, got = 64 * MEGABYTE, hashlib.sha256(), 0
    before = daemon.rss_kb()
    response = port.open("GET", f"/download?size={size}&form={form}")
    assert response.status == 200
    while piece := response.read(MEGABYTE):
        digest.update(piece)
        got += len(piece)
    response.connection.close()
    assert got == size
    assert digest.hexdigest() == hashlib.sha256(PIECE * (size // len(PIECE))).hexdigest()
    assert response.headers.get("Content-Length") == (str(size) if form == "length" else None)
    assert daemon.rss_kb() - before < 16 * 1024


def test_a_client_that_does_not_read_stops_the_program(inner, daemon):
    before = daemon.rss_kb()
    response = inner.open("GET", f"/download?size={256 * MEGABYTE}")
    time.sleep(2)
    assert daemon.rss_kb() - before < 16 * 1024
    response.connection.close()
    assert inner.ask("GET", "/echo").status == 200


def test_head_has_the_length_and_no_body(port):
    answer = port.ask("HEAD", "/echo")
    assert answer.status == 200 and answer.body == b"" and int(answer.headers["Content-Length"]) > 10


@pytest.mark.parametrize("code", [200, 201, 204, 301, 304, 400, 404, 418, 500, 503])
def test_statuses_come_through(port, code):
    answer = port.ask("GET", f"/status?code={code}")
    assert answer.status == code and answer.body == b"" and answer.headers["ETag"] == '"x"'


def test_interim_responses_are_skipped(port):
    answer = port.ask("GET", "/interim")
    assert (answer.status, answer.body) == (200, b"hi")


def test_a_tiny_server_with_bare_line_ends_is_understood(port):
    answer = port.ask("GET", "/bare-lines")
    assert (answer.status, answer.body) == (200, b"plain")


def test_events_arrive_as_they_are_sent(port):
    """The program sends the next one when it is told that the one before has arrived."""
    response = port.open("GET", "/events?count=4")
    arrived = 0
    for line in response:
        if line.startswith(b"data:"):
            arrived += 1
            assert port.ask("GET", "/next-event").status == 200
    assert arrived == 4


@pytest.mark.parametrize("to, on_path, on_host", [
    ("/next?a=1", "{prefix}/next?a=1", "/next?a=1"),
    (f"http://localhost:{PORT}/next", "{prefix}/next", "/next"),
    (f"http://127.0.0.1:{PORT}", "{prefix}/", "/"),
    (f"http://localhost:{PORT}1/next", f"http://localhost:{PORT}1/next", f"http://localhost:{PORT}1/next"),
    ("https://example.org/", "https://example.org/", "https://example.org/"),
    ("//example.org/", "//example.org/", "//example.org/"),
    ("next", "next", "next"),
])
def test_redirections_lead_to_where_the_client_sees_the_program(sandbox, inner, to, on_path, on_host):
    assert inner.ask("GET", f"/redirect?to={to}".replace("?a=1", "%3Fa=1")).headers["Location"] == on_path.format(prefix=inner.prefix)
    outer = Port(sandbox, host=f"{PORT}-{sandbox.id}.localhost")
    assert outer.ask("GET", f"/redirect?to={to}".replace("?a=1", "%3Fa=1")).headers["Location"] == on_host


def test_an_answer_may_come_before_the_upload_is_complete(inner):
    answer = inner.ask("POST", "/refuse-early", b"x" * 8 * MEGABYTE)
    assert (answer.status, answer.body) == (413, b"too much")


def test_a_program_that_echoes_while_it_reads(inner):
    data = PIECE * 64  # 4 MiB
    answer = inner.ask("POST", "/echo-while-reading", data)
    assert answer.body == data


def test_an_echo_too_large_to_hold_is_cut_off_and_nothing_hangs(inner, daemon):
    with pytest.raises((http.client.HTTPException, OSError)):
        inner.ask("POST", "/echo-while-reading", PIECE * 512)  # 32 MiB
    assert daemon.alive() and inner.ask("GET", "/echo").status == 200


# When things go wrong


def test_nothing_listens(sandbox):
    error = check_error(Port(sandbox, 9).ask("GET", "/"), 503)
    assert error["error"] == "nothing listens on port 9 in the sandbox" and error["type"] == "unavailable"
    check_error(Port(sandbox, 9).ask("POST", "/", b"x" * 300000), 503)


@pytest.mark.parametrize("number", ["0", "65536", "-1", "99999999999999999999", "abc", "80a", "%00", "8000%2f"])
def test_a_port_that_is_none(sandbox, client, number):
    check_error(client.ask("GET", f"{sandbox.path}/ports/{number}/"), 400)


def test_an_unknown_sandbox(client):
    check_error(client.ask("GET", f"/v1/sandboxes/{'z' * 20}/ports/80/"), 404)
    check_error(client.ask("GET", "/", headers={"Host": f"80-{'z' * 20}.localhost"}), 404)


@pytest.mark.parametrize("kind", ["nothing", "garbage", "half", "two-lengths", "both", "encoding", "negative", "header", "control", "huge-head",
                                  "many-headers", "status", "switch", "interim-flood"])
def test_nonsense_from_the_program_is_a_bad_gateway(inner, kind):
    error = check_error(inner.ask("GET", f"/bad?kind={kind}"), 502)
    assert error["error"].startswith(f"the program on port {PORT} did not answer properly: ")


@pytest.mark.parametrize("form", ["length", "chunked"])
def test_an_answer_that_breaks_off_breaks_off_for_the_client_too(port, form):
    with pytest.raises((http.client.HTTPException, OSError)):
        port.ask("GET", f"/die?form={form}")


def test_the_program_dies_in_the_middle(fresh, daemon):
    fresh.serve(PORT, SOURCE)
    port = Port(fresh)
    with pytest.raises((http.client.HTTPException, OSError)):
        port.ask("GET", "/die?how=kill")
    assert until(lambda: port.ask("GET", "/echo").status == 503)
    assert daemon.alive()


def test_the_sandbox_is_deleted_in_the_middle(fresh, daemon):
    fresh.serve(PORT, SOURCE)
    response = Port(fresh).open("GET", "/endless")
    response.read(100000)
    fresh.delete()
    with pytest.raises((http.client.HTTPException, OSError)):
        while response.read(MEGABYTE):
            pass
    response.connection.close()
    check_error(Port(fresh).ask("GET", "/"), 404)
    assert daemon.alive()


def test_a_client_that_vanishes_ends_the_connection_inside(sandbox, inner):
    sandbox.exec("rm -f /tmp/endless-ended")
    response = inner.open("GET", "/endless")
    response.read(100000)
    response.connection.close()
    response.close()
    assert until(lambda: sandbox.exec("cat /tmp/endless-ended")["stdout"] == "yes")


def test_a_client_that_vanishes_in_the_middle_of_its_upload(sandbox, inner, client, daemon):
    before = daemon.open_files()
    for _ in range(20):
        with socket.create_connection(client.address, timeout=20) as raw:
            raw.sendall(f"POST {inner.prefix}/digest HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {client.key}\r\nContent-Length: 1000000\r\n\r\nabc".encode())
    assert until(lambda: daemon.open_files() <= before)
    assert inner.ask("GET", "/echo").status == 200


def test_many_connections_at_once(inner, daemon):
    before = daemon.open_files()

    def one(n):
        if n % 3 == 0:
            return len(inner.ask("GET", f"/download?size={MEGABYTE}&form=chunked").body) == MEGABYTE
        if n % 3 == 1:
            return inner.ask("POST", "/digest", b"x" * 100000).json()["size"] == 100000
        return inner.ask("GET", f"/echo?{n}").json()["path"] == f"/echo?{n}"

    with ThreadPoolExecutor(64) as pool:
        assert all(pool.map(one, range(300)))
    assert until(lambda: daemon.open_files() <= before + 2)


# WebSockets


def open_socket(sandbox, path="/ws", host=None, headers=None):
    key = {"Authorization": f"Bearer {sandbox.client.key}"}
    prefix = "" if host else f"{sandbox.path}/ports/{PORT}"
    return WebSocket(sandbox.client.address, prefix + path, {**key, **(headers or {})}, host=host)


@pytest.mark.parametrize("way", ["path", "host"])
def test_a_websocket_carries_messages_both_ways(sandbox, way):
    socket = open_socket(sandbox, host=f"{PORT}-{sandbox.id}.localhost" if way == "host" else None)
    seen = {name.lower(): value for name, value in json.loads(socket.receive()).items()}
    assert sandbox.client.key not in json.dumps(seen) and seen["host"] == f"localhost:{PORT}"
    for message in ["hello", b"\x00\xff" * 100, "ü" * 70000, b"x" * MEGABYTE]:
        socket.send(message)
        assert socket.receive() == message
    socket.send("bye")
    assert socket.receive() is None and socket.close_code == 1000
    socket.vanish()


def test_many_websockets_at_once(sandbox, daemon):
    before = daemon.open_files()
    sockets = [open_socket(sandbox) for _ in range(50)]
    for number, each in enumerate(sockets):
        each.receive()
        each.send(f"number {number}")
    assert [each.receive() for each in sockets] == [f"number {n}" for n in range(50)]
    for each in sockets:
        each.vanish()
    assert until(lambda: daemon.open_files() <= before)


def test_a_client_that_vanishes_ends_the_websocket_inside(sandbox):
    socket = open_socket(sandbox, "/ws?mark=vanished")
    socket.receive()
    socket.vanish()
    assert until(lambda: sandbox.exec("cat /tmp/ws-ended-vanished")["stdout"] == "x")


def test_a_program_that_vanishes_ends_the_websocket_outside(sandbox):
    socket = open_socket(sandbox)
    socket.receive()
    socket.send("vanish")
    with pytest.raises((EOFError, OSError, ValueError)):
        assert socket.receive() is None
        raise EOFError
    socket.vanish()


def test_a_websocket_that_the_program_refuses_gets_its_answer(sandbox):
    with pytest.raises(WebSocketRefused) as refusal:
        open_socket(sandbox, "/status?code=403")
    assert refusal.value.status == 403


def test_a_flood_through_a_websocket_waits_for_the_reader(sandbox, daemon):
    socket = open_socket(sandbox)
    socket.receive()
    before = daemon.rss_kb()
    sent = []

    def flood():
        for _ in range(32):
            socket.send(b"x" * MEGABYTE)
            sent.append(1)

    thread = threading.Thread(target=flood)
    thread.start()
    time.sleep(2)
    assert daemon.rss_kb() - before < 16 * 1024
    for _ in range(32):
        assert len(socket.receive()) == MEGABYTE
    thread.join()
    socket.vanish()


# Previews


@pytest.fixture
def preview(sandbox):
    return sandbox.call("POST", "/previews", {"port": PORT})


def host_of(sandbox, port=PORT):
    return f"{port}-{sandbox.id}.localhost"


def test_a_preview_needs_a_key_or_a_token(sandbox, client):
    for headers in [{}, {"Cookie": "vial_preview=1.abc"}, {"Authorization": "Bearer nonsense"}]:
        check_error(client.ask("GET", "/echo", headers={"Host": host_of(sandbox), **headers}, key=False), 401)
    for token in ["", "x", "1.", ".", "99999999999." + "0" * 64, "1" * 500]:
        check_error(client.ask("GET", f"/echo?vial_token={token}", headers={"Host": host_of(sandbox)}, key=False), 401)
    check_error(client.ask("GET", "/", headers={"Host": f"{PORT}-{'z' * 20}.localhost"}, key=False), 401)


def test_a_token_is_exchanged_for_a_cookie_that_the_program_never_sees(sandbox, client, daemon, preview):
    assert preview["url"] == f"http://{host_of(sandbox)}:{daemon.port}/?vial_token={preview['token']}"
    host = {"Host": host_of(sandbox)}
    answer = client.ask("GET", f"/echo?a=1&vial_token={preview['token']}&b=2", headers=host, key=False)
    assert answer.status == 303 and answer.headers["Location"] == "/echo?a=1&b=2"
    cookie = answer.headers["Set-Cookie"]
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Domain" not in cookie
    pair = cookie.split(";")[0]
    answer = client.ask("GET", "/echo?a=1&b=2", headers={**host, "Cookie": f"mine=1; {pair}; other=2"}, key=False)
    assert answer.status == 200 and answer.json()["path"] == "/echo?a=1&b=2"
    assert headers_of(answer)["cookie"] == "mine=1; other=2"
    assert preview["token"] not in answer.text


def test_a_bad_cookie_of_a_neighbour_does_not_hide_the_good_one(sandbox, client, preview):
    answer = client.ask("GET", "/echo", headers={"Host": host_of(sandbox), "Cookie": f"vial_preview=1.bad; vial_preview={preview['token']}"}, key=False)
    assert answer.status == 200


def test_a_token_works_directly_for_programs(sandbox, client, preview):
    answer = client.ask("POST", f"/echo?vial_token={preview['token']}", b"x", headers={"Host": host_of(sandbox)}, key=False)
    assert answer.status == 200 and preview["token"] not in answer.text
    socket = WebSocket(client.address, f"/ws?vial_token={preview['token']}", host=host_of(sandbox))
    assert preview["token"] not in socket.receive()
    socket.vanish()


def test_a_token_is_for_one_port_of_one_sandbox(sandbox, fresh, client, preview):
    for host in [host_of(sandbox, 8001), host_of(fresh)]:
        check_error(client.ask("GET", f"/?vial_token={preview['token']}", headers={"Host": host}, key=False), 401)
    check_error(client.ask("GET", "/v1/me", headers={"Authorization": f"Bearer {preview['token']}"}, key=False), 401)


def test_a_token_expires(sandbox, client):
    preview = sandbox.call("POST", "/previews", {"port": PORT, "ttl_seconds": 1})
    time.sleep(1.2)
    check_error(client.ask("GET", f"/?vial_token={preview['token']}", headers={"Host": host_of(sandbox)}, key=False), 401)
    check_error(client.ask("GET", "/", headers={"Host": host_of(sandbox), "Cookie": f"vial_preview={preview['token']}"}, key=False), 401)


def test_the_cookie_is_of_no_use_to_pages_of_other_origins(sandbox, client, preview):
    headers = {"Host": host_of(sandbox), "Cookie": f"vial_preview={preview['token']}"}
    check_error(client.ask("POST", "/echo", b"x", {**headers, "Origin": "http://8000-aaaaaaaaaaaaaaaaaaaa.localhost"}, key=False), 403)
    with pytest.raises(WebSocketRefused) as refusal:
        WebSocket(client.address, "/ws", {"Cookie": headers["Cookie"], "Origin": "http://evil.example"}, host=host_of(sandbox))
    assert refusal.value.status == 403
    assert client.ask("POST", "/echo", b"x", {**headers, "Origin": f"http://{host_of(sandbox)}"}, key=False).status == 200


def test_the_exchange_cannot_be_made_to_lead_elsewhere(sandbox, client, preview):
    for path in ["//evil.example/", "/\\evil.example/"]:
        answer = client.ask("GET", f"{path}?vial_token={preview['token']}", headers={"Host": host_of(sandbox)}, key=False)
        assert answer.status == 303 and answer.headers["Location"] == "/." + path


@pytest.mark.parametrize("body", [{}, {"port": 0}, {"port": 65536}, {"port": "80"}, {"port": 80, "ttl_seconds": 0}, {"port": 80, "ttl_seconds": 10**9}])
def test_a_preview_that_cannot_be(sandbox, body):
    check_error(sandbox.ask("POST", "/previews", body), 400)


def test_the_signing_secret_is_the_installations_own(daemon):
    assert (daemon.data / "keys/signing.key").stat().st_mode & 0o777 == 0o600
