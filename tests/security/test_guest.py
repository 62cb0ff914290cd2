# SPDX-License-Identifier: Apache-2.0
"""Code inside a sandbox tries to reach the host, the agent, its limits' other side, and other sandboxes."""

import json
import os
import re
import time
from pathlib import Path

import pytest

from vial import images_dir
from tools import command_lines, exec_argv, host_id, out, run, slow, wait_until


STAMP = re.compile(r"\d{4}-\d\d-\d\dT\S+ (event|stdout|stderr) ")


def as_root(sandbox, cmd):
    return sandbox.exec(cmd, user="root", timeout_seconds=30)


def test_row_3_the_template_cannot_be_changed_from_inside(client, sandbox):
    """Whatever guest root writes stays in its own overlay: remounting changes nothing on the host."""
    before = {path: path.stat().st_mtime_ns for path in _template_files(client)}
    as_root(sandbox, "mount -o remount,rw / ; mount -o remount,rw /opt/vial; echo pwned > /etc/os-release; echo pwned > /etc/passwd.new;"
                     "echo pwned > /opt/vial/agent; rm -rf /opt/vial /usr/share/doc; true")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert all("pwned" not in path.read_text(errors="replace") for path in before if path.is_file())
    other = client.create()
    assert "pwned" not in out(other, "cat /etc/os-release")
    assert other.exec("test -e /etc/passwd.new")["exit_code"] != 0
    assert run(other, "1 + 1")["results"][-1]["text/plain"] == "2"
    other.delete()


def _template_files(client):
    rootfs = Path(json.loads((images_dir() / "minimal.json").read_text())["rootfs"])
    return [rootfs / "etc/os-release", rootfs / "etc/passwd", rootfs / "usr/bin"]


@pytest.mark.parametrize("user", ["user", "root"])
def test_row_4_planted_links_lead_nowhere_on_the_host(daemon, sandbox, user):
    canary = daemon.folder / "canary"
    canary.write_text("untouched")
    canary.chmod(0o600)
    sandbox.exec(f"rm -rf trap; mkdir trap; ln -s {canary} trap/file; ln -s / trap/root; ln -s {daemon.data}/keys trap/keys", user=user)
    for path in ("trap/file", f"trap/root{canary}", "trap/keys/admin.key", f"trap/root{daemon.data}/db.sqlite"):
        answer = sandbox.ask("GET", f"/fs?path=/workspace/{path}&user=root")
        assert answer.status in (400, 403, 404), answer.body[:100]
        sandbox.ask("PUT", f"/fs?path=/workspace/{path}&user=root", b"pwned")
        sandbox.ask("DELETE", f"/fs?path=/workspace/{path}&user=root")
    assert canary.read_text() == "untouched" and canary.stat().st_mode & 0o777 == 0o600
    assert (daemon.data / "keys/admin.key").exists() and daemon.alive()


def test_row_19_the_agent_cannot_be_talked_to_from_inside(sandbox):
    """No port, no socket, no file that a program could open speaks the agent's protocol."""
    assert sandbox.call("GET", "/ports")["ports"] == []
    assert out(sandbox, "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | grep -c ' 0A ' || true").strip() in ("0", "")
    looked = sandbox.exec("ls /proc/1/fd; cat /proc/1/environ /proc/1/mem; ls -l /proc/1/root", timeout_seconds=20)
    assert "HELLO" not in looked["stdout"] and "entropy" not in looked["stdout"]


def test_row_19_other_users_programs_do_not_see_the_agent_s_descriptors(sandbox):
    listing = out(sandbox, "ls -l /proc/self/fd")
    assert "pipe:" in listing or "socket:" in listing or "/dev/null" in listing
    # A program has its three standard streams (and ls its folder), nothing that it was not given.
    assert len([line for line in listing.splitlines() if "->" in line]) <= 4, listing


def test_row_19_programs_may_not_trace_or_read_the_agent_or_kernels_of_root(sandbox):
    code = ("import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "print([libc.ptrace(16, pid, 0, 0) for pid in (1, 2, 3)])\n")
    assert "0" not in exec_argv(sandbox, "python3", "-c", code)["stdout"].replace("-1", "")


def test_row_24_control_sequences_do_not_reach_models_unless_asked(sandbox):
    code = r"print('\x1b[31mred\x1b[0m \x1b]0;title\x07 \x1b]8;;http://evil\x07link\x1b]8;;\x07 \x9b31m\x08bs\rcr')"
    shown = run(sandbox, code)["stdout"]
    assert "\x1b" not in shown and "\x07" not in shown and "\x9b" not in shown and "red" in shown
    assert "link" in shown and "evil" not in shown and "title" not in shown
    assert "\x1b[31m" in run(sandbox, code, raw_ansi=True)["stdout"]
    failed = run(sandbox, r"raise ValueError('\x1b[8mhidden\x1b[0m')")
    assert "\x1b" not in failed["error"] + failed["error_value"] and "hidden" in failed["error_value"]
    named = run(sandbox, r"class T:\n  def __repr__(self): return '\x1b]0;t\x07shown'\nT()".replace("\\n", "\n"))
    assert named["results"][-1]["text/plain"] == "shown"


def test_row_25_guest_data_cannot_forge_log_lines(daemon, client, sandbox):
    forged = 'x\n{"level":"error","message":"forged"}\r\nlevel=error message=forged'
    sandbox.exec("true # " + forged)
    sandbox.exec("echo '" + forged.replace("'", "") + "'; no-such-program", cwd="/workspace")
    sandbox.ask("GET", "/fs?path=" + "/workspace/%0A%7B%22level%22%3A%22error%22%2C%22message%22%3A%22forged%22%7D")
    client.create(metadata={"a": forged}).delete()
    client.ask("GET", "/v1/%0Aforged", headers={"User-Agent": "a forged"})
    log = daemon.log_text()
    for line in log.splitlines():
        assert not line.startswith(('{"level":"error","message":"forged"', "level=error message=forged")), line
    journal = sandbox.ask("GET", "/logs").text
    unstamped = [line for line in journal.split("\n") if line and not STAMP.match(line)]
    assert not unstamped, "every line begins with a time of ours"


def test_row_26_floods_are_cut_told_and_cost_viald_no_memory(daemon, sandbox):
    before = daemon.rss_kb()
    ran = run(sandbox, "for i in range(300_000): print('x' * 100)", timeout_ms=60_000)
    assert ran["truncated"] is True and len(ran["stdout"]) < 8 << 20
    executed = sandbox.exec("head -c 30000000 /dev/zero | tr '\\0' y")
    assert executed["truncated"] is True
    wait_until(lambda: daemon.rss_kb() - before < 48 * 1024, 20)


def test_row_27_archives_are_never_unpacked_by_the_host(daemon, sandbox):
    """A bomb is only bytes to viald; unpacked in the guest it meets the guest's disk."""
    before = daemon.rss_kb()
    out(sandbox, "head -c 100000000 /dev/zero | gzip -9 > bomb.gz", timeout_seconds=60)
    bomb = sandbox.read("/workspace/bomb.gz")
    sandbox.write("/workspace/again.gz", bomb)
    assert sandbox.read("/workspace/again.gz") == bomb and len(bomb) < 200_000
    assert daemon.rss_kb() - before < 32 * 1024


def test_row_29_a_late_answer_is_never_taken_for_the_next(sandbox):
    for attempt in range(3):
        first = run(sandbox, "import time\ntry:\n  time.sleep(30)\nexcept KeyboardInterrupt:\n  print('late', flush=True)\n  raise\n", timeout_ms=500)
        assert first.get("timed_out") is True or first["exit_code"] == 1
        second = run(sandbox, f"print('fresh {attempt}')")
        assert second["stdout"] == f"fresh {attempt}\n"
        assert second["execution_id"] != first["execution_id"]


def test_row_29_a_cell_that_will_not_stop_loses_its_kernel_and_that_is_told(sandbox):
    started = time.monotonic()
    stuck = run(sandbox, "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True:\n  try: time.sleep(1)\n  except BaseException: pass", timeout_ms=12_000)
    assert time.monotonic() - started < slow(30)
    assert stuck.get("timed_out") is True and stuck.get("kernel_restarted") is True
    assert run(sandbox, "'back'")["results"][-1]["text/plain"] == "'back'"


def test_row_37_a_clock_moved_inside_moves_nothing_outside(client, sandbox):
    before, began = time.time(), time.monotonic()
    as_root(sandbox, "date -s '2001-01-01'; hwclock -w; true")
    assert abs((time.time() - before) - (time.monotonic() - began)) < 60
    assert sandbox.refresh()["status"] == "running"


def test_secrets_are_not_in_command_lines_or_logs(daemon, client):
    secret = "s3cret-" + os.urandom(8).hex()
    sandbox = client.create(env={"TOKEN": secret})
    sandbox.exec("sleep 2 & echo $TOKEN | wc -c", env={"OTHER": secret})
    run(sandbox, "1", env={"THIRD": secret})
    for pid, words in command_lines():
        if any(str(daemon.folder) in word or host_id(daemon, sandbox) in word for word in words):
            assert not any(secret in word or client.key in word for word in words), words
            try:
                assert secret.encode() not in Path(f"/proc/{pid}/environ").read_bytes()
            except OSError:
                pass
    log = daemon.log_text()
    assert secret not in log and client.key not in log
    sandbox.exec("true")
    assert secret not in sandbox.ask("GET", "/logs").text
    assert secret not in str(sandbox.refresh())
    sandbox.delete()


def test_sandboxes_have_identities_and_randomness_of_their_own(client):
    made = [client.create() for _ in range(2)]
    seen = [(out(one, "hostname; cat /etc/machine-id 2>/dev/null; head -c 16 /dev/urandom | od -An -tx1"),
             run(one, "import random, uuid; print(random.random(), uuid.uuid4())")["stdout"],
             run(one, "console.log(Math.random(), crypto.randomUUID())", language="javascript")["stdout"]) for one in made]
    for first, second in zip(*seen):
        assert first and first != second
    for one in made:
        one.delete()


def test_the_default_network_is_none(sandbox):
    code = ("import socket\n"
            "for address in [('1.1.1.1', 53), ('169.254.169.254', 80), ('10.0.0.1', 22), ('192.168.0.1', 80)]:\n"
            "    try: socket.create_connection(address, 2); print('reached', address)\n"
            "    except OSError as problem: pass\n"
            "try: print('resolved', socket.gethostbyname('example.com'))\n"
            "except OSError: pass\n")
    assert exec_argv(sandbox, "python3", "-c", code, timeout_seconds=60)["stdout"] == ""
