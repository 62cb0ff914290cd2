# SPDX-License-Identifier: Apache-2.0
"""
The microvm engine's suite, run inside the lab's outer machine (scripts/lab): vial-vmm, a stock Debian kernel and the real agent, nothing
mocked. The tests share machines, because a boot takes seconds here: `state` carries them from one test to the next. What is in memory is a file in
/dev/shm, what is on disk a file in /workspace; Python, whose start is slow on an emulated processor, has tests of its own.
"""
import argparse
import fcntl
import hashlib
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import patience  # noqa: E402
import service  # noqa: E402
from harness import COMMAND_LINE, Lab, Machine, checks, chosen, expect, is_alive, run  # noqa: E402
from patience import stretched  # noqa: E402
from wire import Connection, Gone, Vmm  # noqa: E402


ROUNDS = 3
FORK_NOISE = 1.5
DISK_ROUNDS = 3


def remember(machine, memory, disk=None):
    machine.shell(f"echo {memory} > /dev/shm/x; echo {disk or memory} > /workspace/mark")


def recall(machine):
    return tuple(machine.shell("cat /dev/shm/x /workspace/mark").split())


def identity(machine):
    return machine.shell("head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \\n'; echo; cat /proc/sys/kernel/random/uuid; hostname").split()


def all_differ(machines):
    for values in zip(*(identity(machine) for machine in machines)):
        expect(len(set(values)) == len(values), values)


def test_probe_says_usable(lab, state):
    answer = json.loads(subprocess.run([lab.program, "--probe"], capture_output=True, text=True, timeout=stretched(120)).stdout)
    expect(answer["usable"] is True, answer)


def test_cold_boot_reaches_the_agent(lab, state):
    machine = state["m"] = lab.boot()
    lab.figure("cold_boot_to_hello_s", machine.seconds)
    lab.figure("process_to_first_run_ms", machine.answer["process_us"] / 1000)
    expect("Linux" in machine.shell("uname -a"), "uname")


def test_the_monitor_is_jailed(lab, state):
    machine = state["m"]
    status = machine.status()
    expect(status["Uid"].split()[0] == "70001" and status["Gid"].split()[0] == "70001", status["Uid"])
    expect(int(status["CapEff"], 16) == 0 and int(status["CapBnd"], 16) == 0, "no capabilities")
    expect(status["NoNewPrivs"] == "1" and status["Seccomp"] == "2", "filtered")
    expect(os.listdir(f"/proc/{machine.pid}/root") == [], "an empty root")
    for task in os.listdir(f"/proc/{machine.pid}/task"):
        with open(f"/proc/{machine.pid}/task/{task}/status") as file:
            filters = re.search(r"Seccomp_filters:\s+(\d+)", file.read())
            expect(int(filters.group(1)) == (1 if task == str(machine.pid) else 2), f"a filter of its own for thread {task}")
    for namespace in ("mnt", "net", "ipc", "uts", "cgroup"):
        expect(os.readlink(f"/proc/{machine.pid}/ns/{namespace}") != os.readlink(f"/proc/self/ns/{namespace}"), namespace)
    for fd in os.listdir(f"/proc/{machine.pid}/fd"):
        target = os.readlink(f"/proc/{machine.pid}/fd/{fd}")
        if target != f"/proc/{machine.pid}/pagemap":  # its own, for snapshots: which of its pages were touched
            expect(not target.startswith("/proc") and target not in ("/", "/dev"), target)
    with open(f"/proc/{machine.pid}/smaps") as file:
        resident = guest = 0
        is_guest = False
        for line in file:
            header = re.match(r"^([0-9a-f]+)-([0-9a-f]+) ", line)
            if header:
                is_guest = int(header.group(2), 16) - int(header.group(1), 16) >= 64 << 20
            elif line.startswith("Rss:"):
                kb = int(line.split()[1])
                resident += kb
                guest += kb if is_guest else 0
    lab.figure("monitor_rss_beyond_guest_mib", (resident - guest) / 1024)
    expect(resident - guest < 5 * 1024, "at most 5 MiB resident beyond guest memory")


def test_files_go_in_and_out(lab, state):
    content = os.urandom(300000)
    result, _, _ = state["m"].wire.call("fs.write", data=content, path="/workspace/blob", user="user")
    expect(result.get("ok") and result["bytes"] == len(content), result)
    result, output, _ = state["m"].wire.call("fs.read", path="/workspace/blob", user="user")
    expect(result.get("ok") and output[0] == content, "what was written is read")


def test_restore_and_fork_are_much_faster_than_a_boot(lab, state):
    snapshot = state["s"] = (remember(state["m"], "saved"), state["m"].snapshot(resume=True))[1]
    lab.figure("snapshot_memory_mib", snapshot.answer["memory_bytes"] / 2**20)
    lab.figure("snapshot_disk_mib", snapshot.answer["disk_bytes"] / 2**20)
    restores, forks = [], []
    rounds = ROUNDS * (3 if lab.args.part == "figures" else 1)
    # By turns, and more of them where they do not agree: this machine may be busy with other things now and then, and the best of each is what it takes.
    while len(forks) < rounds or (min(forks) > min(restores) * FORK_NOISE and len(forks) < 5 * ROUNDS):
        machine = lab.restore(snapshot)
        restores.append(machine.seconds)
        machine.stop()
        child = state["m"].fork(1)[0]
        forks.append(child.seconds)
        child.stop()
    lab.figure("restore_to_hello_s", min(restores))
    lab.figure("fork_to_hello_s", min(forks))
    lab.figure("fork_pause_ms", state["m"].fork_answer["pause_us"] / 1000)
    expect(min(restores) <= lab.figures["cold_boot_to_hello_s"] / 10, "a tenth of a boot")
    expect(min(forks) <= min(restores) * FORK_NOISE, "a fork is not slower than a restore, but for noise")


def test_losing_viald_disturbs_nothing(lab, state):
    machine = state["m"]
    remember(machine, "kept")
    machine.wire.send(0xfffffffe, 2, {"op": "exec", "cmd": "sleep 1; echo late"})
    machine.reattach()
    event = machine.wire.state("running")
    expect(event["epoch"] >= 3, event)
    expect(recall(machine) == ("kept", "kept"), "it goes on")
    expect(not [f for f in machine.wire.frames if f.stream == 0xfffffffe], "no late answer")


def test_pause_stops_the_guest_and_resume_continues_it(lab, state):
    machine = state["m"]
    machine.shell("(while :; do date +%s%N > /tmp/tick; sleep 0.05; done) > /dev/null 2>&1 & echo $! > /tmp/ticker")
    expect(machine.wire.host("pause")["ok"], "pause")
    before = machine.wire.host("stats")["exits"]
    time.sleep(1)
    expect(machine.wire.host("stats")["exits"] == before, "nothing runs while paused")
    expect(machine.wire.host("resume")["ok"], "resume")
    machine.shell("kill $(cat /tmp/ticker)")
    expect(recall(machine) == ("kept", "kept"), "and it goes on")


def test_a_read_only_disk_is_read_only_on_the_host(lab, state):
    def digest():
        with open(lab.args.vial_disk, "rb") as file:
            return hashlib.sha256(file.read(1 << 20)).hexdigest(), os.stat(lab.args.vial_disk).st_mtime_ns
    before = digest()
    out = state["m"].shell("mount -o remount,rw /opt/vial 2>&1; touch /opt/vial/x 2>&1; echo 0 > /sys/block/vdb/ro 2>&1; "
                           "dd if=/dev/zero of=/dev/vdb bs=4096 count=1 conv=fsync 2>&1; blockdev --setrw /dev/vdb 2>&1; cat /sys/block/vdb/ro; true")
    expect(out.strip().endswith("1"), out)
    expect(digest() == before, "the image is unchanged")


def test_a_snapshot_is_restored_to_different_lives(lab, state):
    remember(state["m"], "after")
    lives = state["lives"] = [lab.restore(state["s"]) for _ in range(2)]
    for i, machine in enumerate(lives):
        expect(recall(machine) == ("saved", "saved"), "memory and disk of the same instant")
        remember(machine, f"life{i}")
    expect([recall(m) for m in lives] == [("life0", "life0"), ("life1", "life1")], "separate memories and disks")
    expect(recall(state["m"]) == ("after", "after"), "the original is untouched")


def test_restored_machines_are_unique(lab, state):
    all_differ(state["lives"] + [state["m"]])


def test_the_clock_is_right_after_a_restore(lab, state):
    skew = abs(int(state["lives"][0].shell("date +%s%N")) / 1e9 - time.time())
    expect(skew < 3, skew)


def test_vmgenid_reaches_the_kernel(lab, state):
    if not state["m"].shell("ls -d /sys/bus/acpi/drivers/vmgenid /sys/bus/platform/drivers/vmgenid 2>/dev/null; true").strip():
        print("  the kernel has no vmgenid driver")
        return
    count = int(state["lives"][0].shell("awk '/GED|ACPI:Ged/ {print $2 + $3}' /proc/interrupts").strip() or 0)
    expect(count >= 1, "the generation interrupt was taken")


def test_the_hot_set_is_recorded_and_fetched(lab, state):
    for machine in state.pop("lives"):
        machine.stop()
    trial = lab.restore(state["s"], record_hot=True)
    recall(trial)
    path = lab.path("hot")
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    answer = trial.wire.host("hotset", fds=[fd])
    os.close(fd)
    expect(answer["ok"] and answer["bytes"] > 0, answer)
    lab.figure("hot_set_mib", answer["bytes"] / 2**20)
    trial.stop()
    machine = lab.restore(state["s"], hot=path)
    lab.figure("restore_hot_to_hello_s", machine.seconds)
    expect(recall(machine) == ("saved", "saved"), "the same machine")
    machine.stop()


def test_damaged_and_alien_snapshots_are_refused(lab, state):
    snapshot = state["s"]
    with open(snapshot.state, "rb") as file:
        original = file.read()

    def refused(content, memory=None):
        path = lab.path("bad.state")
        with open(path, "wb") as file:
            file.write(content)
        vmm = Vmm(lab.program, lab.directory, lab.name("bad"))
        wire = vmm.connect()
        answer = wire.host("start", vcpus=snapshot.vcpus, memory_mb=snapshot.memory_mb, overlay_dir=lab.directory, disks=lab.disks(snapshot.disk),
                           restore={"state": path, "memory": memory or snapshot.memory})
        expect(not answer["ok"], "must be refused")
        vmm.process.wait(stretched(30))
        return answer["error"]

    flipped = bytearray(original)
    flipped[len(flipped) // 2] ^= 1
    expect("damaged" in refused(bytes(flipped)), "a flipped bit")
    expect("damaged" in refused(original[:-100]), "a cut end")
    at = original.index(b"AuthenticAMD")
    expect("damaged" in refused(original[:at] + b"GenuineIntel" + original[at + 12:]), "a changed fingerprint breaks the sum")
    with open(lab.path("short"), "wb") as file:
        file.truncate(1 << 20)
    expect("memory" in refused(original, lab.path("short")), "a short memory file")


def test_parent_and_child_part(lab, state):
    parent = state["m"]
    remember(parent, "common")
    child = state["child"] = parent.fork(1)[0]
    expect(recall(child) == ("common", "common"), "the child has the parent's past")
    remember(child, "child")
    remember(parent, "parent")
    expect(recall(child) == ("child", "child"), "the parent's writes do not reach the child")
    expect(recall(parent) == ("parent", "parent"), "nor the child's the parent")


def test_fork_of_a_fork(lab, state):
    child = state["child"]
    grandchild = child.fork(1)[0]
    expect(recall(grandchild) == ("child", "child"), "its parent's past")
    remember(grandchild, "grandchild")
    great = grandchild.fork(1)[0]
    expect(recall(great) == ("grandchild", "grandchild") and recall(child) == ("child", "child"), "three generations")
    for machine in (great, grandchild):
        machine.stop()


def test_fork_four_at_one_instant(lab, state):
    parent = state["m"]
    remember(parent, "instant")
    children = state["children"] = parent.fork(4)
    lab.figure("fork4_pause_ms", parent.fork_answer["pause_us"] / 1000)
    for i, child in enumerate(children):
        expect(recall(child) == ("instant", "instant"), "one past")
        remember(child, f"child{i}")
    expect([recall(c) for c in children] == [(f"child{i}", f"child{i}") for i in range(4)], "four separate lives")
    all_differ(children + [parent])


def test_killing_one_monitor_leaves_the_others(lab, state):
    children = state.pop("children")
    os.kill(children[0].pid, signal.SIGKILL)
    time.sleep(0.5)
    expect(not is_alive(children[0].pid), "it is gone")
    expect(recall(children[1]) == ("child1", "child1") and recall(state["m"]) == ("instant", "instant"), "the others go on")
    for child in children[1:]:
        child.stop()
        expect(not is_alive(child.pid), "stopped")


def test_forks_outlive_their_parent(lab, state):
    parent, child = state.pop("m"), state["child"]
    os.kill(parent.pid, signal.SIGKILL)
    parent.vmm.process.wait(stretched(10))
    expect(recall(child) == ("child", "child"), "the child goes on")


def test_hibernate_and_wake(lab, state):
    child = state.pop("child")
    snapshot = child.snapshot(resume=False)
    child.stop()
    expect(not is_alive(child.pid), "asleep is no process")
    machine = state["m"] = lab.restore(snapshot)
    expect(recall(machine) == ("child", "child"), "awake, with its disk")


def test_python_keeps_its_variables_and_gets_its_own_random_numbers(lab, state):
    machine = state["m"]
    machine.python("import random\nx = 41")
    expect(machine.python("x += 1\nprint(x)") == "42", "x")
    child = machine.fork(1)[0]
    expect(child.python("print(x)") == "42", "x in a fork")
    child.python("x = 7")
    expect(machine.python("print(x)") == "42", "which is another x")
    expect(machine.python("print(random.random())") != child.python("print(random.random())"), "random numbers of their own")
    child.stop()
    snapshot = machine.snapshot(resume=False)
    machine.stop()
    machine = state["m"] = lab.restore(snapshot)
    expect(machine.python("print(x)") == "42", "x after a restore")


def test_memory_is_given_back(lab, state):
    machine = state["m"]
    machine.shell("python3 -c 'b = bytearray(150 << 20); b[::4096] = b\"x\" * len(b[::4096])'")
    deadline = time.monotonic() + stretched(60)
    while machine.wire.host("stats")["memory_returned_bytes"] < 100 << 20:
        expect(time.monotonic() < deadline, machine.wire.host("stats"))
        time.sleep(1)
    lab.figure("memory_returned_mib", machine.wire.host("stats")["memory_returned_bytes"] / 2**20)
    expect(recall(machine) == ("child", "child"), "nothing that was in use")


def test_a_crash_of_the_guest_is_reported(lab, state):
    machine = state.pop("m")
    machine.wire.send(1 << 20, 2, {"op": "exec", "user": "root", "cmd": "echo 1 > /proc/sys/kernel/sysrq; echo c > /proc/sysrq-trigger"})
    event = machine.wire.state("exited", timeout=120)
    expect(event["reason"] in ("reboot", "guest_crash"), event)
    machine.stop()


def test_two_vcpus_boot_fork_and_restore(lab, state):
    def both_run(machine):
        for cpu in (0, 1):
            machine.shell(f"taskset -c {cpu} sh -c 'sleep 0.1; true'")

    machine = lab.boot(vcpus=2)
    expect(machine.shell("nproc").strip() == "2", "two vCPUs")
    child = machine.fork(1)[0]
    both_run(child)
    both_run(machine)
    snapshot = machine.snapshot(resume=False)
    machine.stop()
    restored = lab.restore(snapshot)
    both_run(restored)
    restored.stop()
    child.stop()


def test_disk_requests_under_way_are_finished_in_forks_and_restores(lab, state):
    """An interrupt that was raised but not yet delivered in the saved instant must come all the same: one request at a time, and no other to cover it up."""
    def requests(machine):
        return int(machine.shell("awk '{print $1}' /sys/block/vda/stat"))

    def goes_on(machine):
        before, deadline = requests(machine), time.monotonic() + stretched(60)
        while requests(machine) < before + 20:
            expect(time.monotonic() < deadline, f"its disk stands still: {machine.shell('cat /proc/interrupts')}")

    machine = lab.boot()
    machine.shell("dd if=/dev/zero of=/workspace/ring bs=64k count=64 2> /dev/null; sync; "
                  "(while dd if=/workspace/ring of=/dev/null bs=4k iflag=direct 2> /dev/null; do :; done) > /dev/null 2>&1 &")
    for _ in range(DISK_ROUNDS):
        child = machine.fork(1)[0]
        goes_on(child)
        child.stop()
    for _ in range(2):
        restored = lab.restore(machine.snapshot(resume=True))
        goes_on(restored)
        restored.stop()
    goes_on(machine)
    machine.stop()


def test_the_network_device_moves_packets(lab, state):
    taps = []
    for i in range(2):
        name = f"lab{i}"
        subprocess.run(["ip", "tuntap", "add", name, "mode", "tap", "vnet_hdr"], check=True, timeout=stretched(60))
        fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", name.encode(), 0x0002 | 0x1000 | 0x4000))
        subprocess.run(f"ip netns add {name} && ip link set {name} netns {name} && ip -n {name} addr add 10.9.0.1/24 dev {name} && "
                       f"ip -n {name} link set {name} up", shell=True, check=True, timeout=stretched(60))
        taps.append(fd)
    machine = lab.boot(net={"mac": "02:00:00:00:00:02"}, fds=[taps[0]], command_line=COMMAND_LINE + " VIAL_IP=10.9.0.2/24 VIAL_GATEWAY=10.9.0.1")
    expect("02:00:00:00:00:02" in machine.shell("cat /sys/class/net/eth0/address"), "its address")

    machine.shell("python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((\"\", 9)); "
                  "exec(\"while 1: d, a = s.recvfrom(99); s.sendto(d, a)\")' > /dev/null 2>&1 & sleep 1")

    def ping(space):
        code = ("import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\ns.settimeout(2)\n"
                "for i in range(60):\n"
                "    s.sendto(b'%d' % i, ('10.9.0.2', 9))\n"
                "    try:\n        s.recv(99); break\n    except OSError: pass\n"
                "else: raise SystemExit(1)\n")
        subprocess.run(["ip", "netns", "exec", space, "python3", "-c", code], check=True, timeout=stretched(200))

    ping("lab0")
    child = machine.fork(1, taps=[taps[1]])[0]
    ping("lab1")
    ping("lab0")
    expect(child.wire.host("stats")["net_out_bytes"] > 0, "through its own TAP")
    child.stop()
    machine.stop()


def test_a_hostile_guest_does_not_hurt_the_monitor(lab, state):
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "vmm", "hostile_guest.S")
    hostile = lab.path("hostile")
    subprocess.run(["cc", "-nostdlib", "-static", "-Wl,-Ttext=0x200000,--build-id=none", "-o", hostile, source], check=True, timeout=stretched(60))
    for seed in (1, 2, 3):
        machine = Machine(lab, lab.name("evil"))
        machine.start({"vcpus": 2, "memory_mb": 64, "kernel": hostile, "command_line": f"{seed}", "overlay_dir": lab.directory, "disks": lab.disks()}, hello=False)
        time.sleep(4)
        stats = machine.wire.host("stats")
        if stats["ok"]:
            expect(stats["exits"] > 1000, stats)
            expect(machine.wire.host("pause")["ok"] and machine.wire.host("resume")["ok"], "still in control")
        else:  # it overwrote itself: its own loss, and reported as such
            expect(machine.wire.states[-1]["state"] == "exited" and machine.wire.states[-1]["reason"] == "guest_crash", machine.wire.states)
        machine.stop()
        expect(machine.vmm.process.returncode == 0 and "seccomp" not in machine.vmm.words(), machine.vmm.words())


def main():
    parser = argparse.ArgumentParser()
    for name in ("build", "data", "kernel", "root-disk", "vial-disk"):
        parser.add_argument("--" + name, required=True)
    parser.add_argument("--python", default="/usr/bin/python3", help="the environment that tests/requirements.txt made, for the API suite")
    parser.add_argument("--only", help="only tests with one of these words, separated by commas, in their name, and what they need before; of the API suite, what pytest -k takes")
    parser.add_argument("--repeat", type=int, default=1, help="how often each of those is run")
    parser.add_argument("--part", choices=("monitor", "service", "engine", "figures", "api"),
                        help="only vial-vmm itself, only what goes through viald, both of these, only what is measured, or only the API suite")
    parser.add_argument("--api", default=" ".join(service.API_SUITE), help="files of tests/api, separated by spaces")
    lab = Lab(parser.parse_args())
    monitor = [value for name, value in globals().items() if name.startswith("test_")]
    figures = [test_cold_boot_reaches_the_agent, test_the_monitor_is_jailed, test_restore_and_fork_are_much_faster_than_a_boot]
    tests = {"monitor": monitor, "service": service.TESTS, "engine": monitor + service.TESTS, "figures": figures, "api": service.TESTS[:2],
             None: monitor + service.TESTS}[lab.args.part]
    if lab.args.only and lab.args.part != "api":
        tests = chosen(tests, lab.args.only, lab.args.repeat)
    with_api = lab.args.part == "api" or (lab.args.part is None and not lab.args.only)
    os.environ["VIAL_CHECKS"] = "/dev/console"
    checks.tell(plan=len(tests), of=lab.args.part)
    if with_api:
        checks.tell(then=service.API_NAME)
    patience.measure()
    state = {}
    passed, failed = run(lab, tests, state)
    if with_api:
        try:
            more = service.run_api_suite(lab, state)
        except Exception as error:  # it counts as one that failed
            print(f"FAIL the API suite: {error!r}")
            checks.tell_check(service.API_NAME, "failed", 0, repr(error))
            more = (0, 1)
        passed, failed = passed + more[0], failed + more[1]
    environment = f"stock kernel {os.path.basename(lab.args.kernel)} on one emulated processor (QEMU TCG, emulated SVM) under Linux {os.uname().release}"
    print("figures " + json.dumps({"environment": environment, **lab.figures}))
    print(f"the machine: {passed} passed, {failed} failed", flush=True)
    os._exit(1 if failed else 0)


main()
