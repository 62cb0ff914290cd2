# SPDX-License-Identifier: Apache-2.0
"""Row 21: nothing of one project is visible to another, on any route. Rows 20, 22, 33: no key, no answer."""

import re
import subprocess

import pytest

from tools import UNKNOWN_ID, add_key, run, served_routes
from vial import build_dir, images_dir

BODY = {"cmd": "echo stolen", "code": "1", "path": "/workspace/a", "to": "/workspace/b", "count": 1, "signal": "KILL", "data": "x", "ttl_seconds": 1,
        "port": 80, "url": "http://example.org/", "host": "example.org", "mode": "open", "allow_out": ["ALL_TRAFFIC"]}


def served():
    return [f"{method} {pattern}" for method, pattern, _, _ in served_routes(build_dir() / "viald")]


@pytest.fixture(scope="module")
def belongings(client, sandbox):
    """Something of every kind that belongs to the first project."""
    sandbox.write("/workspace/a", b"mine")
    run(sandbox, "kept = 1")
    context = sandbox.call("POST", "/repl/sessions", {"language": "python"})
    pid = sandbox.spawn("sleep 1000")
    snapshot = sandbox.call("POST", "/snapshots", {})
    client.call("POST", "/v1/agents", {"name": "first-s-own"})
    client.call("POST", "/v1/agents/first-s-own/versions", {"template": "minimal"})
    client.call("POST", "/v1/agents/first-s-own/exec", {"cmd": "true"})
    yield {"agent": "first-s-own", "version": "1", "session": "default", "user": "nobody","id": sandbox.id, "sid": context["id"], "pid": str(pid), "snapshot": snapshot["id"], "port": "8000", "path": "x", "name": "minimal",
           "project": "default", "key": client.call("GET", "/v1/me")["key_id"], "seq": "1"}
    client.ask("DELETE", f"/v1/snapshots/{snapshot['id']}")
    client.ask("DELETE", "/v1/agents/first-s-own")


def fill(line, values):
    method, pattern = line.split()
    path = re.sub(r"\{(\w+)(?:\.\.\.)?\}", lambda match: values[match[1]], pattern)
    if "/fs" in path:
        path += "?path=/workspace/a"
    return ("GET" if method == "ANY" else method), path


SCOPED = [line for line in served() if "{id}" in line or "{snapshot}" in line or "{agent}" in line]


@pytest.mark.parametrize("line", SCOPED)
def test_another_project_s_things_do_not_exist_on_any_route(client, stranger, belongings, sandbox, line):
    method, path = fill(line, belongings)
    unknown_method, unknown_path = fill(line, {**belongings, "id": UNKNOWN_ID, "snapshot": UNKNOWN_ID, "agent": UNKNOWN_ID})
    body = {} if line.endswith("/versions") else BODY if method in ("POST", "PUT", "PATCH") else None
    headers = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="} if "/pty" in path else None
    answer = stranger.ask(method, path, body, headers=headers)
    assert answer.status == 404, answer.body
    other = stranger.ask(unknown_method, unknown_path, body, headers=headers)
    strip = lambda text, *words: re.sub("|".join(map(re.escape, words)), "", re.sub(r'"request_id":"\w+"', "", text))  # noqa: E731
    assert strip(answer.text, sandbox.id, belongings["snapshot"], belongings["agent"]) == strip(other.text, UNKNOWN_ID), "the answer must not tell what exists from what does not"
    assert sandbox.refresh()["status"] == "running"


def test_what_the_stranger_tried_changed_nothing(client, belongings, sandbox):
    assert sandbox.read("/workspace/a") == b"mine"
    assert run(sandbox, "kept")["results"][-1]["text/plain"] == "1"
    assert client.ask("GET", f"/v1/snapshots/{belongings['snapshot']}").status == 200
    assert sandbox.call("GET", "/lifecycle")["ttl_seconds"] == 3600
    assert any(process["pid"] == int(belongings["pid"]) and process["state"] == "running" for process in sandbox.call("GET", "/processes")["processes"])


def test_lists_show_only_one_s_own(client, stranger, belongings, sandbox):
    assert stranger.call("GET", "/v1/sandboxes") == []
    assert stranger.call("GET", "/v1/snapshots") == []
    assert stranger.call("GET", f"/v1/snapshots?sandbox_id={sandbox.id}") == []
    assert stranger.call("GET", f"/v1/sandboxes?cursor={sandbox.id}&limit=10")["items"] == []
    own = stranger.create()
    assert [one["id"] for one in stranger.call("GET", "/v1/sandboxes")] == [own.id]
    assert own.id not in [one["id"] for one in client.sandboxes()]
    assert client.ask("GET", own.path).status == 404, "not even for an admin of another project"
    own.delete()


def test_a_snapshot_of_another_project_starts_nothing(stranger, belongings):
    answer = stranger.ask("POST", "/v1/sandboxes", {"from_snapshot": belongings["snapshot"]})
    assert answer.status == 404


@pytest.mark.parametrize("line", [line for line in served() if "healthz" not in line])
def test_no_route_works_without_a_key_or_with_a_wrong_one(client, belongings, line):
    method, path = fill(line, belongings)
    for headers in ({}, {"Authorization": "Bearer vial_" + "0" * 40}, {"Authorization": client.key}, {"Authorization": f"Basic {client.key}"},
                    {"X-API-Key": client.key[:-1]}, {"X-API-Key": client.key + "a"}, {"Cookie": f"key={client.key}"}, {"X-Project": "default", "X-Role": "admin"}):
        answer = client.ask(method, path, BODY if method in ("POST", "PUT", "PATCH") else None, headers=headers, key=False)
        assert answer.status == 401, (headers, answer.status)
        assert belongings["id"] not in answer.text


def test_identity_headers_of_a_client_are_not_believed(stranger, sandbox):
    for name in ("X-Project", "X-Vial-Project", "X-Forwarded-User", "X-Remote-User", "X-Role", "X-Key-Id"):
        assert stranger.ask("GET", sandbox.path, headers={name: "default"}).status == 404


def test_a_public_address_needs_an_explicit_option(tmp_path):
    for address in ("0.0.0.0:0", "[::]:0", "192.0.2.1:8080"):
        done = subprocess.run([build_dir() / "viald", "--config", "/dev/null", "--data-dir", tmp_path, "--run-dir", tmp_path / "run", "--images-dir", images_dir(), "--listen", address], capture_output=True, text=True, timeout=30)
        assert done.returncode != 0 and "allow_public" in done.stderr.replace("-", "_"), done.stderr


def test_metrics_tell_a_project_only_of_itself(client, stranger, belongings):
    whole = client.ask("GET", "/metrics").text
    assert "vial_http_requests_total" in whole and "vial_network_bytes_total" in whole and 'vial_sandboxes{state="running"} 0' not in whole
    for path in ("/metrics", "/v1/metrics"):
        text = stranger.ask("GET", path).text
        samples = [line for line in text.splitlines() if not line.startswith("#")]
        assert samples and all(re.fullmatch(r'vial_sandboxes\{state="\w+"\} 0|vial_project_\w+\{project="other"[^{}]*\} \d+', line) for line in samples), text
    own = stranger.create()
    assert 'vial_sandboxes{state="running"} 1' in stranger.ask("GET", "/metrics").text
    own.delete()


def test_the_pool_is_the_operator_s_business(start_daemon):
    daemon = start_daemon("--pool-size", "1")
    key = add_key(daemon, "other", "admin")
    assert "pool" in daemon.client().call("GET", "/v1/me")
    assert "pool" not in daemon.client(key).call("GET", "/v1/me")
