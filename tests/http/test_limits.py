# SPDX-License-Identifier: Apache-2.0
"""Slow and stuck clients, too many of them, and other transports."""

import subprocess
import time

import pytest

from rawhttp import Connection, request_bytes


def seconds_until_closed(connection, drip=b"", limit=15):
    started = time.monotonic()
    while time.monotonic() - started < limit:
        if drip and not connection.send(drip):
            break
        if connection.is_closed(timeout=0.2):
            break
    return time.monotonic() - started


def test_headers_that_drip_are_cut_off(start):
    server = start("--header-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(b"GET /v1/hello HTTP/1.1\r\nHost: a\r\nX-Slow: ")
        assert 0.8 < seconds_until_closed(connection, drip=b"a") < 4


def test_a_silent_connection_is_cut_off(start):
    server = start("--header-timeout", 1000)
    with Connection(server.address) as connection:
        assert 0.8 < seconds_until_closed(connection) < 4


def test_a_connection_between_two_requests_is_cut_off(start):
    server = start("--header-timeout", 1000, "--idle-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/hello"))
        connection.answer()
        assert 0.8 < seconds_until_closed(connection) < 4
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/hello"))
        connection.answer()
        connection.send(b"GET ")
        assert 1.5 < seconds_until_closed(connection, drip=b"/") < 6


def test_a_json_body_that_drips_is_cut_off(start):
    server = start("--body-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/echo", [("Content-Length", "1000")]))
        assert 0.8 < seconds_until_closed(connection, drip=b" ") < 4


def test_a_refused_body_that_drips_is_cut_off(start):
    server = start("--body-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "1000")], key="wrong"))
        assert 0.8 < seconds_until_closed(connection, drip=b" ") < 4


def test_an_upload_may_take_its_time_while_it_moves_but_not_stop(start):
    server = start("--body-timeout", 1000, "--idle-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "30")]))
        for _ in range(30):
            connection.send(b"x")
            time.sleep(0.1)
        assert connection.answer().json() == {"received": 30}
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "30")]))
        assert 0.8 < seconds_until_closed(connection) < 4
    assert server.counters()["broken_uploads"] == 1


def test_a_consumer_that_never_reads_is_cut_off(start):
    server = start("--idle-timeout", 1000)
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/download?size=1000000000"))
        end = time.monotonic() + 6
        while server.counters()["streams"] and time.monotonic() < end:
            time.sleep(0.1)
        assert server.counters()["streams"] == 0


def test_waiting_for_an_answer_is_not_being_idle(start):
    server = start("--idle-timeout", 1000, "--header-timeout", 1000, "--body-timeout", 1000)
    assert server.ask("POST", "/v1/wait?ms=3000", body=b"{}").status == 200


def test_connections_beyond_the_limit_wait_for_a_place(start):
    server = start("--max-connections", 4)
    first = [Connection(server.address) for _ in range(4)]
    for connection in first:
        connection.send(request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 200
    with Connection(server.address) as fifth:
        fifth.send(request_bytes("GET", "/v1/hello"))
        assert not fifth.is_closed(timeout=0.3)
        for connection in first:
            connection.close()
        assert fifth.answer().status == 200


def test_a_unix_socket_serves_too(start, tmp_path):
    path = tmp_path / "api.sock"
    server = start(listen=f"unix:{path}")
    assert server.ask("GET", "/v1/hello").status == 200
    server.stop()
    assert not path.exists()


def test_stopping_ends_what_is_under_way(start):
    server = start()
    connections = []
    for data in (request_bytes("POST", "/v1/wait?ms=60000", body=b"{}"), request_bytes("POST", "/v1/events?n=1000&ms=10", body=b"{}"),
                 request_bytes("PUT", "/v1/upload", [("Content-Length", "100")]), request_bytes("GET", "/v1/download?size=1000000000"), b"GET /"):
        connections.append(Connection(server.address))
        connections[-1].send(data)
    time.sleep(0.2)
    started = time.monotonic()
    server.stop()
    assert time.monotonic() - started < 3


def test_a_public_address_is_refused(start):
    for address in ("0.0.0.0:0", "[::]:0"):
        program = subprocess.run([start().process.args[0], "--listen", address], capture_output=True, text=True, timeout=10)
        assert program.returncode == 1 and "allow_public" in program.stderr


def test_a_port_in_use_is_told(start):
    server = start()
    program = subprocess.run([server.process.args[0], "--listen", "%s:%d" % server.address], capture_output=True, text=True, timeout=10)
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
                             capture_output=True, text=True, timeout=10)
    assert program.returncode == 1 and "certificate" in program.stderr
