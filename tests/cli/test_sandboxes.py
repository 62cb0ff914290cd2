# SPDX-License-Identifier: Apache-2.0
"""create, ls, info, rm, ps, kill, logs, top, ports, templates, version, doctor."""

import json
import re
import subprocess
import time

import pytest


def test_create_prints_an_id_and_nothing_else(vial):
    done = vial("create", "-t", "minimal")
    assert re.fullmatch(r"[a-z0-9]{20}\n", done.stdout) and done.stderr == ""
    vial("rm", done.stdout.strip())


def test_create_sends_what_the_options_say(fake_vial):
    answer = fake_vial.json("create", "--template", "minimal", "--cpu", 4, "--memory", "2G", "--ttl", "1h", "--idle", "15m",
                            "--on-idle", "hibernate", "--persistent", "-e", "A=1", "--env", "B=x=y", "-m", "team=blue",
                            "--allow", "*.example.org", "--allow", "10.0.0.0/8", "--deny", "ALL_TRAFFIC", "--engine", "gvisor",
                            "--rate-mbit", 20, "--max-connections", 50)
    assert answer["request"] == {
        "template": "minimal", "cpu": 4, "memory_mb": 2048, "ttl_seconds": 3600, "idle_seconds": 900, "on_idle": "hibernate",
        "persistent": True, "env": {"A": "1", "B": "x=y"}, "metadata": {"team": "blue"}, "engine": "gvisor",
        "network": {"mode": "filtered", "allow_out": ["*.example.org", "10.0.0.0/8"], "deny_out": ["ALL_TRAFFIC"],
                    "limits": {"rate_mbit": 20, "max_connections": 50}}}


def test_limits_without_a_network_are_a_mistake(fake_vial):
    done = fake_vial("create", "--rate-mbit", 20, check=False)
    assert done.returncode == 2 and "--network" in done.stderr


def test_net_set_replaces_the_policy_and_show_tells_it(vial, sandbox):
    done = vial("net", "set", sandbox, "filtered", "--allow", "example.com:443", "--deny", "ALL_TRAFFIC", "--rate-mbit", 20, "--max-connections", 50)
    assert done.stdout.splitlines() == ["mode  filtered", "allow example.com:443", "deny  ALL_TRAFFIC", "limit 20 Mbit/s", "limit 50 connections"]
    assert vial("net", "show", sandbox).stdout == done.stdout
    assert vial.json("net", "show", sandbox)["limits"] == {"rate_mbit": 20, "max_connections": 50}
    assert vial("net", "set", sandbox, "disabled").stdout == "mode  disabled\n"
    if vial.server.name == "real":
        refused = vial("net", "set", sandbox, "open", "--rate-mbit", 0, check=False)
        assert refused.returncode == 1 and "rate_mbit" in refused.stderr


def test_create_passes_on_what_the_server_refuses(vial):
    done = vial("create", "--template", "no-such-template", check=False)
    assert done.returncode == 1 and "template" in done.stderr and done.stdout == ""


def test_ls_is_an_aligned_table(vial, sandbox):
    lines = vial("ls").stdout.splitlines()
    assert lines[0].split() == ["ID", "TEMPLATE", "STATUS", "ENGINE", "AGE", "IDLE", "BOOT", "METADATA"]
    row = next(line for line in lines if line.startswith(sandbox))
    assert row[lines[0].index("STATUS"):].startswith("running")


def test_ls_quiet_prints_ids_and_json_prints_the_api(vial, sandbox):
    assert sandbox in vial("ls", "--quiet").stdout.split()
    assert sandbox in [s["id"] for s in vial.json("ls")]


def test_ls_filters_by_metadata_and_state(vial, sandbox):
    tag = f"t{time.time_ns()}"
    marked = vial("create", "-t", "minimal", "-m", f"tag={tag}").stdout.strip()
    assert vial("ls", "-q", "-m", f"tag={tag}").stdout.split() == [marked]
    assert marked in vial("ls", "-q", "--state", "running").stdout.split()
    assert marked not in vial("ls", "-q", "--state", "failed").stdout.split()
    vial("rm", marked)


def test_ls_follows_pages(fake_vial):
    made = [fake_vial("create").stdout.strip() for _ in range(7)]
    listed = fake_vial("ls", "-q").stdout.split()
    assert set(made) <= set(listed) and len(listed) == len(set(listed))
    fake_vial("rm", *made)


def test_info_shows_all_and_accepts_a_beginning_of_the_id(vial, sandbox):
    assert vial.json("info", sandbox)["id"] == sandbox
    assert vial("info", sandbox[:12]).stdout.splitlines()[0].split() == ["id", sandbox]


def test_rm_removes_several_and_says_which(vial):
    a, b = (vial("create", "-t", "minimal").stdout.strip() for _ in range(2))
    assert sorted(vial("rm", a, b).stdout.split()) == sorted([a, b])
    done = vial("info", a, check=False)
    assert done.returncode == 1 and done.stderr.count("\n") == 1


def test_rm_of_the_unknown_fails_and_removes_the_rest(vial):
    known = vial("create", "-t", "minimal").stdout.strip()
    done = vial("rm", "0" * 20, known, check=False)
    assert done.returncode == 1 and done.stdout.split() == [known] and done.stderr
    assert vial("rm", "--force", known).returncode == 0


def test_rm_all_asks_first(fake_vial):
    fake_vial("create"), fake_vial("create")
    refused = fake_vial("rm", "--all", check=False)
    assert refused.returncode == 2 and "--force" in refused.stderr
    terminal = fake_vial.terminal("rm", "--all")
    terminal.expect(r"Remove all \d+ sandboxes\? \[y/N\]")
    terminal.type("n\r")
    assert terminal.wait() == 1 and fake_vial.server.sandbox_ids()
    terminal = fake_vial.terminal("rm", "--all")
    terminal.expect("y/N")
    terminal.type("y\r")
    assert terminal.wait() == 0 and not fake_vial.server.sandbox_ids()
    fake_vial("create")
    fake_vial("rm", "--all", "--force")
    assert not fake_vial.server.sandbox_ids()


def test_background_command_is_listed_and_killed(vial, sandbox):
    pid = vial("exec", "--background", sandbox, "--", "sleep", "1000").stdout.strip()
    assert pid.isdigit()
    assert pid in vial("ps", "-q", sandbox).stdout.split()
    assert "sleep" in vial("ps", sandbox).stdout
    vial("kill", sandbox, pid, "-s", "KILL")
    for _ in range(50):
        if pid not in vial("ps", "-q", sandbox).stdout.split():
            break
        time.sleep(0.1)
    else:
        pytest.fail("the process is still there")
    assert vial("kill", sandbox, 999999, check=False).returncode == 1


def test_a_background_command_is_followed_later_to_its_end(vial, sandbox):
    pid = vial("exec", "--background", sandbox, "-c", "echo early; until [ -e attached ]; do sleep 0.1; done; echo late; exit 7").stdout.strip()
    process = vial.popen("attach", sandbox, pid, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "early\n"
    vial("exec", sandbox, "touch", "attached")
    assert (process.stdout.read(), process.wait()) == ("late\n", 7)
    assert vial("attach", sandbox, 999999, check=False).returncode == 125


def test_top_once_shows_cpu_memory_and_processes(vial, sandbox):
    done = vial("top", "--once")
    assert {"ID", "CPU%", "MEMORY", "PROCESSES"} <= set(done.stdout.splitlines()[0].split())
    assert sandbox in done.stdout
    row = next(r for r in vial.json("top", "--once") if r["id"] == sandbox)
    assert row["metrics"]["memory_used_kb"] > 0 and row["cpu_percent"] >= 0


def test_top_is_live_and_leaves_the_terminal_as_it_was(vial, sandbox):
    terminal = vial.terminal("top")
    before = None
    terminal.expect(r"\x1b\[\?1049h")
    terminal.expect(sandbox)
    terminal.resize(30, 100)
    terminal.type("q")
    assert terminal.wait() == 0
    assert terminal.output.endswith(b"\x1b[?25h\x1b[?1049l") and not terminal.is_raw()


def test_top_does_not_ask_sandboxes_that_sleep(fake_vial, fake_sandbox):
    fake_vial("hibernate", fake_sandbox)
    fake_vial.server.fake.requests.clear()
    assert "hibernated" in fake_vial("top", "--once").stdout
    assert not [p for _, p in fake_vial.server.fake.requests if fake_sandbox + "/metrics" in p]


def test_ports_templates_and_version_answer(vial, sandbox):
    assert vial("ports", sandbox).stdout.startswith("PORT")
    assert "minimal" in vial("templates", "-q").stdout.split()
    assert re.match(r"vial \S+\nviald \S+ at " + re.escape(vial.server.url), vial("version").stdout)
    assert vial.json("version")["vial"]


def test_logs_are_cleaned_for_a_terminal_and_exact_in_a_pipe(fake_vial, fake_sandbox):
    assert "\x1b]0;evil\x07" in fake_vial("logs", fake_sandbox).stdout
    terminal = fake_vial.terminal("logs", fake_sandbox)
    assert terminal.wait() == 0 and b"second line" in terminal.output and b"\x1b]" not in terminal.output
    assert fake_vial("logs", "-f", fake_sandbox).stdout == "line 0\nline 1\nline 2\n"
    assert [json.loads(x)["line"] for x in fake_vial("logs", "-f", "--json", fake_sandbox).stdout.splitlines()] == [
        "line 0\n", "line 1\n", "line 2\n"]


def test_logs_tell_what_ran_and_what_it_printed(vial, sandbox):
    if vial.server.fake:
        pytest.skip("the stand-in keeps no log")
    vial("exec", sandbox, "-c", "echo printed; echo wrong >&2")
    text = vial("logs", sandbox).stdout
    assert "echo printed" in text and re.search(r"stdout\s+printed\n", text) and re.search(r"stderr\s+wrong\n", text)
    assert vial("logs", "--stream", "stdout", "--tail", 1, sandbox).stdout == "printed\n"
    assert vial.json("logs", sandbox)[-1]["stream"] == "event"


def test_logs_go_on_while_followed(vial, sandbox):
    if vial.server.fake:
        pytest.skip("the stand-in keeps no log")
    process = vial.popen("logs", "-f", "--stream", "stdout", sandbox, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    vial("exec", sandbox, "echo", "later")
    assert process.stdout.readline() == "later\n"
    process.terminate()
    assert process.wait(10) == 143


def test_doctor_reports_viald_and_key(vial):
    report = vial.json("doctor", check=False)
    checks = {c["name"]: c for c in report["checks"]}
    assert checks["viald"]["ok"] and checks["key"]["ok"]
    engine = [c for c in report["checks"] if c["detail"].startswith("viald uses ")]
    assert len(engine) == 1, "what the server has, not what it would find now"
    assert [c["name"] for c in report["checks"]].count(engine[0]["name"]) == 1
    wrong = {c["name"]: c for c in vial.json("doctor", check=False, env={"VIAL_API_KEY": "wrong"})["checks"]}
    assert not wrong["key"]["ok"] and wrong["key"]["detail"]


def test_doctor_shows_what_viald_found_out(vial, tmp_path):
    """`viald --doctor --json` of the binary in PATH or beside vial; here one that we wrote."""
    import os
    import shutil
    import subprocess

    from conftest import BINARY
    shutil.copy(BINARY, tmp_path / "vial")
    (tmp_path / "viald").write_text('#!/bin/sh\n[ "$*" = "--doctor --json" ] && cat <<E\n' + json.dumps({
        "checks": [{"name": "kvm", "ok": False, "detail": "/dev/kvm cannot run a guest", "advice": "use gVisor"},
                   {"name": "runsc", "ok": True, "detail": "20240729"}],
        "engine": {"chosen": "gvisor", "reason": "the KVM probe failed"}}) + "\nE\n")
    os.chmod(tmp_path / "viald", 0o755)
    text = (tmp_path / "viald").read_text()
    done = subprocess.run([tmp_path / "vial", "doctor"], capture_output=True, text=True, env=vial.env)
    assert done.returncode == 1
    assert re.search(r"✗ kvm +/dev/kvm cannot run a guest\n +→ use gVisor\n✓ runsc", done.stdout)
    assert "Engine: gvisor, because the KVM probe failed" in done.stdout
    (tmp_path / "viald").write_text(text.replace('"ok": false', '"ok": false, "needed": false'))
    done = subprocess.run([tmp_path / "vial", "doctor"], capture_output=True, text=True, env=vial.env)
    assert done.returncode == 0 and "– kvm" in done.stdout, "what is not needed is no failure"
