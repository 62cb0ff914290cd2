# SPDX-License-Identifier: Apache-2.0
"""viald dies or stops in the middle, the queue, a disk that is nearly full."""

import pytest

from builds import Builder
from tools import check_refusal, database, out, run, slow, wait_until


def builder_of(daemon):
    return Builder(daemon.client())


def terminate(daemon):
    """As an upgrade does: it leaves sandboxes running for the next one."""
    daemon.process.terminate()
    assert daemon.process.wait(slow(60)) == 0
    daemon.log.close()


@pytest.mark.parametrize("how", ["kill", "term"])
def test_a_build_under_way_fails_honestly_after_a_restart_and_the_one_that_waited_is_built(start_daemon, how):
    daemon = start_daemon()
    builder = builder_of(daemon)
    builder.build("kept", steps=[{"run": "echo kept > /opt/kept"}], warm="x = 5")
    under_way = builder.begin("interrupted", steps=[{"run": "true"}, {"run": "sleep 1000"}, {"run": "true"}])["build_id"]
    waiting = builder.begin("waiting", base="kept", steps=[{"run": "echo waited > /opt/waited"}])["build_id"]
    secretive = builder.begin("secretive", steps=[{"run": "true"}], secrets={"TOKEN": "not-kept-anywhere"})["build_id"]
    builder.wait_step(under_way, 2)
    daemon.kill() if how == "kill" else terminate(daemon)
    daemon.start()
    builder = builder_of(daemon)
    wait_until(lambda: builder.get(under_way)["status"] == "failed")
    assert builder.get(under_way)["error"] == "viald was restarted during step 2 of 3; build it again"
    assert builder.wait(waiting)["status"] == "ready"
    assert "secrets are not kept" in builder.wait(secretive)["error"]
    assert builder.client.sandboxes() == []
    sandbox = builder.client.create("waiting")
    assert out(sandbox, "cat /opt/kept /opt/waited") == "kept\nwaited\n"
    old = builder.client.create("kept")
    assert run(old, "print(x)")["stdout"] == "5\n" and old.info["boot_mode"] == "restore"
    for one in (sandbox, old):
        one.delete()
    wait_until(lambda: not list((daemon.data / "sandboxes").iterdir()))
    for name in ("waiting", "kept"):
        builder.delete(name)
    wait_until(lambda: not list((daemon.data / "layers").iterdir()) and not list((daemon.data / "templates").iterdir()))


def test_builds_wait_for_their_turn_and_more_than_may_are_refused(start_daemon):
    daemon = start_daemon("--max-builds-waiting", 2, "--max-builds-waiting-project", 1)
    builder = builder_of(daemon)
    first = builder.begin("first", steps=[{"run": "sleep 1000"}])["build_id"]
    builder.wait_step(first, 1)
    second = builder.begin("second", steps=[{"run": "sleep 1000"}])
    assert second["status"] == "pending"
    assert "wait already" in check_refusal(builder.refuse("third", steps=[{"run": "true"}]), 429)
    operator = builder.client
    operator.call("POST", "/v1/projects", {"name": "another"})
    other = Builder(daemon.client(operator.call("POST", "/v1/keys", {"name": "o", "role": "developer", "project": "another"})["key"]))
    other.begin("fourth", steps=[{"run": "true"}])
    operator.call("POST", "/v1/projects", {"name": "third"})
    last = Builder(daemon.client(operator.call("POST", "/v1/keys", {"name": "l", "role": "developer", "project": "third"})["key"]))
    refused = last.refuse("fifth", steps=[{"run": "true"}])
    check_refusal(refused, 503)
    assert int(refused.headers["Retry-After"]) > 0
    operator.call("POST", f"/v1/templates/builds/{second['build_id']}/cancel")
    assert builder.get(second["build_id"])["status"] == "failed"
    operator.call("DELETE", "/v1/projects/another")
    operator.call("POST", f"/v1/templates/builds/{first}/cancel")
    builder.wait(first)


def test_one_that_waited_longer_than_a_hundred_that_are_over_is_cancelled_and_told_of(start_daemon):
    daemon = start_daemon()
    builder = builder_of(daemon)
    client = builder.client
    running = builder.begin("running", steps=[{"run": "sleep 1000"}])["build_id"]
    oldest = builder.begin("oldest", steps=[{"run": "true"}])["build_id"]
    builder.wait_step(running, 1)
    for _ in range(100):
        client.call("POST", f"/v1/templates/builds/{builder.begin('later', steps=[{'run': 'true'}])['build_id']}/cancel")
    told = client.call("POST", f"/v1/templates/builds/{oldest}/cancel")
    assert (told["build_id"], told["status"], told["name"]) == (oldest, "failed", "oldest")
    assert builder.get(oldest)["status"] == "failed" and "cancelled by" in builder.log(oldest)[-1]["text"]
    assert len(client.call("GET", "/v1/templates/builds?status=failed")) == 100
    client.call("POST", f"/v1/templates/builds/{running}/cancel")
    builder.wait(running)


def test_a_build_with_secrets_fails_when_its_base_has_become_a_memory_while_it_waited(start_daemon):
    daemon = start_daemon()
    builder = builder_of(daemon)
    client = builder.client
    builder.build("ground", steps=[{"run": "true"}])
    running = builder.begin("running", steps=[{"run": "sleep 1000"}])["build_id"]
    waiting = builder.begin("waiting", base="ground", steps=[{"run": "echo $TOKEN"}], secrets={"TOKEN": "some-secret"})["build_id"]
    sandbox = client.create("minimal")
    sandbox.call("POST", "/template", {"name": "ground"})
    sandbox.delete()
    client.call("POST", f"/v1/templates/builds/{running}/cancel")
    build = builder.wait(waiting)
    assert build["status"] == "failed" and "memory" in build["error"] and build["step"] == 0, build
    check_refusal(client.ask("GET", "/v1/templates/waiting"), 404)


def test_a_sandbox_that_ends_before_its_build_has_it_is_not_left_behind(start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("build.created\n")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    builder = builder_of(daemon)
    build = builder.fail("none", steps=[{"run": "true"}])
    assert "cannot be used" in build["error"]
    assert database(daemon).execute("SELECT count(*) FROM sandboxes").fetchone() == (0,)
    faults.write_text("")
    builder.build("none", steps=[{"run": "true"}])


def test_a_build_on_a_disk_that_is_nearly_full_fails_with_a_sentence_and_leaves_nothing(start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    builder = builder_of(daemon)
    faults.write_text("build.space 1000\n")
    build = builder.fail("none", steps=[{"run": "true"}])
    assert "nearly full" in build["error"]
    faults.write_text("")
    begun = builder.begin("none", steps=[{"run": "echo x > /opt/x; sleep 15"}])
    builder.wait_step(begun["build_id"], 1)
    faults.write_text(f"build.space {(256 << 20) + 4096}\n")
    build = builder.wait(begun["build_id"])
    assert build["status"] == "failed" and "kept" in build["error"] and "nearly full" in build["error"], build
    wait_until(lambda: not list((daemon.data / "sandboxes").iterdir()))
    assert not list((daemon.data / "layers").iterdir()) and not list((daemon.data / "templates").glob("*"))
    faults.write_text("")
    builder.build("none", steps=[{"run": "true"}])


def test_a_snapshot_that_a_killed_build_had_no_time_to_name_is_removed(start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    builder = builder_of(daemon)
    sandbox = builder.client.create("minimal")
    made = sandbox.call("POST", "/template", {"name": "origin"})["snapshot_id"]
    sandbox.delete()
    faults.write_text("build.snapshot crash")
    build = builder.begin("upon", base="origin", steps=[{"run": "true"}])["build_id"]
    daemon.process.wait(slow(60))
    faults.write_text("")
    daemon.start()
    builder = builder_of(daemon)
    assert "restarted" in builder.wait(build)["error"]
    assert [snapshot["id"] for snapshot in builder.client.call("GET", "/v1/snapshots")] == [made] and builder.client.sandboxes() == []
    wait_until(lambda: [path.name for path in (daemon.data / "snapshots").iterdir()] == [made])
    builder.build("upon", base="origin", steps=[{"run": "true"}])
    builder.client.create("upon").delete()
