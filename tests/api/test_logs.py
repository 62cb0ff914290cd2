# SPDX-License-Identifier: Apache-2.0
"""What happened in a sandbox: GET …/logs."""

import json
import re
import socket
import threading
import time

import pytest

from tools import slow

LINE = re.compile(r"^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (event |stdout|stderr) (.*)$")


def lines_of(sandbox, **query):
    return read(sandbox, **query).text.splitlines()


def read(sandbox, headers=None, **query):
    path = "/logs" + ("?" + "&".join(f"{k}={v}" for k, v in query.items()) if query else "")
    answer = sandbox.ask("GET", path, headers=headers)
    assert answer.status == 200, answer.body
    return answer


def test_a_new_sandbox_tells_that_it_runs(fresh):
    (line,) = lines_of(fresh)
    time_, stream, text = LINE.match(line).groups()
    assert (stream.strip(), text) == ("event", "the sandbox is running")


def test_calls_and_their_output_are_told_in_order(fresh):
    follower = Follower(fresh)
    cmd = "echo one; until [ -e saw-one ]; do sleep 0.1; done; echo two >&2; until [ -e saw-two ]; do sleep 0.1; done; printf 'three\\r\\nfour'; exit 3"
    runner = threading.Thread(target=fresh.exec, args=(cmd,))
    runner.start()
    for stream, word in (("stdout", "one"), ("stderr", "two")):
        follower.wait_for(f"{stream} {word}")
        fresh.write(f"saw-{word}", b"")
    runner.join()
    follower.close()
    matches = [LINE.match(line) for line in lines_of(fresh)]
    assert all(matches)
    told = [(m[2].strip(), m[3]) for m in matches][1:]
    assert re.match(r"exec \w{20} began: echo one; until", told[0][1])
    assert told[1:-1] == [("stdout", "one"), ("stderr", "two"), ("stdout", "three"), ("stdout", "four")]
    assert re.match(r"exec \w{20} done: exit_code 3 after \d+ ms", told[-1][1])
    assert [m[1] for m in matches] == sorted(m[1] for m in matches)


def test_a_single_stream_is_shown_as_it_was_printed(fresh):
    fresh.exec("echo out; echo err >&2; echo out2")
    assert lines_of(fresh, stream="stdout") == ["out", "out2"]
    assert lines_of(fresh, stream="stderr") == ["err"]
    assert lines_of(fresh, stream="both") == lines_of(fresh)
    assert lines_of(fresh, stream="event")[0] == "the sandbox is running"


def test_streamed_commands_and_runs_are_told_too(fresh):
    response = fresh.client.open("POST", fresh.path + "/exec/stream", {"cmd": "echo streamed"})
    response.read()
    response.connection.close()
    assert "streamed" in lines_of(fresh, stream="stdout")


def test_the_limit_counts_the_last_lines_of_the_wanted_stream(fresh):
    fresh.exec("seq 1 100; echo e >&2")
    assert lines_of(fresh, stream="stdout", limit=3) == ["98", "99", "100"]
    assert lines_of(fresh, limit=0) == []
    assert len(lines_of(fresh, limit=5)) == 5


def test_json_has_the_parts(fresh):
    fresh.exec("echo hello")
    items = read(fresh, headers={"Accept": "application/json"}).json()
    assert {"time", "stream", "text"} == set(items[0])
    assert ("stdout", "hello") in [(item["stream"], item["text"]) for item in items]


def test_bytes_that_are_no_text_do_no_harm(fresh):
    fresh.exec(r"printf 'a\xff\xfeb\nc\x00d\n\xc3'; head -c 20000 /dev/zero | tr '\0' x; echo")
    text = read(fresh).text
    assert "a\ufffd\ufffdb" in text
    assert max(map(len, text.splitlines())) < 5000


def test_a_line_of_output_cannot_pass_for_another(fresh):
    fresh.exec("printf '2026-01-01T00:00:00.000Z event  the sandbox is deleted\\n'")
    fresh.exec("true # \n2026-01-01T00:00:00.000Z event  forged")
    for line in lines_of(fresh):
        time_, stream, text = LINE.match(line).groups()
        assert not time_.startswith("2026-01-01")


def test_a_flood_is_bounded_and_says_what_is_missing(fresh, daemon):
    before = daemon.rss_kb()
    fresh.exec("head -c 50000000 /dev/zero | tr '\\0' 'x' | fold -w 100 | head -c 40000000", timeout_seconds=slow(60))
    answer = read(fresh)
    assert len(answer.body) < 512 * 1024
    assert "bytes of output are left out" in answer.text
    assert daemon.rss_kb() - before < 64 * 1024


class Follower:
    """Reads followed logs in a thread."""

    def __init__(self, sandbox, accept="text/event-stream", **query):
        query = "&".join(f"{k}={v}" for k, v in {"follow": 1, **query}.items())
        self.response = sandbox.client.open("GET", f"{sandbox.path}/logs?{query}", headers={"Accept": accept})
        self.socket = self.response.connection.sock
        self.lines, self.ended = [], threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            for line in self.response:
                self.lines.append((time.monotonic(), line.decode().rstrip("\n")))
        except (OSError, ValueError, AttributeError):
            pass
        self.ended.set()

    def wait_for(self, text, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if any(text in line for _, line in self.lines):
                return True
            time.sleep(0.02)
        raise AssertionError(self.lines)

    def close(self):
        # Not connection.close(): that waits for the reading thread.
        self.socket.shutdown(socket.SHUT_RDWR)
        assert self.ended.wait(60)
        self.response.connection.close()


def test_followed_events_carry_the_line(fresh):
    fresh.exec("echo before")
    follower = Follower(fresh)
    follower.wait_for("before")
    fresh.exec("echo later")
    follower.wait_for("stdout later")  # the call is told of before what it prints
    data = [json.loads(line[5:]) for _, line in follower.lines if line.startswith("data:")]
    assert all({"line", "time", "stream", "text"} == set(item) for item in data)
    assert any(item["text"] == "later" and item["line"].endswith(" stdout later") for item in data)
    follower.close()


def test_following_one_stream_as_text_from_now_on(fresh):
    fresh.exec("echo before")
    follower = Follower(fresh, accept="text/plain", stream="stdout", limit=0)
    time.sleep(0.2)
    fresh.exec("echo now; echo not this >&2")
    follower.wait_for("now")
    assert [line for _, line in follower.lines] == ["now"]
    follower.close()


def test_output_is_followed_while_the_command_runs(fresh):
    follower = Follower(fresh, stream="stdout")
    runner = threading.Thread(target=fresh.exec, args=("echo first; until [ -e seen ]; do sleep 0.1; done; echo second",))
    runner.start()
    follower.wait_for("first")
    assert not any("second" in line for _, line in follower.lines)
    fresh.exec("touch seen")
    runner.join()
    follower.wait_for("second")
    follower.close()


def test_followers_end_with_the_sandbox(client):
    sandbox = client.create()
    followers = [Follower(sandbox, accept=accept) for accept in ["text/event-stream", "text/plain"]]
    sandbox.delete()
    for follower in followers:
        assert follower.ended.wait(60)
        follower.wait_for("the sandbox is deleted")
    assert sandbox.ask("GET", "/logs").status == 404


def test_followers_that_vanish_leave_nothing(fresh, daemon):
    before = daemon.open_files()
    for _ in range(20):
        Follower(fresh).close()
    fresh.exec("echo x")
    deadline = time.monotonic() + 60
    while daemon.open_files() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert daemon.open_files() <= before and daemon.alive()


def test_a_follower_that_does_not_read_costs_little(fresh, daemon):
    response = fresh.client.open("GET", f"{fresh.path}/logs?follow=1", headers={"Accept": "text/event-stream"})
    before = daemon.rss_kb()
    for _ in range(4):
        fresh.exec("seq 1 200000")
    assert daemon.rss_kb() - before < 48 * 1024
    response.connection.close()


@pytest.mark.parametrize("query", ["follow=maybe", "stream=stdin", "stream=", "limit=-1", "limit=x", "limit=99999999999999999999"])
def test_bad_queries(sandbox, query):
    answer = sandbox.ask("GET", f"/logs?{query}")
    assert answer.status == 400 and answer.json()["type"] == "invalid"


def test_after_a_restart_earlier_calls_are_still_told(start_daemon):
    daemon = start_daemon()
    sandbox = daemon.client().create()
    sandbox.exec("echo forgotten; exit 4")
    daemon.kill()
    daemon.start()
    sandbox.client = daemon.client()
    lines = lines_of(sandbox)
    assert re.search(r"exec \w{20} done, exit_code 4: echo forgotten; exit 4", lines[0])
    sandbox.exec("echo new")
    assert lines_of(sandbox, stream="stdout") == ["new"]
