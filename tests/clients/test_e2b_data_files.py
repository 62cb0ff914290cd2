# SPDX-License-Identifier: Apache-2.0
"""The PyPI package e2b 2.63.0, unmodified, against viald's data plane: files, watchers, signed addresses."""

import gzip
import hashlib
import io
import os
import urllib.error
import urllib.parse
import urllib.request
import uuid

import pytest

import e2b_box
from e2b_box import STRANGE
from tools import wait_until
from vial import slow

covers = pytest.mark.method


@pytest.fixture(scope="module")
def e2b():
    return e2b_box.load()


@pytest.fixture(scope="module")
def box(daemon):
    box = e2b_box.create(daemon, timeout=3600)
    yield box
    box.kill()


# Reading and writing

@covers("E2B Python 2.63", "files.write", "files.read")
def test_what_is_written_is_read(e2b, box):
    path = f"/home/user/größe/{STRANGE[:5]}.txt"
    info = box.files.write(path, STRANGE)
    assert (info.name, info.path, info.type) == ("Grüße.txt", path, e2b.FileType.FILE)
    assert box.files.read(path) == STRANGE and box.files.read("größe/Grüße.txt") == STRANGE and box.files.read("~/größe/Grüße.txt") == STRANGE
    every = bytes(range(256)) * 1000
    for how in ({}, {"use_octet_stream": True}, {"gzip": True}):
        box.files.write("/tmp/blob", every, **how)
        assert box.files.read("/tmp/blob", format="bytes") == every, how
    for source in (io.BytesIO(every), iter([every[:1000], every[1000:]]), io.StringIO("text ü")):
        box.files.write("/tmp/streamed", source)
        assert box.files.read("/tmp/streamed", format="bytes") == ("text ü".encode() if isinstance(source, io.StringIO) else every)
    assert b"".join(box.files.read("/tmp/blob", format="stream")) == every
    assert box.files.read("/tmp/blob", format="bytes", gzip=True) == every
    box.files.write("/tmp/empty", "")
    assert box.files.read("/tmp/empty") == ""
    box.files.write("/root/of-root", "x", user="root")
    listed = box.commands.run("stat -c '%U %a' /root/of-root /tmp/blob", user="root").stdout
    assert listed == "root 644\nuser 644\n"


@covers("E2B Python 2.63", "files.read")
def test_what_only_programs_see_is_read_by_one(e2b, box):
    for path in ("/proc/version", "/proc/cpuinfo", "/proc/sys/kernel/random/boot_id"):
        assert box.files.read(path) == box.commands.run(f"cat {path}").stdout != "", path
    sleeper = box.commands.run("exec sleep 4321", background=True, timeout=0)
    # A process of the sandbox's, its bytes as they are, once the shell has become it.
    wait_until(lambda: box.files.read(f"/proc/{sleeper.pid}/cmdline", format="bytes") == b"sleep\x004321\x00")
    sleeper.kill()
    for path in ("/proc/nothing-like-it", "/proc", "/proc/self"):
        with pytest.raises(e2b.SandboxException):
            box.files.read(path)
    # Whose rights are asked for is who reads.
    hidden = box.commands.run("exec sleep 4322", background=True, timeout=0, user="root", envs={"HIDDEN": "from others"})
    assert b"HIDDEN=from others" in box.files.read(f"/proc/{hidden.pid}/environ", format="bytes", user="root")
    with pytest.raises(e2b.NotFoundException):
        box.files.read(f"/proc/{hidden.pid}/environ")
    hidden.kill()
    with pytest.raises(e2b.SandboxException, match="out of reach"):
        box.files.write("/proc/sys/kernel/hostname", "x", user="root")


@covers("E2B Python 2.63", "files.write_files")
def test_several_files_are_one_request(e2b, box):
    files = [{"path": "many/a.txt", "data": "A"}, {"path": "/tmp/many/b.bin", "data": b"\x00\xff"}, {"path": "~/many/ü c.txt", "data": "C" * 300_000}]
    for how in ({}, {"use_octet_stream": True}, {"gzip": True}):
        infos = box.files.write_files(files, **how)
        assert [info.path for info in infos] == ["/home/user/many/a.txt", "/tmp/many/b.bin", "/home/user/many/ü c.txt"], how
        assert [info.name for info in infos] == ["a.txt", "b.bin", "ü c.txt"]
    assert box.files.read("/tmp/many/b.bin", format="bytes") == b"\x00\xff" and box.files.read("many/ü c.txt") == "C" * 300_000
    assert box.files.write_files([]) == []


@covers("E2B Python 2.63", "files.get_info")
def test_notes_stay_with_a_file_until_it_is_written_again(e2b, box):
    written = box.files.write("/tmp/noted", "x", metadata={"Author": "me", "purpose": "test"})
    assert written.metadata == {"author": "me", "purpose": "test"}
    assert box.files.get_info("/tmp/noted").metadata == {"author": "me", "purpose": "test"}
    assert [entry.metadata for entry in box.files.list("/tmp") if entry.name == "noted"] == [{"author": "me", "purpose": "test"}]
    box.files.write("/tmp/noted", "x", metadata={"other": "1"})
    assert box.files.get_info("/tmp/noted").metadata == {"other": "1"}
    box.files.write("/tmp/noted", "x")
    assert not box.files.get_info("/tmp/noted").metadata


@covers("E2B Python 2.63", "files.list", "files.get_info", "files.exists", "files.make_dir", "files.rename", "files.remove")
def test_folders_are_made_listed_moved_and_removed(e2b, box):
    kind = e2b.FileType
    assert box.files.make_dir("tree/deep/er") is True and box.files.make_dir("tree/deep/er") is False
    box.files.write("tree/a.txt", "12345")
    box.commands.run("cd ~/tree && ln -s a.txt link && ln -s deep folder && ln -s nowhere broken && chmod 640 a.txt")
    found = {entry.path.removeprefix("/home/user/tree/"): entry for entry in box.files.list("tree", depth=3)}
    assert list(found) == ["a.txt", "broken", "deep", "deep/er", "folder", "link"]
    plain, link, folder, broken = found["a.txt"], found["link"], found["folder"], found["broken"]
    assert (plain.type, plain.size, plain.mode, plain.permissions, plain.owner, plain.group) == (kind.FILE, 5, 0o640, "-rw-r-----", "user", "user")
    assert (link.type, link.symlink_target, link.permissions[0], folder.type, folder.symlink_target) == (
        kind.SYMLINK, "/home/user/tree/a.txt", "L", kind.SYMLINK, "/home/user/tree/deep")
    assert broken.symlink_target == "/home/user/tree/nowhere"
    assert [entry.name for entry in box.files.list("~/tree/deep")] == ["er"] and found["deep"].type == kind.DIR
    info = box.files.get_info("tree/a.txt")
    assert (info.name, info.path, info.size) == ("a.txt", "/home/user/tree/a.txt", 5) and info.modified_time.year >= 2024
    moved = box.files.rename("tree/a.txt", "other/b.txt")
    assert (moved.name, moved.path, moved.size) == ("b.txt", "/home/user/other/b.txt", 5)
    assert box.files.exists("other/b.txt") is True and box.files.exists("tree/a.txt") is False
    box.files.remove("tree")
    assert box.files.exists("tree") is False
    box.files.remove("tree")  # what is not there need not be removed


def test_refusals_are_the_exceptions_that_programs_catch(e2b, box):
    missing, folder = "/tmp/not/there", "/tmp"
    for call in (lambda: box.files.read(missing), lambda: box.files.list(missing), lambda: box.files.get_info(missing), lambda: box.files.rename(missing, "/tmp/x"),
                 lambda: box.files.watch_dir(missing)):
        with pytest.raises(e2b.FileNotFoundException):
            call()
    box.files.write("/tmp/plain", "x")
    for call in (lambda: box.files.read(folder), lambda: box.files.write(folder, "x"), lambda: box.files.list("/tmp/plain"), lambda: box.files.make_dir("/tmp/plain"),
                 lambda: box.files.list("/", depth=0)):
        with pytest.raises(e2b.InvalidArgumentException):
            call()
    for call in (lambda: box.files.read("/tmp/plain", user="nobody-there"), lambda: box.files.write("/tmp/y", "x", user="nobody-there"),
                 lambda: box.files.list("/tmp", user="nobody-there"), lambda: box.files.get_info("/tmp", user="nobody-there")):
        with pytest.raises(e2b.AuthenticationException):
            call()
    for call in (lambda: box.files.read("/etc/shadow"), lambda: box.files.write("/etc/shadow", "x"), lambda: box.files.write("/root/x", "x")):
        with pytest.raises(e2b.SandboxException):
            call()
    with pytest.raises(e2b.NotEnoughSpaceException):
        box.files.write("/dev/shm/too-much", (b"\xa5" * (1 << 20) for _ in range(1000)))  # 256 MB, where a disk has gigabytes
    assert box.files.list("/dev/shm") == [], "a broken upload leaves nothing"


@pytest.mark.skipif(os.environ.get("VIAL_SKIP_LAB") == "1", reason="VIAL_SKIP_LAB=1 leaves out what takes long by nature")
def test_a_hundred_megabytes_up_and_down(box):
    block = os.urandom(1 << 20)
    pieces = [bytes([number]) + block[1:] for number in range(100)]
    digest = hashlib.sha256(b"".join(pieces)).hexdigest()
    for how in ({}, {"gzip": True}):
        box.files.write("/tmp/large", iter(pieces), **how)
        assert box.commands.run("sha256sum < /tmp/large", timeout=slow(60)).stdout.split()[0] == digest
        down = hashlib.sha256()
        for piece in box.files.read("/tmp/large", format="stream", request_timeout=slow(120)):
            down.update(piece)
        assert down.hexdigest() == digest
        box.files.remove("/tmp/large")


def test_a_body_that_is_no_gzip_or_no_form_is_refused(daemon, box):
    def post(body, **headers):
        return e2b_box.ask(daemon, "POST", "/files?path=/tmp/refused", e2b_box.headers(box, **headers), body)

    octets = {"Content-Type": "application/octet-stream"}
    assert post(gzip.compress(b"fine"), **octets, **{"Content-Encoding": "gzip"}).status == 200
    for body in (b"not gzip", gzip.compress(b"x" * 100_000)[:-9]):
        assert post(body, **octets, **{"Content-Encoding": "gzip"}).status == 400
    assert post(b"x", **octets, **{"Content-Encoding": "br"}).status in (400, 415)
    form = {"Content-Type": "multipart/form-data; boundary=xyz"}
    assert post(b"--xyz\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\ncut", **form).status == 400
    assert post(b"nothing", **{"Content-Type": "multipart/form-data"}).status == 400
    assert box.files.read("/tmp/refused") == "fine"


# Watching

@covers("E2B Python 2.63", "files.watch_dir", "WatchHandle.get_new_events", "WatchHandle.stop")
def test_a_watcher_tells_what_happened(e2b, box):
    kind = e2b.FilesystemEventType
    box.files.make_dir("watched/sub")
    flat, deep = box.files.watch_dir("watched"), box.files.watch_dir("watched", recursive=True, include_entry=True)
    box.files.write("watched/new.txt", "x")
    box.files.write("watched/sub/deep.txt", "y")
    box.commands.run("cd ~/watched && echo more >> new.txt && mv new.txt old.txt && rm sub/deep.txt")
    events = []

    def has(*wanted):
        events.extend(deep.get_new_events())
        return all(one in [(event.name, event.type) for event in events] for one in wanted)

    wait_until(lambda: has(("new.txt", kind.WRITE), ("new.txt", kind.RENAME), ("old.txt", kind.CREATE), ("sub/deep.txt", kind.WRITE), ("sub/deep.txt", kind.REMOVE)))
    created, = [event for event in events if (event.name, event.type) == ("old.txt", kind.CREATE)]
    assert (created.entry.path, created.entry.size) == ("/home/user/watched/old.txt", 6)
    assert all(event.entry is None for event in events if event.type in (kind.REMOVE, kind.RENAME))
    assert not any(".vial-" in event.name for event in events), "how a file is written is nobody's business"
    names = set()
    wait_until(lambda: names.update(event.name for event in flat.get_new_events()) or {"new.txt", "old.txt"} <= names)
    assert not any(name.startswith("sub/") for name in names)
    assert deep.get_new_events() == [], "each is told once"
    deep.stop()
    with pytest.raises(e2b.SandboxException):
        deep.get_new_events()
    with pytest.raises(e2b.NotFoundException):
        e2b.WatchHandle(deep._rpc, deep._watcher_id, deep._connection_config, deep._envd_version).get_new_events()
    flat.stop()


def test_a_new_file_is_created_and_then_written(e2b, box):
    kind = e2b.FilesystemEventType
    box.files.make_dir("births")
    watcher = box.files.watch_dir("births")
    told = []

    def of(name):
        told.extend(watcher.get_new_events())
        return [event.type for event in told if event.name == name]

    box.files.write("births/first.txt", "1")
    wait_until(lambda: kind.WRITE in of("first.txt"))
    assert of("first.txt")[:2] == [kind.CREATE, kind.WRITE]
    told.clear()
    box.files.write("births/first.txt", "2")
    box.files.write("births/second.txt", "1")
    wait_until(lambda: kind.WRITE in of("second.txt"))
    assert kind.WRITE in of("first.txt") and kind.CREATE not in of("first.txt"), "it was there"
    assert not any(".vial-" in event.name for event in told)
    watcher.stop()


def test_only_folders_are_watched(e2b, box):
    box.files.write("births/file", "x")
    with pytest.raises(e2b.InvalidArgumentException, match="not a directory"):
        box.files.watch_dir("births/file")
    with pytest.raises(e2b.NotFoundException):
        box.files.watch_dir("births/nothing")


def test_there_are_only_so_many_watchers(e2b, daemon):
    with e2b_box.create(daemon) as box:
        watchers = [box.files.watch_dir("/tmp") for _ in range(64)]
        with pytest.raises(e2b.RateLimitException, match="64 watchers"):
            box.files.watch_dir("/tmp")
        watchers[0].stop()
        box.files.watch_dir("/tmp").stop()


# Signed addresses

def fetch(daemon, url, data=None, headers=None):
    """What a browser gets that was given the address and nothing else."""
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data, headers=headers or {}), timeout=slow(20)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def form(name, content):
    mark = uuid.uuid4().hex
    return (f"--{mark}\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n--{mark}--\r\n".encode(),
            {"Content-Type": f"multipart/form-data; boundary={mark}"})


@covers("E2B Python 2.63", "Sandbox.download_url", "Sandbox.upload_url")
def test_an_address_opens_one_file_for_one_thing(e2b, box, daemon):
    box.files.write("shared ü.txt", "for you")
    url = box.download_url("shared ü.txt", user="user", use_signature_expiration=60)
    assert fetch(daemon, url) == (200, b"for you")
    assert fetch(daemon, box.download_url("shared ü.txt")) == (200, b"for you")
    up = box.upload_url("from outside/b.txt", user="user", use_signature_expiration=60)
    status, body = fetch(daemon, up, *form("other-name", "hello"))
    assert status == 200 and box.files.read("from outside/b.txt") == "hello", body
    # Without a path, the form says where to.
    signed = e2b.sandbox.signature.get_signature("", "write", None, box._envd_access_token)["signature"]
    anywhere = f"{daemon.url}/files?" + urllib.parse.urlencode({"signature": signed})
    assert fetch(daemon, anywhere, *form("anywhere.txt", "placed"))[0] == 200 and box.files.read("anywhere.txt") == "placed"
