# SPDX-License-Identifier: Apache-2.0
"""Bad input as a table that can be run over every route of a server.

A case makes the bytes of a request for a route and says which answers are right. The suite of src/http runs the table over
the routes of its test server, the API suite over all routes of viald (paths with ids that exist). After each case the
server must still answer; check() looks at that too.
"""

import json
from dataclasses import dataclass
from typing import Callable

from rawhttp import Closed, Connection, request_bytes

KNOWN_TYPES = {"invalid", "unauthorized", "forbidden", "not_found", "conflict", "quota", "unavailable", "timeout", "internal"}
CLOSED = 0


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    key: str = "secret"
    takes_json: bool = False  # the body is a JSON object, so wrong JSON must be refused
    is_public: bool = False
    any_method: bool = False  # the ports proxy: method, query and rest of the path are the inner program's business

    def __str__(self):
        return f"{self.method} {self.path}"


@dataclass(frozen=True)
class Case:
    name: str
    build: Callable[[Route], bytes]
    expect: tuple
    applies: Callable[[Route], bool] = lambda route: True
    is_json: bool = True  # False: libmicrohttpd itself refuses what is not HTTP at all, in words of its own
    hang_up: bool = False  # the client sends nothing more: half a request
    ends: bool = False  # after the answer the server says nothing more and closes

    def __str__(self):
        return self.name


def needs_key(route):
    return not route.is_public


def takes_json(route):
    return route.takes_json


def has_fixed_method(route):
    return not route.any_method


def with_body(body, content_type="application/json"):
    return lambda route: request_bytes(route.method, route.path, [("Content-Type", content_type)], body, route.key)


def with_headers(*headers):
    return lambda route: request_bytes(route.method, route.path, headers, None, route.key)


def with_lines(*lines, tail=b""):
    """Raw header lines after the request line and Host."""

    def build(route):
        head = [f"{route.method} {route.path} HTTP/1.1", "Host: localhost", f"Authorization: Bearer {route.key}", *lines]
        return "\r\n".join(head).encode("latin-1") + b"\r\n\r\n" + tail

    return build


def with_target(change):
    return lambda route: request_bytes(route.method, change(route.path), [], b"", route.key)


def add_query(query):
    return with_target(lambda path: path + ("&" if "?" in path else "?") + query)


def chunked(body):
    return with_lines("Transfer-Encoding: chunked", tail=body)


DEEP = b'{"a":' * 40 + b"1" + b"}" * 40

CASES = [
    # who is asking
    Case("no key", lambda r: request_bytes(r.method, r.path, key=None), (401,), needs_key),
    Case("wrong key", lambda r: request_bytes(r.method, r.path, key="vial_" + "x" * 40), (401,), needs_key),
    Case("empty key", lambda r: request_bytes(r.method, r.path, key=""), (401,), needs_key),
    Case("key of 60 kB", lambda r: request_bytes(r.method, r.path, key="k" * 60000), (401, 431, CLOSED), needs_key, is_json=False),
    Case("basic authentication", lambda r: request_bytes(r.method, r.path, [("Authorization", "Basic YTpi")], key=None), (401,), needs_key),
    Case("two keys", with_headers(("Authorization", "Bearer other")), (400,)),
    Case("forged identity headers do not replace a key",
         lambda r: request_bytes(r.method, r.path, [("X-Project", "other"), ("X-User", "root"), ("X-Role", "admin")], key=None), (401,), needs_key),
    # methods and targets
    Case("unknown method", lambda r: request_bytes("BREW", r.path, key=r.key), (405,), has_fixed_method),
    Case("method in small letters", lambda r: request_bytes(r.method.lower(), r.path, key=r.key), (400,)),
    Case("method with a control character", lambda r: request_bytes("GE\x01T", r.path, key=r.key), (400, CLOSED)),
    Case("absolute target", lambda r: request_bytes(r.method, "http://localhost" + r.path, key=r.key), (400,)),
    Case("no target", lambda r: f"{r.method} HTTP/1.1\r\nHost: a\r\n\r\n".encode(), (400, 404, CLOSED), is_json=False),
    Case("HTTP/9.9", lambda r: f"{r.method} {r.path} HTTP/9.9\r\nHost: a\r\n\r\n".encode(), (400, 505, CLOSED), is_json=False),
    Case("not HTTP", lambda r: b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", (400, CLOSED), is_json=False),
    Case("space in the target", with_target(lambda p: p + " x"), (400, CLOSED), is_json=False),
    Case("raw NUL in the path", with_target(lambda p: p.split("?")[0] + "\x00x"), (400,), ends=True),
    Case("raw NUL at the end of the path", with_target(lambda p: p.split("?")[0] + "\x00"), (400,), ends=True),
    Case("raw NUL in the query", add_query("x=1\x00&y=2"), (400,), ends=True),
    Case("NUL in the method", lambda r: request_bytes(r.method[:2] + "\x00" + r.method[2:], r.path, key=r.key), (400,), ends=True),
    Case("NUL after the method", lambda r: request_bytes(r.method + "\x00", r.path, key=r.key), (400,), ends=True),
    Case("NUL in the path", with_target(lambda p: p.split("?")[0] + "%00"), (400, 404), has_fixed_method),
    Case("NUL in the query", add_query("path=%00"), (400,), has_fixed_method),
    Case("invalid UTF-8 in the path", with_target(lambda p: p.split("?")[0] + "/%ff%fe"), (400, 404), has_fixed_method),
    Case("raw bytes that are not UTF-8 in the path", with_target(lambda p: p.split("?")[0] + "/\x82"), (400, 404), has_fixed_method),
    Case("invalid UTF-8 in the query", add_query("x=%c3%28"), (400,), has_fixed_method),
    Case("broken escape in the query", add_query("x=%zz"), (400,), has_fixed_method),
    Case("half an escape", add_query("x=%4"), (400,), has_fixed_method),
    Case("a thousand query parameters", add_query("&".join(f"a{i}=1" for i in range(1000))), (400,), has_fixed_method),
    Case("target of 100 kB", add_query("x=" + "y" * 100000), (400, 414, 431, CLOSED), is_json=False),
    Case("dot segments", with_target(lambda p: "/v1/../../../etc/passwd"), (404, 400)),
    Case("encoded dot segments", with_target(lambda p: "/v1/%2e%2e/%2e%2e/etc/passwd"), (404, 400)),
    # headers and framing
    Case("no Host", lambda r: f"{r.method} {r.path} HTTP/1.1\r\n\r\n".encode(), (400,), ends=True),
    Case("another's Host", lambda r: request_bytes(r.method, r.path, key=r.key, host="evil"), (403,)),
    Case("another's Host and Origin", lambda r: request_bytes(r.method, r.path, [("Origin", "http://evil")], key=r.key, host="evil"), (403,)),
    Case("two Hosts", with_headers(("Host", "other")), (400,)),
    Case("Host with a path in it", lambda r: request_bytes(r.method, r.path, key=r.key, host="a/b"), (400,)),
    Case("two Content-Lengths", with_lines("Content-Length: 2", "Content-Length: 3", tail=b"{} "), (400,)),
    Case("two equal Content-Lengths", with_lines("Content-Length: 2", "Content-Length: 2", tail=b"{}"), (400,)),
    Case("Content-Length and chunked", with_lines("Content-Length: 2", "Transfer-Encoding: chunked", tail=b"2\r\n{}\r\n0\r\n\r\n"), (400,)),
    Case("chunked and Content-Length", with_lines("Transfer-Encoding: chunked", "Content-Length: 2", tail=b"2\r\n{}\r\n0\r\n\r\n"), (400,)),
    Case("two Transfer-Encodings", with_lines("Transfer-Encoding: chunked", "Transfer-Encoding: gzip", tail=b"0\r\n\r\n"), (400,)),
    Case("unknown Transfer-Encoding", with_lines("Transfer-Encoding: gzip, chunked", tail=b"0\r\n\r\n"), (400,)),
    Case("obfuscated Transfer-Encoding", with_lines("Transfer-Encoding: xchunked", tail=b"0\r\n\r\n"), (400,)),
    Case("space before the colon", with_lines("Transfer-Encoding : chunked", tail=b"0\r\n\r\n"), (400,)),
    Case("negative Content-Length", with_lines("Content-Length: -1"), (400,), ends=True),
    Case("Content-Length with a sign", with_lines("Content-Length: +2", tail=b"{}"), (400,), ends=True),
    Case("Content-Length in hexadecimal", with_lines("Content-Length: 0x2", tail=b"{}"), (400,), ends=True),
    Case("Content-Length in words", with_lines("Content-Length: two", tail=b"{}"), (400,), ends=True),
    Case("Content-Length list", with_lines("Content-Length: 2, 2", tail=b"{}"), (400,), ends=True),
    Case("Content-Length list without blanks", with_lines("Content-Length: 2,2", tail=b"{}"), (400,), ends=True),
    Case("Content-Length of two numbers", with_lines("Content-Length:  2 3", tail=b"{}"), (400,), ends=True),
    Case("empty Content-Length", with_lines("Content-Length:", tail=b"{}"), (400,), ends=True),
    Case("Content-Length and a NUL", with_lines("Content-Length: 2\x00", tail=b"{}"), (400,), ends=True),
    Case("Content-Length beyond 64 bits", with_lines("Content-Length: 99999999999999999999999"), (400,), ends=True),
    Case("Content-Length beyond 63 bits", with_lines("Content-Length: 9999999999999999999"), (400,), ends=True),
    Case("header without a colon", with_lines("nonsense"), (400, CLOSED), is_json=False),
    Case("header name with a NUL", with_lines("X-\x00A: b"), (400, CLOSED), is_json=False),
    Case("header value with a NUL", with_lines("X-A: b\x00c"), (400,), ends=True),
    Case("key with a NUL", lambda r: request_bytes(r.method, r.path, key=r.key + "\x00x"), (400,), ends=True),
    Case("header value that ends in a NUL", with_lines("X-A: b\x00", "X-B: c"), (400,), ends=True),
    Case("last header value that ends in a NUL", with_lines("X-A: b\x00"), (400,), ends=True),
    Case("header value of a NUL", with_lines("X-A: \x00"), (400,), ends=True),
    Case("line that begins with a NUL", with_lines("\x00X-A: b", tail=b"{}"), (400,), ends=True),
    Case("line of a NUL", with_lines("\x00", "X-A: b", tail=b"{}"), (400,), ends=True),
    Case("bare line feeds", lambda r: request_bytes(r.method, r.path, key=r.key).replace(b"\r\n", b"\n"), (400,), ends=True),
    Case("one bare line feed", with_lines("X-A: b\nX-B: c"), (400,), ends=True),
    Case("folded header", with_lines("X-A: b", " c"), (400,), ends=True),
    Case("cookie larger than the memory left", with_lines("Cookie: a=" + "b" * 18000), (400, 401, 404, 405, 431, 426), is_json=False),
    Case("header value with a control character", with_lines("X-A: b\x07"), (400,)),
    Case("a thousand headers", with_headers(*[(f"X-{i}", "1") for i in range(1000)]), (400, 431, CLOSED), is_json=False),
    Case("header of 200 kB", with_headers(("X-A", "a" * 200000)), (400, 431, CLOSED), is_json=False),
    # chunked bodies
    Case("chunk size in words", chunked(b"zz\r\n{}\r\n0\r\n\r\n"), (400, 401, 404, 405, CLOSED), is_json=False),
    Case("negative chunk size", chunked(b"-2\r\n{}\r\n0\r\n\r\n"), (400, 401, 404, 405, CLOSED), is_json=False),
    Case("chunk size beyond 64 bits", chunked(b"fffffffffffffffff\r\n{}\r\n0\r\n\r\n"), (400, 413, CLOSED), is_json=False),
    Case("chunk longer than its size", chunked(b"1\r\n{}\r\n0\r\n\r\n"), (400, CLOSED), is_json=False),
    Case("empty chunk size", chunked(b"\r\n{}\r\n0\r\n\r\n"), (400, CLOSED), is_json=False),
    # JSON
    Case("not JSON", with_body(b"hello"), (400,), takes_json),
    Case("half an object", with_body(b'{"a": '), (400,), takes_json),
    Case("something after the object", with_body(b"{} {}"), (400,), takes_json),
    Case("an array", with_body(b"[]"), (400,), takes_json),
    Case("a bare string", with_body(b'"a"'), (400,), takes_json),
    Case("null", with_body(b"null"), (400,), takes_json),
    Case("duplicate keys", with_body(b'{"a": 1, "a": 2}'), (400,), takes_json),
    Case("forty levels", with_body(DEEP), (400,), takes_json),
    Case("a hundred thousand brackets", with_body(b'{"a":' + b"[" * 100000), (400,), takes_json),
    Case("invalid UTF-8 in a string", with_body(b'{"a": "\xff\xfe"}'), (400,), takes_json),
    Case("overlong UTF-8", with_body(b'{"a": "\xc0\xaf"}'), (400,), takes_json),
    Case("half a surrogate pair", with_body(b'{"a": "\\ud800"}'), (400,), takes_json),
    Case("escaped NUL", with_body(b'{"a": "b\\u0000c"}'), (400,), takes_json),
    Case("raw NUL", with_body(b'{"a": "b\x00c"}'), (400,), takes_json),
    Case("NUL in a key", with_body(b'{"a\\u0000": 1}'), (400,), takes_json),
    Case("number beyond 64 bits", with_body(b'{"a": 99999999999999999999999}'), (400,), takes_json),
    Case("number beyond doubles", with_body(b'{"a": 1e9999}'), (400,), takes_json),
    Case("NaN", with_body(b'{"a": NaN}'), (400,), takes_json),
    Case("byte order mark", with_body(b"\xef\xbb\xbf{}"), (400,), takes_json),
    Case("UTF-16", with_body('{"a": 1}'.encode("utf-16")), (400,), takes_json),
    Case("two megabytes", with_body(b'{"a": "' + b"x" * 2_000_000 + b'"}'), (413,), takes_json),
    Case("two megabytes in chunks", chunked(b"1f0000\r\n" + b"x" * 0x1F0000 + b"\r\n0\r\n\r\n"), (413,), takes_json),
    Case("a promised terabyte", with_lines("Content-Length: 1000000000000", tail=b"{"), (413,), takes_json),
    # half a request
    Case("half a request line", lambda r: r.method.encode(), (CLOSED, 400), is_json=False, hang_up=True),
    Case("half the headers", lambda r: f"{r.method} {r.path} HTTP/1.1\r\nHo".encode(), (CLOSED, 400), is_json=False, hang_up=True),
    Case("half a body", with_lines("Content-Length: 100", tail=b'{"a"'), (CLOSED, 400, 401, 404, 405, 413), is_json=False, hang_up=True),
]


def check_error_body(answer):
    """The error format of every route."""
    assert answer.headers["content-type"].startswith("application/json")
    body = answer.json()
    assert body["code"] == answer.status
    assert body["type"] in KNOWN_TYPES
    assert isinstance(body["error"], str) and body["error"] and body["message"] == body["error"]
    assert body["request_id"] == answer.headers["x-request-id"]


def check(address, route, case, tls=False):
    with Connection(address, tls=tls) as connection:
        connection.send(case.build(route))
        if case.hang_up:
            connection.socket.shutdown(1)
        try:
            answer = connection.answer(route.method)
        except Closed:
            assert CLOSED in case.expect, "the connection was closed without an answer"
            return None
        if case.ends:
            rest = connection.take_rest()
            assert not rest, f"after the answer came {rest[:300]!r}"
    assert answer.status in case.expect, f"{answer.status}: {answer.body[:300]!r}"
    if case.is_json and route.method != "HEAD":
        check_error_body(answer)
    return answer


def wrong_values(kind):
    """JSON values that are not of a kind, for fields of typed bodies."""
    values = {
        "string": [1, 1.5, True, [], {}],
        "integer": ["1", 1.5, True, [], {}, "", "NaN"],
        "boolean": [0, 1, "true", [], {}],
        "object": [1, "a", True, []],
        "array": [1, "a", True, {}],
    }
    return [json.dumps(value) for value in values[kind]]
