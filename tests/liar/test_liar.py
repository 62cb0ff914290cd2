# SPDX-License-Identifier: Apache-2.0
"""Whatever a guest or a monitor says: viald answers with a sentence, in time, goes on, and the liar's sandbox ends with the true reason."""

import http.client
import json
import os
import socket
import struct
import time

import pytest
import vial

# name -> method, path, body, and whether the answer needs fields of the agent's
ROUTES = {
    "exec": ("POST", "/exec", {"cmd": "x"}, True),
    "exec in the background": ("POST", "/exec", {"cmd": "x", "background": True}, True),
    "run": ("POST", "/run", {"code": "1", "language": "python"}, True),
    "session create": ("POST", "/repl/sessions", {"language": "python"}, True),
    "session list": ("GET", "/repl/sessions", None, True),
    "session restart": ("POST", "/repl/sessions/c1/restart", None, True),
    "session interrupt": ("POST", "/repl/sessions/c1/interrupt", None, False),
    "session delete": ("DELETE", "/repl/sessions/c1", None, False),
    "file read": ("GET", "/fs?path=/a", None, False),
    "file write": ("PUT", "/fs?path=/a", "x", True),
    "file remove": ("DELETE", "/fs?path=/a", None, False),
    "file list": ("GET", "/fs/dir?path=/", None, False),
    "file stat": ("GET", "/fs/stat?path=/a", None, True),
    "file mkdir": ("POST", "/fs/mkdir", {"path": "/a"}, False),
    "file move": ("POST", "/fs/move", {"path": "/a", "to": "/b"}, False),
    "processes": ("GET", "/processes", None, True),
    "process signal": ("POST", "/processes/7/signal", {"signal": "TERM"}, False),
    "process stdin": ("POST", "/processes/7/stdin", {"data": "x"}, False),
    "ports": ("GET", "/ports", None, True),
    "metrics": ("GET", "/metrics", None, True),
    "port proxy": ("GET", "/ports/8080/", None, False),
}
STREAMED = {
    "exec stream": ("POST", "/exec/stream", {"cmd": "x"}),
    "run stream": ("POST", "/run/stream", {"code": "1", "language": "python"}),
    "attach": ("GET", "/processes/7/attach", None),
    "watch": ("GET", "/fs/watch?path=/", None),
}

# Answers of the right form with the wrong content. What they lack matters only to those who need it.
CONTENT = ["bare", "numbers", "texts", "lists", "objects", "nulls", "huge", "negative", "long", "deep_31", "deep_32"]
# Errors of the agent's that are rude but allowed.
RUDE = ["long_error", "rude_error"]
# Whoever says one of these has broken the protocol, whatever was asked.
VIOLATIONS = ["beyond_64_bits", "deep_33", "no_ok", "ok_is_a_number", "not_json", "not_an_object", "not_utf8", "twice_the_same_field", "closed_twice",
              "data_after_close", "unknown_stream", "event_before_open", "opened_by_the_agent", "absurd_window", "frozen_unasked",
              "hello_unasked", "too_long_a_frame", "unknown_type", "state_that_does_not_exist", "answer_to_nothing", "negative_tag", "events_in_pieces"]
DEATHS = ["dies", "half_a_frame", "dies_after_the_first_event"]


class Broken:
    """An answer that had begun (a file's bytes) and was cut off: all that HTTP has for it."""

    status, body = 502, b""


def ask(sandbox, method, path, body):
    began = time.monotonic()
    try:
        answer = sandbox.ask(method, path, body)
    except (http.client.RemoteDisconnected, http.client.IncompleteRead):
        assert path.startswith("/fs?"), "only an answer that is streamed may break off"
        return Broken
    assert time.monotonic() - began < vial.slow(20), "an answer within its time limit"
    if answer.status >= 400:
        error = answer.json()["error"]
        assert error and len(error) < 4096, answer.body[:500]
        assert not any(ord(c) < 32 or ord(c) == 127 for c in error), answer.body[:500]
    return answer


def failed(sandbox):
    """The sandbox's record once it has ended."""
    deadline = time.monotonic() + vial.slow(20)
    while time.monotonic() < deadline:
        info = sandbox.refresh()
        if info["status"] == "failed":
            return info
        time.sleep(0.05)
    raise AssertionError(f"the sandbox did not end: {info}")


def lie(world, what):
    sandbox = world.create()
    world.tell(sandbox.id, what)
    return sandbox


def test_one_who_tells_the_truth_is_believed(gvisor):
    sandbox = gvisor.create()
    for name, (method, path, body, _) in ROUTES.items():
        if name != "port proxy":  # the honest agent says nothing more on a tunnel
            assert ask(sandbox, method, path, body).status < 300, name
    sandbox.delete()


@pytest.mark.parametrize("what", CONTENT)
@pytest.mark.parametrize("route", [name for name in ROUTES if name != "port proxy"])
def test_an_answer_with_absurd_content(gvisor, route, what):
    method, path, body, needs = ROUTES[route]
    sandbox = lie(gvisor, what)
    answer = ask(sandbox, method, path, body)
    if needs and what != "deep_31":  # one of its fields is what this one nests
        if what in ("bare", "nulls", "lists", "texts", "long"):
            assert answer.status in (502, 503), answer.body[:300]
            assert "protocol" in failed(sandbox)["reason"]
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("what", RUDE)
@pytest.mark.parametrize("route", ["exec", "run", "file stat", "metrics"])
def test_a_rude_error_is_tamed_and_breaks_nothing(gvisor, route, what):
    sandbox = lie(gvisor, what)
    assert ask(sandbox, *ROUTES[route][:3]).status >= 400
    assert sandbox.refresh()["status"] == "running"
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("what", VIOLATIONS)
@pytest.mark.parametrize("route", ["exec", "file read", "metrics", "session list"])
def test_a_broken_protocol_ends_the_sandbox_and_says_so(gvisor, route, what):
    sandbox = lie(gvisor, what)
    ask(sandbox, *ROUTES[route][:3])
    reason = failed(sandbox)["reason"]
    assert reason.startswith("protocol_violation: ") and "broke the protocol" in reason, reason
    later = ask(sandbox, "POST", "/exec", {"cmd": "x"})
    assert later.status == 503 and "protocol_violation" in later.json()["error"]
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("what", DEATHS)
@pytest.mark.parametrize("route", list(ROUTES))
def test_a_guest_that_dies_while_it_answers(gvisor, route, what):
    sandbox = lie(gvisor, what)
    assert ask(sandbox, *ROUTES[route][:3]).status in (502, 503)
    assert "killed" in failed(sandbox)["reason"]
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("what", ["events", *VIOLATIONS, *DEATHS])
@pytest.mark.parametrize("route", list(STREAMED))
def test_a_stream_of_lies_ends(gvisor, route, what):
    sandbox = lie(gvisor, what)
    response = gvisor.client.open(STREAMED[route][0], sandbox.path + STREAMED[route][1], STREAMED[route][2])
    if what != "events" or route != "watch":  # a watch ends with its client
        response.read()
        if what != "events":
            assert failed(sandbox)["reason"]
    response.connection.close()
    gvisor.check()
    sandbox.delete()


# The same operations in other dialects: (method, path, body, port of E2B's servers).
DIALECTS = {
    "e2b start": ("POST", "/process.Process/Start", {"process": {"cmd": "x"}}, 49983), "e2b connect": ("POST", "/process.Process/Connect", {"process": {"pid": 7}}, 49983),
    "e2b processes": ("POST", "/process.Process/List", {}, 49983), "e2b signal": ("POST", "/process.Process/SendSignal", {"process": {"pid": 7}}, 49983),
    "e2b size": ("POST", "/process.Process/Update", {"process": {"pid": 7}, "pty": {"size": {"rows": 1, "cols": 1}}}, 49983),
    "e2b input": ("POST", "/process.Process/SendInput", {"process": {"pid": 7}, "input": {"stdin": "eA=="}}, 49983),
    "e2b stat": ("POST", "/filesystem.Filesystem/Stat", {"path": "/a"}, 49983), "e2b list": ("POST", "/filesystem.Filesystem/ListDir", {"path": "/"}, 49983),
    "e2b mkdir": ("POST", "/filesystem.Filesystem/MakeDir", {"path": "/a"}, 49983), "e2b watch": ("POST", "/filesystem.Filesystem/WatchDir", {"path": "/"}, 49983),
    "e2b watcher": ("POST", "/filesystem.Filesystem/CreateWatcher", {"path": "/"}, 49983), "e2b read": ("GET", "/files?path=/a", None, 49983),
    "e2b write": ("POST", "/files?path=/a", "x", 49983), "e2b metrics": ("GET", "/metrics", None, 49983), "e2b environment": ("GET", "/envs", None, 49983),
    "e2b code": ("POST", "/execute", {"code": "1"}, 49999), "e2b context": ("POST", "/contexts", {}, 49999), "e2b contexts": ("GET", "/contexts", None, 49999),
    "podflare code": ("POST", "/podflare/v1/sandboxes/{id}/exec", {"code": "1"}, None), "podflare terminal": ("POST", "/podflare/v1/sandboxes/{id}/pty", {"argv": ["x"]}, None),
    "podflare terminals": ("GET", "/podflare/v1/sandboxes/{id}/pty", None, None), "podflare attach": ("GET", "/podflare/v1/sandboxes/{id}/pty/7/attach", None, None),
    "podflare read": ("POST", "/podflare/v1/sandboxes/{id}/pty/7/read", {}, None), "podflare input": ("POST", "/podflare/v1/sandboxes/{id}/pty/7/input", {"data_b64": "eA=="}, None),
    "podflare replay": ("GET", "/podflare/v1/sandboxes/{id}/replay", None, None), "cloudflare exec": ("POST", "/v1/sandbox/{id}/exec", {"argv": ["x"]}, None),
    "cloudflare read": ("GET", "/v1/sandbox/{id}/file/a", None, None), "cloudflare pack": ("POST", "/v1/sandbox/{id}/persist", {}, None),
    "cloudflare unpack": ("POST", "/v1/sandbox/{id}/hydrate", "x", None),
}


@pytest.mark.parametrize("what", ["numbers", "lists", "huge", "rude_error", "events", "dies_after_the_first_event", None])
def test_the_other_dialects_are_lied_to(gvisor, what):
    for method, path, body, port in DIALECTS.values():
        sandbox = lie(gvisor, what)
        send = {"E2b-Sandbox-Id": sandbox.id, "E2b-Sandbox-Port": str(port)} if port else {}
        if path.rpartition("/")[2] in ("Start", "Connect", "WatchDir"):
            send["Content-Type"], frame = "application/connect+json", json.dumps(body).encode()
            body = struct.pack(">BI", 0, len(frame)) + frame
        try:
            response = gvisor.client.open(method, path.format(id=sandbox.id), body, send)
            if "Watch" not in path:  # which ends with its client
                response.read()
            response.connection.close()
        except (http.client.RemoteDisconnected, http.client.IncompleteRead):
            assert what, "only to one whose sandbox has ended"
        gvisor.check()
        sandbox.delete()


@pytest.mark.parametrize("what", ["silent", "endless"])
def test_who_leaves_in_another_dialect_leaves_nothing_behind(gvisor, what):
    sandbox = lie(gvisor, what)
    for name, (method, path, body, port) in DIALECTS.items():
        body = body.encode() if isinstance(body, str) else b"" if body is None else json.dumps(body).encode()
        kind = "application/json"
        if path.rpartition("/")[2] in ("Start", "Connect", "WatchDir"):
            body, kind = struct.pack(">BI", 0, len(body)) + body, "application/connect+json"
        head = f"{method} {path.format(id=sandbox.id)} HTTP/1.1\r\nHost: localhost\r\nX-API-Key: {gvisor.client.key}\r\nContent-Type: {kind}\r\n"
        if port:
            head += f"E2b-Sandbox-Id: {sandbox.id}\r\nE2b-Sandbox-Port: {port}\r\n"
        for missing in (0, 1, 1000):
            with socket.create_connection(("127.0.0.1", gvisor.daemon.port)) as connection:
                connection.sendall(f"{head}Content-Length: {len(body) + missing}\r\n\r\n".encode() + body)
                time.sleep(0.02)
        assert gvisor.daemon.process.poll() is None, name
    gvisor.tell("", None)
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("wants_entries", [False, True])
def test_changes_of_what_has_no_name_are_told(gvisor, wants_entries):
    """E2B's events have a name below the folder that is watched, and a guest may say any path."""
    sandbox = lie(gvisor, "nameless")
    body = json.dumps({"path": "/", "includeEntry": wants_entries}).encode()
    response = gvisor.client.open("POST", "/filesystem.Filesystem/WatchDir", struct.pack(">BI", 0, len(body)) + body,
                                  {"Content-Type": "application/connect+json", "E2b-Sandbox-Id": sandbox.id, "E2b-Sandbox-Port": "49983"})
    names, kinds = [], []
    while len(names) < 15:  # a move is two
        _, size = struct.unpack(">BI", response.read(5))
        event = json.loads(response.read(size)).get("filesystem")
        if event:
            names.append(event["name"])
            kinds.append(event["type"].removeprefix("EVENT_TYPE_"))
    response.connection.close()
    assert names == ["", "a", "/"] * 3 + ["", "", "a", "a", "/", "/"] and kinds == ["CREATE"] * 3 + ["WRITE"] * 3 + ["REMOVE"] * 3 + ["RENAME", "CREATE"] * 3
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("route", ["exec", "run"])
def test_results_without_end_are_cut(gvisor, route):
    sandbox = lie(gvisor, "endless")
    method, path, body, _ = ROUTES[route]
    before = gvisor.daemon.rss_kb()
    answer = ask(sandbox, method, path, {**body, "timeout_ms": 3000})
    assert answer.status < 600 and len(answer.body) < 64 * 1024 * 1024
    assert gvisor.daemon.rss_kb() - before < 400 * 1024
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("what", [*CONTENT, *RUDE, *VIOLATIONS, *DEATHS, "cut_signal"])
def test_a_build_in_a_sandbox_that_lies_fails_with_a_sentence(gvisor, what):
    gvisor.tell("boot", what)
    build = gvisor.client.call("POST", "/v1/templates", {"name": "lied", "base": "minimal", "steps": [{"run": "x"}]})
    deadline = time.monotonic() + vial.slow(20)
    while build["status"] in ("pending", "building"):
        assert time.monotonic() < deadline, build
        time.sleep(0.05)
        build = gvisor.client.call("GET", f"/v1/templates/builds/{build['build_id']}")
    gvisor.tell("", None)
    assert build["status"] == "failed" and 0 < len(build["error"]) < 4096 and build["error"].isprintable(), build
    gvisor.check()


def test_silence_is_not_for_ever(gvisor):
    sandbox = lie(gvisor, "silent")
    began = time.monotonic()
    answer = sandbox.ask("GET", "/metrics")
    assert answer.status == 504 and time.monotonic() - began < vial.slow(40)
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("what", ["hello_bare", "hello_types", "hello_other", "hello_long", "hello_past", "state_bare", "speaks_no_frames",
                                  "record_minus_one", "record_init", "record_nonsense", "record_viald"])
def test_a_sandbox_that_lies_from_the_start_is_not_made(gvisor, what):
    gvisor.tell("boot", what)
    answer = gvisor.client.ask("POST", "/v1/sandboxes", {"template": "minimal"})
    gvisor.tell("", None)
    assert 500 <= answer.status < 600, answer.body
    message = answer.json()["error"]
    assert message and len(message) < 4096 and "\x1b" not in message
    gvisor.check()


@pytest.mark.parametrize("verb", ["pause", "snapshots", "fork", "hibernate"])
@pytest.mark.parametrize("what", ["host_bare", "host_dies"])
def test_a_host_process_that_lies_about_a_verb(gvisor, verb, what):
    sandbox = lie(gvisor, what)
    answer = ask(sandbox, "POST", f"/{verb}", {"count": 1} if verb == "fork" else {"name": "s"} if verb == "snapshots" else None)
    assert answer.status >= 500, answer.body
    reason = failed(sandbox)["reason"]
    assert ("protocol_violation" if what == "host_bare" else "killed") in reason, reason
    gvisor.check()
    sandbox.delete()


@pytest.mark.parametrize("what", ["pids_minus_one", "pids_zero", "pids_init", "pids_large", "pids_viald"])
def test_no_number_of_a_monitor_is_a_pid(microvm, what):
    """The children are real and are found by the kernel's word; what the answer says of them is not asked."""
    parent = lie(microvm, what)
    answer = parent.call("POST", "/fork-tree", {"count": 2})
    microvm.tell("", None)
    children = [vial.Sandbox(microvm.client, child) for child in answer["children"] if child.get("id")]
    assert len(children) == 2, answer
    for child in children:
        assert child.exec("true")["exit_code"] == 0
        child.delete()
    assert os.path.exists("/proc/1") and parent.exec("true")["exit_code"] == 0
    microvm.check()
    parent.delete()


@pytest.mark.parametrize("what", ["fork_bare", "fork_none"])
def test_children_that_do_not_exist(microvm, what):
    parent = lie(microvm, what)
    answer = parent.ask("POST", "/fork-tree", {"count": 2})
    microvm.tell("", None)
    assert answer.status >= 500 or len(json.loads(answer.body)["errors"]) == 2, answer.body
    assert parent.exec("true")["exit_code"] == 0
    microvm.check()
    parent.delete()
