# SPDX-License-Identifier: Apache-2.0
"""The floor: runsc by itself, with the same program, checkpoint, spec, flags and namespaces that vial-shim gives it.

The flags that hold for the whole sandbox are read off a living one, so that they are the shim's whatever it comes to use. Those of the two commands are
written here: what a newer runsc offers to make a command return before its work is done is no floor, so the commands are the plain ones.
"""

import ctypes
import glob
import json
import os
import shutil
import subprocess
import tempfile
import time

from harness import RUNSC, images, timed

CHECKPOINT_FLAGS = ["--compression=none"]
RESTORE_FLAGS = []
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


def flags_of(folder):
    """What the shim gave runsc before the command: the sandbox's own process repeats it. Where it keeps its state is each one's own."""
    with open(os.path.join(folder, "runsc.pid")) as file:
        pid = file.read().strip()
    with open(f"/proc/{pid}/cmdline") as file:
        words = file.read().split("\0")[1:]
    return [word for word in words[:words.index("boot")] if not word.startswith("--root=")]


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


class Bare:
    """Made from the folder of a living sandbox, whose bundle it copies. Ends and removes what it made when it is left."""

    def __init__(self, daemon):
        folder = os.path.dirname(glob.glob(os.path.join(daemon.data, "sandboxes", "*", "runsc.pid"))[0])
        with open(os.path.join(folder, "config.json")) as file:
            self.spec = json.load(file)
        self.flags = flags_of(folder)
        # Of the template's own size: beside it lie those of others (service/edition.h).
        self.checkpoint = os.path.join(images(daemon.template), f"baked-{daemon.template}-{daemon.call('GET', f'/templates/{daemon.template}')['hash']}")
        if not os.path.isdir(self.checkpoint):
            raise RuntimeError(f"there is no checkpoint {self.checkpoint}")
        self.dir = tempfile.mkdtemp(prefix="vial-bare-")
        self.count = 0
        self.held = {}  # our ends of the pipes: without them the agent ends

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for name in list(self.held):
            self.end(name)
        shutil.rmtree(self.dir, ignore_errors=True)
        for path in glob.glob(f"/sys/fs/cgroup/*/vialbare{os.getpid()}") + glob.glob(f"/sys/fs/cgroup/vialbare{os.getpid()}"):
            remove_group(path)

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
        with open(os.path.join(bundle, "config.json"), "w") as file:
            json.dump(spec, file)
        self.held[name] = []
        return name

    def runsc(self, name, *arguments, wait=True):
        pipes = [os.pipe(), os.pipe()]
        with open(os.path.join(self.dir, "log"), "a") as log:
            process = subprocess.Popen([RUNSC, f"--root={self.dir}/root", *self.flags, *arguments], stdin=pipes[0][0], stdout=pipes[1][1],
                                       stderr=log, preexec_fn=enter(f"/run/netns/{name}"))
        self.held[name] += [pipes[0][1], pipes[1][0]]
        os.close(pipes[0][0])
        os.close(pipes[1][1])
        if wait and process.wait():
            with open(os.path.join(self.dir, "log")) as log:
                raise RuntimeError(f"bare runsc {arguments[0]} failed: {log.read()[-500:].strip()}")
        return process

    def restore(self, name, wait=True, image=None, is_created=False):
        bundle = os.path.join(self.dir, name)
        pid_file = [] if is_created else ["--pid-file", os.path.join(bundle, "pid")]
        return self.runsc(name, "restore", *RESTORE_FLAGS, "--detach", "--bundle", bundle, "--image-path", image or self.checkpoint, *pid_file, name,
                          wait=wait)

    def start(self):
        """A living guest's name."""
        name = self.prepare()
        self.restore(name)
        return name

    def checkpoint_of(self, name):
        self.count += 1
        image = os.path.join(self.dir, name, f"image{self.count}")  # runsc refuses to write over one
        self.runsc(name, "checkpoint", "--leave-running", *CHECKPOINT_FLAGS, "--image-path", image, name)
        return image

    def time_checkpoint(self, name):
        """Without what it wrote staying behind: gigabytes on their way to the disk would slow down whoever flushes next."""
        image = []
        spent = timed(lambda: image.append(self.checkpoint_of(name)))
        shutil.rmtree(image[0])
        return spent

    def execute(self, name, *argv):
        self.runsc(name, "exec", name, *(argv or ["/bin/true"]))

    def end(self, name):
        fds = self.held.pop(name)
        try:
            with open(os.path.join(self.dir, name, "pid")) as file:
                pid = int(file.read())
            os.kill(pid, 9)
            while is_running(pid):
                time.sleep(0.001)
        except (OSError, ValueError):  # it never ran
            pass
        for fd in fds:
            os.close(fd)
        shutil.rmtree(os.path.join(self.dir, name))
        subprocess.run(["ip", "netns", "del", name], check=False)
        for path in glob.glob(f"/sys/fs/cgroup/*/vialbare{os.getpid()}/{name}") + glob.glob(f"/sys/fs/cgroup/vialbare{os.getpid()}/{name}"):
            remove_group(path)

    def create(self):
        """A sandbox that only waits to be restored into, as a blank does."""
        name = self.prepare()
        bundle = os.path.join(self.dir, name)
        self.runsc(name, "create", "--bundle", bundle, "--pid-file", os.path.join(bundle, "pid"), name)
        return name

    def time_restore_into(self):
        """Of the restore alone: what a blank saves, and no more can be saved."""
        name = self.create()
        spent = timed(lambda: self.restore(name, is_created=True))
        self.end(name)
        return spent

    def time_restore(self, image=None):
        name = self.prepare()
        spent = timed(lambda: self.restore(name, image=image))
        self.end(name)
        return spent
