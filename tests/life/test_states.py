# SPDX-License-Identifier: Apache-2.0
"""Pause, hibernate, wake: what a sandbox's owner sees."""

import os
import threading
import time
from pathlib import Path

import pytest

from tools import engine_processes
from vial import ApiError, slow


def run(sandbox, code, **fields):
    return sandbox.call("POST", "/run", {"code": code, **fields})


def value(sandbox, code, **fields):
    answer = run(sandbox, code, **fields)
    assert "error" not in answer, answer
    return answer["results"][-1]["text/plain"]


def wait_for(condition, seconds=30):
    deadline = time.monotonic() + slow(seconds)
    while time.monotonic() < deadline:
        if condition():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def test_a_paused_sandbox_keeps_its_memory_and_refuses_work_until_it_is_resumed(fresh):
    run(fresh, "kept = 'yes'")
    fresh.call("POST", "/pause")
    assert fresh.refresh()["status"] == "paused"
    with pytest.raises(ApiError) as refused:
        run(fresh, "kept")
    assert refused.value.status == 409
    fresh.call("POST", "/resume")
    assert value(fresh, "kept") == "'yes'"


def test_viald_stops_well_in_the_moment_a_sandbox_went_to_sleep(start_daemon):
    """What its host process leaves is swept up while viald already stops: its network slot too, which stop() looks for."""
    for _ in range(3):
        daemon = start_daemon()
        sandbox = daemon.client().create(ttl_seconds=0)
        sandbox.call("POST", "/hibernate")
        daemon.stop()
        daemon.start()
        assert value(type(sandbox)(daemon.client(), sandbox.info), "1 + 1") == "2"


def test_pausing_twice_and_resuming_twice_is_fine(fresh):
    for verb in ("/pause", "/pause", "/resume", "/resume"):
        fresh.call("POST", verb)
    assert fresh.refresh()["status"] == "running"


def processor_seconds(pids):
    ticks = sum(sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) for pid in pids)
    return ticks / os.sysconf("SC_CLK_TCK")


def test_a_paused_sandbox_stands_still(daemon, fresh):
    """As seen from the host: a machine that counts as fast as it can takes next to nothing of the processor meanwhile."""
    fresh.spawn("n=0; while true; do n=$((n+1)); echo $n > /workspace/new; mv /workspace/new /workspace/count; done")
    wait_for(lambda: fresh.ask("GET", "/fs?path=count").status == 200)
    machine = engine_processes(daemon, fresh)
    fresh.call("POST", "/pause")
    spent, began = processor_seconds(machine), time.monotonic()
    time.sleep(2)
    spent = processor_seconds(machine) - spent
    assert machine and spent < (time.monotonic() - began) / 10
    fresh.call("POST", "/resume")
    first = int(fresh.read("count"))
    wait_for(lambda: int(fresh.read("count")) > first)


def test_a_hibernated_sandbox_is_woken_by_the_next_run_with_everything_as_it_was(fresh):
    run(fresh, "import os; os.chdir('/tmp'); handle = open('/workspace/open.txt', 'w'); x = {'a': [1, 2, 3]}")
    fresh.exec("echo on disk > /workspace/file; export V=1")
    pid = fresh.spawn("n=0; while true; do n=$((n+1)); echo $n > /workspace/new; mv /workspace/new /workspace/count; sleep 0.1; done")
    wait_for(lambda: fresh.ask("GET", "/fs?path=count").status == 200)
    fresh.call("POST", "/hibernate")
    assert fresh.refresh()["status"] == "hibernated"
    assert value(fresh, "(os.getcwd(), x, handle.write('still open'))") == "('/tmp', {'a': [1, 2, 3]}, 10)"
    assert fresh.refresh()["status"] == "running"
    assert fresh.exec("cat /workspace/file")["stdout"] == "on disk\n"
    assert any(process["pid"] == pid and process["state"] == "running" for process in fresh.call("GET", "/processes")["processes"])
    first = int(fresh.read("count"))
    wait_for(lambda: int(fresh.read("count")) > first)


@pytest.mark.parametrize("request_", ["exec", "file", "list", "stat", "metrics", "wake", "context"])
def test_every_kind_of_request_wakes_a_hibernated_sandbox(fresh, request_):
    fresh.write("f", "content")
    fresh.call("POST", "/hibernate")
    if request_ == "exec":
        assert fresh.exec("echo woken")["stdout"] == "woken\n"
    elif request_ == "file":
        assert fresh.read("f") == b"content"
    elif request_ == "list":
        assert fresh.call("GET", "/fs/dir?path=/workspace")["entries"]
    elif request_ == "stat":
        assert fresh.call("GET", "/fs/stat?path=f")["size"] == 7
    elif request_ == "metrics":
        assert fresh.call("GET", "/metrics")["memory_used_kb"] > 0
    elif request_ == "context":
        assert fresh.call("POST", "/repl/sessions", {"language": "python"})["id"]
    else:
        fresh.call("POST", "/wake")
    assert fresh.refresh()["status"] == "running"


def test_looking_at_a_hibernated_sandbox_does_not_wake_it(fresh):
    fresh.call("POST", "/hibernate")
    fresh.refresh()
    fresh.call("GET", "/lifecycle")
    assert fresh.refresh()["status"] == "hibernated"


def test_many_requests_at_once_wake_it_once_and_all_are_answered(fresh):
    run(fresh, "import random; token = random.random()")
    fresh.call("POST", "/hibernate")
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(value(fresh, "token"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8 and len(set(answers)) == 1


def test_hibernating_while_a_command_runs_is_refused_and_the_command_goes_on(fresh):
    result = {}
    command = "touch began; until [ -e go ]; do sleep 0.1; done; echo done"
    thread = threading.Thread(target=lambda: result.update(fresh.exec(command, timeout_seconds=100)))
    thread.start()
    wait_for(lambda: fresh.exec("test -e began")["exit_code"] == 0)
    with pytest.raises(ApiError) as refused:
        fresh.call("POST", "/hibernate")
    assert refused.value.status == 409
    fresh.exec("touch go")
    thread.join()
    assert result["stdout"] == "done\n"


def test_idle_sandboxes_hibernate_by_policy_and_activity_keeps_them_awake(client):
    sandbox = client.create(idle_seconds=2, on_idle="hibernate")
    try:
        run(sandbox, "x = 5")
        command = threading.Thread(target=sandbox.exec, args=("touch began; until [ -e go ]; do sleep 0.1; done",))
        command.start()
        wait_for(lambda: sandbox.ask("GET", "/fs?path=began").status == 200)
        time.sleep(4)  # longer than the idle time: an open command is activity
        assert sandbox.refresh()["status"] == "running"
        sandbox.write("go", b"")
        command.join()
        for _ in range(2):  # and it is awake again after a call
            wait_for(lambda: sandbox.refresh()["status"] == "hibernated")
            assert value(sandbox, "x") == "5"
    finally:
        sandbox.delete()


def test_idle_sandboxes_are_deleted_by_policy(client):
    sandbox = client.create(idle_seconds=1, on_idle="delete")
    wait_for(lambda: sandbox.ask("GET").status == 404)


def test_persistent_means_hibernate_instead_of_delete(client):
    sandbox = client.create(persistent=True, idle_seconds=1)
    try:
        assert "expires_at" not in sandbox.info and sandbox.info["on_idle"] == "hibernate"
        wait_for(lambda: sandbox.refresh()["status"] == "hibernated")
    finally:
        sandbox.delete()


def test_ttl_ends_a_sandbox_even_while_it_hibernates(client):
    sandbox = client.create(ttl_seconds=20)  # a busy machine takes its time to write it
    sandbox.call("POST", "/hibernate")
    wait_for(lambda: sandbox.ask("GET").status == 404)


def test_a_hibernated_sandbox_can_be_deleted_and_leaves_nothing(daemon, fresh):
    fresh.call("POST", "/hibernate")
    fresh.delete()
    assert fresh.ask("GET").status == 404
    wait_for(lambda: not list((daemon.data / "hibernated").glob("*")))


def test_twenty_rounds_of_hibernation_with_growing_state_lose_no_byte(client):
    sandbox = client.create()
    try:
        run(sandbox, "import hashlib, os\nblocks = []")
        expected = []
        for round_ in range(20):
            digest = value(sandbox, "blocks.append(os.urandom(200_000)); hashlib.sha256(blocks[-1]).hexdigest()")
            run(sandbox, f"open('/workspace/block{round_}', 'wb').write(blocks[-1])")
            expected.append(digest.strip("'"))
            sandbox.call("POST", "/hibernate")
            assert value(sandbox, "','.join(hashlib.sha256(b).hexdigest() for b in blocks)") == "'" + ",".join(expected) + "'"
            sums = sandbox.exec("cd /workspace; for i in $(seq 0 %d); do sha256sum < block$i; done" % round_)["stdout"].split("\n")[:-1]
            assert [line.split()[0] for line in sums] == expected
    finally:
        sandbox.delete()
