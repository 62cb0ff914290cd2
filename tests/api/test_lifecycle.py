# SPDX-License-Identifier: Apache-2.0
"""How long a sandbox lives: time to live, idleness, pauses, sleep."""

import itertools
import threading
import time
from datetime import datetime, timezone

import pytest

from tools import check_refusal, leftovers, out, run, slow, wait_until


def ends_at(shown):
    return datetime.fromisoformat(shown["expires_at"].replace("Z", "+00:00")).timestamp()


def is_gone(sandbox):
    return sandbox.ask("GET").status == 404


def test_the_lifecycle_is_shown_and_changed(fresh):
    shown = fresh.call("GET", "/lifecycle")
    assert shown == {"ttl_seconds": 3600, "idle_seconds": 0, "on_idle": "delete", "persistent": False, "expires_at": shown["expires_at"], "status": "running"}
    before = datetime.now(timezone.utc).timestamp()
    changed = fresh.call("PATCH", "/lifecycle", {"ttl_seconds": 1000, "idle_seconds": 300, "on_idle": "hibernate"})
    assert (changed["ttl_seconds"], changed["idle_seconds"], changed["on_idle"]) == (1000, 300, "hibernate")
    assert before - 1 <= ends_at(changed) - 1000 <= datetime.now(timezone.utc).timestamp() + 1, "a new ttl counts from now"
    assert fresh.call("PATCH", "/lifecycle", {})["ttl_seconds"] == 1000
    assert "expires_at" not in fresh.call("PATCH", "/lifecycle", {"ttl_seconds": 0})


@pytest.mark.parametrize("body", [{"ttl_seconds": -1}, {"ttl_seconds": "1"}, {"ttl_seconds": 1e30}, {"idle_seconds": -1}, {"idle_seconds": {}},
                                  {"on_idle": "nap"}, {"on_idle": 1}, {"persistent": "no"}])
def test_a_wrong_lifecycle_is_refused_and_nothing_changes(sandbox, body):
    before = sandbox.call("GET", "/lifecycle")
    assert list(body)[0] in check_refusal(sandbox.ask("PATCH", "/lifecycle", body), 400)
    assert sandbox.call("GET", "/lifecycle") == before


def test_a_sandbox_ends_when_its_time_is_up_even_while_it_works(client):
    sandbox = client.create(ttl_seconds=2)
    started = time.monotonic()
    answer = sandbox.ask("POST", "/exec", {"cmd": "sleep 30"})
    assert time.monotonic() - started < slow(15)
    assert answer.status >= 400 or answer.json()["exit_code"] != 0
    wait_until(lambda: is_gone(sandbox))


def test_an_unused_sandbox_ends_after_its_idle_time_and_a_used_one_does_not(client):
    # Used for longer than that, and with pauses so much shorter that a machine which stands still for a while makes none of them too long.
    sandbox = client.create(idle_seconds=16)
    for _ in range(9):
        time.sleep(2)
        assert out(sandbox, "echo used") == "used\n"
    wait_until(lambda: is_gone(sandbox))


def test_a_working_sandbox_is_not_idle(client):
    """Its idle time is set once it works, and is over before that ends."""
    sandbox, answers = client.create(), []
    working = threading.Thread(target=lambda: answers.append(sandbox.exec("touch began; until [ -e go ]; do sleep 0.1; done; echo done")))
    working.start()
    wait_until(lambda: sandbox.ask("GET", "/fs?path=began").status == 200)
    sandbox.call("PATCH", "/lifecycle", {"idle_seconds": 2})
    time.sleep(4)
    assert sandbox.refresh()["status"] == "running"
    sandbox.write("go", b"")
    working.join()
    assert answers and answers[0]["stdout"] == "done\n"
    sandbox.delete()


def test_an_unused_sandbox_may_hibernate_instead_and_wakes_with_all_it_knew(client):
    sandbox = client.create(idle_seconds=1, on_idle="hibernate")
    run(sandbox, "kept = 'all this time'")
    wait_until(lambda: sandbox.refresh()["status"] == "hibernated", 30)
    assert run(sandbox, "kept")["results"][-1]["text/plain"] == "'all this time'"
    sandbox.delete()


def test_a_paused_sandbox_does_nothing_until_it_is_resumed(fresh):
    def ticks():
        return [int(line) for line in out(fresh, "cat ticks").split()]

    fresh.spawn("while :; do date +%s%N >> /workspace/ticks; sleep 0.05; done")
    wait_until(lambda: fresh.exec("test -s ticks")["exit_code"] == 0)
    assert fresh.ask("POST", "/pause").status == 204
    assert fresh.refresh()["status"] == "paused"
    time.sleep(2)
    assert fresh.ask("POST", "/resume").status == 204
    assert fresh.refresh()["status"] == "running"
    # Who looks at once is there before the next tick: what was written until now can all be from before the pause.
    before = len(ticks())
    wait_until(lambda: len(ticks()) > before + 1)
    assert max(b - a for a, b in itertools.pairwise(ticks())) > 1.5e9


@pytest.mark.parametrize("steps", [["resume"], ["pause", "pause"], ["hibernate", "pause"], ["pause", "resume", "resume"]], ids="-".join)
def test_a_step_that_does_not_fit_is_done_already_or_a_conflict(fresh, steps):
    for step in steps[:-1]:
        assert fresh.ask("POST", f"/{step}").status == 204
    answer = fresh.ask("POST", f"/{steps[-1]}")
    assert answer.status in (204, 409), answer.body
    if fresh.refresh()["status"] == "paused":
        check_refusal(fresh.ask("POST", "/exec", {"cmd": "echo fine"}), 409)
        assert fresh.ask("POST", "/resume").status == 204
    assert out(fresh, "echo fine") == "fine\n"


def test_deleting_works_in_every_state(client, daemon):
    for step in (None, "pause", "hibernate"):
        sandbox = client.create()
        if step:
            assert sandbox.ask("POST", f"/{step}").status == 204
        assert sandbox.ask("DELETE").status == 204
        assert is_gone(sandbox)


def test_a_longest_life_is_enforced(start_daemon):
    daemon = start_daemon("--max-ttl-seconds", 100, "--default-ttl-seconds", 50)
    client = daemon.client()
    assert client.create().info["ttl_seconds"] == 50
    for ttl in (0, 101):
        check_refusal(client.ask("POST", "/v1/sandboxes", {"template": "minimal", "ttl_seconds": ttl}), 400)
    sandbox = client.create(ttl_seconds=100)
    check_refusal(sandbox.ask("PATCH", "/lifecycle", {"ttl_seconds": 1000}), 400)
    check_refusal(sandbox.ask("PATCH", "/lifecycle", {"ttl_seconds": 0}), 400)


def test_the_end_of_a_sandbox_leaves_nothing(start_daemon):
    daemon = start_daemon()
    client = daemon.client()
    wait_until(lambda: "Vial is ready" in daemon.log_text(), 120)  # before that it may be baking a template
    for fields in ({}, {"memory_mb": 256}, {"env": {"A": "b"}}):
        sandbox = client.create(**fields)
        sandbox.exec("sleep 100 & disown; mkdir -p a/b; echo x > a/b/c")
        sandbox.ask("DELETE")
    wait_until(lambda: not [line for line in leftovers(daemon) if f"{daemon.process.pid}: " not in line])
    assert 'vial_network_slots{state="held"} 0' in client.ask("GET", "/metrics").text
