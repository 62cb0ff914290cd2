# SPDX-License-Identifier: Apache-2.0
"""A build on a template that was made out of a sandbox: the steps run in that sandbox as it was, and what they leave, memory and files, is the template."""

import pytest
from tools import check_refusal, out, run, wait_until


@pytest.fixture(scope="module")
def base(builder):
    """`origin`: a sandbox with a variable, a file and a running process."""
    sandbox = builder.client.create("minimal", env={"WHO": "origin"})
    run(sandbox, "x = 41")
    out(sandbox, "echo here > /home/user/file; nohup setsid sleep 86399 > /dev/null 2>&1 &")
    sandbox.call("POST", "/template", {"name": "origin"})
    sandbox.delete()
    return "origin"


def snapshots(client):
    return {snapshot["id"] for snapshot in client.call("GET", "/v1/snapshots")}


def test_memory_files_and_processes_go_on_with_what_the_steps_add(builder, base):
    build = builder.build("upon", base=base, warm="y = x + 1",
                          dockerfile="ENV COLOUR=green\nWORKDIR /srv/app\nRUN echo $COLOUR $WHO > made; cat /home/user/file >> made\n")
    assert build["base"] == base and builder.template("upon")["stale"] is False
    sandbox = builder.client.create("upon")
    assert sandbox.info["boot_mode"] == "restore"
    assert run(sandbox, "print(x, y)")["stdout"] == "41 42\n"
    assert out(sandbox, "pwd; cat made; echo $COLOUR $WHO; pgrep -f 'sleep 8639[9]' | wc -l") == "/srv/app\ngreen origin\nhere\ngreen origin\n1\n"
    sandbox.delete()


def test_its_children_can_be_built_upon_and_one_may_have_no_steps(builder, base):
    builder.build("upon", base=base, steps=[{"run": "echo first > /opt/first"}])
    builder.build("above", base="upon", steps=[], warm="z = x + 2")
    sandbox = builder.client.create("above")
    assert run(sandbox, "print(x, z)")["stdout"] == "41 43\n" and out(sandbox, "cat /opt/first") == "first\n"
    sandbox.delete()


def test_equal_steps_are_not_run_again_unless_the_warm_code_differs(builder, base):
    steps = [{"run": "date +%s%N > /opt/when"}]

    def when(name, **fields):
        build = builder.build(name, base=base, steps=steps, **fields)
        sandbox = builder.client.create(name)
        text = out(sandbox, "cat /opt/when") + run(sandbox, "print(globals().get('w'))")["stdout"]
        sandbox.delete()
        return text, build["cached"]

    first, was_cached = when("timed", warm="w = 1")
    assert not was_cached
    assert when("timed-too", warm="w = 1") == (first, True)
    assert when("timed", no_cache=True, warm="w = 1")[0] != first
    other, was_cached = when("timed", warm="w = 2")
    assert not was_cached and other.endswith("2\n")


def test_a_new_base_makes_it_stale_and_a_rebuild_takes_it_over(builder):
    client = builder.client
    for value in ("old", "new"):
        sandbox = client.create("minimal")
        run(sandbox, f"value = '{value}'")
        sandbox.call("POST", "/template", {"name": "moving"})
        sandbox.delete()
        if value == "old":
            builder.build("follower", base="moving", steps=[{"run": "echo seen > /opt/seen"}])
    assert builder.template("follower")["stale"] is True
    assert builder.wait(client.call("POST", "/v1/templates/follower/rebuild", {})["build_id"])["status"] == "ready"
    assert builder.template("follower")["stale"] is False
    sandbox = client.create("follower")
    assert run(sandbox, "print(value)")["stdout"] == "new\n" and out(sandbox, "cat /opt/seen") == "seen\n"
    sandbox.delete()


def test_secrets_are_refused_because_a_memory_would_keep_them(builder, base):
    assert "memory" in check_refusal(builder.refuse(base=base, steps=[{"run": "true"}], secrets={"TOKEN": "some-secret"}), 400)


def test_it_may_have_more_memory_than_its_base_and_no_more_processors(builder, base):
    """gVisor changes the memory when it restores; processors it cannot add."""
    builder.build("larger", base=base, steps=[{"run": "true"}], memory_mb=3000)
    sandbox = builder.client.create("larger")
    assert sandbox.info["memory_mb"] == 3000 and run(sandbox, "print(x)")["stdout"] == "41\n"
    assert 2900 < int(out(sandbox, "awk '/MemTotal/ {print $2}' /proc/meminfo")) / 1024 <= 3000
    sandbox.delete()
    build = builder.fail("wider", base=base, steps=[{"run": "true"}], cpu=4)
    assert "at most its 2 processors" in build["error"], build


@pytest.mark.parametrize("fields,named", [
    ({"steps": [{"run": "echo bad; exit 3"}]}, "step 1 of 1 failed"), ({"steps": [], "warm": "1 / 0"}, "ZeroDivisionError"),
    ({"steps": [{"run": "sleep 1000"}], "timeout_seconds": 1}, "timeout_seconds"), ({"steps": [], "warm": "import time; time.sleep(1000)", "timeout_seconds": 2}, "timeout_seconds"),
], ids=["step", "warm", "time", "time of the warm code"])
def test_one_that_fails_leaves_neither_sandbox_nor_snapshot(builder, base, fields, named):
    client = builder.client
    before = snapshots(client)
    build = builder.fail("failing", base=base, **fields)
    assert named in build["error"], build
    assert snapshots(client) == before and client.ask("GET", "/v1/templates/failing").status == 404
    wait_until(lambda: not client.sandboxes())


def test_one_that_is_cancelled_and_one_that_is_deleted_leave_nothing(builder, base):
    client = builder.client
    before = snapshots(client)
    build = builder.begin("cancelled", base=base, steps=[{"run": "sleep 1000"}])["build_id"]
    builder.wait_step(build, 1)
    client.call("POST", f"/v1/templates/builds/{build}/cancel")
    assert "cancelled" in builder.wait(build)["error"] and snapshots(client) == before
    builder.build("passing", base=base, steps=[{"run": "true"}])
    assert len(snapshots(client) - before) == 1
    builder.delete("passing")
    wait_until(lambda: snapshots(client) == before)
