# SPDX-License-Identifier: Apache-2.0
"""The lab suite's frame: machines, snapshots and forks as its tests use them, and the counting of results."""
import os
import signal
import sys
import time
import traceback
import uuid

import patience
from patience import checks, stretched
from wire import Connection, Vmm, listener, unnamed

COMMAND_LINE = ("quiet reboot=k panic=-1 clocksource=kvm-clock random.trust_cpu=on pci=off 8250.nr_uarts=0 no_timer_check "
                "cryptomgr.notests mitigations=off")


TEST_SECONDS = 360  # stretched by this processor's slowness; no test takes a third of this on an idle machine


class Lab:
    def __init__(self, args):
        self.args = args
        self.directory = "/tmp/vial-lab"
        os.makedirs(self.directory, exist_ok=True)
        self.program = os.path.join(args.build, "vial-vmm")
        self.figures = {}
        self.count = 0

    def name(self, prefix="m"):
        self.count += 1
        return f"{prefix}{self.count}"

    def disks(self, layer=None):
        root = {"image": self.args.root_disk, "writable": True, "size_mb": 1024, "serial": "root"}
        if layer:
            root["layer"] = layer
        return [root, {"image": self.args.vial_disk, "serial": "vial"}]

    def path(self, name):
        return os.path.join(self.directory, name)

    def boot(self, vcpus=1, memory_mb=512, command_line=COMMAND_LINE, hello=True, fds=(), **fields):
        machine = Machine(self, self.name())
        config = {"vcpus": vcpus, "memory_mb": memory_mb, "kernel": self.args.kernel + "/vmlinux",
                  "initrd": self.args.kernel + "/initrd", "command_line": command_line, "overlay_dir": self.directory,
                  "disks": self.disks()}
        config.update(fields)
        machine.start(config, hello, fds)
        return machine

    def restore(self, snapshot, hot=None, hello=True, record_hot=False, fds=(), **fields):
        machine = Machine(self, self.name("r"))
        restore = {"state": snapshot.state, "memory": snapshot.memory, "record_hot": record_hot}
        if hot:
            restore["hot"] = hot
        config = {"vcpus": snapshot.vcpus, "memory_mb": snapshot.memory_mb, "overlay_dir": self.directory,
                  "disks": self.disks(snapshot.disk), "restore": restore}
        config.update(fields)
        machine.start(config, hello, fds)
        return machine

    def figure(self, name, value):
        self.figures[name] = round(value, 3)
        print(f"  figure {name} = {value:.3f}")


class Snapshot:
    def __init__(self, lab, name, vcpus, memory_mb):
        self.state, self.memory, self.disk = (lab.path(f"{name}.{part}") for part in ("state", "memory", "disk"))
        self.vcpus, self.memory_mb = vcpus, memory_mb

    def open(self):
        return [os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600) for path in (self.state, self.memory, self.disk)]


class Machine:
    """One running microVM, seen as viald sees it."""

    def __init__(self, lab, name):
        self.lab, self.name = lab, name
        self.vmm = None
        self.wire = None
        self.pid = None

    def start(self, config, hello, fds=()):
        self.vcpus, self.memory_mb = config["vcpus"], config["memory_mb"]
        began = time.monotonic()
        self.vmm = Vmm(self.lab.program, self.lab.directory, self.name)
        self.pid = self.vmm.process.pid
        self.wire = self.vmm.connect()
        self.path = self.vmm.path
        self.answer = self.wire.host("start", fds=fds, **config)
        assert self.answer["ok"], self.answer
        if hello:
            self.hello()
        self.seconds = time.monotonic() - began

    def hello(self, **fields):
        answer = self.wire.hello(uuid.uuid4().hex, hostname=self.name.replace("_", "-"), **fields)
        assert "entropy" in answer.get("confirmed", []), answer
        return answer

    def reattach(self):
        self.wire.close()
        self.wire = Connection(self.path)

    def shell(self, command, timeout=300):
        return self.wire.shell(command, timeout)

    def python(self, code, timeout=600):
        result, output, events = self.wire.call("ctx.run", language="python", code=code, execution_id=uuid.uuid4().hex,
                                                timeout_ms=int(stretched(timeout) * 1000), timeout=timeout)
        assert result.get("ok") and result.get("status") == "ok", (result, events, bytes(output[2]))
        return output[1].decode().strip()

    def snapshot(self, resume, name=None):
        snapshot = Snapshot(self.lab, name or self.lab.name("s"), self.vcpus, self.memory_mb)
        fds = snapshot.open()
        if resume:
            fds.append(unnamed(self.lab.directory))
        self.wire.freeze()
        snapshot.answer = self.wire.host("snapshot", fds=fds, resume=resume, timeout=300)
        for fd in fds:
            os.close(fd)
        assert snapshot.answer["ok"], snapshot.answer
        if resume:
            self.hello()
        return snapshot

    def fork(self, count, taps=(), timeout=300):
        """Freezes the agent, forks, and says hello to all of them again, the parent first."""
        children, fds, sockets = [], [unnamed(self.lab.directory)], []
        for i in range(count):
            child = Machine(self.lab, self.lab.name(self.name + "_f"))
            child.vcpus, child.memory_mb = self.vcpus, self.memory_mb
            child.path = self.lab.path(child.name + ".sock")
            server = listener(child.path)
            sockets.append(server)
            fds += [server.fileno(), unnamed(self.lab.directory)] + ([taps[i]] if taps else [])
            children.append(child)
        self.wire.freeze()
        began = time.monotonic()
        answer = self.wire.host("fork", fds=fds, count=count, timeout=timeout)
        assert answer["ok"], answer
        self.fork_answer = answer
        for server in sockets:
            server.close()
        for child, pid in zip(children, answer["pids"]):
            child.pid = pid
            child.wire = Connection(child.path)
            child.hello()
            child.seconds = time.monotonic() - began
        self.hello()
        return children

    def stop(self):
        try:
            self.wire.host("stop", timeout=60)
        except Exception:
            pass
        self.wire.close()
        if self.vmm:
            self.vmm.process.wait(stretched(60))
        deadline = time.monotonic() + stretched(60)
        while is_alive(self.pid) and time.monotonic() < deadline:
            time.sleep(0.05)

    def status(self):
        with open(f"/proc/{self.pid}/status") as file:
            return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def expect(condition, message):
    if not condition:
        raise AssertionError(message)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):  # gone before the open, or between open and read
        return False


def chosen(tests, only, repeat):
    """Those with one of the words in their name, each after what it needs (its `needs`), which is run once."""
    words, found = only.split(","), []

    def add(test):
        for needed in getattr(test, "needs", ()):
            if needed not in found:
                add(needed)
        found.append(test)

    for test in tests:
        if any(word in test.__name__ for word in words):
            add(test)
            found += [test] * (repeat - 1)
    return found


class Alarm:
    """Ends a test that hangs. One that is slow because the processor has become slower since the start gets what it is short of."""

    def __init__(self):
        self.began = time.monotonic()
        signal.signal(signal.SIGALRM, self.ring)
        signal.alarm(int(stretched(TEST_SECONDS)))

    def ring(self, number, frame):
        patience.measure()
        left = self.began + stretched(TEST_SECONDS) - time.monotonic()
        if left < 1:
            raise TimeoutError(f"it took longer than {stretched(TEST_SECONDS):.0f} s")
        signal.alarm(int(left))


def show_waiting():
    """Where our programs wait in the kernel: what a test that never ended hung on."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/comm") as file:
                name = file.read().strip()
            if name not in ("viald", "vial-vmm"):
                continue
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/stack") as file:
                    print(f"  {name} {pid}/{task}: {' < '.join(line.split()[-1] for line in file.read().splitlines()[:6])}")
        except OSError:  # gone meanwhile
            pass


def show_failure(lab, state, error):
    traceback.print_exc(limit=-3, file=sys.stdout)
    if isinstance(error, (TimeoutError, OSError)):
        show_waiting()
    for file in sorted(os.listdir(lab.directory)):
        if file.endswith(".log") and os.path.getsize(lab.path(file)):
            with open(lab.path(file), "rb") as log:
                print(f"  {file}: {log.read()[-400:].decode(errors='replace')}")
    if "daemon" in state:
        print(f"  viald: {state['daemon'].log_text()[-2000:]}")


def run(lab, tests, state):
    """(passed, failed)"""
    passed = failed = 0
    for test in tests:
        name = test.__name__.removeprefix("test_").replace("_", " ")
        began = time.monotonic()
        # Whatever a test waits for, this is the end of it: a hang fails with a sentence, and the next test has its turn.
        Alarm()
        try:
            test(lab, state)
            passed += 1
            print(f"ok   {name} ({time.monotonic() - began:.1f} s)", flush=True)
            checks.tell_check(name, "passed", time.monotonic() - began)
        except Exception as error:
            signal.alarm(0)
            failed += 1
            print(f"FAIL {name}: {error!r}", flush=True)
            checks.tell_check(name, "failed", time.monotonic() - began, repr(error))
            if not isinstance(error, KeyError):  # else an earlier test did not leave what this one needs
                show_failure(lab, state, error)
        signal.alarm(0)
    return passed, failed
