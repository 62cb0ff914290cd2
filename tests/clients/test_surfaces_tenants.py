# SPDX-License-Identifier: Apache-2.0
"""Nothing of one project is visible to another through any surface. The routes are those that viald says it serves, so that a new one is tried by itself; the
native ones have tests/security and tests/governance."""

import re

import pytest

import surfaces
from tools import UNKNOWN_ID, add_key

ROUTES = [(f"{method} {pattern}", surface, role) for method, pattern, _, role, surface in surfaces.routes() if surface != "native"]
UPGRADE = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
# Enough for any route to get as far as the question whose the sandbox is.
BODY = {"cmd": "echo stolen", "code": "echo stolen", "language": "bash", "argv": ["true"], "shellCmd": "sh", "cols": 80, "rows": 24, "timeout": 60, "path": "/tmp/mine",
        "source": "/tmp/mine", "destination": "/tmp/stolen", "n": 1, "count": 1, "data_b64": "eA==", "signal": "SIGNAL_SIGKILL", "process": {"cmd": "/bin/true", "pid": 1},
        "input": {"stdin": "eA=="}, "network": {}, "name": "stolen", "metadata": {}}


@pytest.fixture(scope="module")
def stranger(daemon):
    """Somebody with all the rights of a project of his own, and a key of each form."""
    return daemon.client(add_key(daemon, "tenant-stranger", role="admin", form="e2b"))


@pytest.fixture(scope="module")
def mine(client):
    sandbox = client.create(metadata={"whose": "mine"})
    sandbox.write("/tmp/mine", b"mine")
    snapshot = sandbox.call("POST", "/snapshots", {})
    token = client.call("POST", "/v1/me/tokens", {"label": "mine"})
    yield {"sandbox": sandbox, "snapshot": snapshot["id"], "prefix": token["prefix"]}
    client.ask("DELETE", f"/v1/snapshots/{snapshot['id']}")
    sandbox.delete()


def is_data(line, role):
    """Whose sandbox is said by headers, and who may is judged by the handler: E2B's data plane. (Where a build's files are sent to has a ticket: test_e2b_copy.py.)"""
    return role == "public" and "{id}" not in line and "healthz" not in line and "/files/{hash}" not in line


def named(values):
    """What a parameter's name in a path means; any other is something within the sandbox."""
    def value(match):
        name = match[1].lower()
        kind = next((kind for kind in ("template", "snapshot", "prefix", "port", "pid") if kind in name), "sandbox" if name in ("id", "winner") else "path" if "path" in name else "")
        return values.get(kind, "x") or "x"
    return value


def port_of(line):
    return surfaces.CODE if re.search("execute|contexts", line) else "8000" if line.startswith("ANY") else surfaces.ENVD


def ask(client, line, role, sandbox_id, owned, **options):
    method, pattern = line.split()
    method = "GET" if method == "ANY" else method
    values = {"sandbox": sandbox_id, "template": "minimal", "snapshot": owned["snapshot"], "prefix": owned["prefix"], "port": "8000", "pid": "1", "path": "tmp/mine"}
    path = re.sub(r"\{(\w+)(?:\.\.\.)?\}", named(values), pattern)
    headers = {"E2b-Sandbox-Id": sandbox_id, "E2b-Sandbox-Port": port_of(line)} if is_data(line, role) else {}
    body = dict(BODY) if method in ("POST", "PUT", "PATCH") else None
    if re.search(r"Process/(Start|Connect|StreamInput)|WatchDir$", pattern):
        headers["Content-Type"], body = "application/connect+json", surfaces.frame(body)
    elif path.endswith("/pty") and method == "GET" and "podflare" not in path:
        headers.update(UPGRADE)
    elif path.endswith("/files"):
        path += "?path=/tmp/mine"
    if path.endswith("/files?path=/tmp/mine") and method == "POST" or method == "PUT" and "/file" in path:
        headers["Content-Type"], body = "application/octet-stream", b"stolen"
    return client.ask(method, path, body, headers=headers, **options)


def without(text, *words):
    """An answer without what may differ between two questions for the same nothing."""
    text = re.sub(r'"request_id":\s*"\w+"', "", text)
    return re.sub("|".join(map(re.escape, words)), "", text)


def about_one(lines):
    return [(line, role) for line, surface, role in lines if "{id}" in line or is_data(line, role)]


@pytest.mark.parametrize("line, role", about_one(ROUTES), ids=lambda value: value.replace(" ", ""))
def test_another_project_s_sandbox_does_not_exist(client, stranger, mine, line, role):
    if "/mount" in line or "/unmount" in line:
        pytest.skip("refuses everybody, whatever the sandbox")
    if line == "GET /health":
        pytest.skip("says to everybody who knows an id whether that sandbox lives, as the service's does")
    there = mine["sandbox"].id
    answer = ask(stranger, line, role, there, mine)
    unknown = ask(stranger, line, role, UNKNOWN_ID, mine)
    assert answer.status >= 400 or line.startswith("DELETE") or b'"running":false' in answer.body or b'"error"' in answer.body, answer.body
    assert (answer.status, without(answer.text, there)) == (unknown.status, without(unknown.text, UNKNOWN_ID)), "the answer must not tell what exists from what does not"
    for word in ("mine", "stolen", "root:"):
        assert word not in answer.text.replace("/tmp/mine", ""), answer.text
    assert mine["sandbox"].refresh()["status"] == "running"


@pytest.mark.parametrize("line, role", [(line, role) for line, surface, role in ROUTES if role != "public" or is_data(line, role) and line != "GET /health"], ids=lambda value: value.replace(" ", ""))
def test_no_route_answers_without_a_key_or_with_a_wrong_one(client, mine, line, role):
    for key in (False, "wrong", "e2b_" + "0" * 40):
        answer = ask(client, line, role, mine["sandbox"].id, mine, key=key)
        # What leads to a program's port is closed with 403, which is where E2B's clients look for it.
        is_no = answer.status == (403 if role == "public" and line.startswith("ANY ") else 401) or b"unauthenticated" in answer.body
        assert is_no and mine["sandbox"].id not in answer.text, (line, answer.status, answer.body)


def test_lists_show_only_one_s_own(client, stranger, mine):
    """Every GET that names no sandbox."""
    lists = [(line, role) for line, surface, role in ROUTES if line.startswith("GET ") and "{" not in line and role != "public"]
    assert len(lists) >= 4
    for line, role in lists:
        answer = ask(stranger, line, role, "", mine)
        for secret in (mine["sandbox"].id, mine["snapshot"], mine["prefix"]):
            assert secret not in answer.text, (line, answer.text)


@pytest.mark.parametrize("line, role", [(line, role) for line, surface, role in ROUTES if re.search(r"\{\w*(snapshot|prefix)\w*\}", line, re.IGNORECASE)] or [("", "")],
                         ids=lambda value: value.replace(" ", ""))
def test_snapshots_and_tokens_of_others_do_not_exist(client, stranger, mine, line, role):
    answer = ask(stranger, line, role, "x", mine)
    assert answer.status == 404, (line, answer.body)
    assert client.ask("GET", f"/v1/snapshots/{mine['snapshot']}").status == 200
    assert mine["prefix"] in [token["prefix"] for token in client.call("GET", "/v1/me/tokens")]


def test_a_snapshot_of_another_project_starts_nothing(stranger, mine):
    for path, body in (("/v2/sandboxes", {"templateID": mine["snapshot"]}), ("/sandboxes", {"templateID": mine["snapshot"]}), ("/v1/sandboxes", {"from_snapshot": mine["snapshot"]})):
        answer = stranger.ask("POST", path, body, headers=surfaces.PANDASTACK if "from_snapshot" in body else {})
        assert answer.status in (400, 404), answer.body
    assert stranger.call("GET", "/v1/sandboxes") == []


def test_what_the_stranger_tried_changed_nothing(client, mine):
    assert mine["sandbox"].read("/tmp/mine") == b"mine" and mine["sandbox"].refresh()["metadata"] == {"whose": "mine"}
    assert mine["sandbox"].call("GET", "/network")["mode"] == "disabled" and mine["sandbox"].call("GET", "/lifecycle")["ttl_seconds"] == 3600


@pytest.mark.parametrize("line, role", [(line, role) for line, role in about_one(ROUTES) if not re.search(r"\{(?!id\}|path|template)", line)],
                         ids=lambda value: value.replace(" ", ""))
def test_the_same_question_of_the_owner_finds_it(client, line, role):
    """Or else the tests above would show nothing: what they send gets as far as the sandbox. Each has one of its own, which it may use up."""
    if re.search(r"/(un)?mount|WatcherEvents|RemoveWatcher|Process/(Connect|Send|Close)", line) or line.startswith("ANY"):
        pytest.skip("asks for something else that is not there")
    sandbox = client.create()
    sandbox.write("/tmp/mine", b"mine")
    if "/spaces/" in line:  # Podflare's word for one that is asleep
        sandbox.call("POST", "/hibernate", {})
    response = ask_open(client, line, role, sandbox)
    assert response not in (401, 403, 404), line
    client.ask("DELETE", sandbox.path)


CHANGES = re.compile(r"Process/(Start|Send|Close)|Filesystem/(MakeDir|Move|Remove)$|POST /(files|execute|contexts)|DELETE /contexts|GET /envs")


def test_a_viewer_changes_nothing_through_headers_either(daemon, mine):
    """These routes judge by themselves who may: so each is asked by somebody who may look and nothing else."""
    viewer = daemon.client(add_key(daemon, "default", role="viewer"))
    lines = [(line, role) for line, _, role in ROUTES if is_data(line, role) and CHANGES.search(line)]
    assert len(lines) > 10
    for line, role in lines:
        answer = ask(viewer, line, role, mine["sandbox"].id, mine)
        assert answer.status == 403 or b"permission_denied" in answer.body, (line, answer.status, answer.body)
    assert mine["sandbox"].read("/tmp/mine") == b"mine"


def ask_open(client, line, role, sandbox):
    """Only the status: some of these answers go on for as long as somebody listens."""
    class Opener:
        def ask(self, *arguments, **options):
            response = client.open(*arguments, **options)
            status, head = response.status, response.read1(2000) if response.status != 101 else b""
            response.connection.close()
            return 404 if b"not_found" in head else status
    return ask(Opener(), line, role, sandbox.id, {"snapshot": "x", "prefix": "x"})
