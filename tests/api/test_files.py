# SPDX-License-Identifier: Apache-2.0
"""Files: bytes in and out at any size, names in any script, with exactly the asked user's rights."""

import hashlib
import http.client
import threading
import time

import pytest

from tools import check_refusal, out, read_events, run, stat, wait_until, with_query

BIG = 256 * 1024 * 1024
PIECE = b"".join(hashlib.sha256(str(n).encode()).digest() for n in range(32768))  # 1 MiB, not compressible


def put(sandbox, path, data, **query):
    return sandbox.ask("PUT", with_query("/fs", path=path, **query), data)


def get(sandbox, path, **query):
    return sandbox.ask("GET", with_query("/fs", path=path, **query))


def listing(sandbox, path, **query):
    return sandbox.call("GET", with_query("/fs/dir", path=path, **query))


def remove(sandbox, path, **query):
    return sandbox.ask("DELETE", with_query("/fs", path=path, **query))


@pytest.mark.parametrize("content", [b"", b"x", b"\0\xff\xfe\r\n", bytes(range(256)) * 5000], ids=["empty", "one", "odd", "megabyte"])
def test_bytes_come_back_as_they_went_in(sandbox, content):
    answer = put(sandbox, "/workspace/deep/er/file.bin", content)
    assert answer.status == 200 and answer.json() == {"path": "/workspace/deep/er/file.bin", "bytes": len(content)}
    back = get(sandbox, "/workspace/deep/er/file.bin")
    assert back.status == 200 and back.body == content
    assert back.headers["Content-Type"] == "application/octet-stream"


def test_relative_paths_start_in_the_workspace(sandbox):
    sandbox.write("note.txt", b"hello")
    assert sandbox.read("/workspace/note.txt") == b"hello"
    assert stat(sandbox, "note.txt")["path"] == "/workspace/note.txt"


@pytest.mark.parametrize("name", ["with space", "ünïcødé-文件-🙂", "a+b&c=d?e#f%25", "-rf", "new\nline", "tab\there", "back\\slash", "'quote\"", "." * 5, "x" * 250],
                         ids=lambda name: ascii(name)[:20])
def test_names_in_any_script(sandbox, name):
    path = f"/workspace/names/{name}"
    sandbox.write(path, name.encode())
    assert sandbox.read(path) == name.encode()
    entry = stat(sandbox, path)
    assert entry["name"] == name and entry["path"] == path and entry["size"] == len(name.encode())
    assert name in [one["name"] for one in listing(sandbox, "/workspace/names")["entries"]]
    assert remove(sandbox, path).status == 204
    assert get(sandbox, path).status == 404


def test_a_written_file_belongs_to_the_user_with_ordinary_or_asked_mode(sandbox):
    sandbox.write("/workspace/plain", b"")
    assert (stat(sandbox, "/workspace/plain")["user"], stat(sandbox, "/workspace/plain")["mode"]) == ("user", "0644")
    assert put(sandbox, "/workspace/tool", b"#!/bin/sh\necho ran\n", mode="0755").status == 200
    assert out(sandbox, "./tool") == "ran\n"
    for mode in ("9", "abc", "", "-1", "777777777777"):
        check_refusal(put(sandbox, "/workspace/tool", b"", mode=mode), 400)
    assert put(sandbox, "/root/secret", b"s", user="root", mode="0600").status == 200
    assert stat(sandbox, "/root/secret", user="root")["user"] == "root"


def test_the_users_rights_are_exactly_the_users(sandbox):
    put(sandbox, "/root/secret", b"s", user="root", mode="0600")
    check_refusal(get(sandbox, "/root/secret"), 400, 403, 404)
    check_refusal(put(sandbox, "/root/mine", b""), 400, 403)
    check_refusal(put(sandbox, "/etc/passwd", b""), 400, 403)
    check_refusal(remove(sandbox, "/etc/passwd"), 400, 403)
    check_refusal(sandbox.ask("POST", "/fs/mkdir", {"path": "/etc/mine"}), 400, 403)
    check_refusal(sandbox.ask("POST", "/fs/move", {"path": "/workspace/plain", "to": "/etc/plain"}), 400, 403, 404)
    assert get(sandbox, "/root/secret", user="root").body == b"s"
    for user in ("nobody-knows", "", "x" * 100):
        check_refusal(get(sandbox, "/etc/hostname", user=user), 400, 404)


def test_a_folder_is_listed_with_what_each_entry_is(sandbox):
    out(sandbox, "mkdir -p ls/sub/deeper; echo 12345 > ls/file; ln -s file ls/link; ln -s /nowhere ls/broken; mkfifo ls/pipe; touch ls/sub/deeper/x")
    entries = {entry["name"]: entry for entry in listing(sandbox, "/workspace/ls")["entries"]}
    assert set(entries) == {"file", "sub", "link", "broken", "pipe"}
    assert entries["file"]["size"] == 6 and entries["file"]["is_dir"] is False and entries["file"]["type"] == "file"
    assert entries["sub"]["is_dir"] is True
    assert entries["link"]["target"] == "file"
    assert entries["file"]["path"] == "/workspace/ls/file"
    assert abs(entries["file"]["mtime"] - time.time()) < 600
    deep = {entry["path"] for entry in listing(sandbox, "/workspace/ls", depth=3)["entries"]}
    assert "/workspace/ls/sub/deeper/x" in deep
    for depth in ("0", "-1", "17", "x", ""):
        check_refusal(sandbox.ask("GET", with_query("/fs/dir", path="/workspace/ls", depth=depth)), 400)


def test_a_folder_of_many_files_is_listed_whole(sandbox):
    out(sandbox, "mkdir many; cd many; seq 1 5000 | xargs touch")
    entries = listing(sandbox, "/workspace/many")["entries"]
    assert sorted(int(entry["name"]) for entry in entries) == list(range(1, 5001))
    assert remove(sandbox, "/workspace/many").status == 204


def test_what_is_not_there_is_404_and_what_is_of_the_wrong_kind_is_refused(sandbox):
    out(sandbox, "mkdir -p folder; touch plainfile")
    for path in ("/fs", "/fs/stat", "/fs/dir"):
        check_refusal(sandbox.ask("GET", with_query(path, path="/workspace/none")), 404)
    answer = sandbox.ask("GET", with_query("/fs/watch", path="/workspace/none"))
    assert answer.status == 200 and answer.text.startswith("event: error"), "a stream has begun before the guest is asked"
    check_refusal(remove(sandbox, "/workspace/none"), 404)
    check_refusal(sandbox.ask("POST", "/fs/move", {"path": "/workspace/none", "to": "/workspace/b"}), 404)
    check_refusal(get(sandbox, "/workspace/folder"), 400, 409)
    check_refusal(put(sandbox, "/workspace/folder", b"x"), 400, 409)
    check_refusal(put(sandbox, "/workspace/plainfile/below", b"x"), 400, 404, 409)
    check_refusal(sandbox.ask("GET", with_query("/fs/dir", path="/workspace/plainfile")), 400, 409)


def test_folders_are_made_and_moved_and_removed(sandbox):
    assert sandbox.ask("POST", "/fs/mkdir", {"path": "/workspace/a/b/c"}).status == 204
    assert stat(sandbox, "/workspace/a/b/c")["is_dir"] is True
    sandbox.write("/workspace/a/b/c/file", b"1")
    assert sandbox.ask("POST", "/fs/move", {"path": "/workspace/a/b", "to": "/workspace/moved"}).status == 204
    assert sandbox.read("/workspace/moved/c/file") == b"1"
    check_refusal(remove(sandbox, "/workspace/moved", recursive="false"), 400, 409)
    assert remove(sandbox, "/workspace/moved").status == 204
    check_refusal(sandbox.ask("GET", with_query("/fs/stat", path="/workspace/moved")), 404)


@pytest.mark.parametrize("body", [{}, {"path": 1}, {"path": ""}, {"path": "a" * 5000}, {"path": "/workspace/x", "user": 1}, {"path": None}])
def test_wrong_bodies_are_refused(sandbox, body):
    check_refusal(sandbox.ask("POST", "/fs/mkdir", body), 400)
    check_refusal(sandbox.ask("POST", "/fs/move", {"to": "/workspace/y", **body}), 400) if body.get("path") != "/workspace/x" else None
    check_refusal(sandbox.ask("POST", "/fs/move", body), 400)


@pytest.mark.parametrize("query", ["", "path=", "path=%00", "path=/workspace/a%00b", "path=%ff", "path=" + "x" * 5000, "path=/workspace/" + "x" * 300],
                         ids=["none", "empty", "NUL", "NUL inside", "not UTF-8", "5000 bytes", "a name of 300 bytes"])
@pytest.mark.parametrize("route", ["GET /fs", "PUT /fs", "DELETE /fs", "GET /fs/dir", "GET /fs/stat", "GET /fs/watch"])
def test_wrong_paths_are_refused(sandbox, route, query):
    method, path = route.split()
    answer = sandbox.ask(method, f"{path}?{query}", b"x" if method == "PUT" else None)
    if path == "/fs/watch" and answer.status == 200:
        assert answer.text.startswith("event: error")
    else:
        check_refusal(answer, 400, 404)


def test_a_path_with_dots_stays_in_the_guest(sandbox):
    assert get(sandbox, "/../../../../etc/hostname").body == get(sandbox, "/etc/hostname").body
    assert b"user:x:1000" in get(sandbox, "/workspace/../../../../../../../etc/passwd").body


def test_symbolic_links_are_followed_with_the_users_rights_and_removed_as_links(sandbox):
    put(sandbox, "/root/secret", b"s", user="root", mode="0600")
    out(sandbox, "echo target > target; ln -sf target link; ln -sf /root/secret spy; ln -sf loop2 loop1; ln -sf loop1 loop2")
    assert sandbox.read("/workspace/link") == b"target\n"
    check_refusal(get(sandbox, "/workspace/spy"), 400, 403, 404)
    check_refusal(get(sandbox, "/workspace/loop1"), 400, 404, 409)
    assert remove(sandbox, "/workspace/link").status == 204
    assert sandbox.read("/workspace/target") == b"target\n"


def test_a_write_replaces_the_file_at_once_and_a_broken_one_changes_nothing(client, sandbox):
    sandbox.write("/workspace/stable", b"before")
    connection = client.connection()
    connection.putrequest("PUT", sandbox.path + "/fs?path=/workspace/stable")
    connection.putheader("Authorization", f"Bearer {client.key}")
    connection.putheader("Content-Length", "1000000")
    connection.endheaders(b"after" * 1000)
    time.sleep(0.3)
    connection.close()
    time.sleep(0.3)
    assert sandbox.read("/workspace/stable") == b"before"
    wait_until(lambda: not [entry for entry in listing(sandbox, "/workspace")["entries"] if "stable" in entry["name"] and entry["name"] != "stable"])


def test_bodies_may_come_in_chunks_of_unknown_number(client, sandbox):
    connection = client.connection()
    connection.request("PUT", sandbox.path + "/fs?path=/workspace/chunked", iter([b"one", b"two" * 100_000, b"three"]),
                       {"Authorization": f"Bearer {client.key}"}, encode_chunked=True)
    answer = connection.getresponse()
    assert answer.status == 200, answer.read()
    connection.close()
    assert sandbox.read("/workspace/chunked") == b"one" + b"two" * 100_000 + b"three"


def test_files_of_proc_are_for_commands(sandbox):
    assert "/proc" in check_refusal(get(sandbox, "/proc/version"), 403)
    check_refusal(put(sandbox, "/proc/sys/kernel/hostname", b"x", user="root"), 403)


def test_a_growing_file_is_read_as_far_as_it_was(sandbox):
    writer = sandbox.spawn("while :; do echo line; done > growing")
    wait_until(lambda: sandbox.exec("test -s growing")["exit_code"] == 0)
    answer = get(sandbox, "/workspace/growing")
    sandbox.signal(writer)
    assert answer.status == 200 and answer.body.startswith(b"line\n")
    out(sandbox, "rm growing")


def test_a_quarter_gigabyte_goes_both_ways_and_viald_keeps_its_size(client, daemon, sandbox):
    before, peak, stop = daemon.rss_kb(), [0], threading.Event()

    def watch():
        while not stop.wait(0.02):
            peak[0] = max(peak[0], daemon.rss_kb())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        started = time.monotonic()
        connection = client.connection()
        connection.request("PUT", sandbox.path + "/fs?path=/workspace/big", (PIECE for _ in range(BIG // len(PIECE))),
                           {"Authorization": f"Bearer {client.key}", "Content-Length": str(BIG)})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        connection.close()
        up = time.monotonic() - started
        started = time.monotonic()
        response = client.open("GET", sandbox.path + "/fs?path=/workspace/big")
        assert int(response.headers["Content-Length"]) == BIG
        count = 0
        while piece := response.read(len(PIECE)):
            assert piece == PIECE[: len(piece)], f"differs after {count} bytes"
            count += len(piece)
        response.connection.close()
        down = time.monotonic() - started
    finally:
        stop.set()
        watcher.join()
    print(f"256 MB up in {up:.1f} s, down in {down:.1f} s, viald grew by {(peak[0] - before) // 1024} MB")
    assert count == BIG
    assert peak[0] - before < 32 * 1024
    assert out(sandbox, "stat -c %s big; rm big").strip() == str(BIG)


def test_a_reader_that_leaves_half_way_harms_nobody(client, daemon, sandbox):
    out(sandbox, "head -c 50000000 /dev/zero > half")
    for _ in range(3):
        response = client.open("GET", sandbox.path + "/fs?path=/workspace/half")
        assert len(response.read(100_000)) == 100_000
        response.connection.close()
    assert daemon.alive()
    assert out(sandbox, "stat -c %s half; rm half").strip() == "50000000"


def test_changes_are_watched(client, sandbox):
    out(sandbox, "mkdir -p watched/sub")
    seen, ready = [], threading.Event()

    def watch():
        response = client.open("GET", sandbox.path + "/fs/watch?path=/workspace/watched&recursive=true")
        try:
            for name, data in read_events(response):
                ready.set()  # the first event says that it is watching
                seen.append((name, data["path"]))
                if data["path"].endswith("last"):
                    break
        except (OSError, http.client.HTTPException):
            pass
        response.connection.close()

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    assert ready.wait(60)
    out(sandbox, "cd watched; echo 1 > new; echo 2 >> new; mv new renamed; rm renamed; echo x > sub/inner; sleep 0.3; touch last")
    watcher.join(60)
    paths = [path for _, path in seen]
    assert "/workspace/watched/new" in paths and "/workspace/watched/last" in paths, seen
    assert ("create", "/workspace/watched/new") in seen
    assert any(name in ("delete", "move") for name, _ in seen)
    assert "/workspace/watched/sub/inner" in paths


def test_a_run_lists_the_files_it_made(sandbox):
    ran = run(sandbox, "open('/workspace/made.csv', 'w').write('a,b')")
    assert [(file["path"], file["size"]) for file in ran["files"] if "made" in file["path"]] == [("/workspace/made.csv", 3)]
