# SPDX-License-Identifier: Apache-2.0
import struct
import time

import pytest

from rawhttp import Closed
from test_bodies import wait_until
from test_limits import certificate  # noqa: F401
from wsclient import BINARY, CLOSE, PING, PONG, TEXT, WebSocket, frame


@pytest.fixture
def socket(server):
    socket = WebSocket(server.address)
    assert socket.answer.status == 101
    yield socket
    socket.close()


def close_code(socket):
    opcode, data = socket.receive()
    assert opcode == CLOSE
    return struct.unpack("!H", data[:2])[0] if data else None


def test_messages_come_back(socket):
    for opcode, data in ((TEXT, "grüße".encode()), (BINARY, bytes(range(256))), (BINARY, b"x" * 200_000), (TEXT, b"")):
        socket.send(opcode, data)
        assert socket.receive() == (opcode, data)


def test_the_handshake_is_confirmed(server):
    # The example of RFC 6455, section 1.3.
    from rawhttp import Connection, request_bytes
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/websocket", [("Connection", "Upgrade"), ("Upgrade", "WebSocket"), ("Sec-WebSocket-Version", "13"),
                                                               ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")]))
        answer = connection.head()
        assert answer.status == 101
        assert answer.headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert answer.headers["upgrade"] == "websocket" and answer.headers["connection"].lower() == "upgrade"


def test_frames_sent_with_the_request_are_not_lost(server):
    socket = WebSocket(server.address, extra=frame(TEXT, b"early") + frame(TEXT, b"bird"))
    assert socket.receive() == (TEXT, b"early")
    assert socket.receive() == (TEXT, b"bird")
    socket.close()


def test_a_message_in_pieces_is_put_together(socket):
    socket.send(TEXT, b"one ", fin=False)
    socket.send(PING, b"between")
    socket.send(0, b"two ", fin=False)
    socket.send(0, b"three")
    assert socket.receive() == (PONG, b"between")
    assert socket.receive() == (TEXT, b"one two three")


def test_closing_is_answered(server, socket):
    assert wait_until(lambda: server.counters()["websockets"] == 1)
    socket.send(CLOSE, struct.pack("!H", 1000) + b"bye")
    assert close_code(socket) == 1000
    assert socket.connection.is_closed()
    assert wait_until(lambda: server.counters()["websockets"] == 0)


@pytest.mark.parametrize("data,code", [
    (frame(TEXT, b"\xff\xfe"), 1007),
    (frame(TEXT, b"unmasked", masked=False), 1002),
    (frame(3, b"reserved"), 1002),
    (frame(PING, b"x" * 200), 1002),
    (frame(PING, b"x", fin=False), 1002),
    (frame(0, b"continuation of nothing"), 1002),
    (frame(BINARY, b"x", length=1 << 21), 1009),
    (frame(BINARY, b"", length=1 << 63), 1002),
    (frame(CLOSE, b"\x03"), 1002),
    (b"\xf1\x80\0\0\0\0", 1002),
])
def test_a_wrong_frame_ends_the_connection(server, socket, data, code):
    socket.connection.send(data)
    try:
        assert close_code(socket) in (code, None)
    except Closed:
        pass
    assert socket.connection.is_closed()
    assert wait_until(lambda: server.counters()["websockets"] == 0)


def test_a_message_too_large_in_pieces_ends_the_connection(socket):
    socket.send(BINARY, b"x" * 900_000, fin=False)
    socket.send(0, b"x" * 900_000)
    assert close_code(socket) == 1009


def test_a_client_that_leaves_is_noticed(server):
    socket = WebSocket(server.address)
    assert wait_until(lambda: server.counters()["websockets"] == 1)
    socket.close()
    assert wait_until(lambda: server.counters()["websockets"] == 0)
    assert wait_until(lambda: server.counters()["upgraded"] == 0 and server.counters()["connections"] == 1)


def test_a_client_that_does_not_read_is_dropped(server, socket):
    before = server.rss_kb()
    for _ in range(20):
        socket.send(TEXT, b"flood")
    assert wait_until(lambda: server.counters()["websockets"] == 0)
    assert server.rss_kb() - before < 64_000 or "asan" in str(server.process.args[0])


def test_pings_that_are_not_read_back_do_not_pile_up(server, socket):
    before = server.rss_kb()
    ping = frame(PING, b"x" * 125) * 500
    socket.connection.socket.settimeout(1)
    try:
        for _ in range(200):
            socket.connection.send(ping)
    except TimeoutError:
        pass
    assert server.rss_kb() - before < 64_000 or "asan" in str(server.process.args[0])
    assert server.ask("GET", "/v1/hello").status == 200


@pytest.mark.parametrize("leave_out", ["Connection", "Upgrade", "Sec-WebSocket-Version", "Sec-WebSocket-Key"])
def test_half_a_handshake_is_refused(server, leave_out):
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    del headers[leave_out]
    answer = server.ask("GET", "/v1/websocket", headers=list(headers.items()))
    assert answer.status == 400 and answer.headers["sec-websocket-version"] == "13"


@pytest.mark.parametrize("key", ["short", "dGhlIHNhbXBsZSBub25jZQ==x", "!" * 24, ""])
def test_a_wrong_nonce_is_refused(server, key):
    headers = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13"), ("Sec-WebSocket-Key", key)]
    assert server.ask("GET", "/v1/websocket", headers=headers).status == 400


def test_a_websocket_works_over_tls(start, certificate):  # noqa: F811
    server = start("--cert", certificate / "cert.pem", "--key", certificate / "key.pem")
    socket = WebSocket(server.address, tls=True)
    assert socket.answer.status == 101
    for data in (b"small", b"x" * 300_000):
        socket.send(BINARY, data)
        assert socket.receive() == (BINARY, data)
    socket.close()
    with_tls = lambda: ask_counters(server)  # noqa: E731
    assert wait_until(lambda: with_tls()["websockets"] == 0)
    cpu = cpu_seconds(server.process.pid)
    time.sleep(0.5)
    assert cpu_seconds(server.process.pid) - cpu < 0.2, "the server spins"


def ask_counters(server):
    from rawhttp import Connection, request_bytes
    with Connection(server.address, tls=True) as connection:
        connection.send(request_bytes("GET", "/counters"))
        return connection.answer().json()


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def test_stopping_ends_open_websockets(start):
    """At once: a client that does not answer a close is waited for 5 s. The quickest of some, for a machine may stall."""
    def seconds():
        server = start()
        sockets = [WebSocket(server.address) for _ in range(5)]
        assert wait_until(lambda: server.counters()["websockets"] == 5)
        started = time.monotonic()
        server.stop()
        taken = time.monotonic() - started
        for socket in sockets:
            socket.close()
        return taken

    assert any(seconds() < 4.5 for _ in range(5))
