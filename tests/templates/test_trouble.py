# SPDX-License-Identifier: Apache-2.0
"""Builds that misbehave, and what becomes of them; secrets; the log."""

import hashlib
import json
import mmap
import time

import pytest

from tools import check_refusal, database, out, read_events, wait_until, with_query

SECRET = "correct-horse-battery-staple"


def test_the_failing_step_is_told_with_its_exit_code_and_last_lines(builder):
    build = builder.fail("broken", steps=[{"run": "echo fine"}, {"run": "seq 1 100; echo to the end >&2; exit 7"}, {"run": "echo never"}])
    assert (build["step"], build["exit_code"]) == (2, 7) and "step 2 of 3" in build["error"]
    assert len(build["last_lines"]) == 20 and "to the end" in build["last_lines"] and "99" in build["last_lines"]
    assert "never" not in builder.printed(build["build_id"])
    check_refusal(builder.client.ask("GET", "/v1/templates/broken"), 404)


@pytest.mark.parametrize("command, code", [("kill -9 $$", 137), ("sh -c 'kill -9 -1'; sleep 5", 137), ("kill -9 1; sleep 5", 137), ("nothing-like-this", 127)])
def test_a_step_that_kills_its_shell_or_everything_fails_and_nothing_hangs(builder, command, code):
    build = builder.fail("killer", steps=[{"run": command}])
    assert build["exit_code"] == code and "step 1 of 1" in build["error"], build


def test_a_program_that_is_not_there_fails_its_step(builder):
    assert "step 1 of 1" in builder.fail("missing", steps=[{"run": ["/no/such/program"]}])["error"]


def test_warm_code_that_fails_fails_the_build_with_what_it_said(builder):
    build = builder.fail("cold", steps=[{"env": {"A": "b"}}], warm="import nothing_like_it")
    assert "nothing_like_it" in build["error"]
    check_refusal(builder.client.ask("GET", "/v1/templates/cold"), 404)


def test_a_fork_bomb_ends_with_its_build(builder, daemon):
    build = builder.fail("bomb", steps=[{"run": "bomb() { bomb | bomb & }; bomb; sleep 60; exit 3"}], timeout_seconds=5)
    assert build["status"] == "failed"
    assert builder.client.call("GET", "/v1/me")
    wait_until(lambda: not list((daemon.data / "sandboxes").iterdir()))


def test_a_build_that_fills_its_disk_fails_and_leaves_nothing(builder, daemon):
    build = builder.fail("full", disk_mb=64, steps=[{"run": "head -c 200M /dev/urandom > /opt/much"}])
    assert build["step"] == 1 and any("No space left" in line for line in build["last_lines"]), build
    assert "full" not in [template["name"] for template in builder.client.call("GET", "/v1/templates")]


def test_a_step_that_sleeps_for_ever_ends_when_the_builds_time_is_over(builder):
    build = builder.fail("sleeper", steps=[{"run": "echo tired; sleep 1000"}], timeout_seconds=20)
    assert "20 seconds" in build["error"] and "step 1 of 1" in build["error"] and build["last_lines"] == ["tired"]


def test_a_gigabyte_that_a_step_prints_is_bounded_and_holds_up_nobody(builder, daemon):
    begun = builder.begin("printer", steps=[{"run": "yes 0123456789012345678901234567890123456789 | head -c 1000000000; echo; echo the end; exit 4"}])
    memory = daemon.rss_kb()
    while builder.get(begun["build_id"])["status"] in ("pending", "building"):
        builder.client.call("GET", "/v1/me")
        memory = max(memory, daemon.rss_kb())
        time.sleep(0.05)
    build = builder.get(begun["build_id"])
    log = (daemon.data / "builds" / f"{build['build_id']}.log").stat().st_size
    assert build["exit_code"] == 4 and build["last_lines"][-1] == "the end"
    assert log < 9 << 20 and memory < 120_000
    assert sum("the log is full" in entry["text"] for entry in builder.log(build["build_id"])) == 1


def test_a_build_reaches_nothing_without_a_network_and_no_forbidden_address_with_one(builder):
    probe = "import socket, sys\nfor host, port in (('169.254.169.254', 80), ('127.0.0.1', int(sys.argv[1])), ('10.0.0.1', 80)):\n" \
            "    try: socket.create_connection((host, port), 2); print('reached', host)\n    except OSError as problem: print('refused', host)\n"
    steps = [{"run": ["python3", "-c", probe, str(builder.client.address[1])]}]
    closed, opened = builder.build("closed", steps=steps), builder.build("opened", steps=steps, network={"mode": "open"})
    for build in (closed, opened):
        printed = builder.printed(build["build_id"])
        assert "reached" not in printed and printed.count("refused") == 3, printed
    builder.delete("closed")
    builder.delete("opened")


def test_cancelling_ends_a_build_in_its_step_and_leaves_no_sandbox(builder, daemon):
    begun = builder.begin("cancelled", steps=[{"run": "sleep 1000"}])
    builder.wait_step(begun["build_id"], 1)
    builder.client.call("POST", f"/v1/templates/builds/{begun['build_id']}/cancel")
    build = builder.wait(begun["build_id"])
    assert build["status"] == "failed" and build["cancelled"] and "cancelled by" in build["error"]
    wait_until(lambda: not list((daemon.data / "sandboxes").iterdir()))
    check_refusal(builder.client.ask("POST", f"/v1/templates/builds/{begun['build_id']}/cancel"), 409)


def test_nobody_sees_the_sandbox_of_a_build(builder, daemon):
    begun = builder.begin("hidden", steps=[{"run": "sleep 1000"}])
    builder.wait_step(begun["build_id"], 1)
    hidden = [row[0] for row in database(daemon).execute("SELECT id FROM sandboxes")]  # those of builds that have just ended may be there, too
    assert hidden and not set(hidden) & {sandbox["id"] for sandbox in builder.client.sandboxes()}
    for one in hidden:
        check_refusal(builder.client.ask("POST", f"/v1/sandboxes/{one}/exec", {"cmd": "env"}), 404)
    builder.client.call("POST", f"/v1/templates/builds/{begun['build_id']}/cancel")
    builder.wait(begun["build_id"])


def contains(path, needle):
    if path.stat().st_size == 0:
        return False
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return content.find(needle) >= 0


def test_secrets_are_gone_from_the_layer_the_memory_the_log_and_the_records(builder, daemon):
    # The marker proves that a text of the steps is found where it is: without it the search would prove nothing.
    marker = "marker-that-stays-in-the-layer"
    build = builder.build("discreet", secrets={"TOKEN": SECRET}, steps=[
        {"run": f"printf %s \"$TOKEN\" | sha256sum | grep -q {hashlib.sha256(SECRET.encode()).hexdigest()} && echo {marker} > /opt/marker"},
        {"run": "echo the token is $TOKEN; printf 'half %s' \"${TOKEN}\" >&2; echo $TOKEN > /tmp/used; python3 -c \"import os; held = os.environ['TOKEN'] * 100\""},
        {"env": {"A": "b"}}])
    printed = builder.printed(build["build_id"])
    assert "the token is [redacted]" in printed and "half [redacted]" in printed and SECRET not in printed
    sandbox = builder.client.create("discreet")
    assert out(sandbox, "cat /opt/marker; echo ${TOKEN-unset}; ls /tmp/used 2>/dev/null | wc -l") == f"{marker}\nunset\n0\n"
    sandbox.delete()
    files = [path for path in daemon.data.rglob("*") if path.is_file()]
    layer = [path for path in files if path.parent.name == "layers"]
    memory = [path for path in files if "templates" in path.parts]
    assert any(contains(path, marker.encode()) for path in layer) and len(memory) > 1
    assert [str(path) for path in files if contains(path, SECRET.encode())] == []
    assert SECRET not in daemon.log_text()
    builder.delete("discreet")


def test_the_log_can_be_followed_until_the_build_ends_and_a_slow_reader_holds_up_nothing(builder):
    slow_reader = None
    begun = builder.begin("followed", steps=[{"run": "seq 1 50000"}, {"run": "echo last"}])
    path = with_query(f"/v1/templates/builds/{begun['build_id']}/logs", follow=1)
    slow_reader = builder.client.open("GET", path)  # and reads nothing
    entries = [json.loads(line) for line in builder.client.ask("GET", path).body.splitlines() if line]
    build = builder.wait(begun["build_id"])
    assert build["status"] == "ready"
    assert entries == builder.log(begun["build_id"]) and entries[-1]["text"] == "the template is ready"
    printed = [entry for entry in entries if entry["stream"] == "stdout"]
    assert [(entry["step"], entry["total"]) for entry in (printed[0], printed[-1])] == [(1, 2), (2, 2)]
    assert [entry["text"] for entry in printed] == [str(number) for number in range(1, len(printed))] + ["last"]
    assert all(entry["time"] for entry in entries)
    rest = slow_reader.read()
    assert len([line for line in rest.splitlines() if line]) == len(entries)
    slow_reader.connection.close()
    events = [data for name, data in read_events_of(builder, path)]
    assert events == entries
    builder.delete("followed")


def test_a_nul_that_a_step_prints_hides_no_secret_and_stops_no_reader(builder, daemon):
    build = builder.build("null", secrets={"TOKEN": SECRET}, steps=[{"run": "printf 'a\\0b\\n'; cat /proc/self/environ; echo"}])
    path = f"/v1/templates/builds/{build['build_id']}/logs"
    assert [data for name, data in read_events_of(builder, path)] == builder.log(build["build_id"])
    printed = builder.printed(build["build_id"])
    assert "a\0b" in printed and "\0TOKEN=[redacted]" in "\0" + printed.replace("\n", "\0"), printed
    assert SECRET.encode() not in (daemon.data / "builds" / f"{build['build_id']}.log").read_bytes()
    builder.delete("null")


def read_events_of(builder, path):
    response = builder.client.open("GET", path, headers={"Accept": "text/event-stream"})
    assert response.headers["Content-Type"].startswith("text/event-stream")
    yield from read_events(response)
    response.connection.close()
