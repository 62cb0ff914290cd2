# SPDX-License-Identifier: Apache-2.0
"""The connection itself: hello, ping, epochs, credit, and what is refused."""
import json
import struct
import time

import pytest

from conftest import AGENT, ROOTFS
from wireclient import CLOSE, CREDIT, DATA, HELLO, INITIAL_CREDIT, OPEN, STDOUT, Gone, Sandbox, WireError, wait_until


def test_open_before_hello_is_refused():
    with Sandbox.start(AGENT, ROOTFS) as sandbox:
        result = sandbox.open("ports").collect().result
        assert result["code"] == "unavailable" and "not_ready" in result["error"]
        assert sandbox.hello()["confirmed"][:3] == ["entropy", "clock", "hostname"]
        assert sandbox.open("ports").collect().result["ok"]


@pytest.mark.parametrize("field, value, word", [
    ("version", 2, "version"), ("generation", "", "generation"), ("entropy", "00", "entropy"), ("entropy", "zz" * 64, "entropy"),
    ("hostname", "a b", "hostname"), ("wall_clock_ns", "x", "wall_clock"), ("env", [1], "env"), ("env", {"A=B": "1"}, "env"),
])
def test_a_wrong_hello_is_answered_with_an_error_and_closes_the_door(box, field, value, word):
    answer = box.hello(**{field: value})
    assert word in answer["error"]
    good = box.hello(generation="good" + str(time.time()))
    assert "error" not in good


def test_hello_sets_identity(box):
    box.hello(generation="abc123", hostname="name-1", sandbox_id="sb42", env={"GREETING": "hi", "PORT": 8080})
    out = box.run("hostname; cat /etc/hostname; echo $VIAL_SANDBOX_ID $GREETING $PORT; getent hosts name-1; cat /etc/machine-id").stdout.split("\n")
    assert out[0] == out[1] == "name-1"
    assert out[2] == "sb42 hi 8080"
    assert out[3].startswith("127.0.1.1")
    first = out[4]
    box.hello(generation="abc124", hostname="name-2", sandbox_id="sb43")
    out = box.run("cat /etc/machine-id; grep -c name-1 /etc/hosts").stdout.split("\n")
    assert len(first) == 32 and out[0] != first and out[1] == "0"


def test_a_clock_that_cannot_be_set_and_is_wrong_fails_closed(box):
    answer = box.hello(wall_clock_ns=str(time.time_ns() - 3600 * 10**9))
    assert "clock" in answer["error"]
    assert box.open("ports").collect().result["code"] == "unavailable"
    assert "error" not in box.hello()


def test_a_hello_may_have_waited_on_its_way_but_not_come_from_the_future(box):
    before = time.time_ns()
    answer = box.hello(wall_clock_ns=str(before - 10 * 10**9))
    assert "error" not in answer and before - 2 * 10**9 < int(answer["wall_clock_ns"]) < time.time_ns() + 2 * 10**9
    assert "clock" in box.hello(wall_clock_ns=str(time.time_ns() + 1000 * 10**9))["error"]
    assert "error" not in box.hello()


def test_ping_returns_its_payload(box):
    assert box.wire.ping(b"abc" * 1000) == b"abc" * 1000


def test_unknown_and_malformed_requests_are_errors_of_their_stream(box):
    assert box.open("nonsense").collect().result["code"] == "invalid"
    for payload in (b"{", b"[]", b"", b'{"op":1}', b'{"op":"ports","op":"ports"}', b'{"op":"fs.stat","path":"\xff"}', b"[" * 100000):
        stream = box.open("ports")  # a number for it
        stream.collect()
        box.wire.last_stream += 1
        stream.number = box.wire.last_stream
        box.wire.streams[(box.wire.epoch, stream.number)] = stream
        box.wire.send(stream.number, OPEN, payload)
        assert stream.collect().result["code"] == "invalid", payload[:20]


def test_a_stream_number_in_use_is_refused(box):
    first = box.open("exec", argv=["cat"], stdin=True)
    assert first.next_event()["event"] == "started"
    box.wire.send(first.number, OPEN, json.dumps({"op": "ports"}).encode())
    kind, _, value = first.next()
    assert kind == "close" and value["code"] == "conflict"


def test_an_output_flood_without_credit_stops_at_the_credit_and_stalls_nobody(box):
    flood = box.open("exec", argv=["yes"])
    flood.auto_credit = False
    assert wait_until(lambda: flood.received_bytes == INITIAL_CREDIT)
    time.sleep(0.5)
    assert flood.received_bytes == INITIAL_CREDIT
    assert box.run(argv=["echo", "alive"]).stdout == "alive\n"
    flood.grant(1000)
    assert wait_until(lambda: flood.received_bytes == INITIAL_CREDIT + 1000)
    flood.auto_credit = True
    flood.cancel()
    result = flood.collect().result
    assert result["ok"] and result["cancelled"]


def test_a_slow_reader_gets_all_of_a_program_that_has_ended_meanwhile(box):
    """What is in the pipe when the program ends is not lost because nobody could take it for a while."""
    stream = box.open("exec", argv=["head", "-c", str(INITIAL_CREDIT + 30_000), "/dev/zero"])
    stream.auto_credit = False
    assert wait_until(lambda: stream.received_bytes == INITIAL_CREDIT)
    time.sleep(1)  # the program ends, and the agent's patience with a silent pipe
    assert stream.received_bytes == INITIAL_CREDIT
    stream.auto_credit = True
    stream.grant(INITIAL_CREDIT)
    assert len(stream.collect().ok()._joined(STDOUT)) == INITIAL_CREDIT + 30_000


def test_many_floods_at_once_share_the_wire(box):
    floods = [box.open("exec", argv=["head", "-c", "8000000", "/dev/zero"]) for _ in range(6)]
    for flood in floods:
        answer = flood.collect().ok()
        assert len(answer._joined(1)) == 8000000


def test_reset_cancels_the_streams_of_the_epoch_before(box):
    old = box.open("exec", cmd="echo $$; trap 'touch /tmp/told; exit' TERM; while :; do sleep 0.1; done")
    assert old.next_event()["event"] == "started"
    assert old.next()[0] == "data"
    background = box.run("sleep 1000", background=True).result["pid"]
    box.wire.reset()
    assert wait_until(lambda: box.open("fs.stat", path="/tmp/told").collect().result["ok"])
    states = {process["pid"]: process["state"] for process in box.call("proc.list").result["processes"]}
    assert states[background] == "running"
    assert old.frames_in.empty() or all(frame[0] == DATA for frame in list(old.frames_in.queue))
    assert box.call("fs.stat", path="/tmp/told")
    box.call("proc.signal", pid=background, signal="KILL")


def test_frames_for_closed_or_unknown_streams_are_ignored(box):
    stream = box.open("ports")
    stream.collect()
    for kind, payload in ((DATA, b"late"), (CREDIT, struct.pack("<I", 5)), (CLOSE, b"")):
        box.wire.send(stream.number, kind, payload)
        box.wire.send(999999, kind, payload)
    assert box.wire.ping() == b"x"


def test_too_many_streams_are_refused_one_by_one(fresh):
    box = fresh()
    streams = [box.open("fs.watch", path="/tmp", user="root") for _ in range(1030)]
    assert box.wire.ping() == b"x"
    refused = 0
    for stream in streams:
        kind, _, value = stream.next()
        if kind == "close":
            assert value["code"] == "limit", value
            refused += 1
    assert refused >= 6
    for stream in streams:
        stream.cancel()
    time.sleep(1)
    assert box.run(argv=["true"]).result["exit_code"] == 0


def test_a_broken_frame_ends_the_sandbox():
    with Sandbox.start(AGENT, ROOTFS) as sandbox:
        sandbox.hello()
        sandbox.wire.send_raw(struct.pack("<IIHBB", 1 << 31, 1, 1, DATA, 0))
        with pytest.raises(Gone):
            sandbox.wire.wait_connection(HELLO)
        assert sandbox.process.wait(60) == 0


def test_error_sentences_are_for_people(box):
    with pytest.raises(WireError) as problem:
        box.call("fs.read", path=5)
    assert problem.value.code == "invalid" and '"path" must be a string' in str(problem.value)
