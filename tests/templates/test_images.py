# SPDX-License-Identifier: Apache-2.0
"""Templates of a project's own beside images that the operator changes under them."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

from builds import Builder
from tools import out, wait_until
from vial import Daemon

LIFE = Path(__file__).parent.parent / "life"
sys.path.insert(0, str(LIFE))
_spec = importlib.util.spec_from_file_location("life_templates", LIFE / "test_templates.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)


@pytest.fixture(scope="module")
def images():
    images = _module.Images()
    yield images
    images.remove()


@pytest.fixture(scope="module")
def daemon(images, folder):
    images.put("one")
    daemon = Daemon(folder, "--images-dir", images.path)
    yield daemon
    daemon.stop()


def image(client, name="minimal"):
    return next((template for template in client.call("GET", "/v1/templates") if template["name"] == name and template["is_global"]), {"hash": None})["hash"]


def test_a_rebuilt_image_makes_what_was_built_on_it_stale_and_a_rebuild_takes_the_new_one(daemon, images):
    builder = Builder(daemon.client())
    builder.build("upon", steps=[{"run": "cp /etc/variant /opt/seen"}])
    old = image(builder.client)
    images.put("two")
    wait_until(lambda: image(builder.client) not in (old, None), 60)
    assert builder.template("upon")["stale"] is True
    sandbox = builder.client.create("upon")
    assert out(sandbox, "cat /opt/seen /etc/variant") == "one\none\n"
    sandbox.delete()
    rebuilt = builder.wait(builder.client.call("POST", "/v1/templates/upon/rebuild", {})["build_id"])
    assert rebuilt["status"] == "ready" and not rebuilt["cached"] and builder.template("upon")["stale"] is False
    sandbox = builder.client.create("upon")
    assert out(sandbox, "cat /opt/seen /etc/variant") == "two\ntwo\n"
    sandbox.delete()


def test_an_image_that_comes_later_with_a_projects_name_does_not_take_its_place(daemon, images):
    builder = Builder(daemon.client())
    builder.build("later", steps=[{"run": "echo mine > /opt/whose"}])
    images.write(json.dumps({**json.loads((images.path / "minimal.json").read_text()), "name": "later"}), "later")
    wait_until(lambda: image(builder.client, "later"), 60)
    sandbox = builder.client.create("later")
    assert out(sandbox, "cat /opt/whose") == "mine\n"
    sandbox.delete()
    builder.delete("later")
    sandbox = builder.client.create("later")
    assert out(sandbox, "ls /opt/whose 2>/dev/null | wc -l") == "0\n"
    sandbox.delete()
