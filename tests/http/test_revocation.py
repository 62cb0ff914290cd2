# SPDX-License-Identifier: Apache-2.0
"""When a key ends, what is open in its name ends with it, at once, and nothing else does."""

import time

import pytest

from rawhttp import Connection, request_bytes
from test_bodies import chunks, wait_until
from test_limits import certificate  # noqa: F401
from wsclient import TEXT, WebSocket

AT_ONCE_SECONDS = 20  # of a machine that stalls; all else that would end these takes 30 and more


def end(server, key):
    assert server.ask("POST", f"/end?who={key}", key=None).json() == {"ended": True}
    return time.monotonic()


def ends(connection, ended):
    """Whether the server closes right after it, whatever was still under way to us."""
    connection.socket.settimeout(max(ended + AT_ONCE_SECONDS - time.monotonic(), 0.01))
    try:
        connection.take_rest()
        return True
    except TimeoutError:
        return False


def opened(server, data):
    connection = Connection(server.address)
    connection.send(data)
    return connection


class Person:
    """One of everything that a client can have open."""

    def __init__(self, server, key):
        self.idle = opened(server, request_bytes("GET", "/v1/hello", key=key))
        assert self.idle.answer().status == 200
        self.events = opened(server, request_bytes("POST", "/v1/events?n=100000&ms=20", body=b"{}", key=key))
        assert self.events.head().status == 200
        self.silent = opened(server, request_bytes("POST", "/v1/events?n=2&ms=60000", body=b"{}", key=key))
        assert self.silent.head().status == 200
        self.download = opened(server, request_bytes("GET", "/v1/download?size=100000000", key=key))
        assert self.download.head().status == 200
        self.wait = opened(server, request_bytes("POST", "/v1/wait?ms=60000", body=b"{}", key=key))
        self.open_wait = opened(server, request_bytes("POST", "/open/wait?ms=60000", body=b"{}", key=key))
        self.upload = opened(server, request_bytes("PUT", "/v1/upload", [("Content-Length", "10000")], key=key) + b"x" * 5000)
        self.held = opened(server, request_bytes("PUT", "/v1/upload?later=60000", [("Content-Length", "10000")], key=key) + b"x" * 5000)
        self.half = opened(server, request_bytes("POST", "/v1/echo", [("Transfer-Encoding", "chunked")], key=key) + b"1\r\n{\r\n")
        self.websocket = WebSocket(server.address, key=key)
        assert self.websocket.answer.status == 101

    def requests(self):
        return {name: value for name, value in vars(self).items() if name not in ("idle", "websocket")}

    def goes_on(self):
        while b'{"left":' not in self.events.chunk():
            pass
        self.websocket.send(TEXT, b"still there")
        assert self.websocket.receive() == (TEXT, b"still there")
        self.upload.send(b"x" * 5000)
        assert self.upload.answer().json() == {"received": 10_000}
        self.half.send(chunks(b"}"))
        assert self.half.answer().json() == {}
        assert len(self.download.take(10_000_000)) == 10_000_000
        self.idle.send(request_bytes("GET", "/v1/hello"))
        assert self.idle.answer().status == 200

    def close(self):
        self.idle.close()
        self.websocket.close()
        for connection in self.requests().values():
            connection.close()


def test_what_a_key_has_open_ends_with_it(start):
    server = start("--heartbeat", 60000)
    mine, theirs = Person(server, "secret"), Person(server, "other")
    assert wait_until(lambda: server.counters()["waiting"] == 4 and server.counters()["websockets"] == 2 and server.counters()["streams"] == 6)
    ended = end(server, "other")
    assert [name for name, connection in theirs.requests().items() if not ends(connection, ended)] == []
    assert ends(theirs.websocket.connection, ended)
    counters = server.counters()
    assert {name: counters[name] for name in ("waiting", "websockets", "streams", "upgraded", "gone")} == {
        "waiting": 2, "websockets": 1, "streams": 3, "upgraded": 1, "gone": 5}
    assert counters["broken_uploads"] == 1  # the one that is held has not begun to read
    mine.goes_on()
    theirs.idle.send(request_bytes("GET", "/v1/hello", key="other"))
    assert theirs.idle.answer().status == 401
    theirs.idle.send(request_bytes("GET", "/v1/hello"))
    assert theirs.idle.answer().status == 200
    mine.close()
    theirs.close()
    assert wait_until(lambda: server.counters()["connections"] == 1)


def test_a_websocket_over_tls_ends_too(start, certificate):  # noqa: F811
    server = start("--cert", certificate / "cert.pem", "--key", certificate / "key.pem")
    mine, theirs = (WebSocket(server.address, key=key, tls=True) for key in ("secret", "other"))
    assert mine.answer.status == theirs.answer.status == 101
    with Connection(server.address, tls=True) as connection:
        connection.send(request_bytes("POST", "/end?who=other", key=None))
        assert connection.answer().json() == {"ended": True}
        theirs.connection.socket.settimeout(AT_ONCE_SECONDS)
        try:
            assert theirs.connection.socket.recv(1) == b""
        except OSError as error:
            assert not isinstance(error, TimeoutError), "still open"
        mine.send(TEXT, b"still there")
        assert mine.receive() == (TEXT, b"still there")
        connection.send(request_bytes("GET", "/counters"))
        assert connection.answer().json()["websockets"] == 1
    mine.close()


@pytest.mark.parametrize("delay", [-1, 0])
def test_who_ends_himself_is_gone_too(start, delay):
    server = start("--auth-delay", delay)
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/end?who=other", body=b"{}", key="other"))
        assert connection.is_closed(timeout=AT_ONCE_SECONDS)
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/end?who=other", body=b"{}"))
        assert connection.answer().json() == {"ended": False}


def test_an_identity_that_nobody_uses_ends_quietly(start):
    server = start()
    end(server, "other")
    assert server.ask("GET", "/v1/hello").status == 200
    assert server.ask("GET", "/v1/hello", key="other").status == 401
    assert server.ask("POST", "/open/wait?ms=1", body=b"{}", key=None).status == 200
