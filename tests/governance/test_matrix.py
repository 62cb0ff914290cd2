# SPDX-License-Identifier: Apache-2.0
"""Every route that viald serves, with every role, every project and every sort of key that is not good enough. A route that the table does not know how to call
fails: whoever adds one says here how it is called."""

import json
import re
import time
from dataclasses import dataclass

import pytest

from tools import UNKNOWN_ID, check_refusal, served_routes, wait_until
from vial import Client, WebSocket, WebSocketRefused, build_dir
from world import ROLES, Project, new_name

ROUTES = served_routes(build_dir() / "viald")
SERVER = "import http.server, sys\nhttp.server.ThreadingHTTPServer(('127.0.0.1', int(sys.argv[1])), http.server.SimpleHTTPRequestHandler).serve_forever()\n"
PORT = 8000


@dataclass
class Call:
    """How a route is called so that it does what it is for: {names} in query and body are the world's, `makes` makes what it will use up."""
    expect: tuple = (200,)
    body: object = None
    query: str = ""
    method: str = ""
    makes: str = ""
    is_socket: bool = False


S, K, P, A = "/v1/sandboxes/{id}", "/v1/keys/{key}", "/v1/projects/{project}", "/v1/agents/{agent}"
CALLS = {
    "GET /healthz": Call(), "GET /v1/healthz": Call(), "GET /v1/me": Call(), "GET /metrics": Call(), "GET /v1/metrics": Call(),
    "GET /v1/projects": Call(), "POST /v1/projects": Call((201,), {"name": "{new}"}), f"GET {P}": Call(), f"PATCH {P}": Call(body={"description": "x"}),
    f"DELETE {P}": Call((204,), makes="project"), f"GET {P}/quotas": Call(), f"PUT {P}/quotas": Call(body={}), f"GET {P}/usage": Call(),
    "GET /v1/keys": Call(), "POST /v1/keys": Call((201,), {"role": "viewer"}), f"GET {K}": Call(), f"PATCH {K}": Call(body={"name": "x"}),
    f"DELETE {K}": Call((204,), makes="key"), f"POST {K}/rotate": Call(body={}),
    "GET /v1/audit": Call(), "GET /v1/audit/export": Call(), "GET /v1/audit/heads": Call(), "POST /v1/audit/verify": Call(body={}), "GET /v1/audit/{seq}": Call(),
    "GET /v1/tiers": Call(), "GET /v1/templates": Call(), "GET /v1/templates/{name}": Call(), "POST /v1/templates": Call((202,), {"name": "{new}", "base": "minimal", "steps": [{"run": "sleep 1000"}]}),
    "DELETE /v1/templates/{name}": Call((204,), makes="template"), "POST /v1/templates/{name}/rebuild": Call((409,), {}, makes="template"),
    "GET /v1/templates/builds": Call(), "GET /v1/templates/builds/{build}": Call(), "GET /v1/templates/builds/{build}/logs": Call(),
    "POST /v1/templates/builds/{build}/cancel": Call(makes="build"), f"POST {S}/template": Call((201,), {"name": "{new}"}),
    "GET /v1/agents": Call(), "POST /v1/agents": Call((201,), {"name": "{new}"}), f"GET {A}": Call(), f"DELETE {A}": Call((204,), makes="agent"),
    f"GET {A}/versions": Call(), f"POST {A}/versions": Call((201,), {"template": "minimal"}), f"GET {A}/versions/{{version}}": Call(),
    f"POST {A}/versions/{{version}}/activate": Call(), f"POST {A}/versions/{{version}}/retire": Call(makes="version"),
    f"GET {A}/sessions": Call(), f"GET {A}/sessions/{{session}}": Call(), f"DELETE {A}/sessions/{{session}}": Call((204,), makes="agent session"),
    f"DELETE {A}/users/{{user}}": Call(), "DELETE /v1/users/{user}": Call(),
    f"POST {A}/run": Call(body={"code": "1", "language": "bash"}), f"POST {A}/run/stream": Call(body={"code": "1", "language": "bash"}),
    f"POST {A}/exec": Call(body={"cmd": "true"}), f"POST {A}/exec/stream": Call(body={"cmd": "true"}),
    f"GET {A}/fs": Call(query="path=/etc/passwd"), f"PUT {A}/fs": Call((200,), b"text", "path=/workspace/m"), f"DELETE {A}/fs": Call((204,), query="path=/workspace/gone", makes="agent file"),
    f"GET {A}/fs/dir": Call(query="path=/etc"), f"GET {A}/fs/stat": Call(query="path=/etc"), f"POST {A}/fs/mkdir": Call((204,), {"path": "/workspace/{new}"}),
    f"POST {A}/fs/move": Call((204,), {"path": "/workspace/gone", "to": "/workspace/{new}"}, makes="agent file"), f"GET {A}/fs/watch": Call(query="path=/workspace"),
    "POST /v1/sandboxes": Call((201,), {"template": "minimal"}), "GET /v1/sandboxes": Call(), f"GET {S}": Call(), f"DELETE {S}": Call((204,), makes="sandbox"),
    f"GET {S}/lifecycle": Call(), f"PATCH {S}/lifecycle": Call(body={"idle_seconds": 0}), f"POST {S}/pause": Call((204,)), f"POST {S}/resume": Call((204,)),
    f"POST {S}/hibernate": Call((204,), {}), f"POST {S}/wake": Call((204,), {}), f"POST {S}/snapshots": Call((201,), {}),
    f"POST {S}/fork": Call((201,), {}), f"POST {S}/fork-tree": Call((201,), {"count": 1}), f"POST {S}/promote": Call((200,), {}, makes="child"),
    f"POST {S}/rollback": Call((200,), {"snapshot": "{snapshot}"}, makes="snapshot"), f"POST {S}/merge": Call((200,), {"winner": "{winner}"}, makes="winner"),
    f"POST {S}/undo": Call((200,), makes="undo"),
    "GET /v1/snapshots": Call(), "GET /v1/snapshots/{snapshot}": Call(), "DELETE /v1/snapshots/{snapshot}": Call((204,), makes="snapshot"),
    f"GET {S}/network": Call(), f"PUT {S}/network": Call(body={"mode": "disabled"}), f"POST {S}/network/check": Call(body={"host": "example.com"}),
    f"GET {S}/network/events": Call(),
    f"POST {S}/exec": Call(body={"cmd": "true"}), f"POST {S}/exec/stream": Call(body={"cmd": "true"}), f"GET {S}/processes": Call(),
    f"POST {S}/processes/{{pid}}/signal": Call((204,), {"signal": "CONT"}), f"POST {S}/processes/{{pid}}/stdin": Call((200,), {"data": "x"}),
    f"PUT {S}/processes/{{pid}}/stdin": Call((200,), b"x"), f"GET {S}/processes/{{pid}}/attach": Call(),
    f"GET {S}/ports": Call(), f"ANY {S}/ports/{{port}}": Call((200, 301, 308), method="GET"), f"ANY {S}/ports/{{port}}/{{path...}}": Call((404,), method="GET"),
    f"POST {S}/previews": Call((201,), {"port": PORT}), f"GET {S}/pty": Call((101,), is_socket=True), f"GET {S}/logs": Call(), f"GET {S}/metrics": Call(),
    f"GET {S}/fs": Call(query="path=/etc/passwd"), f"PUT {S}/fs": Call((200, 201, 204), b"text", "path=/workspace/m"),
    f"DELETE {S}/fs": Call((204,), query="path=/workspace/gone", makes="file"), f"GET {S}/fs/dir": Call(query="path=/etc"), f"GET {S}/fs/stat": Call(query="path=/etc"),
    f"POST {S}/fs/mkdir": Call((200, 201, 204), {"path": "/workspace/{new}"}), f"POST {S}/fs/move": Call((200, 204), {"path": "/workspace/gone", "to": "/workspace/{new}"}, makes="file"),
    f"GET {S}/fs/watch": Call(query="path=/workspace"), f"POST {S}/run": Call(body={"code": "1", "language": "bash"}),
    f"POST {S}/run/stream": Call(body={"code": "1", "language": "bash"}), f"POST {S}/repl/sessions": Call((201,), {"language": "bash"}),
    f"GET {S}/repl/sessions": Call(), f"DELETE {S}/repl/sessions/{{sid}}": Call((204,), makes="session"),
    f"POST {S}/repl/sessions/{{sid}}/interrupt": Call((200, 204), {}), f"POST {S}/repl/sessions/{{sid}}/restart": Call((200, 204), {}),
    f"POST {S}/repl/sessions/{{sid}}/run": Call(body={"code": "1"}), f"POST {S}/repl/sessions/{{sid}}/run/stream": Call(body={"code": "1"}),
}


class World:
    """Somebody's project, with one of everything."""

    def __init__(self, operator, project):
        self.operator, self.project, self.client = operator, project, project.client
        self.path = project.path
        self.keys = {role: project.make_key(role) for role in ROLES if role != "operator" or project.name == "default"}
        self.clients = {role: Client(operator.url, key["key"]) for role, key in self.keys.items()}
        self.sandbox = self.client.create(persistent=True)
        self.sandbox.serve(PORT, SERVER)
        self.ids = {
            "id": self.sandbox.id, "project": project.name, "port": str(PORT), "path": "nothing-there", "name": "minimal", "key": project.make_key("viewer")["id"],
            "snapshot": self.sandbox.call("POST", "/snapshots", {})["id"], "pid": str(self.sandbox.spawn("sleep 100000", stdin="")),
            "sid": self.sandbox.call("POST", "/repl/sessions", {"language": "bash"})["id"],
        }
        self.ids.update(self.make("agent"), version="1", session="default", user="nobody")
        self.client.call("POST", f"/v1/agents/{self.ids['agent']}/exec", {"cmd": "true"})
        self.ids["build"] = self.make("build")["build"]
        self.ids["seq"] = str(wait_until(lambda: operator.call("GET", f"/v1/audit?project={project.name}&action=sandbox.create")["items"])[0]["seq"])

    def make(self, what):
        """Something for a call to use up: {name: id}."""
        if what == "sandbox":
            return {"id": self.client.create().id}
        if what == "child":
            return {"id": self.sandbox.call("POST", "/fork-tree", {"count": 1})["children"][0]["id"]}
        if what == "winner":
            return {"winner": self.sandbox.call("POST", "/fork", {})["sandbox"]["id"]}
        if what == "undo":
            self.sandbox.exec("true", undo=True)
        if what == "snapshot":
            return {"snapshot": self.sandbox.call("POST", "/snapshots", {})["id"]}
        if what == "template":  # of a sandbox, so that nothing has to be built: there is nothing to build again either
            return {"name": self.sandbox.call("POST", "/template", {"name": new_name()})["name"]}
        if what == "build":
            return {"build": self.client.call("POST", "/v1/templates", {"name": new_name(), "base": "minimal", "steps": [{"run": "sleep 1000"}]})["build_id"]}
        if what == "key":
            return {"key": self.project.make_key("viewer")["id"]}
        if what == "session":
            return {"sid": self.sandbox.call("POST", "/repl/sessions", {"language": "bash"})["id"]}
        if what == "file":
            self.sandbox.write("/workspace/gone", "x")
        if what == "agent":
            name = f"agent-{new_name()}"
            self.client.call("POST", "/v1/agents", {"name": name})
            self.client.call("POST", f"/v1/agents/{name}/versions", {"template": "minimal"})
            return {"agent": name}
        if what == "version":
            return {"version": str(self.client.call("POST", f"/v1/agents/{self.ids['agent']}/versions", {"template": "minimal"})["version"])}
        if what == "agent session":
            self.client.call("POST", f"/v1/agents/{self.ids['agent']}/exec", {"cmd": "true", "session": "over"})
            return {"session": "over"}
        if what == "agent file":
            self.client.call("POST", f"/v1/agents/{self.ids['agent']}/exec", {"cmd": "touch /workspace/gone"})
        if what == "project":
            return {"project": Project(self.operator).name}
        return {}


class Default:
    """The operator's project as one."""
    name, path = "default", "/v1/projects/default"

    def __init__(self, operator):
        self.operator = self.client = operator

    def make_key(self, role, **fields):
        return self.operator.call("POST", "/v1/keys", {"name": role, "role": role, **fields})


@pytest.fixture(scope="module")
def worlds(client):
    return {"default": World(client, Default(client)), "own": World(client, Project(client)), "foreign": World(client, Project(client))}


def ask(client, line, ids, **options):
    """(status, body of an error). Streams are left as soon as they have begun."""
    call = CALLS[line]
    method, pattern = line.split()

    def fill(text):
        return re.sub(r"\{(\w+)\}", lambda match: new_name() if match[1] == "new" else ids.get(match[1], match[0]), text)

    path = re.sub(r"\{(\w+)(?:\.\.\.)?\}", lambda match: ids[match[1]], pattern) + ("?" + call.query if call.query else "")
    body = {name: fill(value) if isinstance(value, str) else value for name, value in call.body.items()} if isinstance(call.body, dict) else call.body
    if call.is_socket:
        try:
            socket = WebSocket(client.address, path, {"Authorization": f"Bearer {client.key}"} if options.get("key", True) else {})
            socket.vanish()
            return 101, {}
        except WebSocketRefused as refusal:
            return refusal.status, json.loads(refusal.body)
    response = client.open(call.method or method, path, body, **options)
    try:
        if response.status < 400:
            if body is not None and isinstance(body, dict) and "stream" not in path:
                response.read()
            return response.status, {}
        text = response.read()
        try:
            return response.status, json.loads(text)
        except ValueError:
            return response.status, {}
    finally:
        response.connection.close()


def refused(answer):
    """Whether it is viald that says no, and not what is asked for."""
    return answer[0] in (401, 403, 404) and "request_id" in answer[1]


def lines(public=False):
    return [f"{method} {pattern}" for method, pattern, _, role in ROUTES if public or role != "public"]


def least(line):
    return {f"{method} {pattern}": role for method, pattern, _, role in ROUTES}[line]


def test_the_table_knows_every_route_and_no_other():
    assert set(CALLS) == set(lines(public=True))
    assert {role for *_, role in ROUTES} <= {*ROLES, "public"}


def test_without_a_key_only_what_is_public_is_answered(client, worlds):
    for line in lines(public=True):
        answer = ask(client, line, worlds["own"].ids, key=False)
        if least(line) == "public":
            assert answer[0] == 200, line
        else:
            assert answer[0] == 401 and answer[1]["type"] == "unauthorized", (line, answer)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_is_enough_or_is_told_which_would_be(worlds, role):
    world = worlds["default" if role == "operator" else "own"]
    for line in lines():
        suffices = ROLES.index(role) >= ROLES.index(least(line))
        ids = {**world.ids, **(world.make(CALLS[line].makes) if suffices else {})}
        answer = ask(world.clients[role], line, ids)
        if suffices:
            assert answer[0] in CALLS[line].expect and not refused(answer), (line, answer)
        else:
            assert answer[0] == 403 and answer[1]["type"] == "forbidden", (line, answer)
            assert answer[1]["detail"]["role"] == least(line) and least(line) in answer[1]["error"], (line, answer)


def foreign_lines():
    """Those that name something that belongs to somebody."""
    return [line for line in lines() if re.search(r"\{(id|snapshot|key|project|seq|agent)\}", line)]


@pytest.mark.parametrize("role", ROLES)
def test_what_is_another_project_s_does_not_exist(worlds, role):
    world = worlds["default" if role == "operator" else "own"]
    for line in foreign_lines():
        if role == "operator" and re.search(r"\{(key|project|seq)\}", line):
            continue  # he rules them all: the next test
        answer = ask(world.clients[role], line, worlds["foreign"].ids)
        suffices = ROLES.index(role) >= ROLES.index(least(line))
        assert answer[0] == (404 if suffices else 403), (line, answer)
        assert worlds["foreign"].project.name not in answer[1]["error"] or "{project}" in line, "an answer names what is hidden"
    assert worlds["foreign"].sandbox.refresh()["status"] == "running"


def test_an_operator_rules_every_project(client, worlds):
    for line in foreign_lines():
        if not re.search(r"\{(key|project|seq)\}", line) or line.startswith("DELETE"):
            continue
        assert ask(client, line, worlds["foreign"].ids)[0] in CALLS[line].expect, line


def test_one_s_own_sub_resources_under_another_s_sandbox_do_not_exist(worlds):
    """A process, session or port of mine does not open the sandbox of somebody else."""
    mixed = {**worlds["own"].ids, "id": worlds["foreign"].ids["id"]}
    for line in foreign_lines():
        if "{id}" in line:
            assert ask(worlds["own"].clients["admin"], line, mixed)[0] == 404, line


def bad_keys(client, world):
    """Each sort of key that once was good, or is good for something else: (client, the status that it gets)."""
    project = world.project
    revoked = project.make_key("admin")
    client.call("DELETE", f"/v1/keys/{revoked['id']}")
    soon = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 15))
    expired = project.make_key("admin", expires_at=soon)
    rotated = project.make_key("admin")
    client.call("POST", f"/v1/keys/{rotated['id']}/rotate", {"overlap_seconds": 0})
    elsewhere = project.make_key("admin", allow={"source_cidrs": ["10.255.0.0/16", "fd00::/8"]})
    wait_until(lambda: Client(client.url, expired["key"]).ask("GET", "/v1/me").status == 401)
    return [(Client(client.url, key), status) for key, status in (
        (revoked["key"], 401), (expired["key"], 401), (rotated["key"], 401), (elsewhere["key"], 403), ("vial_" + "0" * 40, 401), (client.key[:-1], 401))]


def test_a_key_that_has_ended_or_is_for_elsewhere_opens_nothing(client, worlds):
    for other, status in bad_keys(client, worlds["own"]):
        for line in lines():
            answer = ask(other, line, worlds["own"].ids)
            assert answer[0] == status, (line, answer)


@pytest.mark.parametrize("allow", [{"templates": ["code-interpreter"]}, {"agents": ["somebody"]}, {"network_modes": ["open"]}, {"templates": []}], ids=str)
def test_a_narrowed_key_has_nothing_to_do_with_the_sandboxes_of_others(client, worlds, allow):
    world = worlds["own"]
    narrowed = world.project.key("admin", allow=allow)
    field_name = f"allow.{list(allow)[0]}"
    for line in lines():
        if "{id}" not in line:
            continue
        answer = ask(narrowed, line, world.ids)
        assert answer[0] == 403 and field_name in answer[1]["error"], (line, answer)
    assert narrowed.call("GET", "/v1/sandboxes") == []
    made = narrowed.ask("POST", "/v1/sandboxes", {"template": "minimal"})
    assert field_name in check_refusal(made, 403)
    if "network_modes" not in allow:  # a snapshot has no network
        for method in ("GET", "DELETE"):
            assert field_name in check_refusal(narrowed.ask(method, f"/v1/snapshots/{world.ids['snapshot']}"), 403)
        assert narrowed.call("GET", "/v1/snapshots") == []
        assert field_name in check_refusal(narrowed.ask("POST", "/v1/sandboxes", {"from_snapshot": world.ids["snapshot"]}), 403)


def test_unknown_ids_look_like_another_s(worlds):
    """Word for word, but for the id: or else one could ask what exists."""
    admin = worlds["own"].clients["admin"]
    for path, name in (("/v1/sandboxes/{}", "id"), ("/v1/snapshots/{}", "snapshot"), ("/v1/keys/{}", "key")):
        there = worlds["foreign"].ids[name]
        foreign, unknown = admin.ask("GET", path.format(there)).json(), admin.ask("GET", path.format(UNKNOWN_ID)).json()
        assert foreign["error"].replace(there, UNKNOWN_ID) == unknown["error"]
