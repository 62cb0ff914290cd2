# SPDX-License-Identifier: Apache-2.0
"""Nothing leaves before its record is on the disk. The test server records every request with a key, every event and every block of a download,
each with the next number, and is told when they are on the disk."""

import socket
import time

import pytest

from bad_input import check_error_body
from rawhttp import Closed, Connection, ask, request_bytes
from test_bodies import chunks, wait_until
from test_limits import certificate  # noqa: F401
from wsclient import TEXT, frame

SENTENCE = "what was done could not be recorded, so its answer is withheld; see viald's log"
BLOCK = 256 * 1024  # of a download


class Journal:
    def __init__(self, server):
        self.server = server

    def ask(self, method, path):
        return ask(self.server.control, method, path, key=None).json()

    def recorded(self):
        return self.ask("GET", "/journal")["recorded"]

    def reaches(self, ticket):
        return wait_until(lambda: self.recorded() == ticket)

    def commit(self, ticket=None):
        return self.ask("POST", "/commit" if ticket is None else f"/commit?ticket={ticket}")

    def fail(self):
        self.ask("POST", "/fail-commit")


@pytest.fixture
def server(start):
    return start("--commit", 0)


@pytest.fixture
def journal(server):
    return Journal(server)


def opened(server, data):
    connection = Connection(server.address)
    connection.send(data)
    return connection


def is_silent(connection, seconds=0.15):
    """Neither a byte comes, nor the end."""
    usual = connection.socket.gettimeout()
    connection.socket.settimeout(seconds)
    try:
        connection.socket.recv(1, socket.MSG_PEEK)
        return False
    except TimeoutError:
        return connection.buffer == b""
    finally:
        connection.socket.settimeout(usual)


ANSWERS = {
    "get": (request_bytes("GET", "/v1/hello"), 200),
    "head": (request_bytes("HEAD", "/v1/hello"), 200),
    "json": (request_bytes("POST", "/v1/echo", body=b'{"a": 1}'), 200),
    "bytes": (request_bytes("POST", "/v1/raw", body=b"x" * 50_000), 200),
    "proxied": (request_bytes("POST", "/v1/ports/80/a", body=b"x"), 200),
    "upload": (request_bytes("PUT", "/v1/upload", body=b"x" * 300_000), 200),
    "slow upload": (request_bytes("PUT", "/v1/upload?slow=1", body=b"x" * 300_000), 200),
    "upload asked for late": (request_bytes("PUT", "/v1/upload?later=20", body=b"x" * 300_000), 200),
    "upload that fails halfway": (request_bytes("PUT", "/v1/upload?fail_at=1000", body=b"x" * 300_000), 507),
    "upload that is refused": (request_bytes("PUT", "/v1/upload?refuse=1", body=b"x" * 300_000), 404),
    "upload that is too much": (request_bytes("PUT", "/v1/upload?refuse=1", [("Content-Length", str(10**12))]) + b"x" * 100, 404),
    "upload that waits for our word": (request_bytes("PUT", "/v1/upload?refuse=1", [("Content-Length", "10"), ("Expect", "100-continue")]), 404),
    "a wrong key": (request_bytes("GET", "/v1/hello", key="wrong"), 401),
    "a wrong query": (request_bytes("GET", "/v1/hello?a=%zz"), 400),
    "a wrong body": (request_bytes("POST", "/v1/echo", body=b"{"), 400),
    "a body too large": (request_bytes("POST", "/v1/echo", [("Transfer-Encoding", "chunked")]) + chunks(b"x" * 2_000_000), 413),
    "an error": (request_bytes("GET", "/v1/fail?status=500"), 500),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_leaves_when_its_record_is_on_the_disk(server, journal, case):
    data, status = ANSWERS[case]
    method = data.split(b" ")[0].decode()
    with opened(server, data) as connection:
        assert journal.reaches(1)
        assert is_silent(connection)
        journal.commit(0)
        assert is_silent(connection, 0.05)
        journal.commit(1)
        assert connection.answer(method).status == status


@pytest.mark.parametrize("case", ANSWERS)
def test_an_answer_whose_record_fails_is_withheld(server, journal, case):
    data, status = ANSWERS[case]
    method = data.split(b" ")[0].decode()
    with opened(server, data) as connection:
        assert journal.reaches(1)
        assert is_silent(connection)
        journal.fail()
        answer = connection.answer(method)
        assert answer.status == 503
        assert "retry-after" not in answer.headers and answer.headers["should-retry"] == "false"  # it was done
        assert not {"x-content-type-options", "www-authenticate", "allow"} & set(answer.headers)
        if method != "HEAD":
            check_error_body(answer)
            assert answer.json()["error"] == SENTENCE
        if "too much" not in case and "our word" not in case:
            connection.send(request_bytes("GET", "/v1/hello"))
            assert journal.reaches(2)
            assert is_silent(connection, 0.05)
            journal.commit()
            assert connection.answer().status == 200


def test_an_answer_given_later_is_held_too(server, journal):
    with opened(server, request_bytes("POST", "/v1/wait?ms=50", body=b"{}")) as connection:
        assert journal.reaches(2)
        journal.commit(1)
        assert is_silent(connection)
        journal.commit(2)
        assert connection.answer().json() == {"late": True}
        connection.send(request_bytes("POST", "/v1/wait?ms=50", body=b"{}"))
        assert journal.reaches(4)
        journal.fail()
        assert connection.answer().status == 503


def test_when_all_is_on_the_disk_nothing_waits(server, journal):
    assert server.ask("GET", "/healthz", key=None).status == 200
    with opened(server, request_bytes("GET", "/v1/hello")) as connection:
        assert journal.reaches(1)
        journal.commit()
        assert connection.answer().status == 200
    assert server.ask("GET", "/healthz", key=None).status == 200


def test_whoever_answers_waits_for_all_that_was_recorded(server, journal):
    """What a stranger is told may tell of it."""
    with opened(server, request_bytes("GET", "/v1/hello")), opened(server, request_bytes("GET", "/healthz", key=None)) as stranger:
        assert journal.reaches(1)
        assert is_silent(stranger)
        journal.commit()
        assert stranger.answer().status == 200


def test_a_commit_lets_go_what_is_up_to_it(server, journal):
    connections = []
    for n in range(1, 5):
        connections.append(opened(server, request_bytes("POST", "/v1/echo", body=b'{"n": %d}' % n)))
        assert journal.reaches(n)
    journal.commit(2)
    assert [connection.answer().json()["n"] for connection in connections[:2]] == [1, 2]
    assert all(is_silent(connection, 0.1) for connection in connections[2:])
    journal.commit()
    assert [connection.answer().json()["n"] for connection in connections[2:]] == [3, 4]
    for connection in connections:
        connection.close()


def test_pipelined_requests_are_held_one_by_one(server, journal):
    with opened(server, b"".join(request_bytes("POST", "/v1/echo", body=b'{"n": %d}' % n) for n in range(1, 4))) as connection:
        for n in range(1, 4):
            assert journal.reaches(n)
            assert is_silent(connection, 0.1)
            journal.commit(n)
            assert connection.answer().json() == {"n": n}


def test_events_leave_one_by_one(server, journal):
    with opened(server, request_bytes("POST", "/v1/events?n=3&ms=10", body=b"{}")) as connection:
        assert journal.reaches(4)
        assert is_silent(connection)
        journal.commit(1)
        assert connection.head().status == 200
        assert is_silent(connection)
        journal.commit(2)
        assert connection.chunk() == b'event: tick\ndata: {"left":3}\n\n'
        assert is_silent(connection, 0.05)
        journal.commit(3)
        assert connection.chunk() == b'event: tick\ndata: {"left":2}\n\n'
        assert is_silent(connection, 0.05)
        journal.commit(4)
        assert connection.chunk() == b'event: tick\ndata: {"left":1}\n\n'
        assert connection.chunk() == b""
        connection.send(request_bytes("GET", "/healthz", key=None))
        assert connection.answer().status == 200


def test_more_events_than_there_are_marks_leave_in_order_and_never_too_soon(server, journal):
    count = 40
    with opened(server, request_bytes("POST", f"/v1/events?n={count}&ms=1", body=b"{}")) as connection:
        assert journal.reaches(count + 1)
        received = b""
        for ticket in range(1, count + 1):
            journal.commit(ticket)
            connection.socket.settimeout(0.01)
            try:
                while connection.fill():
                    pass
            except TimeoutError:
                pass
            assert connection.buffer.count(b"event: tick") <= ticket - 1
        journal.commit()
        connection.socket.settimeout(20)
        assert connection.head().status == 200
        while chunk := connection.chunk():
            received += chunk
        assert received == b"".join(b'event: tick\ndata: {"left":%d}\n\n' % left for left in range(count, 0, -1))


def test_the_end_of_a_stream_waits_too(server, journal):
    """Its last bytes were committed long ago; that there are no more is news."""
    with opened(server, request_bytes("GET", "/v1/download?size=1000&chunked=1&end_after_ms=12000")) as connection:
        assert journal.reaches(2)
        journal.commit()
        connection.head()
        assert len(connection.chunk()) == 1000
        other = opened(server, request_bytes("GET", "/v1/hello"))
        assert journal.reaches(3)
        assert wait_until(lambda: server.counters()["streams"] == 0)
        assert is_silent(connection)
        journal.commit()
        assert connection.chunk() == b"" and other.answer().status == 200
        other.close()


@pytest.mark.parametrize("is_chunked", [0, 1])
def test_a_download_leaves_block_by_block(server, journal, is_chunked):
    with opened(server, request_bytes("GET", f"/v1/download?size={4 * BLOCK - 7}&chunked={is_chunked}")) as connection:
        assert journal.reaches(5)
        assert is_silent(connection)
        journal.commit(1)
        head = connection.head()
        assert ("content-length" in head.headers) != bool(is_chunked)
        assert is_silent(connection, 0.05)
        take = (lambda size: read_chunks(connection, size)) if is_chunked else (lambda size: len(connection.take(size)))
        for ticket, size in ((2, BLOCK), (4, 2 * BLOCK), (5, BLOCK - 7)):
            journal.commit(ticket)
            assert take(size) == size
            assert ticket == 5 or is_silent(connection, 0.05)
        assert not is_chunked or connection.chunk() == b""
        connection.send(request_bytes("GET", "/healthz", key=None))
        assert connection.answer().status == 200


def read_chunks(connection, size):
    received = 0
    while received < size:
        received += len(connection.chunk())
    return received


@pytest.mark.parametrize("is_chunked", [0, 1])
def test_what_is_held_holds_up_the_producer(server, journal, is_chunked):
    size = 8_000_000
    with opened(server, request_bytes("GET", f"/v1/download?size={size}&chunked={is_chunked}")) as connection:
        assert wait_until(lambda: journal.recorded() > 4)
        time.sleep(0.1)
        produced = journal.recorded()
        assert produced <= 1 + (1 << 20) // BLOCK + 1 and is_silent(connection)
        connection.socket.settimeout(0.02)
        while server.counters()["streams"] or journal.ask("GET", "/journal")["committed"] < journal.recorded():
            journal.commit()
            try:
                connection.fill()
            except TimeoutError:
                pass
        connection.socket.settimeout(20)
        assert len(connection.answer().body) == size
    assert server.counters()["gone"] == 0


def test_a_websocket_opens_when_it_is_recorded(server, journal):
    connection = opened(server, request_bytes("GET", "/v1/websocket", [
        ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]) +
        frame(TEXT, b"early"))
    assert journal.reaches(1)
    assert is_silent(connection)
    journal.commit()
    assert connection.head().status == 101
    assert connection.take(7) == b"\x81\x05early"
    other = opened(server, request_bytes("GET", "/v1/hello"))
    assert journal.reaches(2)
    connection.send(frame(TEXT, b"while something is held"))  # beyond its 101 a socket is its owner's
    assert connection.take(2)
    connection.close()
    other.close()


def test_a_stream_of_which_nothing_has_left_is_cut_when_its_record_fails(server, journal):
    for data, streams in ((request_bytes("POST", "/v1/events?n=100&ms=60000", body=b"{}"), 1), (request_bytes("GET", "/v1/download?size=100000000"), 1),
                          (request_bytes("GET", "/v1/download?size=1000"), 0), (request_bytes("POST", "/v1/events?n=1&ms=1", body=b"{}"), 0)):
        before = journal.recorded()
        with opened(server, data) as connection:
            assert wait_until(lambda: journal.recorded() > before and server.counters()["streams"] == streams)
            journal.fail()
            assert connection.is_closed()
        assert wait_until(lambda: server.counters()["streams"] == 0)
    assert wait_until(lambda: server.counters()["gone"] == 2)  # two had ended


@pytest.mark.parametrize("is_chunked", [0, 1])
def test_a_stream_is_cut_where_its_record_fails(server, journal, is_chunked):
    with opened(server, request_bytes("GET", f"/v1/download?size={20 * BLOCK}&chunked={is_chunked}")) as connection:
        assert wait_until(lambda: journal.recorded() >= 6)
        journal.commit(3)
        connection.head()
        assert (read_chunks(connection, 2 * BLOCK) if is_chunked else len(connection.take(2 * BLOCK))) == 2 * BLOCK
        journal.fail()
        assert connection.is_closed()
    assert wait_until(lambda: server.counters()["streams"] == 0 and server.counters()["gone"] == 1)


def test_a_stream_that_holds_nothing_survives_a_failure(server, journal):
    with opened(server, request_bytes("POST", "/v1/events?n=1&ms=12000", body=b"{}")) as connection:
        assert journal.reaches(1)
        journal.commit()
        assert connection.head().status == 200
        journal.fail()
        assert journal.reaches(2)
        journal.commit()
        assert read_chunks(connection, len(b'event: tick\ndata: {"left":1}\n\n')) and connection.chunk() == b""


def test_a_websocket_whose_record_fails_is_not_opened(server, journal):
    connection = opened(server, request_bytes("GET", "/v1/websocket", [
        ("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]))
    assert journal.reaches(1) and server.counters()["websockets"] == 1
    journal.fail()
    assert connection.is_closed()
    assert server.counters()["websockets"] == 0


def test_many_are_held_and_let_go_at_once(server, journal):
    connections = [opened(server, request_bytes("POST", "/v1/echo", body=b'{"n": %d}' % n)) for n in range(200)]
    assert journal.reaches(200)
    assert is_silent(connections[0]) and is_silent(connections[-1], 0.01)
    journal.commit()
    assert [connection.answer().json()["n"] for connection in connections] == list(range(200))
    for n, connection in enumerate(connections):
        connection.send(request_bytes("POST", "/v1/echo", body=b'{"n": %d}' % n))
    assert journal.reaches(400)
    journal.fail()
    assert {connection.answer().status for connection in connections} == {503}
    for connection in connections:
        connection.close()


def test_commits_keep_up_with_many_clients(start):
    server = start("--commit", 10)
    connections = [opened(server, b"".join(request_bytes("POST", "/v1/echo", body=b'{"n": %d}' % n) for n in range(10))) for _ in range(50)]
    streams = [opened(server, request_bytes("POST", "/v1/events?n=50&ms=3", body=b"{}")) for _ in range(20)]
    for connection in connections:
        assert [connection.answer().json()["n"] for _ in range(10)] == list(range(10))
    for stream in streams:
        assert stream.answer().body.count(b"event: tick") == 50
    for connection in connections + streams:
        connection.close()


HELD = {
    "answer": request_bytes("GET", "/v1/hello"),
    "refusal": request_bytes("GET", "/v1/hello", key="wrong"),
    "refusal of a body": request_bytes("PUT", "/v1/upload?refuse=1", [("Content-Length", str(10**12))]),
    "upload": request_bytes("PUT", "/v1/upload", body=b"x" * 300_000),
    "events": request_bytes("POST", "/v1/events?n=1000&ms=5", body=b"{}"),
    "download": request_bytes("GET", "/v1/download?size=100000000"),
    "short download": request_bytes("GET", "/v1/download?size=1000"),
    "websocket": request_bytes("GET", "/v1/websocket", [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"),
                                                        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]),
}


def nothing_is_left(server):
    counters = server.counters()
    return all(counters[name] == 0 for name in ("waiting", "streams", "websockets", "upgraded")) and counters["connections"] == counters["requests"] == 1


@pytest.mark.parametrize("case", HELD)
@pytest.mark.parametrize("then", ["commit", "fail"])
def test_a_client_that_leaves_meanwhile_is_noticed(server, journal, case, then):
    connection = opened(server, HELD[case])
    assert wait_until(lambda: journal.recorded() > 0)
    assert is_silent(connection, 0.05)
    connection.close()
    assert wait_until(lambda: nothing_is_left(server))
    getattr(journal, then)()
    assert nothing_is_left(server)


def test_a_client_that_leaves_in_a_stream_is_noticed(server, journal):
    connection = opened(server, request_bytes("POST", "/v1/events?n=100000&ms=5", body=b"{}"))
    assert wait_until(lambda: journal.recorded() > 5)
    journal.commit(2)
    connection.head()
    connection.chunk()
    connection.close()
    assert wait_until(lambda: nothing_is_left(server))
    assert server.counters()["gone"] == 1


def test_being_held_is_not_being_idle(start):
    server = start("--commit", 0, "--idle-timeout", 1000, "--header-timeout", 1000, "--body-timeout", 1000)
    connections = [opened(server, data) for data in (request_bytes("GET", "/v1/hello"), request_bytes("GET", "/v1/download?size=1000"),
                                                     request_bytes("PUT", "/v1/upload", body=b"x" * 1000))]
    time.sleep(2.6)
    Journal(server).commit()
    assert [connection.answer().status for connection in connections] == [200] * 3


def test_a_key_that_ends_takes_its_held_answers_along(server, journal):
    theirs, mine = (opened(server, request_bytes("GET", "/v1/hello", key=key)) for key in ("other", "secret"))
    assert journal.reaches(2)
    journal.ask("POST", "/end?who=other")
    assert theirs.is_closed()
    journal.commit()
    assert mine.answer().status == 200
    mine.close()


def test_a_held_answer_of_a_late_key_is_held(start):
    server = start("--commit", 0, "--auth-delay", 20)
    journal = Journal(server)
    for ticket, (key, status) in enumerate((("secret", 200), ("wrong", 401)), 1):
        with opened(server, request_bytes("PUT", "/v1/upload", body=b"x" * 300_000, key=key)) as connection:
            assert journal.reaches(ticket)
            assert is_silent(connection, 0.3)
            journal.commit()
            assert connection.answer().status == status


def test_stopping_ends_what_is_held(start):
    server = start("--commit", 0)
    connections = [opened(server, data) for data in HELD.values()]
    assert wait_until(lambda: Journal(server).recorded() >= len(HELD))
    server.stop()
    with pytest.raises(Closed):
        connections[0].answer()


def test_over_tls_it_is_the_same(start, certificate):  # noqa: F811
    server = start("--commit", 0, "--cert", certificate / "cert.pem", "--key", certificate / "key.pem")
    journal = Journal(server)
    with Connection(server.address, tls=True) as connection:
        connection.send(request_bytes("GET", f"/v1/download?size={3 * BLOCK}"))
        assert journal.reaches(4)
        with pytest.raises(TimeoutError):
            connection.socket.settimeout(0.15)
            connection.fill()
        connection.socket.settimeout(20)
        journal.commit(2)
        connection.head()
        assert len(connection.take(BLOCK)) == BLOCK
        journal.commit()
        assert len(connection.take(2 * BLOCK)) == 2 * BLOCK
