# SPDX-License-Identifier: Apache-2.0
"""A second surface does what the native API does and refuses what it refuses, word for word, though no rule was written for it: the rules are the
operations'. Each refusal is asked for on both, and the two answers are compared."""

import json
import signal
import time

import pytest

from line_client import Refused
from tools import slow, wait_until

UNKNOWN = "a" * 20


def refusal_on_the_line(ask):
    with pytest.raises(Refused) as refused:
        ask()
    return refused.value.kind, refused.value.text


def refusal_of(answer):
    assert answer.status >= 400, answer.body
    body = answer.json()
    return body["type"], body["error"]


# Doing


def test_code_runs_and_shows_its_output_its_result_and_its_error(line, sandbox):
    events = line.run(sandbox.id, "import sys\nprint('out'); print('err', file=sys.stderr)\n6 * 7")
    assert b"".join(block for name, block in events if name == "stdout") == b"out\n"
    assert b"".join(block for name, block in events if name == "stderr") == b"err\n"
    assert [json.loads(block)["text/plain"] for name, block in events if name == "result"] == ["42"]
    assert events[-1] == ("end", "0")
    events = line.run(sandbox.id, "1 / 0")
    assert ("error", b"ZeroDivisionError") in events and events[-1] == ("end", "1")


def test_both_surfaces_speak_with_the_same_context(line, client, sandbox):
    line.run(sandbox.id, "shared = 'set on the line'")
    assert sandbox.call("POST", "/run", {"code": "shared"})["results"][0]["text/plain"] == "'set on the line'"


def test_commands_run_with_their_fields(line, sandbox):
    events = line.exec(sandbox.id, "echo $NAME; pwd; exit 3", cwd="/usr", env={"NAME": "value"})
    assert b"".join(block for name, block in events if name == "stdout") == b"value\n/usr\n"
    assert events[-1] == ("end", "3")


def test_what_ran_on_the_line_is_on_record(line, sandbox):
    line.exec(sandbox.id, "echo a-mark-on-the-line")
    wait_until(lambda: "exec" in sandbox.ask("GET", "/logs").text and "a-mark-on-the-line" in sandbox.ask("GET", "/logs").text)


def test_a_sandbox_is_made_forked_and_deleted(line, client, sandbox):
    made = line.ask("create template=minimal ttl_seconds=600 metadata.made:here")
    assert client.ask("GET", f"/v1/sandboxes/{made}").json()["metadata"] == {"made": "here"}
    child = line.ask(f"fork {made} 1")
    assert client.ask("GET", f"/v1/sandboxes/{child}").json()["parent"] == made
    line.ask(f"delete {child}")
    line.ask(f"delete {made}")
    assert client.ask("GET", f"/v1/sandboxes/{made}").status == 404


def test_a_client_that_does_not_read_slows_the_command_not_viald(line, daemon, sandbox):
    before = daemon.rss_kb()
    command = b"head -c 60000000 /dev/zero | tr '\\0' y"
    line.send(f"exec {sandbox.id} {len(command)}", command)
    time.sleep(2)
    assert daemon.rss_kb() - before < 32 * 1024
    assert sandbox.exec("echo here")["stdout"] == "here\n", "nobody else waits for it"
    assert sum(len(block) for name, block in line.events() if name == "stdout") == 60_000_000


def test_a_client_that_leaves_takes_its_command_along(daemon, sandbox):
    line = daemon.line()
    command = b"exec -a left-on-the-line sleep 300"
    line.send(f"exec {sandbox.id} {len(command)}", command)

    def lives():
        return sandbox.exec("grep -lsz '^[l]eft-on-the-line' /proc/[0-9]*/cmdline || true")["stdout"] != ""

    wait_until(lives)
    line.close()
    wait_until(lambda: not lives())


# Refusing

RUN = [  # fields of the native body; the same on the line
    ({"code": "x" * (8 * 1024 * 1024 + 1)}, {}), ({"code": "1", "timeout_ms": -1}, {"timeout_ms": -1}),
    ({"code": "1", "timeout_ms": 8 * 24 * 3600 * 1000}, {"timeout_ms": 8 * 24 * 3600 * 1000}), ({"code": "1", "env": {"A=B": "1"}}, {"env": {"A=B": "1"}}),
    ({"code": "1", "env": {"": "1"}}, {"env": {"": "1"}}), ({"code": "1", "language": "x" * 40}, {"language": "x" * 40}),
    ({"code": "1", "language": "cobol"}, {"language": "cobol"}), ({"code": "1", "max_output_bytes": 1 << 40}, {"max_output_bytes": 1 << 40}),
    ({"code": "1", "env": {"A" * 300: "1"}}, {"env": {"A" * 300: "1"}}),
]


@pytest.mark.parametrize("body,fields", RUN, ids=[str(fields)[:40] or "code" for _, fields in RUN])
def test_a_run_is_refused_in_the_same_words(line, sandbox, body, fields):
    on_the_line = refusal_on_the_line(lambda: line.run(sandbox.id, body["code"], **fields))
    assert on_the_line == refusal_of(sandbox.ask("POST", "/run", body))
    assert line.run(sandbox.id, "print(1)")[-1] == ("end", "0"), "the connection goes on"


EXEC = [
    ({"cmd": ""}, {}), ({"cmd": "x" * 200_000}, {}), ({"cmd": "true", "timeout_seconds": -1}, {"timeout_seconds": -1}),
    ({"cmd": "true", "timeout_seconds": 8 * 24 * 3600}, {"timeout_seconds": 8 * 24 * 3600}), ({"cmd": "true", "env": {"A=B": "1"}}, {"env": {"A=B": "1"}}),
    ({"cmd": "true", "cwd": "/" + "x" * 5000}, {"cwd": "/" + "x" * 5000}), ({"cmd": "true", "cwd": "/nowhere"}, {"cwd": "/nowhere"}),
    ({"cmd": "true", "user": "nobody-knows"}, {"user": "nobody-knows"}), ({"cmd": "true", "user": "u" * 80}, {"user": "u" * 80}),
]


@pytest.mark.parametrize("body,fields", EXEC, ids=[str(fields)[:40] or body["cmd"][:10] for body, fields in EXEC])
def test_a_command_is_refused_in_the_same_words(line, sandbox, body, fields):
    on_the_line = refusal_on_the_line(lambda: line.exec(sandbox.id, body["cmd"], **fields))
    assert on_the_line == refusal_of(sandbox.ask("POST", "/exec", body))


CREATE = [
    ({"template": "none"}, "template=none"), ({"template": "t" * 200}, "template=" + "t" * 200), ({"ttl_seconds": -1}, "ttl_seconds=-1"),
    ({"idle_seconds": 1 << 40}, f"idle_seconds={1 << 40}"), ({"memory_mb": 1}, "memory_mb=1"), ({"on_idle": "dance"}, "on_idle=dance"),
    ({"env": {"A=B": "1"}}, "env.A=B:1"), ({"metadata": {"m" * 200: "1"}}, f"metadata.{'m' * 200}:1"),
]


@pytest.mark.parametrize("body,words", CREATE, ids=[words[:40] for _, words in CREATE])
def test_a_sandbox_is_refused_in_the_same_words(line, client, body, words):
    assert refusal_on_the_line(lambda: line.ask(f"create {words}")) == refusal_of(client.ask("POST", "/v1/sandboxes", body))


@pytest.mark.parametrize("count", [0, -1, 33, 1000])
def test_a_fork_is_refused_in_the_same_words(line, sandbox, count):
    assert refusal_on_the_line(lambda: line.ask(f"fork {sandbox.id} {count}")) == refusal_of(sandbox.ask("POST", "/fork-tree", {"count": count}))


def test_a_fork_s_metadata_is_judged_once_and_the_same(line, sandbox):
    long = "m" * 200
    assert (refusal_on_the_line(lambda: line.ask(f"fork {sandbox.id} 1 metadata.{long}:1"))
            == refusal_of(sandbox.ask("POST", "/fork", {"metadata": {long: "1"}})))


def test_an_unknown_sandbox_is_unknown_everywhere(line, client):
    expected = ("not_found", f"there is no sandbox {UNKNOWN}")
    assert refusal_on_the_line(lambda: line.run(UNKNOWN, "1")) == expected
    assert refusal_on_the_line(lambda: line.exec(UNKNOWN, "true")) == expected
    assert refusal_on_the_line(lambda: line.ask(f"fork {UNKNOWN} 1")) == expected
    assert refusal_on_the_line(lambda: line.ask(f"delete {UNKNOWN}")) == expected
    for path, body in (("/run", {"code": "1"}), ("/exec", {"cmd": "true"}), ("/fork", {})):
        assert refusal_of(client.ask("POST", f"/v1/sandboxes/{UNKNOWN}{path}", body)) == expected


def test_the_quota_counts_children_on_both(line, client, sandbox):
    """Three are allowed and one is there: four more are too many, whoever asks, as are three."""
    for count in (4, 3):
        on_the_line = refusal_on_the_line(lambda: line.ask(f"fork {sandbox.id} {count}"))
        assert on_the_line[0] == "quota" and "max_sandboxes" in on_the_line[1]
        assert on_the_line == refusal_of(sandbox.ask("POST", "/fork-tree", {"count": count}))
    others = [client.create(), client.create()]
    on_the_line = refusal_on_the_line(lambda: line.ask("create"))
    assert on_the_line[0] == "quota" and on_the_line == refusal_of(client.ask("POST", "/v1/sandboxes", {}))
    assert refusal_on_the_line(lambda: line.ask(f"fork {sandbox.id} 1")) == refusal_of(sandbox.ask("POST", "/fork", {}))
    for other in others:
        other.delete()


def is_closed(client):
    try:
        client.connection().connect()
    except OSError:
        return True
    return False


def test_a_viald_that_shuts_down_makes_no_sandbox_for_anybody(start_line_daemon):
    daemon = start_line_daemon()
    client = daemon.client()
    sandbox, line = client.create(), daemon.line()
    connection = client.connection()  # quiesced servers take no new ones
    connection.request("GET", "/healthz")
    connection.getresponse().read()
    daemon.faults.write_text("drain.requests_ms 300000\n")  # it waits for requests, for longer than a busy machine needs for ours
    holding = client.open("POST", f"{sandbox.path}/exec/stream", {"cmd": "sleep 1000"})
    daemon.process.send_signal(signal.SIGINT)
    wait_until(lambda: is_closed(client))
    for line_command, path, body in (("create", "/v1/sandboxes", {}), (f"fork {sandbox.id} 1", f"/v1/sandboxes/{sandbox.id}/fork", {})):
        on_the_line = refusal_on_the_line(lambda: line.ask(line_command))
        assert on_the_line == ("unavailable", "this Vial is shutting down and takes no new sandboxes")
        connection.request("POST", path, json.dumps(body), {"Authorization": f"Bearer {client.key}"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert (answer["type"], answer["error"]) == on_the_line and response.status == 503
    connection.close()
    holding.connection.close()
    holding.close()
    assert daemon.process.wait(timeout=slow(60)) == 0


def test_without_a_key_nothing_is_done(daemon, sandbox):
    with pytest.raises(Refused) as refused:
        daemon.line(key="vial_" + "x" * 40)
    assert refused.value.kind == "unauthorized" and refused.value.text == refusal_of(daemon.client("vial_" + "x" * 40).ask("GET", "/v1/me"))[1]
