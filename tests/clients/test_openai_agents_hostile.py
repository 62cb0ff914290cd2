# SPDX-License-Identifier: Apache-2.0
"""What no SDK sends to the dialect of Cloudflare's sandboxes: paths, archives, bodies and clients that are broken or mean harm."""

import base64
import io
import json
import os
import socket
import tarfile
import time

import pytest

from tools import UNKNOWN_ID, all_events, wait_until
from vial import WebSocket, WebSocketRefused, slow


@pytest.fixture(scope="module")
def base(sandbox):
    return f"/v1/sandbox/{sandbox.id}"


def run(client, base, *argv, timeout_ms=20_000):
    """(stdout, stderr, exit code), put together as the clients do."""
    answer = client.ask("POST", f"{base}/exec", {"argv": argv, "timeout_ms": timeout_ms})
    assert answer.status == 200, answer.body
    found = {"stdout": b"", "stderr": b"", "exit": None}
    for block in answer.text.split("\n\n")[:-1]:
        if block.startswith(":"):
            continue  # a silence was broken
        name, data = (line.split(": ", 1)[1] for line in block.splitlines())
        if name == "exit":
            found["exit"] = json.loads(data)["exit_code"]
        else:
            found[name] += base64.b64decode(data, validate=True)
    return tuple(found.values())


def refusal(answer, *statuses):
    assert answer.status in statuses, (answer.status, answer.body[:300])
    body = answer.json()
    assert body["error"] and isinstance(body["code"], str), "the clients show a code that is a word"
    return body["error"]


def members(*made):
    """A tar of what `made` says: (name, type, content or target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, what in made:
            member = tarfile.TarInfo(name)
            member.type, member.mode = kind, 0o755
            if kind == tarfile.REGTYPE:
                member.size = len(what)
                archive.addfile(member, io.BytesIO(what))
            else:
                member.linkname = what or ""
                archive.addfile(member)
    return buffer.getvalue()


# Paths

@pytest.mark.parametrize("path", ["workspace/%00", "workspace/a%00b", "workspace/%ff%fe", "workspace/%zz", "workspace/%", "workspace/" + "x" * 5000, "workspace/" + "y" * 300])
def test_a_path_that_is_none_is_refused(client, base, path):
    for method, body in (("GET", None), ("PUT", b"x")):
        refusal(client.ask(method, f"{base}/file/{path}", body), 400, 404, 409)


def test_the_paths_of_files_are_the_guests_own(client, base, sandbox):
    """`..`, an escaped slash, and links lead through the guest's tree, with the rights of its root, and nowhere else."""
    assert client.ask("GET", f"{base}/file/workspace/%2e%2e/etc%2fhostname").body == sandbox.read("/etc/hostname")
    assert client.ask("GET", f"{base}/file//etc/hostname").body == sandbox.read("/etc/hostname")
    assert client.ask("GET", f"{base}/file/etc/shadow").body == sandbox.exec("sudo cat /etc/shadow")["stdout"].encode()
    assert client.ask("PUT", f"{base}/file/etc/new", b"x").status == 200
    assert sandbox.exec("stat -c '%U %a' /etc/new")["stdout"] == "root 644\n" and not os.path.exists("/etc/new")
    refusal(client.ask("GET", f"{base}/file/"), 400, 409, 403)
    refusal(client.ask("GET", f"{base}/file/proc/self/root/../../../../{os.getcwd()[1:]}/meson.build"), 404, 403)


def test_devices_and_pipes_do_not_hold_a_reader(client, base, sandbox):
    sandbox.exec("mkfifo /workspace/pipe")
    client.timeout = slow(10)
    for path in ("workspace/pipe", "dev/zero"):
        refusal(client.ask("GET", f"{base}/file/{path}"), 400, 403, 409)


# Commands

@pytest.mark.parametrize("body", [
    {}, {"argv": []}, {"argv": "id"}, {"argv": [1]}, {"argv": ["id", None]}, {"argv": [["id"]]}, {"argv": ["id"], "timeout_ms": -1}, {"argv": ["id"], "timeout_ms": "1"},
    {"argv": ["id"], "timeout_ms": 1 << 62}, {"argv": ["id"], "timeout_ms": 1.5}, {"argv": ["a"] * 2000}, {"argv": ["a" * 200_000]}, {"argv": ["a\0b"]}, [], "id"])
def test_a_command_that_is_none_is_refused(client, base, body):
    refusal(client.ask("POST", f"{base}/exec", json.dumps(body), {"Content-Type": "application/json"}), 400)


def test_the_longest_command_is_no_defect(client, base):
    word = "w" * 120_000
    assert run(client, base, "printf", "%s", word)[0] == word.encode()
    answer = client.ask("POST", f"{base}/exec", {"argv": ["true", *[word] * 60], "timeout_ms": 1000})  # more than a process can be given
    assert answer.status in (400, 413), answer.body
    refusal(answer, 400, 413)
    assert run(client, base, "true")[2] == 0


def test_a_time_limit_is_silence_and_then_an_exit_code(client, base, sandbox):
    """Five seconds of it are what the Python client needs; the JavaScript one, which has no limit of its own, hears the code that timeout(1) has."""
    begun = time.monotonic()
    assert run(client, base, "sh", "-c", "echo begun; exec sleep 9753", timeout_ms=10_000) == (b"begun\n", b"timed out after 10 s\n", 124)
    assert time.monotonic() - begun > 15.5
    assert sandbox.exec("pgrep -f 'sleep 9753'")["exit_code"] == 1


def test_whoever_leaves_in_the_silence_takes_nothing_along(client, base, daemon):
    for _ in range(5):
        response = client.open("POST", f"{base}/exec", {"argv": ["sleep", "100"], "timeout_ms": 100})
        time.sleep(0.3)
        response.close()
        response.connection.close()
    assert daemon.alive() and run(client, base, "echo", "on")[0] == b"on\n"


def test_whoever_leaves_ends_his_command(client, base, sandbox):
    response = client.open("POST", f"{base}/exec", {"argv": ["sh", "-c", "yes & sleep 8642"], "timeout_ms": 600_000})
    response.read(100_000)
    response.close()
    response.connection.close()
    wait_until(lambda: sandbox.exec("pgrep -f 'sleep 8642|^yes'")["exit_code"] == 1)


def test_a_client_that_does_not_read_holds_its_command_back(client, base, sandbox, daemon):
    """As a full pipe would: what waits for him is bounded, here and in the guest."""
    before = daemon.rss_kb()
    response = client.open("POST", f"{base}/exec", {"argv": ["sh", "-c", "head -c 1G /dev/zero; touch /tmp/all-written"], "timeout_ms": 600_000})
    time.sleep(3)
    assert sandbox.exec("test -e /tmp/all-written")["exit_code"] == 1 and daemon.rss_kb() - before < 64 * 1024
    response.close()
    response.connection.close()


@pytest.mark.skipif(os.environ.get("VIAL_SKIP_LAB") == "1", reason="a gigabyte takes its time: in the whole suite only")
def test_a_gigabyte_comes_through_in_constant_memory(client, base, daemon):
    before, size, rest = daemon.rss_kb(), 0, b""
    response = client.open("POST", f"{base}/exec", {"argv": ["head", "-c", "1G", "/dev/zero"], "timeout_ms": 1_200_000})
    while chunk := response.read(1 << 20):
        *blocks, rest = (rest + chunk).split(b"\n\n")
        size += sum(len(block.partition(b"data: ")[2]) // 4 * 3 - block[-2:].count(b"=") for block in blocks if block.startswith(b"event: stdout"))
        assert daemon.rss_kb() - before < 64 * 1024
    response.connection.close()
    assert size == 1 << 30


# Archives

def test_links_in_an_archive_lead_nowhere_else(client, base, sandbox):
    """The client's own check is not asked here. An archive is unpacked in the guest, as its user: what it could overwrite it could overwrite anyway."""
    sandbox.exec("sudo sh -c 'echo safe > /etc/victim'; mkdir -p /tmp/outside")
    cases = [
        members(("sub", tarfile.SYMTYPE, "/tmp/outside"), ("sub/through", tarfile.REGTYPE, b"x")),
        members(("up", tarfile.SYMTYPE, "../tmp/outside"), ("up/through", tarfile.REGTYPE, b"x")),
        members(("../tmp/outside/through", tarfile.REGTYPE, b"x")),
        members(("hard", tarfile.LNKTYPE, "/etc/victim"), ("hard", tarfile.REGTYPE, b"broken")),
    ]
    for archive in cases:
        answer = client.ask("POST", f"{base}/hydrate", archive)
        assert answer.status in (200, 400), answer.body
        assert sandbox.exec("ls /tmp/outside; cat /etc/victim")["stdout"] == "safe\n"
        sandbox.exec("rm -rf /workspace/sub /workspace/up /workspace/hard")
    answer = client.ask("POST", f"{base}/hydrate", members(("/etc/absolute", tarfile.REGTYPE, b"in the workspace")))
    assert answer.status == 200 and sandbox.read("/workspace/etc/absolute") == b"in the workspace"
    client.ask("POST", f"{base}/hydrate", members(("device", tarfile.CHRTYPE, None), ("suid", tarfile.REGTYPE, b"x")))
    assert sandbox.exec("test -c /workspace/device")["exit_code"] == 1


@pytest.mark.parametrize("body", [b"no archive at all" * 100, b"\0" * 511, b"\x1f\x8b" + os.urandom(5000), os.urandom(2000)])
def test_what_is_no_archive_is_refused(client, base, body):
    assert "archive" in refusal(client.ask("POST", f"{base}/hydrate", body), 400)


def test_an_archive_of_nothing_is_one(client, base):
    for body in (b"\0" * 10240, members()):
        assert client.ask("POST", f"{base}/hydrate", body).status == 200


def test_a_bomb_fills_the_guests_disk_and_nobody_elses(fresh, client, daemon):
    """More than the disk has room for, sent as it is made."""
    base = f"/v1/sandbox/{fresh.id}"
    before = daemon.rss_kb()
    fresh.exec(f"fallocate -l {fresh.info['disk_mb'] - 20}M most")

    def bomb():
        member = tarfile.TarInfo("bomb")
        member.size = 64 << 20
        yield member.tobuf()
        for _ in range(512):
            yield b"\1" * (1 << 17)
        yield b"\0" * 1024

    answer = client.ask("POST", f"{base}/hydrate", bomb())
    assert "disk is full" in refusal(answer, 507)
    assert run(client, base, "rm", "/workspace/bomb", "/workspace/most")[2] == 0
    assert daemon.rss_kb() - before < 64 * 1024


def test_an_upload_that_breaks_off_leaves_the_file_as_it_was(client, base, sandbox, daemon):
    sandbox.write("/workspace/kept", "as it was")
    for path, method in (("file/workspace/kept", "PUT"), ("hydrate", "POST")):
        with socket.create_connection(client.address) as line:
            line.sendall(f"{method} {base}/{path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {client.key}\r\nContent-Length: 1000000\r\n\r\n".encode() + b"n" * 1000)
            time.sleep(0.5)
    wait_until(lambda: sandbox.exec("pgrep -x tar")["exit_code"] == 1)
    assert sandbox.read("/workspace/kept") == b"as it was" and daemon.alive()


@pytest.mark.parametrize("excludes", ["/etc", "..", "a/../b", "a%00", "x" * 5000, ",".join(["a"] * 2000)])
def test_what_cannot_be_excluded_is_refused(client, base, excludes):
    refusal(client.ask("POST", f"{base}/persist?excludes={excludes}"), 400)


# Terminals

def test_a_terminal_says_that_it_is_ready_and_its_last_word(client, base):
    line = WebSocket(client.address, f"{base}/pty?cols=100&rows=30", {"Authorization": f"Bearer {client.key}"})
    assert json.loads(line.receive()) == {"type": "ready"}
    line.send(b"stty size; exit 6\n")
    shown, message = b"", line.receive()
    while isinstance(message, bytes):
        shown, message = shown + message, line.receive()
    assert (shown, json.loads(message), line.receive(), line.close_code) == (b"30 100\r\n", {"type": "exit", "code": 6}, None, 1000)


def test_a_terminal_is_for_whoever_may(client, base, daemon):
    for path, key, status in ((f"{base}/pty", "wrong", 401), (f"/v1/sandbox/{UNKNOWN_ID}/pty", client.key, 404), (f"{base}/pty?cols=x", client.key, 400)):
        with pytest.raises(WebSocketRefused) as refused:
            WebSocket(client.address, path, {"Authorization": f"Bearer {key}"})
        assert refused.value.status == status
    line = WebSocket(client.address, f"{base}/pty?cols=0", {"Authorization": f"Bearer {client.key}"})
    line.receive()
    line.send(b"id\n")
    assert json.loads(line.receive()) == {"type": "error", "message": 'field "cols" must be between 1 and 4095'} and line.receive() is None
    for message in ("no JSON", '{"no":"type"}', '["type"]'):
        line = WebSocket(client.address, f"{base}/pty", {"Authorization": f"Bearer {client.key}"})
        line.receive()
        line.send(message)
        assert line.receive() is None and line.close_code == 1008
        line.vanish()
    for first in (b"", b"\n", b"\xff\xfe\n", b"x" * 200_000 + b"\n"):
        line = WebSocket(client.address, f"{base}/pty", {"Authorization": f"Bearer {client.key}"})
        line.receive()
        line.send(first)
        line.vanish()
    assert daemon.alive() and run(client, base, "echo", "on")[0] == b"on\n"


# Creating

@pytest.mark.parametrize("body", ["[", "1", '"x"', '{"mounts":1}', '{"mounts":[{"bucket":"b"}]}'])
def test_a_create_that_asks_for_what_there_is_not_makes_nothing(client, base, body):
    before = len(client.sandboxes())
    refusal(client.ask("POST", "/v1/sandbox", body, {"Content-Type": "application/json"}), 400)
    assert len(client.sandboxes()) == before


@pytest.mark.parametrize("template", ["..", "%2e%2e", "a%2fb", "%00", "nowhere", "x" * 300])
def test_a_template_in_the_address_is_a_name_and_nothing_more(client, base, template):
    assert client.ask("POST", f"/t/{template}/v1/sandbox").status in (400, 404)
