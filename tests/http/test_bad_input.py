# SPDX-License-Identifier: Apache-2.0
"""Every bad request gets a clear error or a closed connection, and the server goes on."""

import socket

import pytest

from bad_input import CASES, Route, check, check_error_body, wrong_values
from rawhttp import Closed, Connection, request_bytes

ROUTES = [
    Route("GET", "/healthz", is_public=True),
    Route("GET", "/v1/hello"),
    Route("GET", "/v1/items/some"),
    Route("DELETE", "/v1/items/some"),
    Route("POST", "/v1/echo", takes_json=True),
    Route("POST", "/v1/typed", takes_json=True),
    Route("POST", "/v1/raw"),
    Route("PUT", "/v1/upload"),
    Route("POST", "/v1/events", takes_json=True),
    Route("GET", "/v1/download"),
    Route("GET", "/v1/ports/3000/a/b", any_method=True),
    Route("GET", "/v1/websocket"),
]


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("route", ROUTES, ids=str)
def test_a_bad_request_is_refused_and_the_server_goes_on(server, route, case):
    if not case.applies(route):
        return
    check(server.address, route, case)
    assert server.ask("GET", "/v1/hello").status == 200


@pytest.mark.parametrize("field,kind", [("name", "string"), ("count", "integer"), ("flag", "boolean"), ("env", "object"), ("argv", "array"), ("colour", "string")])
def test_a_field_of_the_wrong_type_is_named(server, field, kind):
    for value in wrong_values(kind):
        body = {"name": '"x"'} | {field: value}
        text = "{" + ", ".join(f'"{k}": {v}' for k, v in body.items()) + "}"
        answer = server.ask("POST", "/v1/typed", body=text.encode())
        assert answer.status == 400, text
        check_error_body(answer)
        assert f'"{field}"' in answer.json()["error"]


@pytest.mark.parametrize("body,field", [
    ("{}", "name"),
    ('{"name": null}', "name"),
    ('{"name": ""}', "name"),
    ('{"name": "seventeen letters"}', "name"),
    ('{"name": "x", "count": 0}', "count"),
    ('{"name": "x", "count": -1}', "count"),
    ('{"name": "x", "count": 9223372036854775807}', "count"),
    ('{"name": "x", "count": 1e300}', "count"),
    ('{"name": "x", "colour": "blue"}', "colour"),
    ('{"name": "x", "env": {"A": 1}}', "env.A"),
    ('{"name": "x", "env": {"": "1"}}', "env"),
    ('{"name": "x", "env": {"A": "seventeen letters"}}', "env.A"),
    ('{"name": "x", "env": {"A": "", "B": "", "C": "", "D": "", "E": ""}}', "env"),
    ('{"name": "x", "argv": ["a", 1]}', "argv[1]"),
    ('{"name": "x", "argv": ["1", "2", "3", "4", "5"]}', "argv"),
])
def test_a_field_out_of_range_is_named(server, body, field):
    answer = server.ask("POST", "/v1/typed", body=body.encode())
    assert answer.status == 400
    assert f'"{field}"' in answer.json()["error"]


def test_unknown_fields_and_whole_doubles_are_accepted(server):
    answer = server.ask("POST", "/v1/typed", body=b'{"name": "x", "count": 6e1, "other": [1, {"a": null}], "flag": null}')
    assert answer.status == 200
    assert answer.json() == {"name": "x", "count": 60, "flag": False, "colour": "red"}


@pytest.mark.parametrize("value", ["%00", "a%00b", "%ff", "%zz"])
def test_a_query_parameter_that_is_no_text_is_named(server, value):
    answer = server.ask("GET", f"/v1/hello?size=1&path={value}")
    assert answer.status == 400 and '"path"' in answer.json()["error"]


def test_a_wrong_method_is_told_the_right_ones(server):
    answer = server.ask("PATCH", "/v1/items/x")
    assert answer.status == 405
    assert set(answer.headers["allow"].split(", ")) == {"GET", "HEAD", "DELETE"}
    check_error_body(answer)


def test_the_error_position_is_told(server):
    answer = server.ask("POST", "/v1/echo", body=b'{"a": 1,\n "b": oops}')
    assert "line 2" in answer.json()["error"]


def test_a_header_of_one_gigabyte_is_cut_off(server):
    with Connection(server.address, timeout=20) as connection:
        connection.send(b"GET /v1/hello HTTP/1.1\r\nHost: a\r\nX-Long: ")
        sent = 0
        while sent < 1 << 30:
            if not connection.send(b"a" * 65536):
                break
            sent += 65536
        assert sent < 16 << 20, "the server read on"
    assert server.rss_kb() < 100_000 or "sanitized" in str(server.process.args[0])
    assert server.ask("GET", "/v1/hello").status == 200


def test_a_request_line_without_end_is_cut_off(server):
    with Connection(server.address, timeout=20) as connection:
        sent = 0
        while sent < 64 << 20 and connection.send(b"a" * 65536):
            sent += 65536
        assert sent < 16 << 20


def test_pipelined_requests_are_answered_in_order(server):
    with Connection(server.address) as connection:
        connection.send(b"".join(request_bytes("POST", "/v1/echo", body=b'{"n": %d}' % n) for n in range(50)))
        assert [connection.answer().json()["n"] for n in range(50)] == list(range(50))


def test_pipelined_slow_and_fast_requests_are_answered_in_order(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/wait?ms=200", body=b"{}") + request_bytes("POST", "/v1/echo", body=b'{"n": 1}'))
        assert connection.answer().json() == {"late": True}
        assert connection.answer().json() == {"n": 1}


def test_after_a_refused_body_the_connection_can_be_used_again(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("POST", "/v1/echo", body=b"x" * 900_000, key="wrong"))
        assert connection.answer().status == 401
        connection.send(request_bytes("POST", "/v1/echo", body=b"x" * 2_000_000))
        assert connection.answer().status == 413
        connection.send(request_bytes("POST", "/v1/echo", body=b'{"a": 1}'))
        assert connection.answer().json() == {"a": 1}


def test_a_smuggled_second_request_is_not_seen(server):
    inner = b"GET /v1/hello HTTP/1.1\r\nHost: a\r\n\r\n"
    with Connection(server.address) as connection:
        connection.send(b"POST /v1/echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(inner)) + inner)
        assert connection.answer().status == 400
        with pytest.raises(Closed):
            connection.answer()


@pytest.mark.parametrize("length", ["+2", "-1", "0x2", "2,2", " 2 3", ""])
@pytest.mark.parametrize("pieces", [1, 7])
def test_a_length_that_is_none_is_refused_once(server, length, pieces):
    """Also when the headers come in pieces between those of others."""
    data = request_bytes("POST", "/v1/echo", [("Content-Length", length)]) + b"{}"
    step = -(-len(data) // pieces)
    with Connection(server.address) as connection, Connection(server.address) as other, Connection(server.address) as half:
        half.send(b"POST /v1/echo HTTP/1.1\r\nHost: localhost\r\nContent-Le")
        for at in range(0, len(data), step):
            connection.send(data[at:at + step])
            other.send(request_bytes("GET", "/v1/hello"))
            assert other.answer().status == 200
        text = connection.take_rest()
        assert text.startswith(b"HTTP/1.1 400 ") and text.count(b"HTTP/1.1") == 1 and text.count(b"\r\n\r\n") == 1, text
        half.send(b"ngth: 2\r\nAuthorization: Bearer secret\r\n\r\n{}")
        assert half.answer().status == 200


def test_a_cookie_too_large_is_refused_once(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("GET", "/v1/hello", [("Cookie", "a=" + "b" * 18000)]))
        text = connection.take_rest()
        assert text.startswith(b"HTTP/1.1 431 ") and text.count(b"HTTP/1.1") == 1, text[:300]


def test_a_client_that_waits_for_100_continue_is_refused_before_it_sends(server):
    with Connection(server.address) as connection:
        connection.send(b"PUT /v1/upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\nExpect: 100-continue\r\n\r\n")
        assert connection.head().status == 401


def test_a_client_that_waits_for_100_continue_gets_it(server):
    with Connection(server.address) as connection:
        connection.send(request_bytes("PUT", "/v1/upload", [("Content-Length", "5"), ("Expect", "100-continue")]))
        assert connection.head().status == 100
        connection.send(b"hello")
        assert connection.answer().json() == {"received": 5}


def test_a_request_id_is_echoed_only_when_it_is_harmless(server):
    assert server.ask("GET", "/v1/hello", headers=[("X-Request-Id", "my-id_1.2")]).headers["x-request-id"] == "my-id_1.2"
    for bad in ("a b", "a" * 65, "<script>", 'a"b', ""):
        answer = server.ask("GET", "/v1/hello", headers=[("X-Request-Id", bad)])
        assert answer.headers["x-request-id"] != bad and len(answer.headers["x-request-id"]) == 20


def test_request_ids_differ(server):
    ids = {server.ask("GET", "/healthz").headers["x-request-id"] for _ in range(20)}
    assert len(ids) == 20


def test_http_1_0_is_answered_and_closed(server):
    with Connection(server.address) as connection:
        connection.send(b"GET /v1/hello HTTP/1.0\r\nAuthorization: Bearer secret\r\n\r\n")
        assert connection.answer().status == 200
        assert connection.is_closed()


def test_many_connections_at_once_are_served(server):
    connections = [Connection(server.address) for _ in range(300)]
    for connection in connections:
        connection.send(request_bytes("GET", "/v1/hello"))
    assert all(connection.answer().status == 200 for connection in connections)
    for connection in connections:
        connection.close()


def test_reset_in_the_middle_of_everything_does_no_harm(server):
    requests = [request_bytes("GET", "/v1/download?size=10000000"), request_bytes("POST", "/v1/wait?ms=50", body=b"{}"),
                request_bytes("PUT", "/v1/upload", [("Content-Length", "100000")]) + b"x" * 500, request_bytes("POST", "/v1/events", body=b"{}")]
    for _ in range(20):
        for data in requests:
            connection = Connection(server.address)
            connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.send(data)
            connection.close()
    assert server.ask("GET", "/v1/hello").status == 200
