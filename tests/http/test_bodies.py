# SPDX-License-Identifier: Apache-2.0
"""Bodies and answers: collected, chunked, streamed both ways, without holding them in memory."""

import json
import socket
import time

import pytest

from rawhttp import PATIENCE_SECONDS, Closed, Connection, request_bytes


def chunks(*parts):
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def wait_until(condition, timeout=PATIENCE_SECONDS):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def test_a_json_body_may_come_in_chunks(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/echo", [("Transfer-Encoding", "chunked")]) + chunks(b'{"a"', b": [1, ", b"2]}"))
        assert connection.answer().json() == {"a": [1, 2]}


def test_a_json_body_may_come_byte_by_byte(server):
    with Connection(server.address) as connection:
        for byte in request_bytes("POST", "/v1/echo", body=b'{"a": 1}'):
            connection.send(bytes([byte]))
        assert connection.answer().json() == {"a": 1}


def test_chunks_with_extensions_and_trailers_are_read(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/echo", [("Transfer-Encoding", "chunked")]) + b'2;x="y"\r\n{}\r\n0\r\nTrailer: v\r\n\r\n')
        assert connection.answer().json() == {}


def test_an_empty_body_is_an_empty_object(server):
    assert server.ask("POST", "/v1/echo", body=b"").json() == {}
    assert server.ask("POST", "/v1/echo").json() == {}


@pytest.mark.parametrize("method,path,headers,body", [
    ("POST", "/v1/echo", [("Content-Encoding", "identity"), ("Content-Length", "15")], b'{\r\n  "a" : 1\n}\n'),
    ("POST", "/v1/echo", [("Transfer-Encoding", "chunked"), ("Content-Encoding", "identity")], chunks(b'{"a":', b"\n\t1}")),
    ("DELETE", "/v1/items/a", [("Content-Type", "application/json")], b""),
    ("DELETE", "/v1/items/a", [("Content-Type", "application/json"), ("Content-Length", "0")], b""),
    ("DELETE", "/v1/items/a", [("Content-Type", "application/json"), ("Transfer-Encoding", "chunked")], chunks()),
])
def test_framing_that_clients_in_use_choose_is_taken(server, method, path, headers, body):
    with Connection(server.address) as connection:
        connection.send(request_bytes(method, path, headers) + body)
        answer = connection.answer()
        assert answer.status == 200 and (method == "DELETE" or answer.json() == {"a": 1}) and "content-encoding" not in answer.headers
        connection.send(request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 200


def test_a_raw_body_is_any_bytes(server):
    data = bytes(range(256)) * 100
    answer = server.ask("POST", "/v1/raw", body=data)
    assert answer.body == data and answer.headers["x-content-type-options"] == "nosniff"
    assert server.ask("POST", "/v1/raw", body=b"x" * 100_001).status == 413


@pytest.mark.parametrize("query", ["", "?slow=1", "?later=50", "?later=50&slow=1"])
@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_an_upload_arrives_whole(server, query, size, is_chunked):
    with Connection(server.address) as connection:
        data = b"x" * size
        if is_chunked:
            parts = [data[i : i + 10_000] for i in range(0, size, 10_000)]
            connection.send(request_bytes("PUT", "/v1/upload" + query, [("Transfer-Encoding", "chunked")]) + chunks(*parts))
        else:
            connection.send(request_bytes("PUT", "/v1/upload" + query, body=data))
        assert connection.answer().json() == {"received": size}
        connection.send(request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 200


def test_an_upload_refused_at_once_or_halfway_is_told_why(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload?refuse=1", body=b"x" * 1_000_000))
        assert connection.answer().status == 404
        connection.send(request_bytes("PUT", "/v1/upload?fail_at=100000", body=b"x" * 10_000_000))
        assert connection.answer().status == 507
        connection.send(request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 200


def test_an_upload_too_large_to_discard_is_answered_at_once(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload?refuse=1", [("Content-Length", str(10**12))]) + b"x" * 1000)
        assert connection.answer().status == 404
        assert connection.is_closed()


@pytest.mark.parametrize("size", [0, 1, 1000, 128 * 1024, 5_000_001])
@pytest.mark.parametrize("is_chunked", [0, 1])
def test_a_download_arrives_whole(server, size, is_chunked):
    with Connection(server.address) as connection:
        for _ in range(2):
            connection.send(request_bytes("GET", f"/v1/download?size={size}&chunked={is_chunked}"))
            answer = connection.answer()
            assert len(answer.body) == size
            assert ("content-length" in answer.headers) != bool(is_chunked)


def test_a_download_that_was_taken_whole_is_not_gone_when_its_end_comes_late(server):
    before = server.counters()["gone"]
    for size in (0, 1, 100_000):
        assert len(server.ask("GET", f"/v1/download?size={size}&end_after_ms=100").body) == size
    assert wait_until(lambda: server.counters()["streams"] == 0)
    assert server.counters()["gone"] == before


def test_a_download_to_http_1_0_ends_with_the_connection(server):
    with Connection(server.address) as connection:
        connection.send(b"GET /v1/download?size=300000&chunked=1 HTTP/1.0\r\nAuthorization: Bearer secret\r\n\r\n")
        assert len(connection.answer().body) == 300_000


@pytest.mark.parametrize("is_chunked", [0, 1])
def test_an_aborted_download_is_seen_to_be_incomplete(server, is_chunked):
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", f"/v1/download?size=4000000&break=1&chunked={is_chunked}"))
        with pytest.raises(Closed):
            connection.answer()


def test_large_bodies_do_not_stay_in_memory(server):
    before = server.rss_kb()
    with Connection(server.address, timeout=60) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", str(256 << 20))]))
        for _ in range(256):
            connection.send(b"x" * (1 << 20))
        assert connection.answer().json() == {"received": 256 << 20}
        connection.send(request_bytes("GET", f"/v1/download?size={256 << 20}"))
        connection.head()
        left = 256 << 20
        while left > 0:
            left -= len(connection.socket.recv(1 << 20)) + len(connection.buffer)
            connection.buffer = b""
    assert server.rss_kb() - before < 32_000


def test_a_reader_that_stops_holds_up_the_producer_not_the_server(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/download?size=100000000"))
        connection.head()
        before = server.rss_kb()
        time.sleep(0.3)
        assert server.counters()["streams"] == 1
        assert server.rss_kb() - before < 10_000
    assert wait_until(lambda: server.counters()["streams"] == 0)


def test_events_arrive_one_by_one(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/events?n=3&ms=500", body=b"{}"))
        head = connection.head()
        assert head.headers["content-type"] == "text/event-stream; charset=utf-8" and head.headers["cache-control"] == "no-store"
        for left in (3, 2, 1):
            assert connection.chunk() == b'event: tick\ndata: {"left":%d}\n\n' % left
        assert connection.chunk() == b""
        connection.send(request_bytes("GET", "/v1/hello"))
        assert connection.answer().status == 200
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/events?n=600&ms=100", body=b"{}"))
        connection.head()
        connection.chunk()
        assert server.counters()["streams"] == 1, "the first came with the last"
    assert wait_until(lambda: server.counters()["streams"] == 0)


STRANGE = "Grüße \x7f \x85 \u2028 \u2029 \ufeff \U0001f600 \x00 \r\n"  # where one client or another ends a line, or cuts a character in two


@pytest.mark.parametrize("query,prefix", [("", b"event: tick\ndata: "), ("&lines=1", b"")])
def test_streams_are_ascii_whatever_is_in_them(server, query, prefix):
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", f"/v1/events?n=1{query}", body=json.dumps({"text": STRANGE.replace("\x00", "")}).encode()))
        head = connection.head()
        assert head.headers["content-type"].endswith("; charset=utf-8") and head.headers["x-accel-buffering"] == "no"
        line = connection.chunk()
        assert line.isascii() and line.startswith(prefix) and line.count(b"\n") == (3 if prefix else 1)
        assert json.loads(line.removeprefix(prefix))["text"] == STRANGE.replace("\x00", "")
        assert connection.chunk() == b""


@pytest.mark.parametrize("query,beat", [("", b":\n\n"), ("&lines=1&idle=", b"\n"), ('&lines=1&idle=%7B%22type%22:%22keepalive%22%7D', b'{"type":"keepalive"}\n')])
def test_a_silent_stream_says_that_it_is_still_there(start, query, beat):
    with Connection(start("--heartbeat", 50).address) as connection:
        connection.send(request_bytes("POST", f"/v1/events?n=1&ms=60000{query}", body=b"{}"))
        connection.head()
        assert [connection.chunk() for _ in range(3)] == [beat] * 3


def test_lines_without_an_idle_line_stay_silent(start):
    with Connection(start("--heartbeat", 20).address) as connection:
        connection.send(request_bytes("POST", "/v1/events?n=1&ms=300&lines=1", body=b"{}"))
        connection.head()
        assert [connection.chunk(), connection.chunk()] == [b'{"left":1}\n', b""]


def test_a_stream_that_is_not_silent_has_no_heartbeats(start):
    with Connection(start("--heartbeat", 60000).address) as connection:
        connection.send(request_bytes("POST", "/v1/events?n=20&ms=10", body=b"{}"))
        connection.head()
        assert all(connection.chunk().startswith(b"event: tick") for _ in range(20))


def test_a_client_that_leaves_cancels_its_work(start):
    server = start("--heartbeat", 60000)  # so not by the next thing it writes
    before = server.counters()["gone"]
    for data in (
        request_bytes("POST", "/v1/wait?ms=60000", body=b"{}"),
        request_bytes("POST", "/v1/events?ms=60000&n=100", body=b"{}"),
        request_bytes("GET", "/v1/download?size=1000000000"),
    ):
        connection = Connection(server.address)
        connection.send(data)
        assert wait_until(lambda: server.counters()["waiting"] + server.counters()["streams"] == 1)
        connection.close()
        assert wait_until(lambda: server.counters()["waiting"] + server.counters()["streams"] == 0)
    assert server.counters()["gone"] == before + 3


def test_a_client_that_resets_cancels_its_work(server):
    before = server.counters()["gone"]
    connection = Connection(server.address)
    connection.send(request_bytes("POST", "/v1/wait?ms=60000", body=b"{}"))
    assert wait_until(lambda: server.counters()["waiting"] == 1)
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
    assert wait_until(lambda: server.counters()["gone"] == before + 1)


@pytest.mark.parametrize("query", ["", "?slow=1", "?later=200"])
def test_a_client_that_leaves_in_its_upload_ends_it(server, query):
    before = server.counters()["broken_uploads"]
    connection = Connection(server.address)
    connection.send(request_bytes("PUT", "/v1/upload" + query, [("Content-Length", "1000000")]) + b"x" * 5000)
    time.sleep(0.05)
    connection.close()
    assert wait_until(lambda: server.counters()["broken_uploads"] == before + 1)
    assert wait_until(lambda: server.counters()["requests"] == 1)


def test_a_broken_chunk_in_an_upload_ends_it(server):
    before = server.counters()["broken_uploads"]
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Transfer-Encoding", "chunked")]) + b"5\r\nhello\r\n")
        time.sleep(0.05)
        connection.send(b"zz\r\n")
        assert connection.answer().status == 400
    assert wait_until(lambda: server.counters()["broken_uploads"] == before + 1)


def test_nothing_is_left_over(server):
    assert wait_until(lambda: {**server.counters(), "gone": 0, "auth_gone": 0, "broken_uploads": 0, "complete_uploads": 0}
                      == {"authenticating": 0, "auth_gone": 0, "waiting": 0, "gone": 0, "broken_uploads": 0, "complete_uploads": 0, "streams": 0, "websockets": 0,
                          "connections": 1, "requests": 1, "upgraded": 0})


def test_errors_are_utf8_json_whatever_was_sent(server):
    answer = server.ask("POST", "/v1/echo", body=b'{"a": \xff}')
    assert answer.status == 400
    json.loads(answer.body.decode("utf-8"))
