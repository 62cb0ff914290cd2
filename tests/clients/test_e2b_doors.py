# SPDX-License-Identifier: Apache-2.0
"""Who may what on E2B's data plane: no key is sent there, so everything depends on a sandbox's tokens and on signatures. Each test is somebody who tries."""

import socket
import time
import urllib.parse

import pytest

import e2b_box
from e2b_box import CODE, ENVD, ask, frame, frames, headers
from tools import add_key, records, wait_until
from vial import slow

TRAFFIC = "E2B-Traffic-Access-Token"
STREAM = {"Content-Type": "application/connect+json"}
ID = {"process": {"cmd": "/usr/bin/id"}}

# (method, path, port, body): everything that a sandbox answers.
CALLS = [
    ("POST", "/process.Process/Start", ENVD, frame(ID)), ("POST", "/process.Process/Connect", ENVD, frame({"process": {"pid": 1}})),
    ("POST", "/process.Process/List", ENVD, {}), ("POST", "/process.Process/Update", ENVD, {"process": {"pid": 1}, "pty": {"size": {"rows": 1, "cols": 1}}}),
    ("POST", "/process.Process/SendInput", ENVD, {"process": {"pid": 1}, "input": {"stdin": ""}}), ("POST", "/process.Process/CloseStdin", ENVD, {"process": {"pid": 1}}),
    ("POST", "/process.Process/StreamInput", ENVD, frame({"start": {"process": {"pid": 1}}})),
    ("POST", "/process.Process/SendSignal", ENVD, {"process": {"pid": 1}, "signal": "SIGNAL_SIGKILL"}),
    ("POST", "/filesystem.Filesystem/Stat", ENVD, {"path": "/etc"}), ("POST", "/filesystem.Filesystem/MakeDir", ENVD, {"path": "/tmp/stranger"}),
    ("POST", "/filesystem.Filesystem/Move", ENVD, {"source": "/tmp/kept", "destination": "/tmp/gone"}), ("POST", "/filesystem.Filesystem/ListDir", ENVD, {"path": "/"}),
    ("POST", "/filesystem.Filesystem/Remove", ENVD, {"path": "/tmp/kept"}), ("POST", "/filesystem.Filesystem/WatchDir", ENVD, frame({"path": "/tmp"})),
    ("POST", "/filesystem.Filesystem/CreateWatcher", ENVD, {"path": "/tmp"}), ("POST", "/filesystem.Filesystem/GetWatcherEvents", ENVD, {"watcherId": "x"}),
    ("POST", "/filesystem.Filesystem/RemoveWatcher", ENVD, {"watcherId": "x"}), ("GET", "/files?path=/etc/passwd", ENVD, None),
    ("POST", "/files?path=/tmp/stranger", ENVD, "x"), ("GET", "/metrics", ENVD, None), ("GET", "/envs", ENVD, None),
    ("POST", "/execute", CODE, {"code": "1"}), ("POST", "/contexts", CODE, {}), ("GET", "/contexts", CODE, None), ("POST", "/contexts/x/restart", CODE, None),
    ("DELETE", "/contexts/x", CODE, None),
]
# What the token of a sandbox's ports opens as well: the SDKs send no other there.
BY_TRAFFIC = {("POST", "/contexts"), ("GET", "/contexts"), ("POST", "/contexts/x/restart"), ("DELETE", "/contexts/x")}


@pytest.fixture(scope="module")
def box(daemon):
    box = e2b_box.create(daemon, timeout=3600)
    box.files.write("/tmp/kept", "kept")
    yield box
    box.kill()


@pytest.fixture(scope="module")
def other(daemon):
    other = e2b_box.create(daemon, timeout=3600)
    yield other
    other.kill()


def kinds(path):
    return STREAM if path.rpartition("/")[2] in ("Start", "Connect", "WatchDir", "StreamInput") else {}


def attempt(daemon, call, send):
    method, path, _, body = call
    return ask(daemon, method, path, {**kinds(path), **send}, body)


@pytest.mark.parametrize("call", CALLS, ids=lambda call: f"{call[0]} {call[1].split('?')[0]}")
def test_a_stranger_who_knows_an_id_gets_nothing(daemon, box, other, call):
    method, path, port, _ = call
    strangers = {"nothing": None, "a guess": "0" * 64, "another sandbox's": other._envd_access_token, "empty": "", "its id": box.sandbox_id,
                 "its traffic token": box.traffic_access_token}
    for who, token in strangers.items():
        answer = attempt(daemon, call, headers(box, port, **{"X-Access-Token": token}))
        assert answer.status == 401 and box.sandbox_id.encode() not in answer.body, (who, answer.status, answer.body)
    for who, token in {**strangers, "its access token": box._envd_access_token, "another's traffic": other.traffic_access_token}.items():
        if who == "its traffic token" and (method, path) in BY_TRAFFIC:
            continue
        answer = attempt(daemon, call, headers(box, port, **{"X-Access-Token": None, TRAFFIC: token}))
        assert answer.status == 401, (who, answer.status, answer.body)
    assert box.files.read("/tmp/kept") == "kept" and not box.files.exists("/tmp/stranger")


@pytest.mark.parametrize("text", ["not base64!", "YQ", "YQ==YQ==", "Y===", "YWE=\n", "\u00e4aaa"])
def test_input_that_is_no_base64_is_refused_and_not_typed(daemon, box, text):
    pid = box.commands.run("cat > /tmp/typed", background=True, stdin=True).pid
    answer = ask(daemon, "POST", "/process.Process/SendInput", headers(box), {"process": {"pid": pid}, "input": {"stdin": text}})
    assert answer.status == 400 and "Base64" in answer.json()["message"], answer.body
    box.commands.send_stdin(pid, "a")
    assert wait_until(lambda: box.files.exists("/tmp/typed") and box.files.read("/tmp/typed") == "a", 10)
    box.commands.kill(pid)
    box.files.remove("/tmp/typed")


def test_its_own_token_and_a_key_of_its_project_do_open_it(daemon, box):
    for send in (headers(box), headers(box, **{"X-Access-Token": None, "X-API-Key": daemon.key}), headers(box, **{"X-Access-Token": None, "Authorization": f"Bearer {daemon.key}"})):
        answer = ask(daemon, "GET", "/files?path=/tmp/kept", send)
        assert (answer.status, answer.body) == (200, b"kept")
    assert ask(daemon, "GET", "/contexts", headers(box, CODE, **{"X-Access-Token": None, TRAFFIC: box.traffic_access_token})).status == 200


def test_projects_roles_and_agents_hold_here_as_everywhere(daemon, box):
    def status(key, call=CALLS[0]):
        answer = attempt(daemon, call, headers(box, call[2], **{"X-Access-Token": None, "X-API-Key": key}))
        if answer.status == 200 and kinds(call[1]):
            error = frames(answer.body)[-1][1].get("error")
            return error["code"] if error else 200
        return answer.status

    assert status(add_key(daemon, "default", role="viewer")) == "permission_denied"
    assert status(add_key(daemon, "default", role="runner")) == 200
    foreign = add_key(daemon, "strangers", role="admin")
    for call in CALLS:
        assert status(foreign, call) == 502, "in the words for a sandbox that is none"


def test_a_token_is_of_one_sandbox_and_of_nothing_else(daemon, box):
    for path in ("/sandboxes", "/v2/sandboxes", f"/sandboxes/{box.sandbox_id}", "/v1/sandboxes", f"/v1/sandboxes/{box.sandbox_id}", "/v1/me"):
        for send in ({"X-Access-Token": box._envd_access_token}, {"X-API-Key": box._envd_access_token}, {"Authorization": f"Bearer {box._envd_access_token}"}):
            assert ask(daemon, "GET", path, send).status == 401, (path, send)
        assert ask(daemon, "GET", path, headers(box)).status == 404, "a request that says it is for a sandbox is for nothing else"


def test_half_an_address_and_two_are_not_understood(daemon, box, other):
    for send in ({"E2b-Sandbox-Port": None}, {"E2b-Sandbox-Id": None}, {"E2b-Sandbox-Port": "0"}, {"E2b-Sandbox-Port": "65536"}, {"E2b-Sandbox-Port": "49983x"},
                 {"E2b-Sandbox-Port": "-1"}, {"E2b-Sandbox-Port": ""}):
        assert ask(daemon, "GET", "/files?path=/tmp/kept", headers(box, **send)).status == 400, send
    # The headers count, whatever the host's name says: with one sandbox's token nobody comes into the other.
    for address in (f"{ENVD}-{other.sandbox_id}.localhost", f"3000-{other.sandbox_id}.localhost"):
        answer = ask(daemon, "GET", "/files?path=/tmp/kept", headers(box, Host=address))
        assert (answer.status, answer.body) == (200, b"kept")
        assert ask(daemon, "GET", "/files?path=/tmp/kept", headers(other, Host=address, **{"X-Access-Token": box._envd_access_token})).status == 401
    by_host = {"Host": f"{ENVD}-{other.sandbox_id}.localhost", "X-Access-Token": box._envd_access_token}
    assert ask(daemon, "GET", "/files?path=/tmp/kept", by_host).status == 401
    assert ask(daemon, "GET", "/health", {"Host": f"{ENVD}-{box.sandbox_id.upper()}.localhost"}).status == 204


def raw(daemon, text):
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=slow(10)) as connection:
        connection.sendall(text)
        connection.settimeout(slow(10))
        return connection.recv(65536)


@pytest.mark.parametrize("name", ["E2b-Sandbox-Id", "E2b-Sandbox-Port", "X-Access-Token"])
def test_a_header_that_comes_twice_is_refused(daemon, box, other, name):
    mine, theirs = headers(box), headers(other)
    second = theirs[name] if name != "E2b-Sandbox-Port" else "3000"
    lines = "".join(f"{key}: {value}\r\n" for key, value in mine.items()) + f"{name}: {second}\r\n"
    assert raw(daemon, f"GET /files?path=/tmp/kept HTTP/1.1\r\nHost: localhost\r\n{lines}\r\n".encode()).split()[1] == b"400"


def test_what_is_no_text_is_refused_and_harms_nobody(daemon, box):
    for name in ("E2b-Sandbox-Id", "X-Access-Token", "Authorization", "X-Metadata-Note", "Connect-Timeout-Ms"):
        values = {"Host": "localhost", **headers(box), name: "\udcff\udc80"}
        lines = "".join(f"{key}: {value}\r\n" for key, value in values.items()).encode(errors="surrogateescape")
        answer = raw(daemon, b"POST /files?path=/tmp/odd HTTP/1.1\r\nContent-Length: 1\r\n" + lines + b"\r\nx")
        assert answer.split()[1] in (b"400", b"401", b"502") or (name in ("Authorization", "Connect-Timeout-Ms") and answer.split()[1] == b"200"), (name, answer)
    assert box.files.read("/tmp/kept") == "kept"


@pytest.mark.parametrize("sandbox_id", ["../" + "a" * 17, "a" * 20, "%2e%2e", "a" * 2000, "'; DROP TABLE sandboxes"], ids=["path", "unknown", "escapes", "long", "sql"])
def test_an_id_that_is_none_is_told_as_one_that_has_ended(daemon, box, sandbox_id):
    for path in ("/health", "/files?path=/etc/passwd"):
        answer = ask(daemon, "GET", path, headers(box, **{"E2b-Sandbox-Id": sandbox_id}))
        assert (answer.status, answer.json()["message"]) == (502, "The sandbox was not found")


@pytest.mark.parametrize("path", ["/process.Process/Start", "/process.Process/SendInput", "/execute", "/contexts"])
def test_nothing_of_a_strangers_body_is_wanted(daemon, box, other, path):
    """Who says that he waits for our word before he sends it is told at once; of who does not, nothing is kept."""
    def first_word(**others):
        send = {"Host": "localhost", **headers(box), "Content-Length": "900000", "Expect": "100-continue", **others}
        return raw(daemon, (f"POST {path} HTTP/1.1\r\n" + "".join(f"{key}: {value}\r\n" for key, value in send.items()) + "\r\n").encode()).split()[1]

    assert first_word(**{"X-Access-Token": other._envd_access_token}) == b"401"
    assert first_word(**{"E2b-Sandbox-Id": "a" * 20}) == b"502"
    assert first_word() == b"100"


# Signatures

def sign(box, path, operation="read", user="", expiration=None, token=None):
    import base64
    import hashlib
    text = f"{path}:{operation}:{user}:{token or box._envd_access_token}" + (f":{expiration}" if expiration else "")
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def address(path, signature, **more):
    return "/files?" + urllib.parse.urlencode({"path": path, "signature": signature, **more})


def test_a_signature_opens_what_was_signed_and_nothing_else(daemon, box, other):
    good = sign(box, "/tmp/kept")
    assert ask(daemon, "GET", address("/tmp/kept", good)).body == b"kept"
    later, past = int(time.time()) + 600, int(time.time()) - 5
    assert ask(daemon, "GET", address("/tmp/kept", sign(box, "/tmp/kept", expiration=later), signature_expiration=later)).status == 200
    expired = ask(daemon, "GET", address("/tmp/kept", sign(box, "/tmp/kept", expiration=past), signature_expiration=past))
    assert (expired.status, expired.json()["message"]) == (401, "signature is already expired")
    refused = {
        "another file": ("GET", address("/etc/passwd", good)), "a way around": ("GET", address("/tmp/../tmp/kept", good)), "to write": ("POST", address("/tmp/kept", good)),
        "as root": ("GET", address("/tmp/kept", good, username="root")), "for longer": ("GET", address("/tmp/kept", sign(box, "/tmp/kept", expiration=past), signature_expiration=later)),
        "for ever": ("GET", address("/tmp/kept", sign(box, "/tmp/kept", expiration=past))), "no number": ("GET", address("/tmp/kept", sign(box, "/tmp/kept", expiration="x"), signature_expiration="x")),
        "by the traffic token": ("GET", address("/tmp/kept", sign(box, "/tmp/kept", token=box.traffic_access_token))),
        "without a token": ("GET", address("/tmp/kept", sign(box, "/tmp/kept", token="x"))), "empty": ("GET", address("/tmp/kept", "")),
        "cut": ("GET", address("/tmp/kept", good[:-1])), "longer": ("GET", address("/tmp/kept", good + "A")),
        # What one signs as a file's strange name must not be another's meaning.
        "taken apart otherwise": ("POST", address("/tmp/kept", sign(box, "/tmp/kept:write:root"), username="root:read:")),
    }
    for why, (method, path) in refused.items():
        answer = ask(daemon, method, path, body="x" if method == "POST" else None)
        assert answer.status in (400, 401) and (answer.status == 400 or answer.json()["message"] in ("invalid signature", "signature is already expired")), (why, answer.body)
    assert box.files.read("/tmp/kept") == "kept"
    # With headers it is that sandbox's, and only for files.
    assert ask(daemon, "GET", address("/tmp/kept", good), headers(other, **{"X-Access-Token": None})).status == 401
    assert ask(daemon, "GET", address("/tmp/kept", good), headers(box, **{"X-Access-Token": None})).body == b"kept"
    for path in ("/envs", "/contexts", "/metrics"):
        assert ask(daemon, "GET", f"{path}?signature={urllib.parse.quote(good)}", headers(box, **{"X-Access-Token": None})).status == 401
    # The first of two counts everywhere.
    twice = address("/tmp/kept", good) + "&path=/etc/passwd"
    assert ask(daemon, "GET", twice).body in (b"kept",) or ask(daemon, "GET", twice).status in (400, 401)


def test_what_has_ended_opens_nothing_any_more(daemon):
    box = e2b_box.create(daemon)
    box.files.write("/tmp/kept", "kept")
    good = address("/tmp/kept", sign(box, "/tmp/kept"))
    box.kill()
    for call in CALLS:
        answer = attempt(daemon, call, headers(box, call[2], **{TRAFFIC: box.traffic_access_token}))
        assert (answer.status, answer.json()["message"]) == (502, "The sandbox was not found"), call
    assert ask(daemon, "GET", good).status == 401
    assert ask(daemon, "GET", "/health", headers(box)).status == 502


def test_a_program_on_a_port_is_reached_and_learns_no_token(daemon, box, other):
    box.files.write("/tmp/server.py", "import http.server\nclass H(http.server.BaseHTTPRequestHandler):\n  def do_GET(self):\n    body = str(self.headers).encode()\n"
                    "    self.send_response(200); self.send_header('Content-Length', str(len(body))); self.end_headers(); self.wfile.write(body)\n"
                    "http.server.HTTPServer(('127.0.0.1', 8123), H).serve_forever()\n")
    server = box.commands.run("python3 /tmp/server.py", background=True, timeout=0)
    wait_until(lambda: box.commands.run("python3 -c \"import socket; socket.create_connection(('127.0.0.1', 8123))\" 2> /dev/null; echo $?").stdout == "0\n")
    doors = [headers(box, 8123), headers(box, 8123, **{"X-Access-Token": None, TRAFFIC: box.traffic_access_token}),
             {"Host": f"8123-{box.sandbox_id}.localhost", TRAFFIC: box.traffic_access_token}]
    for send in doors:
        answer = ask(daemon, "GET", "/", send)
        assert answer.status == 200 and box._envd_access_token.encode() not in answer.body and box.traffic_access_token.encode() not in answer.body, answer.body
    for send in (headers(box, 8123, **{"X-Access-Token": None}), headers(box, 8123, **{"X-Access-Token": other._envd_access_token}),
                 {"Host": f"8123-{box.sandbox_id}.localhost", TRAFFIC: other.traffic_access_token}, {"Host": f"8123-{box.sandbox_id}.localhost"}):
        assert ask(daemon, "GET", "/", send).status == (401 if send.get("Host") and TRAFFIC not in send else 403), send
    server.kill()


def test_a_port_where_nobody_listens_is_told_from_a_sandbox_that_is_gone(daemon, box):
    for send in (headers(box, 3999), {"Host": f"3999-{box.sandbox_id}.localhost", TRAFFIC: box.traffic_access_token}):
        answer = ask(daemon, "GET", "/", send)
        assert (answer.status, answer.json()) == (502, {"sandboxId": box.sandbox_id, "message": "The sandbox is running but port is not open", "port": 3999, "code": 502})
    posted = ask(daemon, "POST", "/x", headers(box, 3999), {"a": "b" * 100_000})
    assert posted.status == 502 and posted.json()["port"] == 3999
    nobody = ask(daemon, "GET", "/", {**headers(box, 3999), "E2b-Sandbox-Id": "a" * 20})
    assert (nobody.status, nobody.json()["message"]) == (502, "The sandbox was not found")


def test_who_was_refused_and_who_was_let_in_is_on_record(daemon, box):
    box.commands.run("echo on-record")
    ran = wait_until(lambda: [one for one in records(daemon.client(), action="exec", sandbox=box.sandbox_id)])[-1]
    assert ran["surface"] == "e2b" and ran["outcome"] == "done" and ran["exit_code"] == 0
    assert [one for one in records(daemon.client(), outcome="refused")], "somebody tried above"


def test_who_may_only_look_is_shown_no_token(daemon, box):
    viewer, runner = ({"X-API-Key": add_key(daemon, "default", role=role)} for role in ("viewer", "runner"))
    assert "envdAccessToken" not in ask(daemon, "GET", f"/sandboxes/{box.sandbox_id}", viewer).json()
    assert ask(daemon, "GET", f"/sandboxes/{box.sandbox_id}", runner).json()["envdAccessToken"] == box._envd_access_token


def test_what_a_token_runs_counts_as_by_the_key_that_made_the_sandbox(daemon):
    key = add_key(daemon, "default", limits={"max_concurrent_runs": 1})
    with e2b_box.create(daemon, api_key=key) as own, e2b_box.create(daemon, api_key=key) as second:
        running = own.commands.run("sleep 1000", background=True)
        for box in (own, second):
            answer = ask(daemon, "POST", "/process.Process/Start", {**headers(box), **STREAM}, frame(ID))
            assert frames(answer.body)[-1][1]["error"]["code"] == "resource_exhausted", answer.body
        running.kill()
        wait_until(lambda: "error" not in frames(ask(daemon, "POST", "/process.Process/Start", {**headers(second), **STREAM}, frame(ID)).body)[-1][1])
