# SPDX-License-Identifier: Apache-2.0
"""Sizes: every one is restored and real, the pool follows what is asked for, and what the host can never give is refused."""

import shutil
import tempfile
from pathlib import Path

import pytest

from test_states import wait_for
from vial import Daemon, slow

TIERS = ["2x2", "2x4", "2x8", "2x16", "4x2", "4x4", "4x8", "4x16"]
# In pieces: Linux refuses at once what can never fit, and nobody has run out of memory then.
TOUCH = """
import mmap
pieces = []
for _ in range({mb} // 10):
    pieces.append(mmap.mmap(-1, 10 << 20))
    for i in range(0, 10 << 20, 4096): pieces[-1][i] = 1
print('held')
"""


def daemon_with(*options, **faults):
    folder = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
    faulty = Path(folder) / "faults"
    faulty.write_text("".join(f"{name} {value}\n" for name, value in faults.items()))
    daemon = Daemon(folder, *options, env={"VIAL_FAULTS": str(faulty)})
    wait_for(lambda: daemon.client().call("GET", "/v1/templates/minimal")["ready"], 120)
    return folder, daemon


@pytest.fixture(scope="module")
def sized():
    folder, daemon = daemon_with("--pool-size", "1", "--pool-blanks", "0", "--max-cpu-percent", "6400")
    yield daemon
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


def seen(sandbox):
    """What programs find: three ways to ask for processors, and the memory."""
    text = sandbox.exec("nproc; python3 -c 'import os; print(os.cpu_count(), len(os.sched_getaffinity(0)))'; "
                        "grep -c ^processor /proc/cpuinfo; sed -n 's/MemTotal: *//p' /proc/meminfo")["stdout"].split()
    return [int(word) for word in text[:4]], int(text[4])


def is_all(sandbox, total_kb, memory_mb):
    """gVisor shows what was promised; Linux keeps its own code and the list of its pages out of MemTotal."""
    whole_kb = memory_mb * 1024
    return total_kb == whole_kb if sandbox.info["engine"] == "gvisor" else whole_kb * 0.9 < total_kb <= whole_kb


def assert_sees(sandbox, cpu, memory_mb):
    processors, total_kb = seen(sandbox)
    assert processors == [cpu] * 4 and is_all(sandbox, total_kb, memory_mb), (processors, total_kb, memory_mb)


@pytest.mark.parametrize("tier", TIERS)
def test_every_tier_is_a_restore_and_the_guest_sees_its_processors_and_memory(sized, tier):
    cpu, memory_gb = (int(part) for part in tier.split("x"))
    if memory_gb * 1024 > host_memory_mb():
        pytest.skip(f"this host has no {memory_gb} GB")
    sandbox = sized.client().create(tier=tier)
    try:
        assert (sandbox.info["tier"], sandbox.info["cpu"], sandbox.info["memory_mb"]) == (tier, cpu, memory_gb * 1024)
        assert sandbox.info["boot_mode"] in ("restore", "pool")
        assert_sees(sandbox, cpu, memory_gb * 1024)
        assert sandbox.call("POST", "/run", {"code": "__import__('os').cpu_count()"})["results"][-1]["text/plain"] == str(cpu)
    finally:
        sandbox.delete()


def host_memory_mb():
    with open("/proc/meminfo", encoding="ascii") as file:
        return int(file.readline().split()[1]) // 1024


def test_a_size_in_between_is_a_restore_too_and_has_no_name(sized):
    sandbox = sized.client().create(cpu=3, memory_mb=3000)
    try:
        assert "tier" not in sandbox.info and sandbox.info["boot_mode"] in ("restore", "pool")
        assert_sees(sandbox, 3, 3000)
    finally:
        sandbox.delete()


def test_an_allocation_below_the_limit_works_and_one_above_it_is_out_of_memory(sized):
    sandbox = sized.client().create(memory_mb=1536)
    try:
        assert sandbox.exec(f"python3 -c \"{TOUCH.format(mb=1150)}\"", timeout_seconds=slow(60))["stdout"] == "held\n"
        above = sandbox.exec(f"python3 -c \"{TOUCH.format(mb=1600)}\"", timeout_seconds=slow(60))
        assert above.get("oom") is True and above["stdout"] == "", above
        assert sandbox.exec("echo here")["stdout"] == "here\n"
    finally:
        sandbox.delete()


def test_forks_snapshots_and_sleep_keep_the_size(sized):
    client = sized.client()
    sandbox = client.create(tier="4x4", persistent=True)
    children = []
    try:
        fork = sandbox.call("POST", "/fork", {})["sandbox"]
        children.append(fork["id"])
        assert client.call("POST", f"/v1/sandboxes/{fork['id']}/exec", {"cmd": "nproc"})["stdout"] == "4\n"
        snapshot = sandbox.call("POST", "/snapshots", {})
        copy = client.call("POST", "/v1/sandboxes", {"from_snapshot": snapshot["id"]})
        children.append(copy["id"])
        assert copy["tier"] == "4x4"
        assert client.call("POST", f"/v1/sandboxes/{copy['id']}/exec", {"cmd": "nproc"})["stdout"] == "4\n"
        sandbox.call("POST", "/hibernate")
        assert_sees(sandbox, 4, 4096)
        client.call("DELETE", f"/v1/snapshots/{snapshot['id']}")
    finally:
        for one in children:
            client.call("DELETE", f"/v1/sandboxes/{one}")
        sandbox.delete()


def test_a_tier_and_numbers_that_contradict_it_are_refused(sized):
    client = sized.client()
    for body, words in (({"tier": "2x4", "cpu": 4}, '"cpu" must be left out or be 2'),
                        ({"tier": "2x4", "memory_mb": 2048}, '"memory_mb" must be left out or be 4096'),
                        ({"tier": "3x3"}, '"tier" must be'), ({"tier": ""}, '"tier" must be'), ({"tier": 2}, '"tier"')):
        answer = client.ask("POST", "/v1/sandboxes", {"template": "minimal", **body})
        assert answer.status == 400 and words in answer.json()["error"], (body, answer.text)
    same = client.create(tier="2x2", cpu=2, memory_mb=2048)
    same.delete()


def test_the_pool_has_ready_what_was_asked_for_and_tells_so(sized):
    client = sized.client()

    def ready():
        sizes = client.call("GET", "/v1/me")["pool"]["minimal"]["sizes"]
        return [size["ready"] for size in sizes if (size["cpu"], size["memory_mb"]) == (2, 2500)]

    assert ready() == []
    first = client.create(memory_mb=2500)
    assert first.info["boot_mode"] == "restore"
    first.delete()
    wait_for(lambda: ready() == [1], 120)
    second = client.create(memory_mb=2500)
    assert second.info["boot_mode"] == "pool" and is_all(second, seen(second)[1], 2500)
    second.delete()


def test_the_list_of_tiers_says_which_this_host_and_project_can_have(sized):
    tiers = sized.client().call("GET", "/v1/tiers")
    assert [tier["name"] for tier in tiers] == TIERS
    assert all(tier["available"] is (tier["reason"] is None) for tier in tiers)
    assert [tier["memory_mb"] for tier in tiers if tier["name"] == "4x8"] == [8192]


def test_what_the_host_can_never_give_is_refused_with_the_reason():
    folder, daemon = daemon_with("--pool-size", "0", "--max-cpu-percent", "100", **{"host.processors": 3, "host.memory_mb": 6000})
    try:
        client = daemon.client()
        listed = {tier["name"]: tier for tier in client.call("GET", "/v1/tiers")}
        assert [name for name, tier in listed.items() if tier["available"]] == ["2x2", "2x4"]
        assert "3 processors" in listed["4x2"]["reason"] and "6000 MB" in listed["2x8"]["reason"]
        for body, reason in (({"tier": "4x2"}, "it can never give 4"), ({"memory_mb": 6001}, "it can never give a sandbox 6001")):
            answer = client.ask("POST", "/v1/sandboxes", {"template": "minimal", **body})
            assert answer.status == 400 and reason in answer.json()["error"], answer.text
        assert client.sandboxes() == []
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_more_memory_than_may_be_promised_is_a_passing_shortage():
    folder, daemon = daemon_with("--pool-size", "0", "--memory-overcommit-percent", "100", **{"host.memory_mb": 5000})
    try:
        client = daemon.client()
        first, second = client.create(memory_mb=2048, persistent=True), client.create(memory_mb=2048)
        third = client.ask("POST", "/v1/sandboxes", {"template": "minimal", "memory_mb": 2048})
        assert third.status == 503 and "memory_overcommit_percent" in third.json()["error"] and int(third.headers["Retry-After"]) > 0, third.text
        fork = second.ask("POST", "/fork", {})
        assert fork.status == 503, fork.text
        first.call("POST", "/hibernate")
        third = client.create(memory_mb=2048)
        woken = first.ask("POST", "/exec", {"cmd": "true"})
        assert woken.status == 503 and first.refresh()["status"] == "hibernated", woken.text
        third.delete()
        assert first.exec("echo awake")["stdout"] == "awake\n"
    finally:
        daemon.stop()
        shutil.rmtree(folder, ignore_errors=True)


def test_ten_of_sixteen_gigabytes_that_use_little_live_side_by_side(sized):
    if host_memory_mb() < 16384:
        pytest.skip("this host has no 16 GB")
    client, many = sized.client(), []
    try:
        for _ in range(10):
            many.append(client.create(tier="2x16"))
            many[-1].call("POST", "/run", {"code": "kept = bytearray(b'x') * (200 << 20); len(kept)"})
        for sandbox in many:
            assert sandbox.call("POST", "/run", {"code": "len(kept)"})["results"][-1]["text/plain"] == str(200 << 20)
            assert sandbox.refresh()["status"] == "running"
    finally:
        for sandbox in many:
            sandbox.delete()
