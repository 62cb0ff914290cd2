# SPDX-License-Identifier: Apache-2.0
"""Snapshots and forks: exactly one instant, then each on its own."""

import threading
import time

import pytest

from test_states import run, value, wait_for
from vial import ApiError, Sandbox


def fork(sandbox, **body):
    return Sandbox(sandbox.client, sandbox.call("POST", "/fork", body)["sandbox"])


def tree(sandbox, count):
    answer = sandbox.call("POST", "/fork-tree", {"count": count})
    return answer["tree_id"], [Sandbox(sandbox.client, child) for child in answer["children"]]


def test_a_fork_has_the_parents_memory_and_files_and_then_goes_its_own_way(fresh):
    run(fresh, "x = [1]")
    fresh.write("shared", "before")
    child = fork(fresh, metadata={"role": "child"})
    assert child.info["boot_mode"] == "fork" and child.info["parent"] == fresh.id and child.info["metadata"] == {"role": "child"}
    run(fresh, "x.append('parent')")
    run(child, "x.append('child')")
    fresh.write("shared", "parent")
    child.write("own", "child")
    assert value(fresh, "x") == "[1, 'parent']" and value(child, "x") == "[1, 'child']"
    assert child.read("shared") == b"before"
    assert fresh.ask("GET", "/fs?path=own").status == 404
    child.delete()


def test_children_of_children_work(fresh):
    run(fresh, "depth = 0")
    chain, current = [], fresh
    for depth in range(1, 4):
        current = fork(current)
        chain.append(current)
        run(current, f"depth = {depth}")
    assert [value(sandbox, "depth") for sandbox in [fresh, *chain]] == ["0", "1", "2", "3"]
    for sandbox in chain:
        sandbox.delete()


def test_a_tree_is_of_one_instant_and_every_child_draws_its_own_numbers(fresh):
    run(fresh, "import random, uuid, time; stamp = time.time(); random.seed(1)")
    run(fresh, "globalThis.seen = 1", language="javascript")
    tree_id, children = tree(fresh, 4)
    assert len(children) == 4 and {child.info["tree_id"] for child in children} == {tree_id}
    assert len({value(child, "stamp") for child in children}) == 1
    for code, language in (("random.random()", "python"), ("uuid.uuid4()", "python"), ("open('/dev/urandom','rb').read(8)", "python"),
                           ("Math.random()", "javascript")):
        drawn = [value(sandbox, code, language=language) for sandbox in [fresh, *children]]
        assert len(set(drawn)) == 5, (code, drawn)
    names = {child.exec("hostname")["stdout"].strip() for child in children}
    assert names == {child.id for child in children}
    for child in children:
        child.delete()


def test_the_clock_is_right_in_children_and_after_a_wake(fresh):
    child = fork(fresh)
    fresh.call("POST", "/hibernate")
    for sandbox in (child, fresh):
        before = time.time()
        assert before - 2 < float(sandbox.exec("date +%s.%N")["stdout"]) < time.time() + 2
    child.delete()


@pytest.mark.parametrize("count", [0, 33, -1, "two", 1.5])
def test_an_impossible_number_of_children_is_refused(fresh, count):
    with pytest.raises(ApiError) as refused:
        fresh.call("POST", "/fork-tree", {"count": count})
    assert refused.value.status == 400 and "count" in refused.value.body["error"]


def test_promote_keeps_one_child_and_reaps_its_siblings_and_may_be_repeated(fresh):
    tree_id, children = tree(fresh, 3)
    winner = children[1]
    for expected in ({children[0].id, children[2].id}, set()):
        answer = winner.call("POST", "/promote", {"cleanup_siblings": True})
        assert answer["winner"] == winner.id and answer["tree_id"] == tree_id and set(answer["deleted"]) == expected
        assert answer["failures"] == {}
    assert fresh.ask("GET").status == 200 and winner.ask("GET").status == 200 and children[0].ask("GET").status == 404
    winner.delete()


def test_forking_under_load_disturbs_neither_the_running_cell_nor_the_file_being_written_nor_a_connection(fresh):
    fresh.spawn("python3 -m http.server 8123 --bind 127.0.0.1")
    fresh.wait_for_port(8123)
    fresh.spawn("exec 3<>/dev/tcp/127.0.0.1/8123; sleep 30")
    result, upload = {}, {}
    cell = threading.Thread(target=lambda: result.update(run(fresh, "import time\nfor i in range(30):\n    print(i, flush=True); time.sleep(0.1)\n    if i == 1: open('/tmp/began', 'w').close()")))
    body = bytes(range(256)) * 40_000
    writer = threading.Thread(target=lambda: upload.update(ok=fresh.write("big", body) is None))
    cell.start()
    writer.start()
    wait_for(lambda: fresh.exec("test -e /tmp/began")["exit_code"] == 0)
    children = [fork(fresh), fork(fresh)]
    cell.join()
    writer.join()
    assert result["stdout"] == "".join(f"{i}\n" for i in range(30)) and "error" not in result
    assert fresh.read("big") == body
    for child in children:
        assert value(child, "i") is not None
        assert child.exec("echo alive")["stdout"] == "alive\n"
        child.delete()


def test_a_snapshot_makes_sandboxes_with_everything_as_it_was_and_outlives_its_sandbox(client, fresh):
    fresh.exec("echo 'export FROM_PROFILE=1' >> ~/.profile")
    run(fresh, "import os; os.chdir('/tmp'); answer = 42; f = open('/workspace/held', 'w+'); f.write('abc'); f.flush()")
    pid = fresh.spawn("sleep 1000")
    snapshot = fresh.call("POST", "/snapshots", {"name": "checkpoint-1"})
    assert snapshot["size_bytes"] > 1_000_000 and snapshot["sandbox_id"] == fresh.id
    run(fresh, "answer = 'changed later'")
    fresh.delete()
    twins = [client.create(from_snapshot="checkpoint-1"), client.create(from_snapshot=snapshot["id"])]
    for twin in twins:
        assert twin.info["from_snapshot"] == snapshot["id"]
        assert value(twin, "answer, os.getcwd(), f.seek(0), f.read()") == "(42, '/tmp', 0, 'abc')"
        assert any(process["pid"] == pid for process in twin.call("GET", "/processes")["processes"])
    assert [entry["name"] for entry in client.call("GET", "/v1/snapshots")] == ["checkpoint-1"]
    client.call("DELETE", f"/v1/snapshots/{snapshot['id']}")
    assert value(twins[0], "answer") == "42"
    assert client.ask("GET", f"/v1/snapshots/{snapshot['id']}").status == 404
    for twin in twins:
        twin.delete()


def test_two_snapshots_may_not_have_one_name(client, fresh):
    snapshot = fresh.call("POST", "/snapshots", {"name": "twice"})
    with pytest.raises(ApiError) as refused:
        fresh.call("POST", "/snapshots", {"name": "twice"})
    assert refused.value.status == 409
    client.call("DELETE", f"/v1/snapshots/{snapshot['id']}")


def test_a_full_quota_refuses_snapshots(start_daemon):
    client = start_daemon("--snapshot-quota-mb", "1").client()
    sandbox = client.create()
    first = sandbox.call("POST", "/snapshots", {})
    assert first["size_bytes"] > 1_000_000
    with pytest.raises(ApiError) as refused:
        sandbox.call("POST", "/snapshots", {})
    assert refused.value.status == 429 and "snapshot_quota_mb" in refused.value.body["error"]


def test_concurrent_forks_of_one_sandbox_take_turns(fresh):
    run(fresh, "x = 1")
    children, errors = [], []

    def one():
        try:
            children.append(fork(fresh))
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=one) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len({child.id for child in children}) == 3
    assert all(value(child, "x") == "1" for child in children)
    for child in children:
        child.delete()
