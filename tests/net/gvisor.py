# SPDX-License-Identifier: Apache-2.0
"""A plain runsc sandbox in a slot, the way vial-shim starts one, for tests of src/net/ without viald."""
import glob
import json
import os
import shutil
import subprocess
import tempfile
import time

from backend import Sandbox

IMAGES = os.environ.get("VIAL_IMAGES_DIR", "/var/lib/vial-test/images")

# runsc 20240729 takes a namespace with /proc/sys/net/core/rmem_default for the host's own and refuses to use it.
ENTER = "mount -t tmpfs none /proc/sys/net/core && exec \"$@\""
CAPABILITIES = ["CAP_SYS_ADMIN", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_KILL",
                "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_NET_BIND_SERVICE"]


def missing():
    """Why these tests cannot run here, or None."""
    if not shutil.which(os.environ.get("VIAL_RUNSC", "runsc")):
        return "runsc is not installed"
    return None if rootfs() else f"no image in {IMAGES} (scripts/build-image minimal)"


def rootfs():
    try:
        return json.load(open(os.path.join(IMAGES, "minimal.json")))["rootfs"]
    except (OSError, KeyError, ValueError):
        return next(iter(sorted(glob.glob(os.path.join(IMAGES, "*", "rootfs")))), None)


def spec(netns, resolv_conf, init):
    return {
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 0, "gid": 0}, "args": init, "cwd": "/",
                    "env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"],
                    "capabilities": {k: CAPABILITIES for k in ("bounding", "effective", "permitted", "inheritable")}},
        "root": {"path": rootfs(), "readonly": True},
        "hostname": "vial",
        "mounts": [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
                   {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
                   {"destination": "/etc/resolv.conf", "type": "bind", "source": resolv_conf, "options": ["ro"]}],
        "linux": {"namespaces": [{"type": t} for t in ("pid", "ipc", "uts", "mount")] + [{"type": "network", "path": netns}]},
    }


class Gvisor(Sandbox):
    """`slot` is a DriverSandbox, which stays the caller's; image_path restores instead of starting."""

    def __init__(self, slot, image_path=None, init=("sleep", "1000000")):
        self.slot = slot
        self.dir = tempfile.mkdtemp(prefix="vial-gvisor-")
        self.id = "s" + os.path.basename(self.dir).replace("_", "x").lower()
        with open(os.path.join(self.dir, "config.json"), "w") as f:
            json.dump(spec(slot.netns, slot.backend.resolv_conf, list(init)), f)
        start = ["restore", "-detach", "-bundle", self.dir, "-image-path", image_path] if image_path else ["create", "-bundle", self.dir]
        self.runsc(*start, self.id)
        if not image_path:
            self.runsc("start", self.id)

    def argv(self, *argv):
        # -net-raw: packet and raw sockets for the guest's root, so that escapes can be tried. -net-disconnect-ok: without it
        # runsc refuses to checkpoint a sandbox that has a TCP connection to the outside; with it the connections end.
        return ["nsenter", f"--net={self.slot.netns}", "unshare", "-m", "sh", "-c", ENTER, "sh", os.environ.get("VIAL_RUNSC", "runsc"), "--root", self.dir + "/root",
                "--ignore-cgroups", "--network=sandbox", "--net-raw", "--net-disconnect-ok", "--platform=systrap", *argv]

    def runsc(self, *argv, check=True):
        # Not a pipe that the sandbox would inherit and hold open.
        with open(os.path.join(self.dir, "log"), "w") as log:
            done = subprocess.run(self.argv(*argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=60)
        if check and done.returncode:
            raise RuntimeError(open(os.path.join(self.dir, "log")).read())

    def run(self, argv, timeout=90):
        return subprocess.run(self.argv("exec", self.id, *argv), text=True, capture_output=True, timeout=timeout)

    def popen(self, argv, **kw):
        return subprocess.Popen(self.argv("exec", self.id, *argv), text=True, **kw)

    def checkpoint(self, path):
        self.runsc("checkpoint", "-leave-running", "-image-path", path, self.id)

    def close(self):
        self.runsc("kill", self.id, "KILL", check=False)
        for _ in range(50):
            self.runsc("delete", "-force", self.id, check=False)
            if not os.path.exists(os.path.join(self.dir, "root", f"{self.id}_sandbox:{self.id}.state")):
                break
            time.sleep(0.1)
        shutil.rmtree(self.dir, ignore_errors=True)
