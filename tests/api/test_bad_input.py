# SPDX-License-Identifier: Apache-2.0
"""Bad input over every route that viald says it serves. The table of tests/http runs over real paths of a real sandbox;
fields have a table of their own. Whatever comes, viald answers in its own words, lives, and holds nothing open for it."""

import re

import pytest

from bad_input import CASES, Route, check, check_error_body
from rawhttp import Connection, request_bytes
from tools import UNKNOWN_ID, descriptors, served_routes, wait_until
from vial import build_dir

PUBLIC = {"/healthz", "/v1/healthz"}
# Routes that take no JSON: what the body says is not looked at, or is a file.
NO_JSON = {"PUT /v1/sandboxes/{id}/fs", "PUT /v1/agents/{agent}/fs", "PUT /v1/sandboxes/{id}/processes/{pid}/stdin"}
EXTRA_QUERY = {"/fs": "path=/workspace/nothing", "/fs/dir": "path=/workspace", "/fs/stat": "path=/workspace", "/fs/watch": "path=/workspace"}
# Refused before the guest is asked, or harmless there: the whole table runs over these. The rest gets those cases in which
# the request never reaches its handler, because a handler that works as it should would end or freeze the sandbox.
BEFORE_THE_HANDLER = {"no key", "wrong key", "empty key", "basic authentication", "two keys", "unknown method", "NUL in the path",
                      "two Content-Lengths", "Content-Length and chunked", "header value with a control character", "two Hosts", "another's Host",
                      "forged identity headers do not replace a key", "half the headers"}
GENTLE = re.compile(r"^GET (?!.*(attach|watch|pty|logs|ports|events))|^POST .*/(exec|exec/stream|run|run/stream|sessions|mkdir|move|signal|stdin|check)$|^PATCH|^PUT .*network")


# Bodies with code or input in them may be large; test_budgets.py has their limit.
LARGE = re.compile(r"^POST .*/(exec|exec/stream|run|run/stream|stdin|versions)$")
TOO_LARGE_ELSEWHERE = {"two megabytes", "two megabytes in chunks"}


def served():
    return [f"{method} {pattern}" for method, pattern, _, _ in served_routes(build_dir() / "viald")]


def path_of(line, values):
    method, pattern = line.split()
    path = re.sub(r"\{(\w+)(?:\.\.\.)?\}", lambda match: values[match[1]], pattern)
    for end, query in EXTRA_QUERY.items():
        if pattern.endswith("{id}" + end):
            path += "?" + query
    return ("GET" if method == "ANY" else method), path


def values_for(sandbox):
    return {"id": sandbox.id, "name": "minimal", "snapshot": UNKNOWN_ID, "pid": "999999", "port": "59999", "path": "a/b", "sid": UNKNOWN_ID, "project": "default", "key": UNKNOWN_ID, "seq": "1",
            "agent": "nobody", "version": "1", "session": "s", "user": "u"}


def route_for(line, sandbox, key):
    method, path = path_of(line, values_for(sandbox))
    return Route(method, path, key, is_public=path in PUBLIC, any_method=line.startswith("ANY"),
                 takes_json=method in ("POST", "PATCH", "PUT") and line not in NO_JSON and "network/check" not in line and not line.startswith("ANY"))


@pytest.mark.parametrize("line", served())
def test_bad_requests_are_refused_in_viald_s_words(daemon, client, sandbox, line):
    route = route_for(line, sandbox, client.key)
    address = ("127.0.0.1", daemon.port)
    for case in CASES:
        if not case.applies(route) or not (case.ends or case.name in BEFORE_THE_HANDLER or GENTLE.search(line)):
            continue
        if case.name in TOO_LARGE_ELSEWHERE and LARGE.search(line):
            continue
        try:
            check(address, route, case)
        except AssertionError as problem:
            raise AssertionError(f"{case.name}: {problem}") from problem
    assert daemon.alive()


# Somebody of whom nothing is known is forgotten as well as anybody.
@pytest.mark.parametrize("line", [line for line in served() if "{" in line and line != "DELETE /v1/users/{user}"])
def test_unknown_ids_are_404_on_every_route(client, line):
    values = {"id": UNKNOWN_ID, "name": "none", "snapshot": UNKNOWN_ID, "pid": "1", "port": "80", "path": "x", "sid": UNKNOWN_ID, "project": "none", "key": UNKNOWN_ID, "seq": "999999999",
              "agent": "nobody", "version": "1", "session": "s", "user": "u"}
    method, path = path_of(line, values)
    body = {"cmd": "true", "code": "1", "path": "/workspace/a", "to": "/workspace/b", "count": 1, "port": 80, "url": "http://a/", "mode": "disabled"}
    if "/keys" in line or "/projects" in line or line.endswith("/versions"):
        body = {}  # what gives rights takes no field that it does not know
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
    answer = client.ask(method, path, body if method in ("POST", "PATCH", "PUT") else None, headers=upgrade if "/pty" in path else None)
    assert answer.status == 404, answer.body
    assert answer.json()["type"] == "not_found"


@pytest.mark.parametrize("bad", ["A" * 20, "a" * 19, "a" * 21, "a" * 4000, "..", "%2e%2e", "a%2fb", "%00", "%ff", "' OR 1=1 --".replace(" ", "%20"), "ä"])
def test_ids_that_are_none_are_refused(client, bad):
    try:
        bad.encode("ascii")
    except UnicodeEncodeError:
        bad = "%C3%A4"
    for method, path in (("GET", f"/v1/sandboxes/{bad}"), ("DELETE", f"/v1/sandboxes/{bad}"), ("GET", f"/v1/snapshots/{bad}"),
                         ("POST", f"/v1/sandboxes/{bad}/exec")):
        answer = client.ask(method, path, {"cmd": "true"} if method == "POST" else None)
        assert answer.status in (400, 404, 405), (method, path, answer.status)


FIELDS = [  # route, a body that would do, field, its type
    ("POST /exec", {"cmd": "true"}, "cmd", "string"), ("POST /exec", {"cmd": "true"}, "cwd", "string"), ("POST /exec", {"cmd": "true"}, "env", "object"),
    ("POST /exec", {"cmd": "true"}, "user", "string"), ("POST /exec", {"cmd": "true"}, "stdin", "string"),
    ("POST /exec", {"cmd": "true"}, "timeout_seconds", "number"), ("POST /exec", {"cmd": "true"}, "background", "boolean"),
    ("POST /exec", {}, "argv", "array"),
    ("POST /run", {"code": "1"}, "code", "string"), ("POST /run", {"code": "1"}, "language", "string"), ("POST /run", {"code": "1"}, "timeout_ms", "number"),
    ("POST /run", {"code": "1"}, "env", "object"), ("POST /run", {"code": "1"}, "max_output_bytes", "number"), ("POST /run", {"code": "1"}, "raw_ansi", "boolean"), ("POST /run", {"code": "1"}, "images", "boolean"),
    ("POST /repl/sessions", {}, "language", "string"), ("POST /repl/sessions", {}, "cwd", "string"),
    ("POST /fs/mkdir", {"path": "/workspace/d"}, "path", "string"), ("POST /fs/mkdir", {"path": "/workspace/d"}, "user", "string"),
    ("POST /fs/move", {"path": "/workspace/d", "to": "/workspace/e"}, "to", "string"),
    ("PATCH /lifecycle", {}, "ttl_seconds", "number"), ("PATCH /lifecycle", {}, "idle_seconds", "number"), ("PATCH /lifecycle", {}, "on_idle", "string"),
    ("PATCH /lifecycle", {}, "persistent", "boolean"),
    ("POST /snapshots", {}, "name", "string"), ("POST /fork", {}, "metadata", "object"), ("POST /fork-tree", {}, "count", "number"),
    ("POST /fork-tree", {"count": 1}, "metadata", "object"), ("POST /promote", {}, "tree_id", "string"), ("POST /promote", {}, "cleanup_siblings", "boolean"),
    ("POST /processes/1/signal", {}, "signal", "string"), ("POST /processes/1/stdin", {}, "data", "string"), ("POST /processes/1/stdin", {}, "close", "boolean"),
]
WRONG = {
    "string": [1, -1, 1.5, True, [], {}], "number": ["1", "", True, [], {}, -1, 1e300, -1e300], "boolean": [0, 1, "true", [], {}],
    "object": [1, "a", True, [], {"a": 1}, {"a": None}, {"a": {}}], "array": [1, "a", True, {}, [], [1], [None], [[]]],
}


@pytest.mark.parametrize("route,body,field,kind", FIELDS, ids=[f"{route} {field}" for route, _, field, _ in FIELDS])
def test_a_field_of_the_wrong_type_is_named(client, sandbox, route, body, field, kind):
    method, path = route.split()
    for value in WRONG[kind]:
        answer = sandbox.ask(method, path, {**body, field: value})
        assert answer.status == 400, (value, answer.status, answer.body)
        assert field in answer.json()["error"], answer.body


@pytest.mark.parametrize("path", ["/fs?path=../../../etc/shadow", "/fs?path=/workspace/../../root/.ssh/id", "/fs?path=%2e%2e%2f%2e%2e%2fetc%2fshadow",
                                  "/fs?path=//etc//shadow", "/fs?path=/proc/1/root/etc/shadow", "/fs?path=/proc/self/environ"])
def test_path_escapes_do_not_reach_what_the_user_may_not(sandbox, path):
    answer = sandbox.ask("GET", path)
    assert answer.status in (400, 403, 404), answer.body[:200]


def test_nothing_is_held_open_for_bad_clients(daemon, client, sandbox):
    sandbox.exec("true")
    wait_until(lambda: True)
    before = len(descriptors(daemon))
    address = ("127.0.0.1", daemon.port)
    for number in range(60):
        with Connection(address) as connection:
            connection.send([request_bytes("POST", sandbox.path + "/exec", body=b'{"cmd": "sleep 50"}', key=client.key),
                             request_bytes("PUT", sandbox.path + "/fs?path=/workspace/x", [("Content-Length", "1000")], key=client.key) + b"abc",
                             request_bytes("GET", sandbox.path + "/fs/watch?path=/workspace", key=client.key), b"GET /v1/me HT"][number % 4])
    for _ in range(20):
        client.ask("POST", "/v1/sandboxes", {"template": "none"})
        client.ask("GET", "/v1/nothing")
    wait_until(lambda: len(descriptors(daemon)) <= before + 3, 20)
    assert sandbox.exec("echo fine")["stdout"] == "fine\n"


def test_an_error_never_shows_what_is_inside_viald(client, sandbox):
    for answer in (client.ask("POST", "/v1/sandboxes", {"template": "../../x"}), sandbox.ask("GET", "/fs?path=/none"),
                   client.ask("GET", "/v1/templates/%2e%2e%2fdb.sqlite")):
        assert "/tmp/" not in answer.text and ".c:" not in answer.text
        check_error_body_of(answer)


def check_error_body_of(answer):
    answer.headers = {name.lower(): value for name, value in answer.headers.items()}
    check_error_body(answer)
