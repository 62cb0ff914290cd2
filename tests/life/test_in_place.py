# SPDX-License-Identifier: Apache-2.0
"""Another machine behind the same id: rollback to a snapshot, merge with another sandbox, undo of a run. What is here is what an agent's author
sees; failures and crashes half-way are in test_in_place_failures.py."""

import os
import signal
import threading

import pytest

from test_states import run, value, wait_for
from test_transitions import Asking
from tools import UNKNOWN_ID, add_key, all_events, check_refusal, command_lines, database, engine_processes, host_id, records
from vial import Client, Sandbox

COUNTER = "n=0; while true; do n=$((n+1)); echo $n > /workspace/new; mv /workspace/new /workspace/count; sleep 0.1; done"
HANG = "import time\nprint('hangs', flush=True)\ntime.sleep(600)"


def snapshot(sandbox, **fields):
    return sandbox.call("POST", "/snapshots", fields)["id"]


def rollback(sandbox, to):
    return sandbox.call("POST", "/rollback", {"snapshot": to})


def fork(sandbox):
    return Sandbox(sandbox.client, sandbox.call("POST", "/fork", {})["sandbox"])


def merge(sandbox, winner):
    return sandbox.call("POST", "/merge", {"winner": winner.id})


def undo(sandbox):
    return sandbox.call("POST", "/undo")


def logs(sandbox):
    return sandbox.ask("GET", "/logs").text


def runs(sandbox, pid):
    return any(process["pid"] == pid and process["state"] == "running" for process in sandbox.call("GET", "/processes")["processes"])


def is_there(daemon, *machines):
    """What is left of these host ids: processes and folders."""
    return [words for _, words in command_lines() if any(name in word for word in words for name in machines)] + \
        [name for name in machines if (daemon.data / "sandboxes" / name).exists()]


def undo_points(daemon, sandbox):
    db = database(daemon)
    try:
        return [name for name, document in db.execute("select id, document from snapshots where sandbox_id = ?", (sandbox.id,)) if '"undo"' in document]
    finally:
        db.close()


@pytest.fixture(autouse=True)
def no_snapshots_left(request):
    yield
    if "client" in request.fixturenames:
        client = request.getfixturevalue("client")
        for one in client.call("GET", "/v1/snapshots"):
            client.call("DELETE", f"/v1/snapshots/{one['id']}")


# Rollback

def test_a_rollback_brings_variables_files_and_processes_back_as_they_were(fresh):
    run(fresh, "x = ['before']")
    fresh.write("kept", "before")
    pid = fresh.spawn(COUNTER)
    wait_for(lambda: fresh.ask("GET", "/fs?path=count").status == 200)
    to = snapshot(fresh)
    run(fresh, "x.append('after'); y = 1")
    fresh.exec("rm -rf /workspace/*; echo after > /workspace/new-file")
    fresh.signal(pid)
    answer = rollback(fresh, to)
    assert answer["id"] == fresh.id and answer["status"] == "running"
    assert value(fresh, "x, 'y' in globals()") == "(['before'], False)"
    assert fresh.read("kept") == b"before" and fresh.ask("GET", "/fs?path=new-file").status == 404
    assert runs(fresh, pid)
    first = int(fresh.read("count"))
    wait_for(lambda: int(fresh.read("count")) > first)


def test_a_rollback_can_be_done_again_and_again_and_only_one_machine_is_left(daemon, fresh):
    run(fresh, "n = 0")
    to = snapshot(fresh, name=f"again-{fresh.id}")
    machines = []
    for _ in range(3):
        assert value(fresh, "(n := n + 1)") == "1"
        machines.append(host_id(daemon, fresh))
        rollback(fresh, f"again-{fresh.id}")
    assert value(fresh, "n") == "0"
    assert len(set(machines)) == 3 and len(engine_processes(daemon, fresh)) == 1
    wait_for(lambda: not is_there(daemon, *machines))


def test_after_a_rollback_the_id_the_settings_and_the_records_go_on(daemon, client):
    sandbox = client.create(env={"GIVEN": "at the start"}, metadata={"for": "me"}, ttl_seconds=3000, idle_seconds=700)
    to = snapshot(sandbox)
    sandbox.call("PUT", "/network", {"mode": "open"})
    before = sandbox.refresh()
    run(sandbox, "print('heard before')")
    rollback(sandbox, to)
    after = sandbox.refresh()
    assert {name: after[name] for name in before} == {**before}
    assert sandbox.exec("echo $GIVEN")["stdout"] == "at the start\n"
    assert sandbox.exec("hostname")["stdout"].strip() == sandbox.id
    assert sandbox.exec("cat /etc/resolv.conf")["stdout"].startswith("nameserver")  # the policy that is in force now, not the snapshot's
    assert "heard before" in logs(sandbox)
    actions = [record["action"] for record in records(client, sandbox=sandbox.id)]
    assert actions[0] == "sandbox.create" and "run" in actions and actions.count("sandbox.rollback") == 1
    record = next(record for record in records(client, sandbox=sandbox.id) if record["action"] == "sandbox.rollback")
    assert record["outcome"] == "done" and record["snapshot"] == to
    sandbox.delete()


def test_a_preview_leads_to_the_new_machine(client, fresh):
    fresh.serve(8000, "import http.server, sys; http.server.test(http.server.SimpleHTTPRequestHandler, port=int(sys.argv[1]))")
    to = snapshot(fresh)
    preview = fresh.call("POST", "/previews", {"port": 8000})
    path = preview["url"][preview["url"].index("/v1/"):] if "/v1/" in preview["url"] else None
    fresh.exec("pkill -f server-8000")
    rollback(fresh, to)
    fresh.wait_for_port(8000)
    assert fresh.ask("GET", "/ports/8000/").status == 200
    if path:
        assert Client(client.url, "").ask("GET", path, key=False).status == 200


def test_a_run_that_hangs_is_no_obstacle_and_is_told_why_it_ended(fresh):
    run(fresh, "x = 1")
    to = snapshot(fresh)
    hanging = [Asking(fresh.client, "POST", f"{fresh.path}/run", {"code": HANG}),
               Asking(fresh.client, "POST", f"{fresh.path}/exec", {"cmd": "sleep 600"})]
    events = []
    stream = threading.Thread(target=lambda: events.extend(all_events(fresh.client, "POST", f"{fresh.path}/exec/stream", {"cmd": "echo there; sleep 600"})))
    stream.start()
    wait_for(lambda: len(fresh.call("GET", "/processes")["processes"]) >= 2 and "hangs" in logs(fresh))
    rollback(fresh, to)
    for one in hanging:
        assert "rolled back" in check_refusal(one.join(), 409)
    stream.join(60)
    assert events[-1][0] == "error" and "rolled back" in events[-1][1]["error"]
    assert value(fresh, "x") == "1"
    ended = [record["outcome"] for record in records(fresh.client, sandbox=fresh.id) if record["action"] in ("run", "exec")]
    assert ended.count("failed") + ended.count("refused") >= 3


def test_a_paused_one_and_one_that_sleeps_are_rolled_back_and_run_afterwards(fresh):
    run(fresh, "x = 'before'")
    to = snapshot(fresh)
    for verb in ("/pause", "/hibernate"):
        run(fresh, "x = 'after'")
        fresh.call("POST", verb)
        assert rollback(fresh, to)["status"] == "running"
        assert value(fresh, "x") == "'before'"
    fresh.call("POST", "/hibernate")
    assert value(fresh, "x") == "'before'"


def test_one_that_has_failed_is_brought_back(daemon, fresh):
    run(fresh, "x = 'before'")
    to = snapshot(fresh)
    os.kill(engine_processes(daemon, fresh)[0], signal.SIGKILL)
    wait_for(lambda: fresh.refresh()["status"] == "failed")
    answer = rollback(fresh, to)
    assert answer["status"] == "running" and "reason" not in answer
    assert value(fresh, "x") == "'before'"
    run(fresh, "print('told again')")
    assert "told again" in logs(fresh)


def test_a_snapshot_of_another_sandbox_of_the_project_will_do_and_one_that_does_not_fit_is_refused_with_a_sentence(client, fresh):
    other = client.create(env={"WHOSE": "the other's"})
    run(other, "x = 'the other'")
    to = snapshot(other)
    run(fresh, "x = 'own'")
    rollback(fresh, to)
    assert value(fresh, "x") == "'the other'"
    assert fresh.exec("echo [$WHOSE]; hostname")["stdout"] == f"[]\n{fresh.id}\n"
    assert value(other, "x") == "'the other'"
    other.delete()


def test_what_is_unknown_or_somebody_elses_is_not_found(daemon, client, fresh):
    stranger = daemon.client(add_key(daemon, "strangers"))
    theirs = stranger.create()
    their_snapshot = snapshot(theirs)
    run(fresh, "x = 1")
    for to in (UNKNOWN_ID, their_snapshot, "no such name"):
        assert "there is no snapshot" in check_refusal(fresh.ask("POST", "/rollback", {"snapshot": to}), 404)
    for winner in (UNKNOWN_ID, theirs.id):
        assert "there is no sandbox" in check_refusal(fresh.ask("POST", "/merge", {"winner": winner}), 404)
    own = snapshot(fresh)
    check_refusal(stranger.ask("POST", f"{fresh.path}/rollback", {"snapshot": own}), 404)
    check_refusal(stranger.ask("POST", f"{fresh.path}/merge", {"winner": theirs.id}), 404)
    check_refusal(stranger.ask("POST", f"{fresh.path}/undo"), 404)
    check_refusal(fresh.ask("POST", "/rollback", {}), 400)
    check_refusal(fresh.ask("POST", "/merge", {}), 400)
    assert "itself" in check_refusal(fresh.ask("POST", "/merge", {"winner": fresh.id}), 400)
    assert value(fresh, "x") == "1"
    stranger.call("DELETE", f"/v1/snapshots/{their_snapshot}")
    theirs.delete()


# Merge

def test_the_winners_machine_goes_on_under_the_parents_id_and_the_winner_is_gone(daemon, client):
    parent = client.create(env={"NAME": "parent"}, metadata={"a": "b"})
    run(parent, "tries = 0")
    winner, loser = fork(parent), fork(parent)
    run(winner, "tries = 'the best'")
    winner.write("solution", "42")
    pid = winner.spawn(COUNTER)
    run(parent, "tries = 'the parent has moved on'")
    before = parent.refresh()
    machine, old = engine_processes(daemon, winner), host_id(daemon, parent)
    answer = merge(parent, winner)
    assert {name: answer[name] for name in before} == before
    assert value(parent, "tries") == "'the best'" and parent.read("solution") == b"42" and runs(parent, pid)
    assert parent.exec("echo $NAME; hostname")["stdout"] == f"parent\n{parent.id}\n"
    assert engine_processes(daemon, parent) == machine  # nothing was copied
    check_refusal(winner.ask("GET"), 404)
    assert winner.id not in [one["id"] for one in client.sandboxes()] and value(loser, "tries") == "0"
    record = next(record for record in records(client, sandbox=parent.id) if record["action"] == "sandbox.merge")
    assert client.call("GET", f"/v1/audit/{record['seq']}")["body"]["winner"] == winner.id
    assert database(daemon).execute("select count(*) from sandboxes where id = ?", (winner.id,)).fetchone() == (0,)
    now = host_id(daemon, parent)
    wait_for(lambda: not is_there(daemon, old))
    loser.delete()
    parent.delete()
    wait_for(lambda: not is_there(daemon, now))


@pytest.mark.parametrize("parents_sleep", [False, True])
@pytest.mark.parametrize("winners_sleep", [False, True])
def test_a_winner_or_a_parent_that_sleeps_is_merged_all_the_same(client, winners_sleep, parents_sleep):
    parent = client.create()
    winner = fork(parent)
    run(winner, "x = 'won'")
    if winners_sleep:
        winner.call("POST", "/hibernate")
    if parents_sleep:
        parent.call("POST", "/hibernate")
    assert merge(parent, winner)["status"] == "running"
    assert value(parent, "x") == "'won'"
    parent.call("POST", "/hibernate")
    assert value(parent, "x") == "'won'"
    parent.delete()


def test_a_winner_that_is_in_use_or_of_another_kind_is_refused_and_nothing_happens(client, fresh):
    winner = fork(fresh)
    asking = Asking(client, "POST", f"{winner.path}/exec", {"cmd": "echo > /tmp/begun; until [ -e /tmp/go ]; do sleep 0.1; done; echo over"})
    wait_for(lambda: winner.ask("GET", "/fs?path=/tmp/begun").status == 200)
    assert "in use" in check_refusal(fresh.ask("POST", "/merge", {"winner": winner.id}), 409)
    winner.write("/tmp/go", b"")
    assert asking.join().json()["stdout"] == "over\n"
    winner.call("POST", "/pause")
    assert "paused" in check_refusal(fresh.ask("POST", "/merge", {"winner": winner.id}), 409)
    winner.call("POST", "/resume")
    larger = client.create(memory_mb=1024)
    assert "1024 MB" in check_refusal(fresh.ask("POST", "/merge", {"winner": larger.id}), 409)
    merge(fresh, winner)
    larger.delete()


def test_two_that_are_merged_with_each_other_at_once_leave_one(client):
    left = client.create()
    right = fork(left)
    answers = [Asking(client, "POST", f"{left.path}/merge", {"winner": right.id}), Asking(client, "POST", f"{right.path}/merge", {"winner": left.id})]
    statuses = sorted(one.join().status for one in answers)
    assert statuses[0] == 200 and statuses[1] in (404, 409), statuses
    alive = [one for one in (left, right) if one.ask("GET").status == 200]
    assert len(alive) == 1 and value(alive[0], "1 + 1") == "2"
    alive[0].delete()


# Undo

def test_undo_brings_back_the_state_before_the_last_runs_that_kept_it_one_after_the_other(client, fresh):
    assert fresh.info["undos"] == 0
    run(fresh, "x = 0; import os; os.makedirs('/workspace/work', exist_ok=True); open('/workspace/work/f', 'w').write('precious')")
    run(fresh, "x = 1", undo=True)
    assert fresh.exec("rm -rf /workspace/work", undo=True)["exit_code"] == 0
    run(fresh, "y = 'this one kept nothing'")
    assert fresh.refresh()["undos"] == 2
    assert client.call("GET", f"/v1/snapshots?sandbox_id={fresh.id}") == []
    assert undo(fresh)["undos"] == 1
    assert fresh.read("work/f") == b"precious" and value(fresh, "x, 'y' in globals()") == "(1, False)"
    assert undo(fresh)["undos"] == 0
    assert value(fresh, "x") == "0"
    assert "nothing to undo" in check_refusal(fresh.ask("POST", "/undo"), 409)
    assert value(fresh, "x") == "0"


@pytest.mark.parametrize("path, body", [("/run/stream", {"code": "x = 'after'"}), ("/exec/stream", {"cmd": "echo after > /workspace/f"}),
                                        ("/exec", {"cmd": "echo after > /workspace/f; sleep 60", "background": True})])
def test_streams_and_commands_in_the_background_keep_it_too(fresh, path, body):
    run(fresh, "x = 'before'")
    fresh.write("f", "before")
    if path.endswith("stream"):
        assert all_events(fresh.client, "POST", fresh.path + path, {**body, "undo": True})[-1][0] in ("end", "exit")
    else:
        assert fresh.call("POST", path, {**body, "undo": True})["pid"]
    assert fresh.refresh()["undos"] == 1
    undo(fresh)
    assert fresh.read("f") == b"before" and value(fresh, "x") == "'before'"


def test_a_run_in_a_context_of_its_own_is_undone_with_its_context(fresh):
    context = fresh.call("POST", "/repl/sessions", {"language": "python"})["id"]
    fresh.call("POST", f"/repl/sessions/{context}/run", {"code": "z = 1"})
    fresh.call("POST", f"/repl/sessions/{context}/run", {"code": "z = 2", "undo": True})
    undo(fresh)
    answer = fresh.call("POST", f"/repl/sessions/{context}/run", {"code": "z"})
    assert answer["results"][-1]["text/plain"] == "1"


def test_a_run_that_hangs_is_undone_while_it_hangs(fresh):
    run(fresh, "x = 'before'")
    hanging = Asking(fresh.client, "POST", f"{fresh.path}/run", {"code": "x = 'hung'\n" + HANG, "undo": True})
    wait_for(lambda: fresh.refresh()["undos"] == 1 and "hangs" in logs(fresh))
    undo(fresh)
    assert "brought back" in check_refusal(hanging.join(), 409)
    assert value(fresh, "x") == "'before'"


def test_there_are_only_so_many_and_the_oldest_go_first(start_daemon):
    daemon = start_daemon("--undo-points", 2)
    sandbox = daemon.client().create()
    for n in range(4):
        run(sandbox, f"x = {n}", undo=True)
    assert sandbox.refresh()["undos"] == 2
    wait_for(lambda: len(list((daemon.data / "snapshots").iterdir())) == 2)
    undo(sandbox)
    assert value(sandbox, "x") == "2"
    undo(sandbox)
    assert value(sandbox, "x") == "1"
    check_refusal(sandbox.ask("POST", "/undo"), 409)
    wait_for(lambda: not list((daemon.data / "snapshots").iterdir()))


def test_where_none_are_kept_or_there_is_no_room_the_run_is_refused_and_nothing_ran(start_daemon):
    for options, status, word in ((("--undo-points", 0), 409, "undo_points"), (("--undo-quota-mb", 1), 429, "undo_quota_mb")):
        daemon = start_daemon(*options)
        sandbox = daemon.client().create()
        run(sandbox, "x = 'before'")
        for path, body in (("/run", {"code": "x = 'ran'"}), ("/run/stream", {"code": "x = 'ran'"}), ("/exec/stream", {"cmd": "touch /workspace/ran"})):
            assert word in check_refusal(sandbox.ask("POST", path, {**body, "undo": True}), status)
        assert value(sandbox, "x") == "'before'" and sandbox.ask("GET", "/fs?path=ran").status == 404
        assert sandbox.refresh()["undos"] == 0
        wait_for(lambda: not (daemon.data / "snapshots").exists() or not list((daemon.data / "snapshots").iterdir()))


def test_they_count_against_the_projects_snapshots_and_give_way_to_newer_ones_of_their_own(daemon, client):
    key = add_key(daemon, "small")
    mine = daemon.client(key)
    first, second = mine.create(), mine.create()
    run(first, "x = 1", undo=True)
    (size,) = [row[0] for row in database(daemon).execute("select size_bytes from snapshots where sandbox_id = ?", (first.id,))]
    assert client.call("GET", "/v1/projects/small/quotas")["used"]["snapshot_bytes"] == size
    client.call("PUT", "/v1/projects/small/quotas", {"max_snapshot_bytes": int(size * 1.5)})
    assert "max_snapshot_bytes" in check_refusal(second.ask("POST", "/run", {"code": "y = 1", "undo": True}), 429)
    assert value(second, "'y' in globals()") == "False"
    run(first, "x = 2", undo=True)
    assert first.refresh()["undos"] == 1 and undo(first)["undos"] == 0 and value(first, "x") == "1"
    run(first, "x = 3", undo=True)
    client.call("PUT", "/v1/projects/small/quotas", {"max_snapshot_bytes": size // 2})
    check_refusal(first.ask("POST", "/run", {"code": "x = 4", "undo": True}), 429)
    assert first.refresh()["undos"] == 1, "what would not have helped was not given up"
    for one in (first, second):
        one.delete()
    assert client.call("GET", "/v1/projects/small/quotas")["used"]["snapshot_bytes"] == 0


def test_they_count_against_the_quota_of_all_snapshots_and_give_way_to_newer_ones_of_their_own(start_daemon):
    daemon = start_daemon("--undo-points", 100, "--snapshot-quota-mb", 400)
    first, second = daemon.client().create(), daemon.client().create()
    run(first, "part = bytearray(b'z') * (30 << 20)")
    for n in range(6):
        run(first, f"x = {n}", undo=True)
        assert sum(row[0] for row in database(daemon).execute("select size_bytes from snapshots")) <= 400 << 20
    kept = first.refresh()["undos"]
    assert 2 <= kept < 6
    run(second, "large = bytearray(b'z') * (150 << 20)")
    assert "snapshot_quota_mb" in check_refusal(second.ask("POST", "/run", {"code": "y = 1", "undo": True}), 429)
    assert value(second, "'y' in globals()") == "False", "another's do not give way"
    run(first, "large = bytearray(b'z') * (420 << 20)")
    assert "snapshot_quota_mb" in check_refusal(first.ask("POST", "/run", {"code": "x = 'ran'", "undo": True}), 429)
    assert first.refresh()["undos"] == kept, "what would not have helped was not given up"
    for n in (4, 3):
        undo(first)
        assert value(first, "x") == str(n)


def test_they_outlive_sleep_and_viald_and_go_with_their_sandbox(start_daemon):
    daemon = start_daemon()
    sandbox = daemon.client().create()
    run(sandbox, "x = 1")
    run(sandbox, "x = 2", undo=True)
    run(sandbox, "x = 3", undo=True)
    sandbox.call("POST", "/hibernate")
    daemon.kill()
    daemon.start()
    sandbox = Sandbox(daemon.client(), daemon.client().call("GET", sandbox.path))
    assert sandbox.info["undos"] == 2 and sandbox.info["status"] == "hibernated"
    undo(sandbox)
    assert value(sandbox, "x") == "2"
    daemon.kill()
    daemon.start()
    sandbox = Sandbox(daemon.client(), daemon.client().call("GET", sandbox.path))
    assert value(sandbox, "x") == "2" and sandbox.info["undos"] == 1
    undo(sandbox)
    assert value(sandbox, "x") == "1"
    run(sandbox, "x = 4", undo=True)
    sandbox.call("DELETE")
    wait_for(lambda: not list((daemon.data / "snapshots").iterdir()))
    assert database(daemon).execute("select count(*) from snapshots").fetchone() == (0,)


def test_a_fork_has_none_of_its_parents_and_a_rollback_leaves_them(fresh):
    run(fresh, "x = 1")
    to = snapshot(fresh)
    run(fresh, "x = 2", undo=True)
    child = fork(fresh)
    assert child.info["undos"] == 0
    check_refusal(child.ask("POST", "/undo"), 409)
    child.delete()
    run(fresh, "x = 3")
    assert rollback(fresh, to)["undos"] == 1


# At once

def test_many_undos_at_once_take_turns(fresh):
    for n in range(3):
        run(fresh, f"x = {n}", undo=True)
    statuses = sorted(one.join().status for one in [Asking(fresh.client, "POST", f"{fresh.path}/undo") for _ in range(5)])
    assert statuses == [200, 200, 200, 409, 409]
    assert value(fresh, "'x' in globals()") == "False" and fresh.refresh()["undos"] == 0


def test_who_asks_meanwhile_waits_and_finds_the_new_machine(fresh):
    run(fresh, "x = 'before'")
    to = snapshot(fresh)
    run(fresh, "x = 'after'")
    back = Asking(fresh.client, "POST", f"{fresh.path}/rollback", {"snapshot": to})
    asked = [Asking(fresh.client, "POST", f"{fresh.path}/run", {"code": "x"}) for _ in range(4)]
    assert back.join().status == 200
    for one in asked:
        answer = one.join()  # one that came before its turn ends with the old machine
        assert answer.status == 409 or answer.json()["results"][-1]["text/plain"] in ("'before'", "'after'")
    assert value(fresh, "x") == "'before'"


def test_a_sandbox_that_is_deleted_meanwhile_is_gone_and_so_are_both_machines(daemon, client):
    for what in ("rollback", "undo", "merge"):
        sandbox = client.create()
        run(sandbox, "x = 1", undo=True)
        winner = fork(sandbox)
        machines = [host_id(daemon, sandbox), host_id(daemon, winner)]
        body = {"rollback": {"snapshot": snapshot(sandbox)}, "merge": {"winner": winner.id}}.get(what)
        asking = Asking(client, "POST", f"{sandbox.path}/{what}", body)
        deleting = Asking(client, "DELETE", sandbox.path)
        assert deleting.join().status in (204, 404)
        assert asking.join().status in (200, 404, 409, 503)
        check_refusal(sandbox.ask("GET"), 404)
        winner.delete()
        wait_for(lambda: not is_there(daemon, *machines))
        assert undo_points(daemon, sandbox) == []
