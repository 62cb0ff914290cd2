# SPDX-License-Identifier: Apache-2.0
"""One record for everything that is done, with who, what, where and what came of it; none for looking. By the table of routes itself: a route without a
deed here fails."""

import hashlib
import json
import os
import re
import signal

import pytest
from record import found, prove
from tools import add_key, check_refusal, engine_processes, served_routes, wait_until, with_query
from vial import Sandbox, WebSocket, build_dir

ROUTES = [(method, pattern, verb) for method, pattern, verb, _ in served_routes(build_dir() / "viald")]
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALL = {"model": "some-model", "provider": "some-provider", "response_id": "resp-1", "tool_call_id": "call-7", "user": "u-17"}
ASKED = {"traceparent": f"00-{TRACE}-{SPAN}-01", "X-Vial-Origin": json.dumps(CALL)}
LOOKING = {"health", "me", "daemon.metrics", "project.read", "quota.read", "usage.read", "key.read", "audit.read", "audit.verify", "template.read",
           "sandbox.list", "sandbox.read", "snapshot.read", "network.read", "process.read", "port.read", "logs", "metrics", "file.list", "context.read",
           "agent.read", "session.read"}
# Who ends a session ends its sandbox, and that is told of the sandbox, too.
BESIDES = {"session.end": ["sandbox.delete"]}


def sha(text):
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


class World:
    """Something of everything, made anew where a deed uses it up."""

    def __init__(self, daemon):
        self.daemon, self.client = daemon, daemon.client()
        self.sandbox = self.client.create(network={"mode": "filtered"})
        self.count = 0
        self.agent = self.new_agent()
        self.client.call("POST", f"/v1/agents/{self.agent}/exec", {"cmd": "true"})
        self.me = next(key["id"] for key in self.client.call("GET", "/v1/keys") if key["name"] == "admin")
        self.image = next(one["hash"] for one in self.client.call("GET", "/v1/templates") if one["name"] == "minimal")

    def name(self):
        self.count += 1
        return f"thing-{self.count}"

    def ask(self, method, path, body=None):
        return self.client.ask(method, path, body, headers=ASKED)

    def inside(self, method, path, body=None, sandbox=None):
        return self.ask(method, (sandbox or self.sandbox).path + path, body)

    def new_agent(self):
        name = self.client.call("POST", "/v1/agents", {"name": self.name()})["name"]
        self.client.call("POST", f"/v1/agents/{name}/versions", {"template": "minimal"})
        return name

    def new_version(self):
        return self.client.call("POST", f"/v1/agents/{self.agent}/versions", {"template": "minimal"})["version"]

    def session(self):
        name = self.name()
        self.client.call("POST", f"/v1/agents/{self.agent}/exec", {"cmd": "true", "session": name})
        return name

    def agent_file(self):
        path = f"/workspace/{self.name()}"
        self.client.call("POST", f"/v1/agents/{self.agent}/exec", {"cmd": f"echo -n hello > {path}"})
        return path

    def of_agent(self, method, path, body=None):
        return self.ask(method, f"/v1/agents/{self.agent}{path}", body)

    def project(self):
        return self.client.call("POST", "/v1/projects", {"name": self.name()})["name"]

    def key(self):
        return self.client.call("POST", "/v1/keys", {"name": self.name(), "role": "runner"})["id"]

    def context(self):
        return self.sandbox.call("POST", "/repl/sessions", {"language": "bash"})["id"]

    def file(self, content="hello"):
        path = f"/workspace/{self.name()}"
        self.sandbox.write(path, content)
        return path

    def last_seq(self):
        newest = self.client.call("GET", "/v1/audit?limit=1")["items"]
        return newest[0]["seq"] if newest else 0

    def since(self, seq):
        return [record for record in found(self.client, limit=1000) if record["seq"] > seq]


@pytest.fixture(scope="module")
def world(daemon):
    world = World(daemon)
    yield world
    for sandbox in world.client.sandboxes():
        world.client.ask("DELETE", f"/v1/sandboxes/{sandbox['id']}")


# What each route is asked to do: first what it needs, then the one call that is to be recorded; what its body must say.

def after(prepare, act):
    """A deed whose preparations are not looked at."""
    return prepare, act


def stream(path, body):
    return after(lambda w: None, lambda w, _: w.inside("POST", path, body))


def tunnel(suffix):
    def prepare(w):
        w.sandbox.serve(8123, "import http.server, sys\nhttp.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]), bind='0.0.0.0')") \
            if not any(port["port"] == 8123 for port in w.sandbox.call("GET", "/ports")["ports"]) else None
    return after(prepare, lambda w, _: w.inside("GET", f"/ports/8123{suffix}"))


def terminal(w, _):
    socket = WebSocket(w.client.address, w.sandbox.path + "/pty", {"Authorization": f"Bearer {w.client.key}", **ASKED})
    socket.send(b"echo typed-in; exit 5\n")
    try:
        while socket.receive() is not None:
            pass
    except EOFError:
        pass
    socket.vanish()
    return socket


def context_run(suffix):
    return after(World.context, lambda w, sid: w.inside("POST", f"/repl/sessions/{sid}/{suffix}", {"code": "echo in-context"}))


def agent_call(path, body):
    return after(lambda w: None, lambda w, _: w.of_agent("POST", path, body))


nothing = lambda w: None  # noqa: E731
A = "/v1/agents/{agent}"
DEEDS = {
    "POST /v1/projects": (after(World.name, lambda w, name: w.ask("POST", "/v1/projects", {"name": name})), {"name", "quotas"}),
    "PATCH /v1/projects/{project}": (after(World.project, lambda w, name: w.ask("PATCH", f"/v1/projects/{name}", {"description": "changed"})), {"name", "before", "quotas"}),
    "DELETE /v1/projects/{project}": (after(World.project, lambda w, name: w.ask("DELETE", f"/v1/projects/{name}")), {"name"}),
    "PUT /v1/projects/{project}/quotas": (after(World.project, lambda w, name: w.ask("PUT", f"/v1/projects/{name}/quotas", {"max_sandboxes": 3})), {"before", "quotas"}),
    "POST /v1/keys": (after(World.name, lambda w, name: w.ask("POST", "/v1/keys", {"name": name, "role": "runner"})), {"key", "role", "project"}),
    "PATCH /v1/keys/{key}": (after(World.key, lambda w, key: w.ask("PATCH", f"/v1/keys/{key}", {"name": "other"})), {"key", "name"}),
    "DELETE /v1/keys/{key}": (after(World.key, lambda w, key: w.ask("DELETE", f"/v1/keys/{key}")), {"key", "name"}),
    "POST /v1/keys/{key}/rotate": (after(World.key, lambda w, key: w.ask("POST", f"/v1/keys/{key}/rotate", {"overlap_seconds": 5})), {"key", "overlap_seconds"}),
    "GET /v1/audit/export": (after(nothing, lambda w, _: w.ask("GET", "/v1/audit/export?action=run")), set()),
    "POST /v1/agents": (after(World.name, lambda w, name: w.ask("POST", "/v1/agents", {"name": name})), {"name"}),
    f"DELETE {A}": (after(World.new_agent, lambda w, name: w.ask("DELETE", f"/v1/agents/{name}")), {"name", "sessions"}),
    f"POST {A}/versions": (agent_call("/versions", {"template": "minimal", "env": {"NAME": "value"}}), {"template": "minimal", "env_names": ["NAME"]}),
    f"POST {A}/versions/{{version}}/activate": (agent_call("/versions/1/activate", {}), {"before": 1}),
    f"POST {A}/versions/{{version}}/retire": (after(World.new_version, lambda w, number: w.of_agent("POST", f"/versions/{number}/retire")), {"before": 1}),
    f"DELETE {A}/sessions/{{session}}": (after(World.session, lambda w, name: w.of_agent("DELETE", f"/sessions/{name}")), set()),
    f"DELETE {A}/users/{{user}}": (after(nothing, lambda w, _: w.of_agent("DELETE", "/users/nobody")), set()),
    "DELETE /v1/users/{user}": (after(nothing, lambda w, _: w.ask("DELETE", "/v1/users/nobody")), set()),
    f"POST {A}/run": (agent_call("/run", {"code": "echo code", "language": "bash"}), {"code": "echo code", "language": "bash"}),
    f"POST {A}/run/stream": (agent_call("/run/stream", {"code": "echo code", "language": "bash"}), {"code": "echo code", "language": "bash"}),
    f"POST {A}/exec": (agent_call("/exec", {"cmd": "cat; exit 3", "stdin": "given", "run_as": "root"}), {"cmd": "cat; exit 3", "user": "root"}),
    f"POST {A}/exec/stream": (agent_call("/exec/stream", {"argv": ["echo", "words"]}), {"argv": ["echo", "words"]}),
    f"GET {A}/fs": (after(World.agent_file, lambda w, path: w.of_agent("GET", with_query("/fs", path=path))), {"path", "output"}),
    f"PUT {A}/fs": (after(nothing, lambda w, _: w.of_agent("PUT", "/fs?path=/workspace/put", b"hello")), {"path": "/workspace/put", "input": {"bytes": 5, "sha256": sha("hello")}}),
    f"DELETE {A}/fs": (after(World.agent_file, lambda w, path: w.of_agent("DELETE", with_query("/fs", path=path))), {"path"}),
    f"POST {A}/fs/mkdir": (agent_call("/fs/mkdir", {"path": "/workspace/made"}), {"path": "/workspace/made"}),
    f"POST {A}/fs/move": (after(World.agent_file, lambda w, path: w.of_agent("POST", "/fs/move", {"path": path, "to": path + "-moved"})), {"path", "to"}),
    "POST /v1/sandboxes": (after(nothing, lambda w, _: w.ask("POST", "/v1/sandboxes", {"template": "minimal"})), {"template"}),
    "DELETE /v1/sandboxes/{id}": (after(lambda w: w.client.create(), lambda w, box: w.inside("DELETE", "", sandbox=box)), set()),
    "PATCH /v1/sandboxes/{id}/lifecycle": (after(nothing, lambda w, _: w.inside("PATCH", "/lifecycle", {"ttl_seconds": 3000})), {"ttl_seconds"}),
    "POST /v1/sandboxes/{id}/pause": (after(nothing, lambda w, _: w.inside("POST", "/pause")), set()),
    "POST /v1/sandboxes/{id}/resume": (after(lambda w: w.sandbox.ask("POST", "/pause"), lambda w, _: w.inside("POST", "/resume")), set()),
    "POST /v1/sandboxes/{id}/hibernate": (after(nothing, lambda w, _: w.inside("POST", "/hibernate")), set()),
    "POST /v1/sandboxes/{id}/wake": (after(lambda w: w.sandbox.ask("POST", "/hibernate"), lambda w, _: w.inside("POST", "/wake")), set()),
    "POST /v1/sandboxes/{id}/snapshots": (after(World.name, lambda w, name: w.inside("POST", "/snapshots", {"name": name})), {"name", "size_bytes"}),
    "POST /v1/sandboxes/{id}/fork": (after(nothing, lambda w, _: w.inside("POST", "/fork", {})), {"count", "children"}),
    "POST /v1/sandboxes/{id}/fork-tree": (after(nothing, lambda w, _: w.inside("POST", "/fork-tree", {"count": 2})), {"count", "children"}),
    "POST /v1/sandboxes/{id}/promote": (after(lambda w: Sandbox(w.client, w.sandbox.call("POST", "/fork-tree", {"count": 2})["children"][0]),
                                              lambda w, child: w.inside("POST", "/promote", {"cleanup_siblings": True}, sandbox=child)), set()),
    "DELETE /v1/snapshots/{snapshot}": (after(lambda w: w.sandbox.call("POST", "/snapshots", {"name": w.name()})["id"],
                                              lambda w, snapshot: w.ask("DELETE", f"/v1/snapshots/{snapshot}")), {"name"}),
    "PUT /v1/sandboxes/{id}/network": (after(nothing, lambda w, _: w.inside("PUT", "/network", {"mode": "filtered", "allow_out": ["example.org"]})), {"policy", "before"}),
    "POST /v1/sandboxes/{id}/exec": (stream("/exec", {"cmd": "cat; exit 3", "stdin": "given", "env": {"NAME": "value"}}), {"cmd": "cat; exit 3", "env_names": ["NAME"]}),
    "POST /v1/sandboxes/{id}/exec/stream": (stream("/exec/stream", {"argv": ["echo", "words"]}), {"argv": ["echo", "words"]}),
    "POST /v1/sandboxes/{id}/processes/{pid}/signal": (after(lambda w: w.sandbox.spawn("sleep 100"), lambda w, pid: w.inside("POST", f"/processes/{pid}/signal", {"signal": "KILL"})), {"signal": "KILL"}),
    "POST /v1/sandboxes/{id}/processes/{pid}/stdin": (after(lambda w: w.sandbox.spawn("cat", stdin=""), lambda w, pid: w.inside("POST", f"/processes/{pid}/stdin", {"data": "fed in", "close": True})), {"pid", "input"}),
    "PUT /v1/sandboxes/{id}/processes/{pid}/stdin": (after(lambda w: w.sandbox.spawn("cat", stdin=""), lambda w, pid: w.inside("PUT", f"/processes/{pid}/stdin", b"fed in")), {"pid", "input"}),
    "ANY /v1/sandboxes/{id}/ports/{port}": (tunnel(""), {"port": 8123}),
    "ANY /v1/sandboxes/{id}/ports/{port}/{path...}": (tunnel("/?of=this"), {"port": 8123}),
    "POST /v1/sandboxes/{id}/previews": (after(nothing, lambda w, _: w.inside("POST", "/previews", {"port": 8123})), {"port": 8123, "ttl_seconds": 3600}),
    "GET /v1/sandboxes/{id}/pty": (after(nothing, terminal), {"argv", "input"}),
    "GET /v1/sandboxes/{id}/fs": (after(World.file, lambda w, path: w.inside("GET", with_query("/fs", path=path))), {"path", "output"}),
    "PUT /v1/sandboxes/{id}/fs": (after(nothing, lambda w, _: w.inside("PUT", "/fs?path=/workspace/put", b"hello")),
                                  {"path": "/workspace/put", "input": {"bytes": 5, "sha256": sha("hello")}}),
    "DELETE /v1/sandboxes/{id}/fs": (after(World.file, lambda w, path: w.inside("DELETE", with_query("/fs", path=path))), {"path"}),
    "POST /v1/sandboxes/{id}/fs/mkdir": (after(nothing, lambda w, _: w.inside("POST", "/fs/mkdir", {"path": "/workspace/made"})), {"path": "/workspace/made"}),
    "POST /v1/sandboxes/{id}/fs/move": (after(World.file, lambda w, path: w.inside("POST", "/fs/move", {"path": path, "to": path + "-moved"})), {"path", "to"}),
    "POST /v1/sandboxes/{id}/run": (stream("/run", {"code": "echo code", "language": "bash"}), {"code": "echo code", "language": "bash"}),
    "POST /v1/sandboxes/{id}/run/stream": (stream("/run/stream", {"code": "echo code", "language": "bash"}), {"code": "echo code", "language": "bash"}),
    "POST /v1/sandboxes/{id}/repl/sessions": (after(nothing, lambda w, _: w.inside("POST", "/repl/sessions", {"language": "bash"})), {"language": "bash"}),
    "DELETE /v1/sandboxes/{id}/repl/sessions/{sid}": (after(World.context, lambda w, sid: w.inside("DELETE", f"/repl/sessions/{sid}")), set()),
    "POST /v1/sandboxes/{id}/repl/sessions/{sid}/interrupt": (after(World.context, lambda w, sid: w.inside("POST", f"/repl/sessions/{sid}/interrupt")), set()),
    "POST /v1/sandboxes/{id}/repl/sessions/{sid}/restart": (after(World.context, lambda w, sid: w.inside("POST", f"/repl/sessions/{sid}/restart")), set()),
    "POST /v1/sandboxes/{id}/repl/sessions/{sid}/run": (context_run("run"), {"code": "echo in-context"}),
    "POST /v1/sandboxes/{id}/repl/sessions/{sid}/run/stream": (context_run("run/stream"), {"code": "echo in-context"}),
}
DONE = [(f"{method} {pattern}", verb) for method, pattern, verb in ROUTES if verb not in LOOKING]
LOOKED = [(f"{method} {pattern}", verb) for method, pattern, verb in ROUTES if verb in LOOKING]


@pytest.mark.parametrize("route,verb", DONE, ids=[route for route, _ in DONE])
def test_what_is_done_is_recorded_once_with_who_what_where_and_why(world, route, verb):
    (prepare, act), said = DEEDS[route]
    if world.sandbox.refresh()["status"] != "running":
        world.sandbox.ask("POST", "/wake" if world.sandbox.info["status"] == "hibernated" else "/resume")
    needed = prepare(world)
    before = world.last_seq()
    answer = act(world, needed)
    # A connection is recorded when it is closed; all else before its answer leaves.
    records = wait_until(lambda: world.since(before)) if verb == "port.open" else world.since(before)

    assert answer.status < 300, answer.body
    assert [record["action"] for record in records] == BESIDES.get(verb, []) + [verb] * (2 if verb == "pty" else 1)
    record = records[-1]
    assert record["outcome"] == "done" and record["seq"] == before + len(records)
    assert record["principal"] == {"kind": "key", "id": world.me, "name": "admin", "role": "operator"}
    assert record["surface"] == "native" and record["peer"] == "127.0.0.1"
    assert record["request_id"] == answer.headers["X-Request-Id"] and len(record["operation"]) == 20
    assert isinstance(record["duration_ms"], int)
    origin = dict(record["origin"])
    assert len(origin.pop("span_id")) == 16
    assert origin == {**CALL, "trace_id": TRACE, "parent_span_id": SPAN}
    if "{agent}" in route:
        assert record["agent"] == world.agent or verb == "agent.delete"
    if re.search(r"\{agent\}/(run|exec|fs)", route):
        assert (record["version"], record["session"]) == (1, "default")
    if re.search(r"\{id\}|\{agent\}/(run|exec|fs)", route) or route == "POST /v1/sandboxes":
        assert len(record["sandbox"]) == 20 and record["template"] == "minimal" and record["image"] == world.image and record["engine"]
    assert set(said) <= set(record["body"]), record["body"]
    for field, value in (said.items() if isinstance(said, dict) else ()):
        assert record["body"][field] == value
    if verb == "pty":
        assert records[0]["outcome"] == "begun" and records[0]["operation"] == record["operation"]
        assert record["exit_code"] == 5 and record["body"]["input"]["text"] == "echo typed-in; exit 5\n"


@pytest.mark.parametrize("route,verb", LOOKED, ids=[route for route, _ in LOOKED])
def test_looking_is_not_recorded(world, route, verb):
    method, pattern = route.split(" ")
    if world.sandbox.refresh()["status"] != "running":
        world.sandbox.ask("POST", "/wake" if world.sandbox.info["status"] == "hibernated" else "/resume")
    values = {"{id}": world.sandbox.id, "{project}": "default", "{seq}": "1", "{name}": "minimal", "{agent}": world.agent, "{version}": "1", "{session}": "default"}
    if "{key}" in pattern:
        values["{key}"] = world.key()
    if "{snapshot}" in pattern:
        values["{snapshot}"] = world.sandbox.call("POST", "/snapshots", {"name": world.name()})["id"]
    if "{pid}" in pattern:
        values["{pid}"] = str(world.sandbox.spawn("true"))
    for name, value in values.items():
        pattern = pattern.replace(name, value)
    if "/fs/" in pattern:
        pattern += "?path=/workspace"
    before = world.last_seq()
    response = world.client.open(method, pattern, {"host": "example.org", "port": 80} if pattern.endswith("/network/check") else None, headers=ASKED)
    response.read(1)
    response.connection.close()
    assert response.status == 200
    assert world.since(before) == []


def test_the_table_has_no_deed_for_a_route_that_is_gone():
    assert set(DEEDS) == {route for route, _ in DONE}


# What came of it

def test_what_the_code_raised_and_how_it_ended_are_told(world):
    before = world.last_seq()
    world.sandbox.call("POST", "/run", {"code": "1/0", "language": "python"})
    world.sandbox.call("POST", "/run", {"code": "import time; time.sleep(60)", "language": "python", "timeout_ms": 300})
    world.sandbox.exec("exit 7")
    world.sandbox.exec("sleep 60", timeout_seconds=0.3)
    raised, late, ended, killed = world.since(before)
    assert (raised["outcome"], raised["error"], raised["body"]["error_value"]) == ("error", "ZeroDivisionError", "division by zero")
    assert late["timed_out"] is True and killed["timed_out"] is True
    assert ended["exit_code"] == 7 and ended["runs"] == 1


def test_files_that_a_run_touched_are_told_with_their_hashes(world):
    before = world.last_seq()
    world.sandbox.call("POST", "/run", {"code": "open('/workspace/touched.txt', 'w').write('by the run')", "language": "python"})
    record, = world.since(before)
    touched = {file["path"]: file for file in record["body"]["files"]}
    assert touched["/workspace/touched.txt"]["sha256"] == sha("by the run")


def test_bytes_and_hashes_of_what_moved_are_told(world):
    content = bytes(range(256)) * 4000
    before = world.last_seq()
    world.sandbox.write("/workspace/large", content)
    assert world.sandbox.read("/workspace/large") == content
    sent, fetched = world.since(before)
    assert sent["bytes_in"] == len(content) and sent["body"]["input"] == {"bytes": len(content), "sha256": sha(content)}
    assert fetched["bytes_out"] == len(content) and fetched["body"]["output"] == {"bytes": len(content), "sha256": sha(content)}


def test_what_the_network_refused_is_told(world):
    world.sandbox.call("PUT", "/network", {"mode": "filtered", "allow_out": []})
    before = world.last_seq()
    world.sandbox.exec("curl -s -m 3 http://192.0.2.1:8080/")
    # The kernel says it a little later: if that was too late for the record of the command, the next one has it.
    wait_until(lambda: world.sandbox.exec("true") and any("network_refused" in record for record in world.since(before)))
    telling, = [record for record in world.since(before) if "network_refused" in record]
    assert telling["network_refused"] >= 1
    assert {"address": "192.0.2.1", "port": 8080, "verdict": "deny"}.items() <= telling["body"]["network_refusals"][0].items()


def test_a_long_cell_is_cut_and_its_size_and_hash_stand_beside_it(world):
    code = "# " + "é" * 200_000 + "\necho long"
    before = world.last_seq()
    world.sandbox.call("POST", "/run", {"code": code, "language": "bash"})
    record, = world.since(before)
    body = record["body"]
    assert code.startswith(body["code"]) and 255 * 1024 < len(body["code"].encode()) <= 256 * 1024
    assert body["code_bytes"] == len(code.encode()) and body["code_sha256"] == sha(code)


def test_code_below_the_cap_is_recorded_to_the_byte(world):
    code = "echo \"\\u0000 \x01 \t ' é 漢字 🙂\"\n" + "# " + "x" * 250_000
    before = world.last_seq()
    world.sandbox.call("POST", "/run", {"code": code, "language": "bash"})
    record, = world.since(before)
    assert record["body"]["code"] == code


def test_of_an_environment_only_the_names_are_told(world):
    before = world.last_seq()
    world.sandbox.exec("true", env={"API_TOKEN": "worth-a-fortune"})
    record, = world.since(before)
    assert record["body"]["env_names"] == ["API_TOKEN"] and "worth-a-fortune" not in json.dumps(record)


def test_a_client_that_leaves_is_told_as_cancelled(world):
    before = world.last_seq()
    response = world.client.open("POST", world.sandbox.path + "/exec/stream", {"cmd": "echo here; sleep 60"})
    response.read(1)
    response.connection.close()
    record, = wait_until(lambda: world.since(before))
    assert (record["action"], record["outcome"], record["body"]["cmd"]) == ("exec", "cancelled", "echo here; sleep 60")


def test_the_origin_in_a_body_wins_over_the_header_and_one_that_is_none_is_refused(world):
    before = world.last_seq()
    world.inside("POST", "/run", {"code": "true", "language": "bash", "origin": {"model": "in-the-body"}})
    record, = world.since(before)
    assert record["origin"]["model"] == "in-the-body" and record["origin"]["trace_id"] == TRACE
    for bad in ("{", "[]", '{"model": 1}', '{"else": "x"}', json.dumps({"model": "x" * 300})):
        answer = world.client.ask("POST", world.sandbox.path + "/exec", {"cmd": "true"}, headers={"X-Vial-Origin": bad})
        assert "origin" in check_refusal(answer, 400).lower()


def test_a_preview_that_is_used_names_the_key_that_made_it(world):
    (prepare, _), _ = DEEDS["ANY /v1/sandboxes/{id}/ports/{port}"]
    prepare(world)
    url = world.sandbox.call("POST", "/previews", {"port": 8123})["url"]
    before = world.last_seq()
    host, _, token = url.removeprefix("http://").partition("/")
    answer = world.client.ask("GET", "/" + token, headers={"Host": host}, key=False)
    assert answer.status == 303  # a cookie for the token
    answer = world.client.ask("GET", "/", headers={"Host": host, "Cookie": answer.headers["Set-Cookie"].split(";")[0]}, key=False)
    record, = wait_until(lambda: world.since(before))
    assert answer.status < 400 and record["action"] == "port.open"
    assert record["principal"]["by_preview"] is True and record["principal"]["name"] == "admin"


# Refusals

def test_refusals_are_recorded_with_who_was_refused_what(world, daemon):
    viewer, stranger = daemon.client(add_key(daemon, "default", "viewer")), daemon.client(add_key(daemon, "elsewhere", "developer"))
    poor = daemon.client(add_key(daemon, "poor", "developer"))
    world.client.call("PUT", "/v1/projects/poor/quotas", {"max_sandboxes": 0})
    before = world.last_seq()
    check_refusal(viewer.ask("POST", world.sandbox.path + "/exec", {"cmd": "id"}), 403)
    check_refusal(stranger.ask("POST", world.sandbox.path + "/exec", {"cmd": "id"}), 404)
    check_refusal(stranger.ask("GET", "/v1/projects"), 403)
    check_refusal(poor.ask("POST", "/v1/sandboxes", {"template": "minimal"}), 429)
    told = [(record["action"], record["project"], record["error_type"], record["outcome"]) for record in world.since(before)]
    assert told == [("exec", "default", "forbidden", "refused"), ("exec", "elsewhere", "not_found", "refused"),
                    ("project.read", "elsewhere", "forbidden", "refused"), ("sandbox.create", "poor", "quota", "refused")]
    role, foreign = world.since(before)[:2]
    assert role["principal"]["role"] == "viewer" and "runner" in role["body"]["error_message"]
    assert foreign["sandbox"] == world.sandbox.id and "template" not in foreign  # it is told what was asked for, not what there is


def test_unknown_and_ended_keys_are_recorded_once_a_minute_for_each_address(bare):
    daemon = bare()
    client = daemon.client()
    ended = client.call("POST", "/v1/keys", {"name": "ended", "role": "viewer"})
    client.call("DELETE", f"/v1/keys/{ended['id']}")
    for _ in range(5):
        check_refusal(client.ask("GET", "/v1/me", key="vial_" + "0" * 40), 401)
        check_refusal(client.ask("GET", "/v1/me", key=ended["key"]), 401)
    refused = found(client, action="key.refuse")
    assert 1 <= len(refused) <= 2
    assert all(record["outcome"] == "refused" and record["peer"] == "127.0.0.1" and record["principal"]["kind"] == "nobody" for record in refused)
    daemon.stop()
    daemon.start()
    counted = found(daemon.client(), action="key.refuse")
    assert sum(record.get("count", 1) for record in counted) == 10  # the others of the minute, together


# What viald does by itself

def test_what_expires_falls_asleep_or_fails_is_recorded_as_vialds_own(world, daemon):
    before = world.last_seq()
    expiring = world.client.create(ttl_seconds=1)
    idle = world.client.create(idle_seconds=1, on_idle="hibernate")
    failing = world.client.create()
    for pid in engine_processes(daemon, failing):
        os.kill(pid, signal.SIGKILL)

    def told():
        return {record["sandbox"]: record for record in world.since(before) if record["principal"]["kind"] == "system"}

    wait_until(lambda: {expiring.id, idle.id, failing.id} <= set(told()), 40)
    assert told()[expiring.id]["action"] == "sandbox.expire"
    assert told()[idle.id]["action"] == "sandbox.hibernate" and "idle" in told()[idle.id]["body"]["reason"]
    assert told()[failing.id]["action"] == "sandbox.fail" and told()[failing.id]["body"]["reason"]
    assert all(record["principal"] == {"kind": "system", "id": "system", "name": "viald"} for record in told().values())


def test_all_of_it_together_is_proven(world):
    assert prove(world.client) > len(DONE)
