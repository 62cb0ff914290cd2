# SPDX-License-Identifier: Apache-2.0
"""Slow and stuck clients, too many of them, and other transports."""

import socket
import subprocess
import time

import pytest

from rawhttp import Connection, request_bytes
from test_bodies import wait_until


def seconds_until_closed(connection, drip=b"", limit=30):
    """Since it was opened: the server's clock starts later. The timeouts set here are of a few seconds, the usual ones of 30 and more."""
    while time.monotonic() - connection.opened < limit:
        if drip and not connection.send(drip):
            break
        if connection.is_closed(timeout=0.2):
            break
    return time.monotonic() - connection.opened


def test_headers_that_drip_are_cut_off(start):
    server = start("--header-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(b"GET /v1/hello HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        assert 0.8 < seconds_until_closed(connection, drip=b"a") < 20


def test_a_silent_connection_is_cut_off(start):
    server = start("--header-timeout", 1000)
    with Connection(server.address) as connection:
        assert 0.8 < seconds_until_closed(connection) < 20


def test_a_connection_between_two_requests_is_cut_off(start):
    server = start("--header-timeout", 1000, "--idle-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/hello"))
        connection.answer()
        assert 0.8 < seconds_until_closed(connection) < 20
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/hello"))
        connection.answer()
        connection.send(b"GET ")
        assert 1.5 < seconds_until_closed(connection, drip=b"/") < 20


def test_a_json_body_that_drips_is_cut_off(start):
    server = start("--body-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/echo", [("Content-Length", "1000")]))
        assert 0.8 < seconds_until_closed(connection, drip=b" ") < 20


def test_a_refused_body_that_drips_is_cut_off(start):
    server = start("--body-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "1000")], key="wrong"))
        assert 0.8 < seconds_until_closed(connection, drip=b" ") < 20


def test_an_upload_may_take_its_time_while_it_moves_but_not_stop(start):
    server = start("--body-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "45")]))
        for _ in range(45):
            connection.send(b"x")
            time.sleep(0.1)
        assert connection.answer().json() == {"received": 45}
    server = start("--body-timeout", 1000, "--idle-timeout", 3000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "45")]))
        assert 2.5 < seconds_until_closed(connection) < 20
    assert server.counters()["broken_uploads"] == 1


def test_a_consumer_that_never_reads_is_cut_off(start):
    server = start("--idle-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/download?size=1000000000"))
        assert wait_until(lambda: server.counters()["streams"] == 0)


def test_waiting_for_an_answer_is_not_being_idle(start):
    server = start("--idle-timeout", 1000, "--header-timeout", 1000, "--body-timeout", 1000)
    assert server.ask("POST", "/v1/wait?ms=3000", body=b"{}").status == 200


def was_shed(connection):
    connection.socket.settimeout(0.01)
    try:
        connection.take_rest()
        return True
    except TimeoutError:
        return False


def known(server):
    """A connection that has shown a key."""
    connection = Connection(server.address)
    connection.send(request_bytes("GET", "/v1/hello"))
    assert connection.answer().status == 200
    return connection


def test_connections_beyond_the_limit_wait_for_a_place(start):
    """Clients in the middle of a request are never sent away."""
    server = start("--max-connections", 4)
    first = []
    for _ in range(4):
        first.append(Connection(server.address))
        first[-1].send(request_bytes("POST", "/v1/wait?ms=60000", body=b"{}"))
        while len(first) < 4 and server.counters()["waiting"] < len(first):
            time.sleep(0.01)
    with Connection(server.address) as fifth:
        fifth.send(request_bytes("GET", "/v1/hello"))
        assert not fifth.is_closed(timeout=1.5)
        assert not any(map(was_shed, first))
        first[0].close()
        assert fifth.answer().status == 200


def crowd(server, count, data=b""):
    connections = []
    for _ in range(count):
        connections.append(Connection(server.address))
        if data:
            connections[-1].send(data)
    return connections


@pytest.mark.parametrize("data", [b"", b"GET /v1/hello HTTP/1.1\r\nHost: localhost\r\nX-Half", request_bytes("GET", "/v1/hello", key="wrong"),
                                  request_bytes("GET", "/healthz", key=None), request_bytes("POST", "/v1/echo", [("Content-Length", "1000")], key=None)],
                         ids=["silent", "half a request", "a wrong key", "a public route", "half a body"])
def test_a_crowd_without_a_key_locks_nobody_out(start, data):
    server = start("--max-connections", 64)
    friends = [known(server) for _ in range(8)]
    busy = known(server)
    busy.send(request_bytes("POST", "/v1/wait?ms=60000", body=b"{}"))
    strangers = crowd(server, 200, data)
    started = time.monotonic()
    for _ in range(20):
        assert server.ask("GET", "/v1/hello").status == 200
    assert time.monotonic() - started < 15, "a keyed client had to wait for a timeout"
    for friend in friends:
        friend.send(request_bytes("GET", "/v1/hello"))
        assert friend.answer().status == 200
    assert not was_shed(busy)
    assert sum(map(was_shed, strangers)) >= 200 - 64 * 3 // 4 - 1
    assert server.counters()["connections"] <= 64


def test_strangers_are_shed_by_address(start):
    """The crowd comes from one address; who has come before it from another, and is slow to speak, keeps its place."""
    server = start("--max-connections", 64)
    slow = socket.create_connection(server.address, 25, source_address=("127.0.0.77", 0))
    strangers = crowd(server, 300)
    time.sleep(1.2)
    strangers += crowd(server, 100)
    slow.sendall(request_bytes("GET", "/v1/hello"))
    assert slow.recv(100).startswith(b"HTTP/1.1 200")
    slow.close()
    assert len(strangers) == 400


def test_a_newcomer_is_given_time_to_speak(start):
    """Strangers who have asked go before one who has only just come."""
    server = start("--max-connections", 64)
    strangers = crowd(server, 48, request_bytes("GET", "/healthz", key=None))
    newcomer = Connection(server.address)
    strangers += crowd(server, 10, request_bytes("GET", "/healthz", key=None))
    newcomer.send(request_bytes("GET", "/v1/hello"))
    assert newcomer.answer().status == 200
    assert len(strangers) == 58


def test_idle_clients_with_a_key_make_room_when_every_place_is_taken(start):
    server = start("--max-connections", 8)
    friends = [known(server) for _ in range(8)]
    assert server.ask("GET", "/v1/hello").status == 200
    assert friends[0].is_closed() and not friends[7].is_closed(timeout=0.1)


def test_a_unix_socket_serves_too(start, tmp_path):
    path = tmp_path / "api.sock"
    server = start(listen=f"unix:{path}")
    assert server.ask("GET", "/v1/hello").status == 200
    server.stop()
    assert not path.exists()


def test_stopping_ends_what_is_under_way(start):
    server = start()
    connections = []
    for data in (request_bytes("POST", "/v1/wait?ms=60000", body=b"{}"), request_bytes("POST", "/v1/events?n=10000&ms=10", body=b"{}"),
                 request_bytes("PUT", "/v1/upload", [("Content-Length", "100")]), request_bytes("GET", "/v1/download?size=1000000000"), b"GET /"):
        connections.append(Connection(server.address))
        connections[-1].send(data)
    time.sleep(0.2)
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < 15


def test_a_public_address_is_refused(start):
    for address in ("0.0.0.0:0", "[::]:0"):
        program = subprocess.run([start().process.args[0], "--listen", address], capture_output=True, text=True, timeout=60)
        assert program.returncode == 1 and "allow_public" in program.stderr


def test_a_port_in_use_is_told(start):
    server = start()
    program = subprocess.run([server.process.args[0], "--listen", "%s:%d" % server.address], capture_output=True, text=True, timeout=60)
    assert program.returncode == 1 and "in use" in program.stderr


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                    "/CN=localhost", "-keyout", folder / "key.pem", "-out", folder / "cert.pem"], check=True, capture_output=True)
    return folder


def test_tls_serves_everything_the_same(start, certificate):
    server = start("--cert", certificate / "cert.pem", "--key", certificate / "key.pem")
    assert server.url.startswith("https://")
    with Connection(server.address, tls=True) as connection:
        connection.send(request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 200
        connection.send(request_bytes("PUT", "/v1/upload", body=b"x" * 3_000_000))
        assert connection.answer().json() == {"received": 3_000_000}
        connection.send(request_bytes("GET", "/v1/download?size=3000000"))
        assert len(connection.answer().body) == 3_000_000
        connection.send(request_bytes("POST", "/v1/wait?ms=100", body=b"{}"))
        assert connection.answer().status == 200


def test_plain_http_to_a_tls_port_does_no_harm(start, certificate):
    server = start("--cert", certificate / "cert.pem", "--key", certificate / "key.pem")
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/hello"))
        connection.take_rest()
    with Connection(server.address, tls=True) as connection:
        connection.send(request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 200


def test_a_certificate_that_is_none_is_told(start, tmp_path):
    (tmp_path / "bad.pem").write_text("nonsense")
    program = subprocess.run([start().process.args[0], "--cert", tmp_path / "bad.pem", "--key", tmp_path / "bad.pem"],
                             capture_output=True, text=True, timeout=60)
    assert program.returncode == 1 and "certificate" in program.stderr
