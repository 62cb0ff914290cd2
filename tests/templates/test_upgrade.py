# SPDX-License-Identifier: Apache-2.0
"""A viald that has images to bake before it goes on with the builds of the one before: it answers meanwhile, for minutes after an upgrade."""

import importlib.util
import re
import shutil
import sys
from pathlib import Path

import pytest

from builds import Builder
from tools import check_refusal, database, wait_until

LIFE = Path(__file__).parent.parent / "life"
sys.path.insert(0, str(LIFE))
_spec = importlib.util.spec_from_file_location("life_templates", LIFE / "test_templates.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


@pytest.fixture
def images():
    images = _module.Images()
    images.put("one")
    yield images
    images.remove()


@pytest.fixture
def faults(tmp_path):
    """As long as it says "manifest.wait 1", nothing is baked to its end."""
    path = tmp_path / "faults"
    path.write_text("")
    return path


def is_baking(daemon, starts):
    return daemon.log_text().count("Vial is ready") < starts


def test_builds_of_the_one_before_can_be_followed_and_cancelled_while_images_are_baked(images, start_daemon, faults):
    daemon = start_daemon("--images-dir", images.path, env={"VIAL_FAULTS": str(faults)})
    builder = Builder(daemon.client())
    under_way = builder.begin("interrupted", steps=[{"run": "true"}, {"run": "sleep 1000"}])["build_id"]
    cancelled, waiting = (builder.begin(name, steps=[{"run": "true"}])["build_id"] for name in ("cancelled", "waiting"))
    builder.wait_step(under_way, 2)
    daemon.kill()
    images.put("two")
    faults.write_text("manifest.wait 1\n")
    daemon.start()
    client = daemon.client()
    builder = Builder(client)
    reader = client.open("GET", f"/v1/templates/builds/{cancelled}/logs?follow=1")
    assert b"queued" in reader.readline()
    assert "cancelled by" in client.call("POST", f"/v1/templates/builds/{cancelled}/cancel")["error"]
    assert b"cancelled by" in reader.read(), "who follows hears of it"
    reader.connection.close()
    assert client.call("POST", f"/v1/templates/builds/{under_way}/cancel")["status"] == "building"
    assert builder.get(waiting)["status"] == "pending" and is_baking(daemon, 2)
    faults.write_text("")
    wait_until(lambda: not is_baking(daemon, 2), 120)
    assert "cancelled by" in builder.wait(under_way)["error"] and builder.get(under_way)["step"] == 2
    assert builder.wait(waiting)["status"] == "ready"
    wait_until(lambda: client.sandboxes() == [])


def test_a_project_whose_end_was_cut_short_takes_its_builds_with_it_while_images_are_baked(images, start_daemon, faults):
    daemon = start_daemon("--images-dir", images.path, env={"VIAL_FAULTS": str(faults)})
    operator = daemon.client()
    operator.call("POST", "/v1/projects", {"name": "ending"})
    builder = Builder(daemon.client(operator.call("POST", "/v1/keys", {"name": "e", "role": "developer", "project": "ending"})["key"]))
    under_way = builder.begin("interrupted", steps=[{"run": "sleep 1000"}])["build_id"]
    builder.begin("waiting", steps=[{"run": "true"}])
    builder.wait_step(under_way, 1)
    daemon.kill()
    with database(daemon, "rw") as db:  # as if it had been killed right after the request
        db.execute("UPDATE projects SET state = 'deleting' WHERE id = 'ending'")
    images.put("two")
    faults.write_text("manifest.wait 1\n")
    daemon.start()
    assert daemon.alive() and is_baking(daemon, 2)
    faults.write_text("")
    wait_until(lambda: not database(daemon).execute("SELECT 1 FROM builds WHERE project = 'ending'").fetchall(), 120)
    wait_until(lambda: database(daemon).execute("SELECT state FROM projects WHERE id = 'ending'").fetchall() == [("deleted",)], 60)
    assert daemon.alive() and not list((daemon.data / "builds").iterdir())


def test_a_template_that_is_deleted_while_it_is_baked_again_leaves_nothing(start_daemon, faults):
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    builder = Builder(daemon.client())
    home = daemon.data / "templates" / builder.build("again", steps=[{"run": "true"}])["build_id"]
    daemon.stop()
    (checkpoint,) = home.glob("baked-*")
    shutil.rmtree(checkpoint)  # as if it were of an older gVisor
    faults.write_text("manifest.wait 1\n")
    daemon.start()
    builder = Builder(daemon.client())
    wait_until(lambda: list(home.glob("baking-*")), 60)
    builder.delete("again")
    bakes = re.compile("again: (?:not )?baked")  # it ends either way, as its folder goes before or after its last step
    began = len(bakes.findall(daemon.log_text()))
    faults.write_text("")
    wait_until(lambda: len(bakes.findall(daemon.log_text())) > began, 60)
    wait_until(lambda: not list(home.parent.iterdir()))
    check_refusal(builder.client.ask("GET", "/v1/templates/again"), 404)
