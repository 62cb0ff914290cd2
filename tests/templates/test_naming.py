# SPDX-License-Identifier: Apache-2.0
"""The moment in which a template is recorded, and takes its name: its build can neither be cancelled any more nor be told to have failed."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from builds import Builder
from tools import check_refusal, database, out, records, run, slow, wait_until


@contextmanager
def held(daemon):
    """Nothing can be recorded meanwhile; viald waits five seconds for that."""
    db = database(daemon, "rw")
    db.isolation_level = None
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        db.execute("ROLLBACK")
        db.close()


def is_being_named(builder, build):
    return any(entry["text"] == "taking its name" for entry in builder.log(build))


def test_a_build_cannot_be_cancelled_any_more_and_its_base_may_be_deleted(start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    builder = Builder(daemon.client())
    client = builder.client
    builder.build("ground", steps=[{"run": "echo ground > /opt/ground"}])
    faults.write_text("manifest.wait 1\n")  # it is not baked before nothing can be recorded
    build = builder.begin("child", base="ground", steps=[{"run": "cp /opt/ground /opt/child"}])["build_id"]
    wait_until(lambda: list((daemon.data / "templates" / build).glob("baking-*")), 60)
    with ThreadPoolExecutor(1) as pool, held(daemon):
        faults.write_text("")
        wait_until(lambda: is_being_named(builder, build), interval=0.005)
        assert "its name" in check_refusal(client.ask("POST", f"/v1/templates/builds/{build}/cancel"), 409)
        deletion = pool.submit(client.ask, "DELETE", "/v1/templates/ground")
        wait_until(lambda: client.ask("GET", "/v1/templates/ground").status == 404, interval=0.005)
        assert builder.get(build)["status"] == "building"
    assert deletion.result().status < 300
    assert builder.wait(build)["status"] == "ready"
    sandbox = client.create("child")
    assert out(sandbox, "cat /opt/ground /opt/child") == "ground\nground\n"
    sandbox.delete()
    builder.delete("child")


@pytest.mark.parametrize("base", ["minimal", "origin"], ids=["of files", "with a memory"])
def test_a_build_whose_viald_was_killed_after_its_template_was_recorded_is_ready(start_daemon, tmp_path, base):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    builder = Builder(daemon.client())
    if base == "origin":
        sandbox = builder.client.create("minimal")
        sandbox.call("POST", "/template", {"name": "origin"})
        sandbox.delete()
    faults.write_text("build.named crash")
    build = builder.begin("made", base=base, steps=[{"run": "echo made > /opt/made"}], warm="x = 41")["build_id"]
    daemon.process.wait(slow(60))
    faults.write_text("")
    daemon.start()
    builder = Builder(daemon.client())
    after = builder.wait(build)
    assert after["status"] == "ready" and after["template_id"] == build == builder.template("made")["template_id"], after
    assert [record["action"] for record in records(builder.client) if record.get("body", {}).get("build") == build] == ["template.build", "template.ready"]
    wait_until(lambda: builder.template("made")["status"] == "ready" and builder.client.sandboxes() == [])
    sandbox = builder.client.create("made")
    assert run(sandbox, "print(x + 1)")["stdout"] == "42\n" and out(sandbox, "cat /opt/made") == "made\n"
    sandbox.delete()
