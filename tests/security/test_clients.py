# SPDX-License-Identifier: Apache-2.0
"""Rows 34 and 35: slow, stuck, greedy and lying clients. (tests/http tries the server alone; here a whole viald.)"""

import socket
import time

from rawhttp import Closed, Connection, request_bytes
from tools import out, slow, wait_until


def address(daemon):
    return ("127.0.0.1", daemon.port)


def test_half_requests_do_not_keep_others_from_being_served(daemon, client, sandbox):
    idle = [Connection(address(daemon)) for _ in range(200)]
    for number, connection in enumerate(idle):
        connection.send([b"GET", b"POST /v1/sandboxes HTTP/1.1\r\nHo", b"POST /v1/sandboxes HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n{"][number % 3])
    started = time.monotonic()
    assert client.ask("GET", "/v1/me").status == 200 and out(sandbox, "echo served") == "served\n"
    assert time.monotonic() - started < slow(10)
    for connection in idle:
        connection.close()


def test_a_reader_that_never_reads_costs_little_and_stops_only_its_own_command(daemon, client, sandbox):
    before = daemon.rss_kb()
    stuck = []
    for _ in range(4):
        connection = socket.create_connection(address(daemon))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(request_bytes("POST", sandbox.path + "/exec/stream", body=b'{"cmd": "yes"}', key=client.key))
        stuck.append(connection)
    time.sleep(2)
    assert daemon.rss_kb() - before < 32 * 1024
    assert out(sandbox, "echo served") == "served\n"
    for connection in stuck:
        connection.close()
    wait_until(lambda: sandbox.exec("grep -lsz '^[y]es' /proc/[0-9]*/cmdline || true")["stdout"] == "")


def test_smuggled_requests_are_not_seen(daemon, client, sandbox):
    inner = request_bytes("DELETE", sandbox.path, key=client.key)
    for head in (b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n" % (5 + len(inner)), b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
                 b"Content-Length: 0\r\nContent-Length: %d\r\n" % len(inner), b"Transfer-Encoding: xchunked\r\n", b"Content-Length: 0, %d\r\n" % len(inner)):
        with Connection(address(daemon)) as connection:
            connection.send(b"POST /v1/sandboxes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer " + client.key.encode() + b"\r\n" + head + b"\r\n0\r\n\r\n" + inner)
            try:
                assert connection.answer().status == 400
                connection.answer()
                raise AssertionError("a second answer")
            except Closed:
                pass
    assert sandbox.refresh()["status"] == "running"


def test_pages_of_other_origins_and_rebound_names_are_refused(client, sandbox):
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}):
        answer = client.ask("POST", sandbox.path + "/exec", {"cmd": "true"}, headers=headers)
        assert answer.status == 403 or "Access-Control-Allow-Origin" not in answer.headers
    answer = client.ask("OPTIONS", "/v1/sandboxes", headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}, key=False)
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_thousand_wrong_keys_are_refused_without_growing(daemon, client):
    before = daemon.rss_kb()
    for number in range(300):
        assert client.ask("GET", "/v1/me", key=f"vial_{number:040d}").status == 401
    assert daemon.rss_kb() - before < 8 * 1024
