# SPDX-License-Identifier: Apache-2.0
"""What survives what: the daemon's death, a host process's death, orderly ends, and a second daemon."""

import http.client
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from tools import calls, database, engine_processes, follow, leftovers, out, processes, run, shim_processes, slow, wait_until
from vial import ApiError, build_dir, images_dir


@pytest.fixture(scope="module")
def daemon(folder):
    """One daemon for the module that every test may kill; it must be running again afterwards."""
    from vial import Daemon
    daemon = Daemon(folder)
    yield daemon
    if daemon.process.poll() is not None:
        daemon.start()
    daemon.stop()
    assert not leftovers(daemon)


@pytest.fixture
def client(daemon):
    if daemon.process.poll() is not None:
        daemon.start()
    return daemon.client()


@pytest.fixture
def crash(daemon):
    """Kills viald as a crash would, and starts the next; gives a client of that."""
    def crash_and_restart():
        daemon.kill()
        daemon.start()
        return daemon.client()
    return crash_and_restart


def again(client, sandbox):
    """The same sandbox at the next viald."""
    sandbox.client = client
    return sandbox


def count(sandbox):
    """How far the counter is; 0 as long as it has not begun."""
    answer = sandbox.ask("GET", "/fs?path=/workspace/count")
    return int(answer.body) if answer.status == 200 else 0


def test_a_crash_of_viald_is_not_noticed_inside(client, crash):
    sandboxes = [client.create(metadata={"n": str(n)}, ttl_seconds=1000 + n, env={"KEPT": "yes"}) for n in range(2)]
    before = [sandbox.refresh() for sandbox in sandboxes]
    first = sandboxes[0]
    counter = first.spawn("n=0; while :; do n=$((n + 1)); echo $n > count.new; mv count.new count; sleep 0.05; done")
    run(first, "kept = {'a': [1, 2, 3]}")
    run(first, "globalThis.kept = 42", language="javascript")
    run(first, "cd /usr; kept=shell", language="bash")
    pid = run(first, "import os; os.getpid()")["results"][-1]["text/plain"]
    wait_until(lambda: count(first) > 3)
    reached = count(first)
    client = crash()
    assert [again(client, sandbox).refresh() for sandbox in sandboxes] == before
    assert processes(first)[counter]["state"] == "running"
    wait_until(lambda: count(first) > reached + 3)
    assert run(first, "kept['a'][-1], os.getpid()")["results"][-1]["text/plain"] == f"(3, {pid})"
    assert run(first, "kept", language="javascript")["results"][-1]["text/plain"] == "42"
    assert run(first, "echo $PWD $kept", language="bash")["stdout"] == "/usr shell\n"
    assert out(first, "echo $KEPT") == "yes\n"
    for sandbox in sandboxes:
        sandbox.delete()


def test_a_background_process_can_be_attached_again_after_a_crash(client, crash):
    sandbox = client.create()
    pid = sandbox.spawn("echo before; while [ ! -e go ]; do sleep 0.05; done; echo after; exit 6")
    client = crash()
    again(client, sandbox).write("/workspace/go", b"")
    events = list(follow(client, "GET", f"{sandbox.path}/processes/{pid}/attach"))
    assert "".join(data["chunk"] for name, data in events if name == "stdout") == "before\nafter\n"
    assert events[-1][1]["exit_code"] == 6
    sandbox.delete()


def test_what_was_in_flight_is_reported_as_interrupted(client, daemon, crash):
    sandbox = client.create()
    sandbox.exec("echo earlier")
    broken = []

    def call(route, body):
        try:
            client.ask("POST", sandbox.path + route, body)
            broken.append("answered")
        except (OSError, http.client.HTTPException):
            broken.append("broken")

    threads = [threading.Thread(target=call, args=("/exec", {"cmd": "echo > /workspace/started; sleep 1000"})),
               threading.Thread(target=call, args=("/run", {"code": "open('/workspace/began', 'w'); import time; time.sleep(1000)"}))]
    for thread in threads:
        thread.start()
    wait_until(lambda: sandbox.exec("test -e /workspace/started -a -e /workspace/began")["exit_code"] == 0)
    client = crash()
    for thread in threads:
        thread.join(slow(20))
    assert broken == ["broken", "broken"], "a client must not take silence for success"
    told = [(call["action"], call["outcome"]) for call in calls(daemon, sandbox) if "1000" in json.dumps(call["body"])]
    assert sorted(told) == [("exec", "interrupted"), ("run", "interrupted")]
    assert [call["outcome"] for call in calls(daemon, sandbox) if "earlier" in json.dumps(call["body"])] == ["done"]
    again(client, sandbox)
    log = sandbox.ask("GET", "/logs").text
    assert log.count("interrupted") >= 2
    # The command of a client that is gone ends; the context is free for the next cell.
    wait_until(lambda: sandbox.exec("grep -lsz '^[s]leep' /proc/[0-9]*/cmdline || true")["stdout"] == "")
    assert run(sandbox, "1 + 1", timeout_ms=int(slow(20_000)))["results"][-1]["text/plain"] == "2"
    sandbox.delete()


def test_paused_and_sleeping_sandboxes_stay_what_they_are(client, crash):
    paused, asleep = client.create(), client.create()
    run(asleep, "kept = 'x'")
    paused.call("POST", "/pause")
    asleep.call("POST", "/hibernate")
    client = crash()
    assert again(client, paused).refresh()["status"] == "paused"
    assert again(client, asleep).refresh()["status"] == "hibernated"
    paused.call("POST", "/resume")
    assert out(paused, "echo well") == "well\n"
    assert run(asleep, "kept")["results"][-1]["text/plain"] == "'x'"
    for sandbox in (paused, asleep):
        sandbox.delete()


def test_a_sandbox_that_dies_while_viald_is_down_is_failed_with_a_reason(client, daemon):
    dies, lives = client.create(), client.create()
    pids = engine_processes(daemon, dies) + shim_processes(daemon, dies)
    assert len(pids) >= 2
    daemon.kill()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    daemon.start()
    client = daemon.client()
    shown = again(client, dies).refresh()
    assert shown["status"] == "failed" and shown["reason"]
    assert out(again(client, lives), "echo fine") == "fine\n"
    with pytest.raises(ApiError) as refusal:
        dies.exec("true")
    assert refusal.value.status in (409, 410, 503)
    for sandbox in (dies, lives):
        sandbox.delete()


@pytest.mark.parametrize("victim", ["host process", "engine"])
def test_the_death_of_one_sandbox_is_told_and_others_go_on(client, daemon, victim):
    dies, lives = client.create(), client.create()
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(dies.ask("POST", "/exec", {"cmd": "sleep 1000"})))
    waiting.start()
    wait_until(lambda: any("sleep 1000" in process["cmd"] for process in processes(dies).values()))
    for pid in (shim_processes if victim == "host process" else engine_processes)(daemon, dies):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: dies.refresh()["status"] == "failed")
    assert dies.info["reason"], "a failure has a reason"
    waiting.join(slow(20))
    assert answers and answers[0].status >= 400 and answers[0].json()["error"]
    assert out(lives, "echo fine") == "fine\n"
    wait_until(lambda: not engine_processes(daemon, dies) and not shim_processes(daemon, dies))
    assert dies.id in [one["id"] for one in client.sandboxes()], "a failed sandbox stays to be looked at"
    assert dies.ask("GET", "/logs").status == 200
    for sandbox in (dies, lives):
        assert sandbox.ask("DELETE").status == 204


def is_closed(client):
    try:
        client.ask("GET", "/v1/me")
    except OSError:
        return True
    return False


class Upload:
    """A file of two bytes, of which the second one is sent by finish(): it is there then, and not before."""

    def __init__(self, sandbox, path):
        self.connection = sandbox.client.connection()
        self.connection.putrequest("PUT", f"{sandbox.path}/fs?path={path}")
        self.connection.putheader("Authorization", f"Bearer {sandbox.client.key}")
        self.connection.putheader("Content-Length", "2")
        self.connection.endheaders(b"a")

    def finish(self):
        self.connection.send(b"b")
        status = self.connection.getresponse().status
        self.connection.close()
        return status


def test_sigterm_lets_requests_finish_and_sandboxes_stay(client, daemon):
    """The command goes on until nobody new is let in, and as no request can be made then, one that was made before tells it so."""
    sandbox = client.create()
    run(sandbox, "kept = 1")
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(sandbox.exec("echo > began; until [ -e go ]; do sleep 0.05; done; echo finished")))
    waiting.start()
    upload = Upload(sandbox, "go")
    wait_until(lambda: sandbox.exec("test -e began")["exit_code"] == 0)
    daemon.process.send_signal(signal.SIGTERM)
    wait_until(lambda: is_closed(client), 2)
    assert waiting.is_alive(), "nobody new is let in while the last ones are served"
    assert upload.finish() == 200
    waiting.join(slow(20))
    assert answers and answers[0]["stdout"] == "finished\n"
    assert daemon.process.wait(slow(20)) == 0
    assert shim_processes(daemon, sandbox), "the sandbox lives on without viald"
    daemon.start()
    again(daemon.client(), sandbox)
    assert run(sandbox, "kept")["results"][-1]["text/plain"] == "1"
    sandbox.delete()


def test_sigterm_does_not_wait_for_ever(client, daemon):
    sandbox = client.create()
    response = client.open("POST", sandbox.path + "/exec/stream", {"cmd": "echo here; sleep 1000"})
    assert response.readline()
    started = time.monotonic()
    daemon.process.send_signal(signal.SIGTERM)
    assert daemon.process.wait(slow(40)) == 0
    assert time.monotonic() - started < slow(20)
    response.connection.close()
    daemon.start()
    assert again(daemon.client(), sandbox).refresh()["status"] == "running"
    sandbox.delete()


def test_sigint_ends_the_sandboxes_and_leaves_nothing(start_daemon):
    daemon = start_daemon("--pool-size", 1)
    client = daemon.client()
    sandboxes = [client.create() for _ in range(2)]
    sandboxes[0].spawn("sleep 1000")
    sandboxes[1].call("POST", "/pause")
    daemon.process.send_signal(signal.SIGINT)
    assert daemon.process.wait(slow(40)) == 0
    assert not leftovers(daemon)
    daemon.start()
    assert daemon.client().sandboxes() == []


def test_a_crash_while_sandboxes_are_made_leaves_no_orphans(client, daemon):
    threads = []
    for _ in range(3):
        def create():
            try:
                client.create()
            except (OSError, http.client.HTTPException, ApiError):
                pass
        threads.append(threading.Thread(target=create))
        threads[-1].start()
    time.sleep(0.4)
    daemon.kill()
    for thread in threads:
        thread.join(slow(20))
    daemon.start()
    client = daemon.client()
    for shown in client.sandboxes():
        assert shown["status"] in ("running", "failed"), shown
        assert shown["status"] == "running" or shown["reason"]
        assert client.ask("DELETE", f"/v1/sandboxes/{shown['id']}").status == 204
    wait_until(lambda: "Vial is ready" in daemon.log_text())
    wait_until(lambda: not [line for line in leftovers(daemon) if not line.startswith(f"{daemon.process.pid}:")])


def test_what_was_answered_holds_when_viald_is_killed_the_moment_after(client, daemon):
    kept, policy = client.create(), {"mode": "filtered", "deny_out": ["ALL_TRAFFIC"], "allow_out": ["192.0.2.7"]}
    for round in range(9):  # the gap that was there before was met in one of a dozen
        doomed = daemon.client().create()
        kept = again(daemon.client(), kept)
        steps = [lambda: kept.call("PATCH", "/lifecycle", {"ttl_seconds": 5000 + round}), lambda: kept.call("PUT", "/network", policy), doomed.delete]
        for step in steps[round % 3:] + steps[:round % 3]:  # each of them is the last one in its turn
            step()
        daemon.kill()
        daemon.start()
        shown = {entry["id"]: entry for entry in daemon.client().sandboxes()}
        assert doomed.id not in shown, shown[doomed.id]
        assert shown[kept.id]["ttl_seconds"] == 5000 + round and shown[kept.id]["network"] == {**shown[kept.id]["network"], **policy}
        policy["allow_out"] = [f"192.0.2.{20 + round}"]
    again(daemon.client(), kept).delete()


def start_second(daemon, *options):
    return subprocess.run([build_dir() / "viald", "--config", "/dev/null", "--data-dir", daemon.data, "--run-dir", daemon.folder / "run2", "--images-dir",
                           images_dir(), *options], capture_output=True, text=True, timeout=slow(30))


def test_a_second_daemon_on_one_data_directory_refuses_with_a_sentence(client, daemon):
    sandbox = client.create()
    second = start_second(daemon, "--listen", "127.0.0.1:0")
    assert second.returncode == 1
    assert "another viald already uses" in second.stderr and str(daemon.data) in second.stderr
    assert len(second.stderr.strip().splitlines()) == 1
    assert daemon.alive() and out(sandbox, "echo fine") == "fine\n"
    sandbox.delete()


def test_a_port_in_use_is_told_in_a_sentence(client, daemon, tmp_path):
    second = subprocess.run([build_dir() / "viald", "--config", "/dev/null", "--data-dir", tmp_path / "d", "--run-dir", tmp_path / "r", "--images-dir", images_dir(),
                             "--listen", f"127.0.0.1:{daemon.port}"], capture_output=True, text=True, timeout=slow(30))
    assert second.returncode == 1
    assert str(daemon.port) in second.stderr and "in use" in second.stderr.lower()


def test_the_time_to_live_counts_while_viald_is_down(client, daemon):
    sandbox = client.create(ttl_seconds=2)
    daemon.kill()
    time.sleep(2.5)
    daemon.start()
    again(daemon.client(), sandbox)
    wait_until(lambda: sandbox.ask("GET").status == 404)


def test_keys_and_the_database_are_the_operators_alone(client, daemon):
    for name in ("keys/admin.key", "db.sqlite"):
        assert (daemon.data / name).stat().st_mode & 0o777 == 0o600
    for name in ("", "keys", "sandboxes"):
        assert (daemon.data / name).stat().st_mode & 0o077 == 0
    db = database(daemon)
    assert client.key not in str(db.execute("SELECT * FROM keys").fetchall())
    db.close()
