# SPDX-License-Identifier: Apache-2.0
"""A viald with engine=microvm inside the lab: images of its own (the template `minimal`, small), and patience for an emulated processor."""
import json
import os
import subprocess
import sys
from pathlib import Path

from patience import stretched

ROOT = Path(__file__).resolve().parents[2]
# All stretched. viald takes up to 100 for the first; the last is longer than anything takes here: what hangs is a failure of its test, not of the suite.
TIME_SCALE, TEST_SLOWNESS, REQUEST_SECONDS = 8, 10, 200


def prepare(build, data, folder):
    """An images folder in scratch space, and the environment in which tests/api starts its vialds as microVM ones."""
    images = Path(folder)
    images.mkdir(parents=True, exist_ok=True)
    image = json.loads(Path(data, "images/minimal.json").read_text())
    image.update(cpu=1, memory_mb=384, disk_mb=1024, process_limit=512)
    (images / "minimal.json").write_text(json.dumps(image))
    kernel = images / "guest-kernel"
    if not kernel.is_symlink():
        kernel.symlink_to(Path(data, "images/guest-kernel").resolve())
    return {"VIAL_BUILD_DIR": str(build), "VIAL_BUILD": str(build), "VIAL_TEST_IMAGES": str(images), "VIAL_ENGINE": "microvm",
            "VIAL_TEST_SLOWNESS": f"{stretched(TEST_SLOWNESS):.1f}", "VIAL_TIME_SCALE": str(min(100, round(stretched(TIME_SCALE))))}


def load(environment):
    """tests/api/vial.py, for this environment, with clients that wait long enough."""
    os.environ.update(environment)
    sys.path.insert(0, str(ROOT / "tests/api"))
    import vial  # pylint: disable=import-outside-toplevel
    vial.Client.__init__.__defaults__ = (stretched(REQUEST_SECONDS),)
    return vial
