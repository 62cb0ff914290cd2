# SPDX-License-Identifier: Apache-2.0
"""The floor: runsc by itself, with the same checkpoint, spec, flags and namespaces that vial-shim gives it."""

import ctypes
import glob
import json
import os
import shutil
import subprocess
import tempfile
import time

from harness import IMAGES, timed

FLAGS = ["--network=sandbox", "--platform=systrap", "--overlay2=none", "--host-uds=none", "--net-raw", "--net-disconnect-ok"]
CLONE_NEWNET, CLONE_NEWNS, MS_PRIVATE_REC = 0x40000000, 0x00020000, (1 << 18) | (1 << 14)
libc = ctypes.CDLL(None, use_errno=True)


def enter(netns):
    """As shim/runsc.c does before it starts runsc."""

    def prepare():
        fd = os.open(netns, os.O_RDONLY)
        if libc.setns(fd, CLONE_NEWNET) or libc.unshare(CLONE_NEWNS):
            os._exit(125)
        libc.mount(None, b"/", None, MS_PRIVATE_REC, None)
        libc.mount(b"none", b"/proc/sys/net/core", b"tmpfs", 0, None)

    return prepare


def make_netns(name):
    """One per sandbox, as viald has it: runsc takes the addresses of what it finds there for itself."""
    for command in (f"ip netns add {name}", f"ip -n {name} link set lo up", f"ip -n {name} link add eth0 type veth peer name eth1",
                    f"ip -n {name} addr add 192.0.0.2/30 dev eth0", f"ip -n {name} addr add fd76:6961:6c00::2/64 dev eth0 nodad",
                    f"ip -n {name} link set eth0 up", f"ip -n {name} link set eth1 up", f"ip -n {name} route add default via 192.0.0.1"):
        subprocess.run(command.split(), check=True)


def remove_group(path):
    for _ in range(200):
        try:
            return os.rmdir(path)
        except OSError:
            time.sleep(0.01)


class Bare:
    """Made from the folder of a living sandbox, whose bundle it copies."""

    def __init__(self, daemon, template):
        self.dir = tempfile.mkdtemp(prefix="vial-bare-")
        folder = glob.glob(os.path.join(daemon.data, "sandboxes", "*", "config.json"))[0]
        self.spec = json.load(open(folder))
        (self.checkpoint,) = glob.glob(os.path.join(IMAGES, f"baked-{template}-*"))
        self.count = 0
        self.held = {}  # our ends of the pipes: without them the agent ends

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)
        for path in glob.glob(f"/sys/fs/cgroup/*/vialbare{os.getpid()}") + glob.glob(f"/sys/fs/cgroup/vialbare{os.getpid()}"):
            os.rmdir(path)

    def prepare(self):
        """A bundle of its own, so that what is timed is runsc alone."""
        self.count += 1
        name = f"bare{os.getpid()}x{self.count:04}"  # of one length: runsc takes a unique prefix for the whole
        bundle = os.path.join(self.dir, name)
        os.mkdir(bundle)
        make_netns(name)
        spec = dict(self.spec, linux=dict(self.spec["linux"], cgroupsPath=f"/vialbare{os.getpid()}/{name}"))
        spec["linux"]["namespaces"] = [{"type": t} for t in ("pid", "ipc", "uts", "mount")]
        spec["linux"]["namespaces"].append({"type": "network", "path": f"/run/netns/{name}"})
        json.dump(spec, open(os.path.join(bundle, "config.json"), "w"))
        return name

    def runsc(self, name, *arguments, wait=True):
        pipes = [os.pipe(), os.pipe()]
        process = subprocess.Popen(["runsc", f"--root={self.dir}/root", *FLAGS, *arguments], stdin=pipes[0][0], stdout=pipes[1][1],
                                   stderr=open(os.path.join(self.dir, "log"), "a"), preexec_fn=enter(f"/run/netns/{name}"))
        self.held.setdefault(name, []).extend([pipes[0][1], pipes[1][0]])
        os.close(pipes[0][0])
        os.close(pipes[1][1])
        if wait and process.wait():
            raise RuntimeError("runsc failed: " + open(os.path.join(self.dir, "log")).read()[-500:])
        return process

    def restore(self, name, wait=True, image=None):
        return self.runsc(name, "restore", "--detach", "--bundle", os.path.join(self.dir, name), "--image-path", image or self.checkpoint,
                          "--pid-file", os.path.join(self.dir, name, "pid"), name, wait=wait)

    def checkpoint_of(self, name):
        self.count += 1
        image = os.path.join(self.dir, name, f"image{self.count}")  # runsc refuses to write over one
        self.runsc(name, "checkpoint", "--leave-running", "--compression=none", "--image-path", image, name)
        return image

    def execute(self, name):
        self.runsc(name, "exec", name, "/bin/true")

    def end(self, name):
        pid = int(open(os.path.join(self.dir, name, "pid")).read())
        os.kill(pid, 9)
        for fd in self.held.pop(name):
            os.close(fd)
        while os.path.exists(f"/proc/{pid}") and open(f"/proc/{pid}/stat").read().split(")")[1].split()[0] != "Z":
            pass
        shutil.rmtree(os.path.join(self.dir, name))
        subprocess.run(["ip", "netns", "del", name])
        for path in glob.glob(f"/sys/fs/cgroup/*/vialbare{os.getpid()}/{name}") + glob.glob(f"/sys/fs/cgroup/vialbare{os.getpid()}/{name}"):
            remove_group(path)

    def time_restore(self):
        name = self.prepare()
        spent = timed(lambda: self.restore(name))
        self.end(name)
        return spent
