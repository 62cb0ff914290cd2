# SPDX-License-Identifier: Apache-2.0
"""Rows 34 and 35: slow, stuck, greedy and lying clients. (tests/http tries the server alone; here a whole viald.)"""

import re
import resource
import socket
import time

import pytest
from rawhttp import Closed, Connection, ask, request_bytes
from tools import out, slow, wait_until


def address(daemon):
    return ("127.0.0.1", daemon.port)


def test_half_requests_do_not_keep_others_from_being_served(daemon, client, sandbox):
    idle = [Connection(address(daemon)) for _ in range(200)]
    for number, connection in enumerate(idle):
        connection.send([b"GET", b"POST /v1/sandboxes HTTP/1.1\r\nHo", b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{"][number % 3])
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
            connection.send(b"POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + client.key.encode() + b"\r\n" + head + b"\r\n0\r\n\r\n" + inner)
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
    for host in ("evil", "evil.example:7070", "192.0.2.1"):
        answer = client.ask("POST", sandbox.path + "/exec", {"cmd": "true"}, headers={"Host": host, "Origin": f"http://{host}"})
        assert answer.status == 403 and "host_names" in answer.json()["error"]


@pytest.mark.parametrize("said", [b"", b"GET /v1/me HTTP/1.1\r\nHost: localhost\r\n\r\n"], ids=["silent", "no key"])
def test_a_crowd_of_idle_connections_keeps_nobody_out(daemon, client, said):
    """Row 47. More of them than the server has places; before, they held all of them for 30 seconds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    crowd = []
    try:
        for _ in range(4300):
            crowd.append(Connection(address(daemon), timeout=60))
            crowd[-1].send(said)
        for _ in range(10):
            assert ask(address(daemon), "GET", "/v1/me", key=client.key, timeout=25).status == 200
        # More than the networks prepared ahead: rules for a new one are made while thousands of descriptors are open.
        sandboxes = [client.create(network={"mode": "open"}) for _ in range(4)]
        assert all(sandbox.exec("echo here")["stdout"] == "here\n" for sandbox in sandboxes)
        for sandbox in sandboxes:
            sandbox.delete()
        shed = client.ask("GET", "/metrics").text
        assert int(re.search(r"^vial_http_connections_shed_total (\d+)$", shed, re.M)[1]) >= 4300 - 3072
    finally:
        for connection in crowd:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_thousand_wrong_keys_are_refused_without_growing(daemon, client):
    before = daemon.rss_kb()
    for number in range(300):
        assert client.ask("GET", "/v1/me", key=f"vial_{number:040d}").status == 401
    assert daemon.rss_kb() - before < 8 * 1024
