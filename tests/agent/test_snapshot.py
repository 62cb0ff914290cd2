# SPDX-License-Identifier: Apache-2.0
"""Freeze, checkpoint, restore: what goes on, what is renewed, what is dropped."""
import time


def test_processes_files_and_rings_survive_a_restore(fresh, restore):
    box = fresh()
    box.write("before", b"data")
    pid = box.run("echo begin; read line; echo got $line; for i in $(seq 1000); do echo $i; sleep 0.05; done", background=True, stdin=True).result["pid"]
    time.sleep(0.3)
    child = restore(box)
    assert "error" not in child.hello(generation="child", hostname="child")
    assert child.read("before") == b"data" and child.run("hostname").stdout == "child\n"
    stream = child.open("proc.stdin", pid=pid, close=True)
    stream.send_data(b"hello\n")
    stream.send_eof()
    stream.collect()
    attached = child.open("proc.attach", pid=pid)
    attached.next_event()
    assert attached.read_until(b"\n2\n").startswith(b"begin\ngot hello\n1\n2\n")
    attached.cancel()
    attached.collect()
    # The parent went on by itself and knows nothing of it.
    attached = box.open("proc.attach", pid=pid)
    attached.next_event()
    assert attached.read_until(b"begin\n") == b"begin\n"
    time.sleep(0.2)
    attached.cancel()
    assert attached.collect().stdout == ""
    assert box.run("hostname").stdout != "child\n"


def test_streams_go_on_in_the_same_generation_and_are_dropped_in_a_new_one(fresh, restore):
    box = fresh()
    running = box.open("exec", cmd="seq 30; until [ -e /tmp/go-on ]; do sleep 0.05; done; seq 31 60")
    number = running.next_event()["pid"]
    upload = box.open("fs.write", path="half")
    upload.send_data(b"half")
    watch = box.open("fs.watch", path=".")
    watch.next_event()
    child = restore(box)
    box.write("/tmp/go-on", b"")
    assert running.collect().stdout.split() == [str(i) for i in range(1, 61)]
    upload.send_eof()
    assert upload.collect().result["bytes"] == 4
    assert "error" not in child.hello(generation="child")
    # In the child nobody had asked: the command runs on in the background, the half upload is gone.
    entry = [process for process in child.call("proc.list").result["processes"] if process["pid"] == number][0]
    assert entry["background"]
    child.write("/tmp/go-on", b"")
    assert child.open("proc.attach", pid=number).collect().stdout.rstrip().endswith("60")
    assert child.run("ls -A").stdout == ""


def test_no_open_runs_before_the_new_hello(fresh, restore):
    box = fresh()
    child = restore(box)
    assert child.hello(generation="x", entropy="bad")["error"]
    assert child.open("exec", cmd="true").collect().result["code"] == "unavailable"
    assert "error" not in child.hello(generation="x")
    assert child.run("true").result["exit_code"] == 0


def test_the_limits_and_the_zone_work_after_a_restore(fresh, restore):
    box = fresh()
    child = restore(box)
    child.hello(generation="x", process_limit=20, memory_limit_mb=300)
    count = child.run(argv=["python3", "-c", """
import os, time
children = []
try:
    while len(children) < 100:
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
except BlockingIOError:
    print(len(children))
for child in children:
    os.kill(child, 9)
    os.wait()
"""]).stdout
    assert 10 <= int(count) <= 20
    assert child.run(argv=["python3", "-c", "bytearray(2000 << 20)"]).result["oom"]
    assert child.open("exec", cmd="kill -9 1; sleep 5", user="root").collect().result["zone_lost"]
    assert child.run("echo fine").stdout == "fine\n"


def test_random_numbers_differ_between_two_children(fresh, restore):
    box = fresh()
    draws = set()
    for name in ("one", "two"):
        child = restore(box)
        child.hello(generation=name)
        draws.add(child.run("head -c 16 /dev/urandom | od -An -tx1; cat /proc/sys/kernel/random/uuid 2>/dev/null").stdout)
    assert len(draws) == 2


def test_a_second_generation_of_snapshots(fresh, restore):
    box = fresh()
    child = restore(box)
    child.hello(generation="child")
    child.write("depth", b"1")
    pid = child.run("for i in $(seq 100000); do echo $i; sleep 0.05; done", background=True).result["pid"]
    child.bundle = box.bundle
    grandchild = restore(child)
    grandchild.hello(generation="grandchild")
    assert grandchild.read("depth") == b"1"
    assert [process for process in grandchild.call("proc.list").result["processes"] if process["pid"] == pid][0]["state"] == "running"


def test_freezing_under_a_flood_ends_on_a_frame(fresh, restore):
    box = fresh()
    flood = box.open("exec", argv=["yes"])
    flood.next_event()
    child = restore(box)
    child.hello(generation="child")
    assert child.run("echo ok").stdout == "ok\n"
    flood.cancel()
    flood.collect()
