# SPDX-License-Identifier: Apache-2.0
"""Keys whose owner is known only a while later: the request waits, and everything else is as if it had been known at once."""

import socket
import time

import pytest

from bad_input import check_error_body
from rawhttp import Connection, request_bytes
from test_bodies import chunks, wait_until
from wsclient import TEXT, WebSocket, frame


@pytest.fixture(scope="module")
def server():
    from conftest import Server
    server = Server("--auth-delay", 50)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def slow_server():
    """Takes longer to authenticate than any test waits."""
    from conftest import Server
    server = Server("--auth-delay", 60_000)
    yield server
    server.stop()


def test_a_key_is_accepted_later(server):
    started = time.monotonic()
    assert server.ask("GET", "/v1/hello").status == 200
    assert time.monotonic() - started >= 0.05


@pytest.mark.parametrize("key,status,sentence", [("wrong", 401, "this key is not known here"), ("forbidden", 403, "this key is forbidden"),
                                                 ("unavailable", 503, "this key is unavailable")])
@pytest.mark.parametrize("delay", [-1, 0, 50])
def test_a_key_is_refused_with_the_reason(start, key, status, sentence, delay):
    with Connection(start("--auth-delay", delay).address) as connection:
        for body in (None, b"{}", b"x" * 500_000):
            connection.send(request_bytes("POST", "/v1/echo", body=body, key=key))
            answer = connection.answer()
            check_error_body(answer)
            assert (answer.status, answer.json()["error"]) == (status, sentence)
            assert ("www-authenticate" in answer.headers) == (status == 401)
        connection.send(request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 200


def test_who_shows_no_key_does_not_wait(slow_server):
    assert slow_server.ask("GET", "/v1/hello", key=None).status == 401
    assert slow_server.ask("GET", "/healthz").status == 200


def test_what_can_be_refused_before_does_not_wait(slow_server):
    assert slow_server.ask("GET", "/v1/nothing").status == 404
    assert slow_server.ask("PATCH", "/v1/hello").status == 405
    assert slow_server.ask("GET", "/v1/hello", host="evil.example").status == 403
    assert slow_server.ask("POST", "/v1/echo", body=b"{}", headers=[("Origin", "http://evil.example")]).status == 403


def test_a_stranger_does_not_learn_what_comes_after(server):
    """The query and the size of the body are judged only for those who are known."""
    for key, status in (("wrong", 401), ("secret", 400)):
        assert server.ask("GET", "/v1/hello?path=%zz", key=key).status == status
    for key, status in (("wrong", 401), ("secret", 413)):
        assert server.ask("POST", "/v1/echo", body=b"x" * 2_000_000, key=key).status == status


def test_pipelined_requests_are_answered_in_order(server):
    with Connection(server.address) as connection:
        keys = ["secret", "wrong", "other", "forbidden", "secret"]
        connection.send(b"".join(request_bytes("POST", "/v1/echo", body=b'{"n": %d}' % n, key=key) for n, key in enumerate(keys)))
        answers = [connection.answer() for _ in keys]
        assert [answer.status for answer in answers] == [200, 401, 200, 403, 200]
        assert [answer.json()["n"] for answer in answers if answer.status == 200] == [0, 2, 4]


def test_many_wait_at_once(server):
    connections = [Connection(server.address) for _ in range(200)]
    for n, connection in enumerate(connections):
        connection.send(request_bytes("GET", "/v1/hello", key="wrong" if n % 3 == 0 else "secret"))
    assert [connection.answer().status for connection in connections] == [401 if n % 3 == 0 else 200 for n in range(200)]
    for connection in connections:
        connection.close()


def upload(size, is_chunked, key, headers=()):
    data = b"x" * size
    if not is_chunked:
        return request_bytes("PUT", "/v1/upload", headers, data, key)
    parts = [data[i:i + 10_000] for i in range(0, size, 10_000)]
    return request_bytes("PUT", "/v1/upload", [*headers, ("Transfer-Encoding", "chunked")], key=key) + chunks(*parts)


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_is_sent_meanwhile_arrives_whole(server, size, is_chunked):
    with Connection(server.address) as connection:
        connection.send(upload(size, is_chunked, "secret") + request_bytes("GET", "/v1/hello"))
        assert connection.answer().json() == {"received": size}
        assert connection.answer().status == 200


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_that_was_sent_for_nothing_is_discarded(server, size, is_chunked):
    with Connection(server.address) as connection:
        connection.send(upload(size, is_chunked, "wrong") + request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 401
        assert connection.answer().status == 200


def test_a_body_too_large_to_discard_is_refused_at_once(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", str(10**12))], key="wrong") + b"x" * 1000)
        assert connection.answer().status == 401
        assert connection.is_closed()


def test_a_client_that_waits_for_our_word_gets_it_when_it_is_known(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "5"), ("Expect", "100-continue")]))
        assert connection.head().status == 100
        connection.send(b"hello")
        assert connection.answer().json() == {"received": 5}
        connection.send(upload(70_000, True, "secret", [("Expect", "100-continue")]))  # one that does not wait after all
        assert connection.head().status == 100
        assert connection.answer().json() == {"received": 70_000}
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "5"), ("Expect", "100-continue")], key="wrong"))
        assert connection.head().status == 401


def test_the_word_is_not_given_before(slow_server):
    with Connection(slow_server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "5"), ("Expect", "100-continue")]))
        assert not connection.is_closed(timeout=0.3) and connection.buffer == b""


def test_a_websocket_is_opened_later(server):
    websocket = WebSocket(server.address, extra=frame(TEXT, b"early"))
    assert websocket.answer.status == 101 and websocket.receive() == (TEXT, b"early")
    websocket.close()
    websocket = WebSocket(server.address, key="wrong")
    assert websocket.answer.status == 401
    websocket.close()


def test_a_proxied_request_waits_too(server):
    assert server.ask("PROPFIND", "/v1/ports/3000/a?%zz", body=b"anything").json()["rest"] == "a"
    assert server.ask("PROPFIND", "/v1/ports/3000/a?%zz", body=b"anything", key="wrong").status == 401


@pytest.mark.parametrize("data", [request_bytes("GET", "/v1/hello"), request_bytes("PUT", "/v1/upload", [("Content-Length", "1000000")]) + b"x" * 5000,
                                  request_bytes("POST", "/v1/echo", body=b"{}")], ids=["nothing", "half a body", "a body"])
@pytest.mark.parametrize("resets", [False, True])
def test_a_client_that_leaves_meanwhile_is_noticed(slow_server, data, resets):
    before = slow_server.counters()
    connection = Connection(slow_server.address)
    connection.send(data)
    assert wait_until(lambda: slow_server.counters()["authenticating"] == before["authenticating"] + 1)
    if resets:
        connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    assert wait_until(lambda: slow_server.counters()["auth_gone"] == before["auth_gone"] + 1)
    assert wait_until(lambda: slow_server.counters()["connections"] == 1 and slow_server.counters()["authenticating"] == before["authenticating"])


def test_an_answer_for_a_client_that_has_left_does_no_harm(start):
    server = start("--auth-delay", 300)
    for data in (request_bytes("GET", "/v1/hello", key="stubborn"), request_bytes("PUT", "/v1/upload", body=b"x" * 70_000, key="stubborn")):
        connection = Connection(server.address)
        connection.send(data)
        assert wait_until(lambda: server.counters()["authenticating"] == 1)
        connection.close()
        assert wait_until(lambda: server.counters()["connections"] == 1)
        assert server.counters()["authenticating"] == 1
        assert wait_until(lambda: server.counters()["authenticating"] == 0)
    assert server.ask("GET", "/v1/hello").status == 200
    assert server.counters()["complete_uploads"] == 0


def test_waiting_is_not_being_idle(start):
    server = start("--auth-delay", 3000, "--idle-timeout", 1000, "--header-timeout", 1000, "--body-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/echo", body=b'{"a": 1}'))
        assert connection.answer().json() == {"a": 1}


def test_who_waits_has_a_time_of_grace_when_places_are_few(start):
    server = start("--max-connections", 8, "--auth-delay", 500)
    connections = [Connection(server.address) for _ in range(5)]
    for connection in connections:
        connection.send(request_bytes("GET", "/v1/hello"))
    strangers = []
    for _ in range(10):
        strangers.append(Connection(server.address))
        strangers[-1].send(request_bytes("GET", "/healthz", key=None))
        assert strangers[-1].answer().status == 200
    assert [connection.answer().status for connection in connections] == [200] * 5


def test_stopping_ends_those_who_wait(start):
    server = start("--auth-delay", 60_000)
    connections = [Connection(server.address) for _ in range(5)]
    for connection in connections:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "1000000")]) + b"x" * 5000)
    assert wait_until(lambda: server.counters()["authenticating"] == 5)
    server.stop()
