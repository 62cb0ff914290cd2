# SPDX-License-Identifier: Apache-2.0
"""
The real vial-vmm from outside, with its jail, on this machine's /dev/kvm: a guest of five instructions instead of a kernel, so that it also runs where
only a paravirtual KVM exists. Guests with a kernel are the lab's (tests/lab).
"""
import json
import os
import re
import signal
import subprocess
import struct
import sys
import time

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "lab"))
from wire import HOST, OPEN, Connection, Gone, Vmm, listener, unnamed  # noqa: E402

PROGRAM = os.path.join(os.environ.get("VIAL_BUILD", os.path.join(ROOT, "build")), "vial-vmm")
PREFIX = f"/tmp/vmm-{os.getpid()}-"
# 1: inc %rbx; mov %rbx, 0x300000; out %al, $0x80; jmp 1b
COUNT = bytes.fromhex("4831db 48ffc3 48891c2500003000 e680 ebf1")


def kvm_works():
    try:
        os.close(os.open("/dev/kvm", os.O_RDWR))
    except OSError as error:
        return f"/dev/kvm: {error.strerror}"
    return "needs root" if os.geteuid() else None


pytestmark = pytest.mark.skipif(kvm_works() is not None, reason=kvm_works() or "")


def kernel(path):
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0x200000, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(header + struct.pack("<IIQQQQQQ", 1, 5, 120, 0, 0x200000, len(COUNT), 4096, 4096) + COUNT)
    return path


@pytest.fixture(autouse=True)
def nothing_is_left():
    """Whatever a test forgot, forks too, is gone before the next one."""
    yield
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                arguments = file.read().split(b"\0")
            if arguments[0] == PROGRAM.encode() and any(part.startswith(PREFIX.encode()) for part in arguments):
                os.kill(int(pid), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            pass


@pytest.fixture
def directory(tmp_path):
    path = PREFIX + str(time.monotonic_ns())  # short: socket names have 108 bytes
    os.mkdir(path, 0o700)
    yield path
    subprocess.run(["rm", "-rf", path])


@pytest.fixture
def machine(directory):
    vmm = Vmm(PROGRAM, directory, "m")
    wire = vmm.connect()
    base = os.path.join(directory, "disk")
    with open(base, "wb") as file:
        file.truncate(1 << 20)
    config = {"kernel": kernel(os.path.join(directory, "kernel")), "memory_mb": 64, "overlay_dir": directory,
              "disks": [{"image": base, "writable": True}]}
    answer = wire.host("start", **config)
    assert answer["ok"], answer
    yield vmm, wire, config
    if vmm.process.poll() is None:
        vmm.process.kill()
    vmm.process.wait()


def exits(wire):
    return wire.host("stats")["exits"]


def runs(wire):
    """Whether the guest gets on; a busy machine may not give it a processor at once."""
    before, deadline = exits(wire), time.monotonic() + 60
    while exits(wire) <= before:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def test_the_first_frame_is_the_state(directory):
    vmm = Vmm(PROGRAM, directory, "m")
    wire = vmm.connect()
    assert wire.state("new")["engine"] == "microvm"
    assert wire.host("create")["ok"]
    assert wire.host("pause") == {"tag": 2, "ok": False, "error": "there is no machine running"}
    assert "no such operation" in wire.host("dance")["error"]
    assert wire.host("stop")["ok"]
    assert vmm.process.wait(60) == 0


def test_a_start_that_cannot_work_says_why(directory):
    cases = [({}, "kernel or a snapshot"), ({"kernel": "/nonexistent"}, "cannot be read"), ({"kernel": "/bin/true"}, "cannot be loaded"),
             ({"kernel": "x", "vcpus": 9}, "vcpus"), ({"kernel": "x", "memory_mb": 3}, "memory_mb"),
             ({"kernel": "x", "disks": [{"image": "y", "writable": True}]}, "overlay_dir")]
    for i, (config, expected) in enumerate(cases):
        vmm = Vmm(PROGRAM, directory, f"m{i}")
        answer = vmm.connect().host("start", **config)
        assert not answer["ok"] and expected in answer["error"], answer
        vmm.process.kill()
        vmm.process.wait()


def test_it_runs_pauses_and_stops(machine):
    vmm, wire, _ = machine
    assert wire.state("running")["pid"] == vmm.process.pid
    assert runs(wire)
    assert wire.host("pause")["ok"] and wire.state("paused")
    before = exits(wire)
    time.sleep(0.2)
    assert exits(wire) == before
    assert wire.host("resume")["ok"]
    assert wire.host("stop")["ok"]
    assert vmm.process.wait(60) == 0


def test_the_process_is_jailed(machine):
    vmm, wire, _ = machine
    pid = vmm.process.pid
    with open(f"/proc/{pid}/status") as file:
        status = file.read()
    for line in (r"Uid:\s70001\s70001\s70001\s70001", r"Gid:\s70001\s70001\s70001\s70001", r"Groups:\s*$", r"CapEff:\s0+$", r"CapPrm:\s0+$", r"CapBnd:\s0+$",
                 r"NoNewPrivs:\s1", r"Seccomp:\s2"):
        assert re.search(line, status, re.MULTILINE), line
    assert os.listdir(f"/proc/{pid}/root") == []
    # Control, one vCPU, devices; newer kernels add a worker of KVM's own.
    assert len(os.listdir(f"/proc/{pid}/task")) >= 3
    with open(f"/proc/{pid}/limits") as file:
        assert re.search(r"Max core file size\s+0 ", file.read())


def test_a_new_viald_replaces_the_old_and_disturbs_nothing(machine):
    vmm, wire, _ = machine
    first = wire.state("running")
    wire.socket.sendall(b"\x05\x00\x00")  # a frame that never ends
    second = Connection(vmm.path)
    assert second.state("running")["epoch"] == first["epoch"] + 1
    with pytest.raises((Gone, ConnectionError)):
        wire.host("stats")
    second.close()
    third = Connection(vmm.path)
    assert third.state("running")["epoch"] == first["epoch"] + 2
    assert runs(third)


def test_rubbish_from_viald_ends_only_the_connection(machine):
    vmm, wire, _ = machine
    wire.socket.sendall(b"\xff" * 100)
    with pytest.raises((Gone, ConnectionError)):
        wire.host("stats")
    other = Connection(vmm.path)
    other.send(HOST, OPEN, b"not json")
    other.send(HOST, OPEN, b"[1,2]")
    assert runs(other)


def test_snapshot_and_restore(machine, directory):
    vmm, wire, config = machine
    paths = [os.path.join(directory, name) for name in ("state", "memory", "layer")]
    fds = [os.open(path, os.O_RDWR | os.O_CREAT, 0o600) for path in paths]
    assert "descriptors" in wire.host("snapshot", fds=fds[:1])["error"]
    answer = wire.host("checkpoint", fds=fds + [unnamed(directory)], leave_running=True)
    assert answer["ok"] and answer["memory_bytes"] > 0, answer
    assert runs(wire), "the original goes on"
    for i in range(2):
        copy = Vmm(PROGRAM, directory, f"r{i}")
        other = copy.connect()
        restore = {"state": paths[0], "memory": paths[1]}
        disks = [{"image": config["disks"][0]["image"], "writable": True, "layer": paths[2]}]
        answer = other.host("start", memory_mb=64, overlay_dir=directory, disks=disks, restore=restore)
        assert answer["ok"], answer
        assert runs(other)
        assert other.host("stop")["ok"] and copy.process.wait(60) == 0
    # Of another shape, or damaged: refused.
    for wrong in ({"memory_mb": 32}, {"vcpus": 2}):
        copy = Vmm(PROGRAM, directory, "w" + next(iter(wrong)))
        answer = copy.connect().host("start", **{"memory_mb": 64, "overlay_dir": directory, "disks": disks, "restore": restore, **wrong})
        assert not answer["ok"] and "shape" in answer["error"], answer
        copy.process.wait(60)


def test_forks_run_and_outlive_their_parent(machine, directory):
    vmm, wire, _ = machine
    assert "count" in wire.host("fork", count=2)["error"]
    servers = [listener(os.path.join(directory, f"c{i}.sock")) for i in range(4)]
    fds = [unnamed(directory)]
    for server in servers:
        fds += [server.fileno(), unnamed(directory)]
    answer = wire.host("fork", fds=fds, count=4)
    assert answer["ok"] and len(set(answer["pids"])) == 4, answer
    children = [Connection(os.path.join(directory, f"c{i}.sock")) for i in range(4)]
    assert [child.state("running")["pid"] for child in children] == answer["pids"]
    vmm.process.kill()
    vmm.process.wait()
    for child in children:
        assert runs(child)
    # A fork of a fork.
    server = listener(os.path.join(directory, "g.sock"))
    grand = children[0].host("fork", fds=[unnamed(directory), server.fileno(), unnamed(directory)], count=1)
    assert grand["ok"], grand
    grandchild = Connection(os.path.join(directory, "g.sock"))
    assert exits(grandchild) >= 0
    for child in children + [grandchild]:
        assert child.host("stop")["ok"]
    for pid in answer["pids"] + grand["pids"]:
        deadline = time.monotonic() + 60
        while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not os.path.exists(f"/proc/{pid}"), "nothing is left"


def test_a_parked_template_is_forked_for_every_create(directory):
    vmm = Vmm(PROGRAM, directory, "t")
    wire = vmm.connect()
    base = os.path.join(directory, "disk")
    with open(base, "wb") as file:
        file.truncate(1 << 20)
    assert wire.host("start", kernel=kernel(os.path.join(directory, "kernel")), memory_mb=64, overlay_dir=directory, run=False,
                     disks=[{"image": base, "writable": True}])["ok"]
    for i in range(20):
        path = os.path.join(directory, f"c{i}.sock")
        server = listener(path)
        fds = [unnamed(directory), server.fileno(), unnamed(directory)]
        assert wire.host("fork", fds=fds, count=1)["ok"]
        for fd in fds:
            if fd != server.fileno():
                os.close(fd)
        server.close()
        child = Connection(path)
        assert child.state("running")
        assert runs(child)
        assert child.host("stop")["ok"]
    assert exits(wire) == 0, "the template itself never ran"
    assert len(os.listdir(f"/proc/{vmm.process.pid}/fd")) < 40, "and gathers no descriptors"
    assert wire.host("stop")["ok"] and vmm.process.wait(60) == 0


def test_folder_mode_is_what_viald_starts(directory):
    base = os.path.join(directory, "disk")
    with open(base, "wb") as file:
        file.truncate(1 << 20)
    config = {"kernel": kernel(os.path.join(directory, "kernel")), "memory_mb": 64, "overlay_dir": directory, "uid": 70002, "gid": 70002,
              "disks": [{"image": base, "writable": True}]}
    with open(os.path.join(directory, "vmm.json"), "w") as file:
        json.dump(config, file)
    process = subprocess.Popen([PROGRAM, directory], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    wire = Connection(os.path.join(directory, "shim.sock"))
    assert wire.state("new") and wire.host("create")["ok"] and wire.host("start")["ok"]
    image = os.path.join(directory, "image")
    os.mkdir(image)
    fds = [os.open(os.path.join(image, name), os.O_RDWR | os.O_CREAT, 0o600) for name in ("state", "memory", "disk")]
    assert wire.host("checkpoint", fds=fds, leave_running=False)["ok"]
    assert wire.host("stop")["ok"] and process.wait(60) == 0
    with open(os.path.join(directory, "exit.json")) as file:
        assert json.load(file) == {"reason": "stopped"}
    os.unlink(os.path.join(directory, "shim.sock"))
    process = subprocess.Popen([PROGRAM, directory], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    wire = Connection(os.path.join(directory, "shim.sock"))
    assert wire.host("start", image=image)["ok"]
    assert runs(wire)
    assert wire.host("stop")["ok"] and process.wait(60) == 0


def test_the_probe_tells_in_one_sentence():
    result = subprocess.run([PROGRAM, "--probe"], capture_output=True, text=True, timeout=60)
    answer = json.loads(result.stdout)
    assert result.returncode == (0 if answer["usable"] else 1) and answer["reason"]


def test_a_hostile_guest_does_not_hurt_the_monitor(directory):
    hostile = os.path.join(directory, "hostile")
    subprocess.run(["cc", "-nostdlib", "-static", "-Wl,-Ttext=0x200000,--build-id=none", "-o", hostile,
                    os.path.join(ROOT, "tests", "vmm", "hostile_guest.S")], check=True)
    base = os.path.join(directory, "disk")
    with open(base, "wb") as file:
        file.truncate(1 << 20)
    for seed in "123456":
        vmm = Vmm(PROGRAM, directory, "h" + seed)
        wire = vmm.connect()
        assert wire.host("start", kernel=hostile, command_line=seed, memory_mb=64, overlay_dir=directory,
                         disks=[{"image": base, "writable": True}, {"image": base}])["ok"]
        time.sleep(1)
        stats = wire.host("stats")
        # How far it gets here is the KVM's affair (a paravirtual one emulates); in the lab it has to make thousands of accesses.
        if not stats["ok"]:
            assert wire.states[-1]["state"] == "exited", wire.states
        assert wire.host("stop")["ok"]
        assert vmm.process.wait(60) == 0 and "seccomp" not in vmm.words(), vmm.words()
