# SPDX-License-Identifier: Apache-2.0
"""An image that is rebuilt under a running viald: the new one is baked and takes over, the old one's sandboxes go on."""

import json
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from test_states import value, wait_for
from vial import Daemon, images_dir


class Images:
    """An images folder of one's own with variants of `minimal`: its files by hard links, beside one that tells them apart."""

    def __init__(self):
        # Beside the real images: hard links do not cross file systems.
        self.path = Path(tempfile.mkdtemp(prefix="variants-", dir=images_dir().parent))
        self.path.chmod(0o711)
        self.record = json.loads((images_dir() / "minimal.json").read_text())

    def put(self, variant, **fields):
        """As scripts/build-image does: files first, then the record in one step."""
        root = self.path / f"minimal-{variant}" / "rootfs"
        if not root.exists():
            root.parent.mkdir(mode=0o755)
            subprocess.run(["cp", "-al", self.record["rootfs"], root], check=True)
            (root / "etc/variant").write_text(variant + "\n")
        self.write(json.dumps({**self.record, "hash": variant, "rootfs": str(root), **fields}))

    def write(self, text, name="minimal"):
        temporary = self.path / f".{name}.tmp"
        temporary.write_text(text)
        temporary.rename(self.path / f"{name}.json")

    def remove(self):
        shutil.rmtree(self.path)


@pytest.fixture(scope="module")
def images():
    images = Images()
    yield images
    images.remove()


@pytest.fixture(scope="module")
def daemon(images, folder):
    images.put("one")
    daemon = Daemon(folder, "--images-dir", images.path, "--pool-size", 1)
    yield daemon
    daemon.stop()


def template(daemon):
    return daemon.client().call("GET", "/v1/templates/minimal")


def pool(daemon):
    return daemon.client().call("GET", "/v1/me").get("pool", {}).get("minimal", {})


def wait_for_pool(daemon):
    wait_for(lambda: pool(daemon).get("ready", 0) >= 1 and pool(daemon).get("blank", 0) >= 1, 120)


def replace(daemon, images, variant, **fields):
    old = template(daemon)["hash"]
    images.put(variant, **fields)
    wait_for(lambda: template(daemon)["hash"] != old, 120)
    assert template(daemon)["ready"]


def variant(sandbox):
    return sandbox.exec("cat /etc/variant")["stdout"].strip()


def hosts(daemon):
    return {path.name for path in (daemon.data / "sandboxes").iterdir()}


def test_a_rebuilt_image_replaces_pool_and_blanks_and_leaves_the_old_one_s_sandboxes_alone(daemon, images):
    client = daemon.client()
    wait_for_pool(daemon)
    old = client.create()
    assert variant(old) == "one" and old.info["boot_mode"] == "pool"
    value(old, "(x := 41)")
    snapshot = old.call("POST", "/snapshots", {"name": "of-one"})
    wait_for_pool(daemon)
    waiting = hosts(daemon)
    replace(daemon, images, "two", summary="the second")
    assert template(daemon)["description"] == "the second"
    # At once, not only when the pool is full again.
    assert variant(first := client.create()) == "two"
    wait_for_pool(daemon)
    wait_for(lambda: len(hosts(daemon) & waiting) == 1)  # the old pooled guest and blank are gone, the old sandbox is not
    assert variant(pooled := client.create()) == "two" and pooled.info["boot_mode"] == "pool"
    # The old one's sandbox lives through everything, and so does its snapshot.
    assert value(old, "x + 1") == "42" and variant(old) == "one"
    old.call("POST", "/hibernate")
    assert value(old, "x + 1") == "42" and variant(old) == "one"
    child = client.call("GET", f"/v1/sandboxes/{old.call('POST', '/fork', {})['sandbox']['id']}")
    born = client.create(template=None, from_snapshot=snapshot["id"])
    assert value(born, "x + 1") == "42" and variant(born) == "one"
    daemon.kill()
    daemon.start()
    for one, expected in ((old, "one"), (born, "one"), (first, "two"), (pooled, "two")):
        one.client = daemon.client()
        assert variant(one) == expected
        one.delete()
    daemon.client().ask("DELETE", f"/v1/sandboxes/{child['id']}")
    daemon.client().ask("DELETE", f"/v1/snapshots/{snapshot['id']}")


def test_what_is_only_said_of_an_image_changes_without_baking(daemon, images):
    wait_for_pool(daemon)
    images.put("two", summary="said again", aliases=["tiny"])
    wait_for(lambda: template(daemon)["description"] == "said again", 30)
    assert daemon.client().call("GET", "/v1/templates/tiny")["name"] == "minimal"
    images.put("two", memory_mb=768)
    wait_for(lambda: template(daemon)["memory_mb"] == 768, 30)
    wait_for_pool(daemon)
    sandbox = daemon.client().create()
    assert sandbox.info["memory_mb"] == 768 and "786432 kB" in sandbox.exec("head -1 /proc/meminfo")["stdout"]
    sandbox.delete()


def test_an_image_that_is_no_good_replaces_nothing(daemon, images):
    images.put("two")
    wait_for(lambda: template(daemon)["memory_mb"] != 768, 30)
    good = template(daemon)
    images.write("{ half a rec")
    wait_for(lambda: "an image was passed over" in daemon.log_text(), 30)
    broken = images.path / "minimal-broken" / "rootfs"
    broken.mkdir(parents=True)
    images.write(json.dumps({**images.record, "hash": "broken", "rootfs": str(broken)}))
    wait_for(lambda: "baking failed" in daemon.log_text(), 120)
    assert template(daemon) == good
    assert variant(sandbox := daemon.client().create()) == "two"
    sandbox.delete()
    # And the next good one, baked before, does.
    bakes = daemon.log_text().count("minimal: baking")
    replace(daemon, images, "one")
    assert variant(sandbox := daemon.client().create()) == "one" and daemon.log_text().count("minimal: baking") == bakes
    sandbox.delete()


def test_a_new_image_is_found_and_a_stop_in_the_middle_of_its_bake_leaves_nothing(daemon, images):
    other = {**images.record, "name": "other", "aliases": [], "hash": "one", "rootfs": str(images.path / "minimal-one/rootfs")}
    images.write(json.dumps(other), "other")
    wait_for(lambda: daemon.client().ask("GET", "/v1/templates/other").status == 200, 120)
    sandbox = daemon.client().create(template="other")
    assert variant(sandbox) == "one" and sandbox.info["template"] == "other"
    sandbox.delete()
    images.put("four")
    wait_for(lambda: [name for name in os.listdir(images.path) if name.startswith("baking-")] or len(hosts(daemon)) > 4 or template(daemon)["hash"] == "four", 60)
    daemon.stop()
    daemon.start()
    wait_for(lambda: template(daemon)["ready"], 120)
    assert variant(sandbox := daemon.client().create()) == "four"
    sandbox.delete()


def test_two_that_bake_the_same_image_beside_each_other_both_have_it(folder):
    """Images may be shared. Whoever is second takes what the first has baked, and does not go on without."""
    images = Images()
    daemons = []
    try:
        images.put("one")
        folders = [folder / "left", folder / "right"]
        for own in folders:
            own.mkdir(mode=0o755)
        with ThreadPoolExecutor(2) as threads:
            daemons += threads.map(lambda own: Daemon(own, "--images-dir", images.path, "--pool-size", 0), folders)
        for daemon in daemons:
            wait_for(lambda: "Vial is ready" in daemon.log_text(), 120)
            assert "minimal: baking" in daemon.log_text(), "they did not start beside each other"
            assert template(daemon)["ready"], daemon.log_text()[-2000:]
            assert daemon.client().create().info["boot_mode"] == "restore"
        assert not [name for name in os.listdir(images.path) if name.startswith("baking-")]
    finally:
        for daemon in daemons:
            daemon.stop()
        images.remove()
