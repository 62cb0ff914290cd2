# SPDX-License-Identifier: Apache-2.0
"""pause … wake, snapshot, snapshots, create --from, fork, promote, tree, explore."""

import json
import re
import subprocess
import signal

import pytest


@pytest.fixture(autouse=True)
def forks(request):
    if "fake_vial" not in request.fixturenames:
        request.getfixturevalue("has_forks") or pytest.skip("this viald has no snapshots and forks yet")


def status_of(vial, sandbox):
    return vial.json("info", sandbox)["status"]


def test_pause_resume_hibernate_wake(vial, sandbox):
    for verb, state in [("pause", "paused"), ("resume", "running"), ("hibernate", "hibernated"), ("wake", "running")]:
        assert vial(verb, sandbox).stdout.strip() == sandbox
        assert status_of(vial, sandbox) == state


def test_a_verb_on_several_reports_each(vial, sandbox):
    done = vial("pause", sandbox, "0" * 20, check=False)
    assert done.returncode == 1 and done.stdout.split() == [sandbox] and done.stderr.count("\n") == 1


def test_snapshot_and_create_from_it(vial, sandbox):
    snapshot = vial("snapshot", sandbox, "--name", "before").stdout.strip()
    assert snapshot in vial("snapshots", "-q").stdout.split()
    assert "before" in vial("snapshots", snapshot).stdout
    child = vial("create", "--from", snapshot).stdout.strip()
    assert vial.json("info", child)["from_snapshot"] == snapshot
    vial("rm", child)
    assert vial("snapshots", "--rm", snapshot).stdout.strip() == snapshot
    assert snapshot not in vial("snapshots", "-q").stdout.split()


def test_fork_one_and_many_and_see_the_tree(vial, sandbox):
    vial("exec", sandbox, "-c", "echo before > f")
    child = vial("fork", sandbox).stdout.strip()
    assert vial("exec", child, "cat", "f").stdout == "before\n"
    grand = vial("fork", "-n", "3", child).stdout.split()
    assert len(grand) == 3
    order = sorted(grand, key=lambda id_: (vial.json("info", id_)["created_at"], id_))
    shown = vial("tree", sandbox).stdout.splitlines()
    assert shown[0].startswith(sandbox) and shown[1].startswith("└─ " + child)
    assert [re.match(r"   [├└]─ (\w+)", line)[1] for line in shown[2:]] == order
    forest = vial.json("tree", sandbox)
    assert forest[0]["id"] == child and [c["id"] for c in forest[0]["children"]] == order
    removed = vial("promote", grand[0]).stdout.split()
    assert sorted(removed) == sorted(grand[1:])
    vial("rm", child, grand[0])


def test_rollback_merge_and_undo_keep_the_id(vial, sandbox):
    vial("exec", sandbox, "-c", "echo first > f")
    snapshot = vial("snapshot", sandbox).stdout.strip()
    child = vial("fork", sandbox).stdout.strip()
    vial("exec", child, "-c", "echo child > f")
    assert vial("merge", sandbox, child).stdout.strip() == sandbox
    assert vial("exec", sandbox, "cat", "f").stdout == "child\n"
    assert vial("info", child, check=False).returncode == 1
    assert vial("rollback", sandbox, snapshot).stdout.strip() == sandbox
    assert vial("exec", sandbox, "cat", "f").stdout == "first\n"
    vial("exec", "--undo", sandbox, "--", "rm", "f")
    assert vial.json("info", sandbox)["undos"] == 1
    assert vial("undo", sandbox).stdout.strip() == sandbox
    assert vial("exec", sandbox, "cat", "f").stdout == "first\n"
    refused = vial("undo", sandbox, check=False)
    assert refused.returncode == 1 and "nothing to undo" in refused.stderr
    vial("snapshots", "--rm", snapshot)


def test_explore_keeps_the_best_and_removes_the_rest(vial, sandbox):
    before = set(vial.server.sandbox_ids())
    done = vial("explore", "-s", sandbox, "echo 5 > score", "echo 9 > score", "echo 7 > score; false", "--score", "cat score")
    winner = done.stdout.strip()
    assert vial("exec", winner, "cat", "score").stdout == "9\n"
    assert set(vial.server.sandbox_ids()) == before | {winner}
    assert "winner" in done.stderr and "status 1" in done.stderr
    vial("rm", winner)


def test_explore_can_prefer_the_least_and_repeat_one_command(vial, sandbox):
    answer = vial.json("explore", "-s", sandbox, "echo $VIAL_CANDIDATE > n", "-n", "3", "--score", "cat n", "--least")
    assert [c["score"] for c in answer["candidates"]] == [1, 2, 3]
    assert answer["winner"] == answer["candidates"][0]["sandbox_id"]
    vial("rm", answer["winner"])


def test_explore_without_a_winner_leaves_nothing(vial):
    before = set(vial.server.sandbox_ids())
    done = vial("explore", "-t", "minimal", "false", "exit 3", check=False)
    assert done.returncode == 1 and "no candidate succeeded" in done.stderr and done.stdout == ""
    assert set(vial.server.sandbox_ids()) == before


def test_explore_makes_its_own_sandbox_and_removes_it(vial):
    before = set(vial.server.sandbox_ids())
    winner = vial("explore", "-t", "minimal", "--setup", "echo base > b", "cat b > result").stdout.strip()
    assert vial("exec", winner, "cat", "result").stdout == "base\n"
    assert set(vial.server.sandbox_ids()) == before | {winner}
    vial("rm", winner)


def test_explore_interrupted_leaves_nothing(fake_vial):
    before = set(fake_vial.server.sandbox_ids())
    process = fake_vial.popen("explore", "sleep 100", "sleep 100", stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    import time
    while len(set(fake_vial.server.sandbox_ids()) - before) < 3:
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130 and set(fake_vial.server.sandbox_ids()) == before
