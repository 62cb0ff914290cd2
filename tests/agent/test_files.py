# SPDX-License-Identifier: Apache-2.0
"""File operations, with the asked user's rights."""
import hashlib
import os
import time

import pytest

from wireclient import WireError, wait_until


def code_of(box, op, **fields):
    stream = box.open(op, **fields)
    if op == "fs.write":
        stream.send_eof()
    return stream.collect().result["code"]


def test_what_is_written_is_read(box):
    for size in (0, 1, 4096, 262144, 262145, 3000000):
        data = os.urandom(size)
        assert box.write(f"sizes/{size}", data) == {"ok": True, "bytes": size, "path": f"/workspace/sizes/{size}"}
        answer = box.call("fs.read", path=f"sizes/{size}")
        assert answer.main == data and answer.events[0]["size"] == size and answer.result["bytes"] == size


def test_a_big_file_both_ways(fresh):
    box = fresh(disk_mb=1024)
    data = os.urandom(1 << 20) * 256
    started = time.monotonic()
    box.write("/tmp/big", data)
    written = time.monotonic()
    back = box.read("/tmp/big")
    done = time.monotonic()
    assert hashlib.sha256(back).digest() == hashlib.sha256(data).digest()
    print(f"up {256 / (written - started):.0f} MB/s, down {256 / (done - written):.0f} MB/s through a client in Python")


def test_a_part_of_a_file(box):
    box.write("part", b"0123456789")
    assert box.read("part", offset=3, length=4) == b"3456"
    assert box.read("part", offset=8) == b"89"
    assert box.read("part", offset=100) == b""
    assert box.read("part", length=0) == b""


def test_a_cancelled_upload_changes_nothing(box):
    box.write("keep", b"old")
    stream = box.open("fs.write", path="keep")
    stream.send_data(b"new" * 100000)
    stream.cancel()
    assert not stream.collect().result["ok"]
    assert box.read("keep") == b"old"
    assert box.run("ls -A | grep -c vial- || true").stdout.strip() == "0"


def test_an_existing_file_keeps_mode_and_owner(box):
    box.run("echo x > shared; chmod 666 shared; chown root:root shared", user="root", cwd="/workspace")
    box.write("shared", b"mine")
    entry = box.call("fs.stat", path="shared").result["entry"]
    assert entry["mode"] == "0666" and entry["user"] == "root" and box.read("shared") == b"mine"
    box.write("shared", b"run", mode="0755")
    assert box.call("fs.stat", path="shared").result["entry"]["mode"] == "0755"


def test_append(box):
    box.write("log", b"one\n")
    box.write("log", b"two\n", append=True)
    assert box.read("log") == b"one\ntwo\n"


def test_a_link_is_written_through(box):
    box.write("real", b"1")
    box.run("ln -sf real link")
    box.write("link", b"2")
    assert box.read("real") == b"2"
    entry = box.call("fs.stat", path="link").result["entry"]
    assert entry["type"] == "symlink" and entry["target"] == "real" and entry["size"] == 1


def test_rights_are_the_users(box):
    box.run("mkdir -p /root/secret; echo x > /root/secret/f; echo y > /workspace/locked; chmod 600 /workspace/locked; "
            "chown root /workspace/locked", user="root")
    assert code_of(box, "fs.read", path="/root/secret/f") == "denied"
    assert code_of(box, "fs.read", path="locked") == "denied"
    assert code_of(box, "fs.write", path="locked") == "denied"
    assert code_of(box, "fs.write", path="/etc/passwd") == "denied"
    assert code_of(box, "fs.write", path="/etc/new") == "denied"
    assert code_of(box, "fs.list", path="/root") == "denied"
    assert code_of(box, "fs.mkdir", path="/etc/x") == "denied"
    assert code_of(box, "fs.remove", path="/etc/passwd") == "denied"
    assert code_of(box, "fs.move", path="/etc/passwd", to="/workspace/p") == "denied"
    assert code_of(box, "fs.watch", path="/root") == "denied"
    assert box.read("/root/secret/f", user="root") == b"x\n"
    box.write("/etc/new", b"z", user="root")
    assert box.call("fs.stat", path="/etc/new").result["entry"]["user"] == "root"


def test_a_link_does_not_lend_rights(box):
    box.run("ln -sf /root/secret/f peek; ln -sf /etc/shadow shadow")
    assert code_of(box, "fs.read", path="peek") == "denied"
    assert code_of(box, "fs.read", path="shadow") == "denied"


def test_only_regular_files_are_streamed(box):
    box.run("mkfifo pipe; python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('sock')\"")
    for path in ("pipe", "sock", "/dev/zero", "/dev/tty"):
        assert code_of(box, "fs.read", path=path) == "invalid", path
        assert code_of(box, "fs.write", path=path) == "invalid", path
    assert code_of(box, "fs.read", path="/workspace") == "conflict"
    assert code_of(box, "fs.write", path="/workspace") == "conflict"
    assert box.wire.ping() == b"x"


def test_proc_is_out_of_reach(box):
    for path in ("/proc/1/environ", "/proc", "/proc/self/fd/0", "/./proc//self/mem"):
        assert code_of(box, "fs.read", path=path) == "denied"
    box.run("ln -sf /proc/self/fd/1 way; ln -sf /proc/1 one")
    assert code_of(box, "fs.read", path="way") == "not_found"
    assert code_of(box, "fs.list", path="one") == "not_found"
    assert code_of(box, "fs.read", path="one/environ", user="root") == "not_found"
    assert code_of(box, "fs.write", path="/workspace/../proc/self/comm", user="root") in ("denied", "not_found")


def test_errors_carry_the_right_code(box):
    box.write("file", b"x")
    box.call("fs.mkdir", path="full/below")
    assert code_of(box, "fs.read", path="missing") == "not_found"
    assert code_of(box, "fs.stat", path="missing/below") == "not_found"
    assert code_of(box, "fs.stat", path="file/below") == "not_found"
    assert code_of(box, "fs.write", path="file/below") == "conflict"
    assert code_of(box, "fs.list", path="file") == "conflict"
    assert code_of(box, "fs.remove", path="full") == "conflict"
    assert code_of(box, "fs.mkdir", path="file") == "conflict"
    assert code_of(box, "fs.remove", path="missing") == "not_found"
    assert code_of(box, "fs.move", path="missing", to="x") == "not_found"
    assert code_of(box, "fs.read", path="") == "invalid"
    assert code_of(box, "fs.read", path="x" * 5000) == "invalid"
    assert code_of(box, "fs.read", path="x" * 300) == "invalid"
    assert code_of(box, "fs.write", path="m", mode="9999") == "invalid"
    assert code_of(box, "fs.list", path=".", depth=0) == "invalid"
    assert code_of(box, "fs.read", path="file", offset=-1) == "invalid"
    assert code_of(box, "fs.read", path="file", user="ghost") == "invalid"


def test_listing_a_tree(box):
    box.run("rm -rf tree; mkdir -p tree/a/b; touch tree/f tree/a/g tree/a/b/h; ln -s .. tree/a/up")
    entries = [entry for event in box.call("fs.list", path="tree", depth=3).events for entry in event["entries"]]
    assert sorted(entry["path"] for entry in entries) == [
        "/workspace/tree/a", "/workspace/tree/a/b", "/workspace/tree/a/b/h", "/workspace/tree/a/g", "/workspace/tree/a/up",
        "/workspace/tree/f"]
    one = [entry["name"] for event in box.call("fs.list", path="tree").events for entry in event["entries"]]
    assert sorted(one) == ["a", "f"]


def test_a_directory_of_ten_thousand_lists_and_goes(box):
    box.run("mkdir many; cd many; seq 10000 | xargs touch")
    names = {entry["name"] for event in box.call("fs.list", path="many").events for entry in event["entries"]}
    assert len(names) == 10000
    box.call("fs.remove", path="many", recursive=True)
    assert code_of(box, "fs.stat", path="many") == "not_found"


def test_names_that_are_not_utf8_do_not_break_a_listing(box):
    box.run("mkdir -p odd; touch $'odd/bad\\xff' 'odd/good' $'odd/new\\nline'")
    names = {entry["name"] for event in box.call("fs.list", path="odd").events for entry in event["entries"]}
    assert names == {"bad\ufffd", "good", "new\nline"}


def test_move_and_mkdir(box):
    box.write("from", b"data")
    assert box.call("fs.move", path="from", to="deep/er/to").result["path"] == "/workspace/deep/er/to"
    assert box.read("deep/er/to") == b"data"
    box.call("fs.mkdir", path="made/here", mode="0700")
    box.call("fs.mkdir", path="made/here")
    assert box.call("fs.stat", path="made/here").result["entry"]["mode"] == "0700"


def test_remove_does_not_follow_links(box):
    box.run("mkdir -p victim outer; touch victim/keep; ln -s /workspace/victim outer/link")
    box.call("fs.remove", path="outer", recursive=True)
    assert box.call("fs.stat", path="victim/keep")


def test_a_full_disk_is_no_space_and_passes(fresh):
    box = fresh(disk_mb=64)
    with pytest.raises(WireError) as problem:
        box.write("/workspace/huge", bytes(100 << 20))
    assert problem.value.code == "no_space"
    assert box.run("ls -A /workspace").stdout == ""
    answer = box.run("head -c 200000000 /dev/zero > fill; ls -l fill | awk '{print $5}'")
    assert "No space left" in answer.stderr and int(answer.stdout) < 70_000_000
    with pytest.raises(WireError) as problem:
        box.write("more", bytes(1 << 20))
    assert problem.value.code == "no_space"
    assert box.read("fill", length=10) == bytes(10)
    assert "error" not in box.hello(generation="other")  # a full disk does not keep it from waking
    box.call("fs.remove", path="fill")
    box.write("again", b"ok")


def test_watch_tells_what_happens(box):
    box.run("rm -rf w; mkdir w")
    watch = box.open("fs.watch", path="w", recursive=True)
    assert watch.next_event()["event"] == "watching"
    box.run("cd w; echo 1 > a; mv a b; mkdir -p d/e; echo 2 > d/e/f; rm b")
    expected = {("create", "a"), ("modify", "a"), ("move", "b"), ("create", "d"), ("create", "d/e"), ("create", "d/e/f"), ("delete", "b")}
    events = []
    while not expected <= {(event["event"], event["path"].removeprefix("/workspace/w/")) for event in events}:
        events.append(watch.next_event())
    watch.cancel()
    watch.collect().ok()
    assert [event["from"] for event in events if event["event"] == "move"] == ["/workspace/w/a"]


def test_a_watch_tells_a_new_file_from_one_replaced(box):
    box.run("mkdir -p births")
    watch = box.open("fs.watch", path="births")
    assert watch.next_event()["event"] == "watching"
    for content in (b"first", b"second"):
        box.write("births/file", content)
    moves = []
    while len(moves) < 2:
        event = watch.next_event()
        moves += [event["from"].rpartition("/")[2]] if event["event"] == "move" else []
    watch.cancel()
    watch.collect().ok()
    assert [name.startswith(".vial-") and name.endswith("-new.tmp") for name in moves] == [True, False]


def test_a_watch_may_be_for_directories_only(box):
    box.write("no-folder", b"x")
    assert code_of(box, "fs.watch", path="no-folder", only_directory=True) == "invalid"
    watch = box.open("fs.watch", path="no-folder")
    assert watch.next_event()["event"] == "watching"
    watch.cancel()
    watch.collect().ok()


def test_a_watch_nobody_reads_stalls_nobody(box):
    box.run("rm -rf w2; mkdir w2")
    watch = box.open("fs.watch", path="w2")
    watch.auto_credit = False
    box.run("cd w2; for i in $(seq 3); do seq 4000 | xargs touch; seq 4000 | xargs rm; done")
    assert box.run(argv=["echo", "ok"]).stdout == "ok\n"
    watch.auto_credit = True
    watch.grant(8 << 20)
    watch.cancel()
    watch.collect()


def test_a_tree_of_any_depth_is_removed(box):
    script = "import os\nos.mkdir('chasm'); os.chdir('chasm')\nfor i in range(3000):\n    os.mkdir('level'); open('file', 'w').close(); os.chdir('level')"
    assert box.run(argv=["python3", "-c", script]).result["exit_code"] == 0
    box.call("fs.remove", path="chasm", recursive=True)
    assert box.open("fs.stat", path="chasm").collect().result["code"] == "not_found"


def test_a_wide_and_deep_tree_is_removed(box):
    script = "import os\nfor a in range(20):\n  for b in range(20):\n    os.makedirs('wide/%d/%d/' % (a, b) + '/'.join('x' * 45))\n    open('wide/%d/%d/f' % (a, b), 'w').close()"
    assert box.run(argv=["python3", "-c", script]).result["exit_code"] == 0
    box.call("fs.remove", path="wide", recursive=True)
    assert box.open("fs.stat", path="wide").collect().result["code"] == "not_found"


def test_a_tree_that_is_moved_away_is_not_followed(box):
    """What lies beside the place that a part of the tree was moved to stays."""
    script = ("import os\nos.makedirs('elsewhere/kept'); os.mkdir('moving'); os.chdir('moving')\n"
              "for i in range(1000):\n    os.mkdir('level'); [open('file%d' % n, 'w').close() for n in range(4)]; os.chdir('level')")
    assert box.run(argv=["python3", "-c", script]).result["exit_code"] == 0
    stream = box.open("fs.remove", path="moving", recursive=True)
    time.sleep(0.1)
    box.run("mv moving/level/level/level/level/level elsewhere/part; true")
    result = stream.collect().result
    assert result["ok"] or (result["code"] in ("conflict", "not_found") and "changed" in result["error"]), result
    assert box.call("fs.stat", path="elsewhere/kept").result["entry"]["is_dir"]
    box.call("fs.remove", path="elsewhere", recursive=True)
    box.open("fs.remove", path="moving", recursive=True).collect()


def test_what_the_user_may_not_remove_is_told_by_its_true_reason(box):
    box.run("mkdir -p mine/roots && touch mine/roots/file && chown root:root mine/roots && chmod 755 mine/roots", user="root")
    result = box.open("fs.remove", path="mine", recursive=True).collect().result
    assert result["code"] == "denied" and "Permission denied" in result["error"]
    box.call("fs.remove", path="mine", recursive=True, user="root")


def test_a_watch_that_nobody_reads_tells_that_it_lost_something(box):
    box.run("mkdir -p seen unseen/big; cd unseen/big; seq -f '%0100g' 20000 | xargs touch")
    stream = box.open("fs.watch", path="seen", recursive=True)
    stream.auto_credit = False
    assert stream.next_event()["event"] == "watching"
    box.run("mv unseen/big seen/big")
    # It looks through the folder in one go: once it tells of what is in it, it learns of the credit only after that.
    assert wait_until(lambda: stream.received_bytes > 10_000)
    stream.auto_credit = True
    stream.grant(64 << 20)
    box.run("touch seen/last")
    seen = []
    while not seen or not seen[-1]["path"].endswith("/last"):
        seen.append(stream.next_event())
    assert "overflow" in [event["event"] for event in seen] and len(seen) < 15000
    stream.cancel()
    stream.collect()
    box.run("rm -rf seen unseen")


def test_directories_that_come_and_go_do_not_use_up_a_watch(box):
    box.run("mkdir -p churn")
    stream = box.open("fs.watch", path="churn", recursive=True)
    assert stream.next_event()["event"] == "watching"
    for _ in range(10):
        box.run(argv=["python3", "-c", "import os\nfor i in range(500): os.mkdir(f'churn/d{i}')\nfor i in range(500): os.rmdir(f'churn/d{i}')"])
    box.run("mkdir churn/new; sleep 0.3; touch churn/new/file")
    while stream.next_event()["path"] != "/workspace/churn/new/file":
        pass
    stream.cancel()
    stream.collect()
    box.run("rm -rf churn")


def test_notes_stay_with_a_file_until_it_is_written_again(box):
    def write(text, **fields):
        stream = box.open("fs.write", path="/tmp/noted", **fields)
        stream.send_data(text)
        stream.send_eof()
        return stream.collect().result

    assert write(b"x", metadata={"a": "ä", "b": ""})["ok"]
    assert box.call("fs.stat", path="/tmp/noted", metadata=True).result["entry"]["metadata"] == {"a": "ä", "b": ""}
    assert "metadata" not in box.call("fs.stat", path="/tmp/noted").result["entry"]
    entries = [entry for event in box.open("fs.list", path="/tmp", metadata=True).collect().events for entry in event["entries"]]
    assert [entry["metadata"] for entry in entries if entry["name"] == "noted"] == [{"a": "ä", "b": ""}]
    assert not write(b"y", metadata={"k" * 300: "x"})["ok"], "a name that no file system has"
    assert write(b"y")["ok"] and "metadata" not in box.call("fs.stat", path="/tmp/noted", metadata=True).result["entry"]
    # A program's own are as many as it likes; what is told of them is bounded.
    box.run("python3 -c \"import os\nfor i in range(100): os.setxattr('/tmp/noted', f'user.e2b.{i}', b'v' * 1000)\" || true")
    told = box.call("fs.stat", path="/tmp/noted", metadata=True).result["entry"].get("metadata", {})
    assert len(told) <= 64 and sum(map(len, told.values())) <= 16 * 1024
