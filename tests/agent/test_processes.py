# SPDX-License-Identifier: Apache-2.0
"""Background processes: list, attach, signal, stdin."""
import time

import pytest

from wireclient import WireError, wait_until


def listed(box, pid):
    return [process for process in box.call("proc.list").result["processes"] if process["pid"] == pid][0]


def test_a_background_process_answers_at_once_and_is_listed(box):
    before = time.time()
    pid = box.run("sleep 1000", background=True, cwd="/tmp").result["pid"]
    after = time.time()
    entry = listed(box, pid)
    assert entry["state"] == "running" and entry["background"] and entry["user"] == "user" and entry["cwd"] == "/tmp"
    assert entry["cmd"] == "sleep 1000" and before - 2 < entry["started_at_ms"] / 1000 < after + 2
    box.call("proc.signal", pid=pid, signal="TERM")
    assert wait_until(lambda: listed(box, pid)["state"] == "exited")
    assert listed(box, pid)["exit_code"] == 143
    with pytest.raises(WireError) as problem:
        box.call("proc.signal", pid=pid, signal="TERM")
    assert problem.value.code == "not_found"


def test_attach_gives_the_past_then_the_present_then_the_end(box):
    pid = box.run("echo past; echo oops >&2; sleep 1; echo present; exit 4", background=True).result["pid"]
    time.sleep(0.3)
    answer = box.open("proc.attach", pid=pid).collect()
    assert answer.stdout == "past\npresent\n" and answer.stderr == "oops\n" and answer.result["exit_code"] == 4
    again = box.open("proc.attach", pid=pid).collect()
    assert again.stdout == "past\npresent\n" and again.result["exit_code"] == 4


def test_two_may_attach_and_detaching_hurts_nobody(box):
    pid = box.run("for i in $(seq 40); do echo $i; sleep 0.05; done", background=True).result["pid"]
    first, second = box.open("proc.attach", pid=pid), box.open("proc.attach", pid=pid)
    first.next_event()
    first.cancel()
    assert first.collect().result["detached"]
    assert second.collect().stdout.split() == [str(i) for i in range(1, 41)]


def test_the_ring_keeps_the_last_mebibyte(box):
    pid = box.run("seq 1 500000", background=True).result["pid"]
    box.open("proc.attach", pid=pid).collect()  # to its end: who is attached while it runs may see more than the ring holds
    text = box.open("proc.attach", pid=pid).collect().stdout
    assert 900_000 < len(text) <= 1 << 20
    numbers = text.split("\n")[1:-1]
    assert numbers[-1] == "500000" and len(numbers) == 500000 - int(numbers[0]) + 1


def test_an_attached_reader_without_credit_does_not_hold_the_process(box):
    pid = box.run("seq 1 2000000; touch /tmp/finished", background=True).result["pid"]
    slow = box.open("proc.attach", pid=pid)
    slow.auto_credit = False
    assert wait_until(lambda: box.open("fs.stat", path="/tmp/finished").collect().result["ok"])
    slow.auto_credit = True
    slow.grant(4 << 20)
    assert slow.collect().stdout.rstrip().endswith("2000000")


def test_stdin_can_be_fed_in_turns_and_closed(box):
    pid = box.run(argv=["cat"], background=True, stdin=True).result["pid"]
    for text, closes in ((b"one\n", False), (b"two\n", True)):
        stream = box.open("proc.stdin", pid=pid, close=closes)
        stream.send_data(text)
        stream.send_eof()
        assert stream.collect().result["bytes"] == 4
    answer = box.open("proc.attach", pid=pid).collect()
    assert answer.stdout == "one\ntwo\n" and answer.result["exit_code"] == 0
    with pytest.raises(WireError) as problem:
        box.call("proc.stdin", pid=pid)
    assert problem.value.code == "conflict"


def test_only_one_writes_to_stdin_at_a_time(box):
    pid = box.run(argv=["cat"], background=True, stdin=True).result["pid"]
    first = box.open("proc.stdin", pid=pid)
    with pytest.raises(WireError) as problem:
        box.call("proc.stdin", pid=pid)
    assert problem.value.code == "conflict"
    first.cancel()
    first.collect()
    box.call("proc.signal", pid=pid, signal=9)


def test_unknown_pids_and_signals(box):
    for op in ("proc.attach", "proc.signal", "proc.stdin"):
        assert box.open(op, pid=31000).collect().result["code"] == "not_found"
    pid = box.run("sleep 1000", background=True).result["pid"]
    assert box.open("proc.signal", pid=pid, signal="NOPE").collect().result["code"] == "invalid"
    box.call("proc.signal", pid=pid, signal="sigkill")


def test_a_background_command_that_does_not_exist_is_an_error(box):
    assert box.open("exec", argv=["no-such"], background=True).collect().result["code"] == "not_found"


def test_a_background_process_obeys_its_timeout(box):
    pid = box.run("sleep 100", background=True, timeout_ms=300).result["pid"]
    result = box.open("proc.attach", pid=pid).collect().result
    assert result["timed_out"]


def test_only_the_last_exited_are_remembered(box):
    for _ in range(70):
        box.run(argv=["true"])
    exited = [process for process in box.call("proc.list").result["processes"] if process["state"] == "exited"]
    assert 60 <= len(exited) <= 64


def test_one_that_is_nobodys_business_is_not_in_the_list(box):
    pid = box.open("exec", argv=["sleep", "30"], background=True, unlisted=True).collect().result["pid"]
    assert pid not in [process["pid"] for process in box.call("proc.list").result["processes"]]
    box.call("proc.signal", pid=pid, signal="KILL")
    assert box.open("proc.attach", pid=pid).collect().result["signal"] == "KILL"


def test_orphans_are_reaped(box):
    box.run("for i in $(seq 20); do (sleep 0.1 &) ; done")
    # Those that still sleep count as well: they have yet to become zombies, or not.
    assert wait_until(lambda: box.run("ps -e -o stat= -o comm= | grep -c '^Z\\|sleep' || true").stdout.strip() == "0")


def test_metrics(box):
    metrics = box.call("metrics").result
    assert metrics["cpu_ms"] > 0 and metrics["memory_used_kb"] > 0 and metrics["memory_limit_kb"] > metrics["memory_used_kb"]
    assert 0 < metrics["disk_used_kb"] < metrics["disk_total_kb"] and len(metrics["load"]) == 3


def test_the_list_shows_the_whole_command_bounded(box):
    def shown(**fields):
        return listed(box, box.call("exec", background=True, **fields).result["pid"])["cmd"]

    assert shown(argv=["sleep", "30"]) == "sleep 30"
    assert shown(argv=["python3", "-c", "import time; time.sleep(30)", "it's", ""]) == "python3 -c 'import time; time.sleep(30)' 'it'\\''s' ''"
    assert shown(cmd="sleep 30 && echo 'done'") == "sleep 30 && echo 'done'"
    for fields in ({"argv": ["sleep", "30", "ä" * 5000]}, {"cmd": "sleep 30 # " + "ä" * 5000}, {"argv": ["sleep"] + ["30"] * 4000}):
        long = shown(**fields)
        assert long.startswith("sleep 30") and long.endswith("…") and 1000 <= len(long.encode()) <= 1030 and "\ufffd" not in long
    for process in box.call("proc.list").result["processes"]:
        if process["state"] == "running":
            # Some of those sleeps refuse their arguments and end by themselves.
            box.open("proc.signal", pid=process["pid"], signal="KILL").collect()


def test_a_program_that_is_not_there_is_named_without_its_arguments(box):
    with pytest.raises(WireError) as problem:
        box.call("exec", argv=["no-such-program", "secret"])
    assert "no-such-program" in str(problem.value) and "secret" not in str(problem.value)


def test_a_terminal_in_the_background_is_resized_read_and_ended_whole(box):
    pid = box.run("trap 'stty size' WINCH; setsid -w true; sleep 4713 & echo ready; while :; do sleep 0.05; done", background=True,
                  pty={"rows": 10, "cols": 20}).result["pid"]
    assert listed(box, pid)["pty"] is True

    def read(since, wait_ms=30_000, **fields):
        answer = box.open("proc.read", pid=pid, since=since, wait_ms=wait_ms, **fields).collect()
        return answer.main, answer.result

    text, result = read(0)
    assert text == b"ready\r\n" and (result["next"], result["exited"]) == (7, False)
    assert read(7, wait_ms=100)[1]["next"] == 7
    box.call("proc.resize", pid=pid, rows=33, cols=44)
    assert read(7)[0] == b"33 44\r\n"
    assert read(2, max_bytes=3)[0] == b"ady" and read(2, max_bytes=3)[1]["next"] == 5
    box.call("proc.signal", pid=pid, signal="KILL")
    assert wait_until(lambda: listed(box, pid)["state"] == "exited")
    result = read(14)[1]
    assert (result["exited"], result["exit_code"]) == (True, 137)
    assert wait_until(lambda: box.run("pgrep -f 'sleep 471[3]'").result["exit_code"] == 1)
    for op, fields in (("proc.resize", {"rows": 0, "cols": 5}), ("proc.resize", {"rows": 5}), ("proc.read", {"max_bytes": 1 << 30}), ("proc.read", {"since": -1})):
        with pytest.raises(WireError) as problem:
            box.call(op, pid=pid, **fields)
        assert problem.value.code == "invalid"
    plain = box.run("sleep 30", background=True).result["pid"]
    with pytest.raises(WireError) as problem:
        box.call("proc.resize", pid=plain, rows=5, cols=5)
    assert problem.value.code == "conflict"
    box.call("proc.signal", pid=plain, signal="KILL")


def test_who_starts_one_and_stays_misses_nothing_and_may_leave(box):
    stream = box.open("exec", cmd="seq 1 400000; sleep 0.5; touch /tmp/went-on", background=True, attached=True)
    stream.auto_credit = False
    time.sleep(1)  # by now it is far behind, and the process waits for it
    stream.auto_credit = True
    answer = stream.collect()
    assert answer.stdout == "".join(f"{number}\n" for number in range(1, 400001)) and answer.result["exit_code"] == 0
    stream = box.open("exec", cmd="seq 1 400000; touch /tmp/left-alone", background=True, attached=True)
    stream.auto_credit = False
    pid = stream.next_event()["pid"]
    time.sleep(0.3)
    assert not box.open("fs.stat", path="/tmp/left-alone").collect().result["ok"], "it waits for who is attached"
    stream.cancel()
    assert stream.collect().result["detached"]
    assert wait_until(lambda: box.open("fs.stat", path="/tmp/left-alone").collect().result["ok"])
    assert listed(box, pid)["background"]


def test_attach_without_the_past_gives_what_comes(box):
    pid = box.run("echo past; until [ -e /tmp/go-on ]; do sleep 0.05; done; echo present; exit 4", background=True).result["pid"]
    seeing = box.open("proc.attach", pid=pid)
    while seeing.next()[0] != "data":
        pass
    seeing.cancel()
    seeing.collect()
    attached = box.open("proc.attach", pid=pid, past=False)
    box.write("/tmp/go-on", b"")  # the agent does one after the other
    answer = attached.collect()
    assert answer.stdout == "present\n" and answer.result["exit_code"] == 4
    assert box.open("proc.attach", pid=pid, past=False).collect().stdout == ""
