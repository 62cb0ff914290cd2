# SPDX-License-Identifier: Apache-2.0
"""A small client of the wire (docs/wire.md) and a sandbox to talk to: the real vial-agent under runsc.

    with Sandbox.start(agent=..., rootfs=...) as sandbox:
        sandbox.hello()
        print(sandbox.run(cmd="echo hello").stdout)

Reads happen in one thread that sorts frames by stream; credit is granted automatically unless a stream asks otherwise.
"""
import json
import os
import queue
import secrets
import shutil
import struct
import subprocess
import tempfile
import threading
import time
import uuid

from waiting import slow

TIMEOUT = slow(20)  # of whatever is waited for
HELLO, OPEN, DATA, EVENT, EOF, CLOSE, CANCEL, CREDIT, FREEZE, RESET, PING, PONG = range(1, 13)
MAIN, STDOUT, STDERR = 0, 1, 2
MORE = 0x80
MAX_PAYLOAD = 256 * 1024
INITIAL_CREDIT = 1024 * 1024
HEADER = struct.Struct("<IIHBB")


class WireError(Exception):
    """The agent closed the operation with an error."""

    def __init__(self, result):
        super().__init__(f"{result.get('code')}: {result.get('error')}")
        self.code = result.get("code")
        self.result = result


class Gone(Exception):
    """The agent's end of the wire is closed."""


def wait_until(condition, seconds=TIMEOUT):
    """Whether `condition` became true in that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Stream:
    """One operation. Iterate over frames(), or collect() everything until CLOSE."""

    def __init__(self, wire, number):
        self.wire, self.number = wire, number
        self.frames_in = queue.Queue()
        self.send_credit = INITIAL_CREDIT
        self.credit_changed = threading.Condition()
        self.is_closed = False
        self.auto_credit = True
        self.pending_event = b""
        self.received_bytes = 0
        self.granted_bytes = INITIAL_CREDIT

    def next(self, timeout=TIMEOUT):
        """(kind, channel, value): "data" bytes, "event" dict, "eof" None or "close" dict."""
        try:
            frame = self.frames_in.get(timeout=timeout)
        except queue.Empty:
            raise TimeoutError(f"nothing on stream {self.number} for {timeout} s") from None
        if frame is None:
            raise Gone(self.wire.why_gone)
        kind, channel, payload = frame
        if kind in (DATA, EVENT) and self.auto_credit:
            self.grant(len(payload))
        if kind == DATA:
            return "data", channel, payload
        if kind == EVENT:
            self.pending_event += payload
            if channel & MORE:
                return self.next(timeout)
            text, self.pending_event = self.pending_event, b""
            return "event", 0, json.loads(text)
        if kind == EOF:
            return "eof", channel, None
        return "close", 0, json.loads(payload)

    def next_event(self, timeout=TIMEOUT):
        kind, _, value = self.next(timeout)
        assert kind == "event", (kind, value)
        return value

    def read_until(self, text, channel=STDOUT, timeout=TIMEOUT):
        """The data up to the frame that completes `text`; anything else on the stream is a failure."""
        deadline = time.monotonic() + timeout
        seen = b""
        while text not in seen:
            kind, number, value = self.next(max(0.01, deadline - time.monotonic()))
            assert (kind, number) == ("data", channel), (kind, number, value, seen)
            seen += value
        return seen

    def collect(self, timeout=TIMEOUT):
        deadline = time.monotonic() + timeout
        answer = Answer()
        while True:
            kind, channel, value = self.next(max(0.01, deadline - time.monotonic()))
            if kind == "data":
                answer.data.setdefault(channel, []).append(value)
            elif kind == "event":
                answer.events.append(value)
            elif kind == "close":
                answer.result = value
                return answer

    def grant(self, size):
        self.granted_bytes += size
        self.wire.send(self.number, CREDIT, struct.pack("<I", size))

    def send_data(self, data, channel=MAIN):
        view = memoryview(data)
        while view:
            with self.credit_changed:
                if not self.credit_changed.wait_for(lambda: self.send_credit > 0 or self.is_closed, timeout=TIMEOUT):
                    raise TimeoutError("no credit from the agent")
                if self.is_closed:
                    return
                size = min(len(view), MAX_PAYLOAD, self.send_credit)
                self.send_credit -= size
            self.wire.send(self.number, DATA, view[:size], channel)
            view = view[size:]

    def send_event(self, event):
        self.wire.send(self.number, EVENT, json.dumps(event).encode())

    def send_eof(self, channel=MAIN):
        self.wire.send(self.number, EOF, b"", channel)

    def cancel(self):
        self.wire.send(self.number, CANCEL)


class Answer:
    def __init__(self):
        self.data, self.events, self.result = {}, [], None

    def _joined(self, channel):
        return b"".join(self.data.get(channel, []))

    @property
    def stdout(self):
        return self._joined(STDOUT).decode(errors="replace")

    @property
    def stderr(self):
        return self._joined(STDERR).decode(errors="replace")

    @property
    def main(self):
        return self._joined(MAIN)

    def ok(self):
        if not self.result.get("ok"):
            raise WireError(self.result)
        return self


class Cell:
    """A run's answer: .result is its CLOSE, .error its last error event or None."""

    def __init__(self, answer):
        self.result, self.stdout, self.stderr = answer.result, answer.stdout, answer.stderr
        self.results = [event for event in answer.events if event.get("event") == "result"]
        self.errors = [event for event in answer.events if event.get("event") == "error"]
        self.error = self.errors[-1] if self.errors else None

    @property
    def text(self):
        """text/plain of the last result."""
        return self.results[-1]["data"].get("text/plain") if self.results else None


class Wire:
    """The framing over a pair of descriptors."""

    def __init__(self, read_fd, write_fd, last_words=lambda: ""):
        self.read_fd, self.write_fd, self.last_words = read_fd, write_fd, last_words
        self.epoch = 1
        self.last_stream = 0
        self.streams = {}
        self.connection = queue.Queue()
        self.lock = threading.Lock()
        self.why_gone = None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def send(self, stream, kind, payload=b"", channel=0, epoch=None):
        header = HEADER.pack(len(payload), stream, self.epoch if epoch is None else epoch, kind, channel)
        with self.lock:
            self._write(header + bytes(payload) if len(payload) < 4096 else header)
            if len(payload) >= 4096:
                self._write(payload)

    def send_raw(self, data):
        with self.lock:
            self._write(data)

    def _write(self, data):
        view = memoryview(data)
        while view:
            view = view[os.write(self.write_fd, view):]

    def _read_exactly(self, size):
        parts = []
        while size:
            part = os.read(self.read_fd, min(size, 1 << 20))
            if not part:
                raise Gone("the agent closed the wire")
            parts.append(part)
            size -= len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read(self):
        try:
            while True:
                length, number, epoch, kind, channel = HEADER.unpack(self._read_exactly(HEADER.size))
                if length > MAX_PAYLOAD:
                    raise Gone(f"a frame of {length} bytes")
                self._dispatch(number, epoch, kind, channel, self._read_exactly(length) if length else b"")
        except (Gone, OSError) as problem:
            self.why_gone = str(problem) + self.last_words()
            self.connection.put(None)
            for stream in list(self.streams.values()):
                stream.frames_in.put(None)

    def _dispatch(self, number, epoch, kind, channel, payload):
        if number == 0:
            self.connection.put((kind, epoch, payload))
            return
        stream = self.streams.get((epoch, number))
        if stream is None:
            return
        if kind == CREDIT:
            with stream.credit_changed:
                stream.send_credit += struct.unpack("<I", payload)[0]
                stream.credit_changed.notify_all()
            return
        if kind in (DATA, EVENT):
            stream.received_bytes += len(payload)
            if stream.received_bytes > stream.granted_bytes:
                raise Gone(f"stream {number}: {stream.received_bytes} bytes, {stream.granted_bytes} granted")
        stream.frames_in.put((kind, channel, payload))
        if kind == CLOSE:
            with stream.credit_changed:
                stream.is_closed = True
                stream.credit_changed.notify_all()
            del self.streams[(epoch, number)]

    def open(self, op, **fields):
        self.last_stream += 1
        stream = Stream(self, self.last_stream)
        self.streams[(self.epoch, self.last_stream)] = stream
        self.send(self.last_stream, OPEN, json.dumps({"op": op, **fields}).encode())
        return stream

    def wait_connection(self, kind, timeout=TIMEOUT):
        deadline = time.monotonic() + timeout
        while True:
            try:
                frame = self.connection.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                raise TimeoutError(f"no connection frame of type {kind}") from None
            if frame is None:
                raise Gone(self.why_gone)
            if frame[0] == kind:
                return frame[2]

    def ping(self, payload=b"x", timeout=TIMEOUT):
        self.send(0, PING, payload)
        return self.wait_connection(PONG, timeout)

    def freeze(self, timeout=TIMEOUT):
        self.send(0, FREEZE)
        self.wait_connection(FREEZE, timeout)

    def reset(self):
        self.epoch += 1
        self.send(0, RESET)


def spec(agent, rootfs, network_namespace=None, env=(), disk_mb=512, extra_mounts=()):
    capabilities = ["CAP_" + name for name in (
        "SYS_ADMIN CHOWN DAC_OVERRIDE FSETID FOWNER MKNOD NET_RAW SETGID SETUID SETFCAP SETPCAP NET_BIND_SERVICE "
        "SYS_CHROOT KILL AUDIT_WRITE SYS_PTRACE SYS_NICE SYS_RESOURCE SYS_TIME").split()]
    return {
        "ociVersion": "1.0.2",
        "process": {
            "terminal": False, "user": {"uid": 0, "gid": 0}, "args": ["/opt/vial/vial-agent"], "cwd": "/",
            "env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"] + ([f"VIAL_DISK_MB={disk_mb}"] if disk_mb else []) + list(env),
            "capabilities": {kind: capabilities for kind in ("bounding", "effective", "permitted", "inheritable")},
            "noNewPrivileges": False,
            "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 65536, "soft": 65536}],
        },
        "root": {"path": rootfs, "readonly": bool(disk_mb)},
        "hostname": "vial",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["ro"]},
            {"destination": "/opt/vial", "type": "bind", "source": os.path.dirname(agent), "options": ["ro", "rbind"]},
            *extra_mounts,
        ],
        "linux": {"namespaces": [{"type": kind} for kind in ("pid", "network", "ipc", "uts", "mount")]},
    }


class Sandbox:
    """One runsc container with the agent in it. Everything it made on the host is gone after close()."""

    def __init__(self, state_root, bundle, owns):
        self.state_root, self.bundle, self.owns = state_root, bundle, owns
        self.name = "a" + uuid.uuid4().hex[:12]
        self.process = None
        self.generation = None

    @classmethod
    def start(cls, agent, rootfs, image=None, bundle_of=None, **options):
        """Cold, or restored from `image` (a checkpoint directory) with the bundle of the sandbox it was taken from."""
        if bundle_of:
            self = cls(tempfile.mkdtemp(prefix="vial-agent-state-"), bundle_of.bundle, owns=False)
        else:
            bundle = tempfile.mkdtemp(prefix="vial-agent-bundle-")
            folder = os.path.join(bundle, "vial")
            os.mkdir(folder)
            shutil.copy(agent, os.path.join(folder, "vial-agent"))
            with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as file:
                json.dump(spec(os.path.join(folder, "vial-agent"), rootfs, **options), file)
            self = cls(tempfile.mkdtemp(prefix="vial-agent-state-"), bundle, owns=True)
        self._launch(image)
        return self

    def runsc(self, *arguments):
        flags = ["--root", self.state_root, "--network=none", "--platform=systrap", "--overlay2=none", "--ignore-cgroups"]
        return [os.environ.get("VIAL_RUNSC", "runsc"), *flags, *arguments]

    def _launch(self, image):
        to_agent, from_agent = os.pipe(), os.pipe()
        log = open(os.path.join(self.bundle, f"log-{self.name}"), "wb")
        command = self.runsc("restore", "--image-path", image, "--bundle", self.bundle, self.name) if image else \
            self.runsc("run", "--bundle", self.bundle, self.name)
        # stderr through a pipe: gVisor writes to an inherited regular file at offsets of its own.
        self.process = subprocess.Popen(command, stdin=to_agent[0], stdout=from_agent[1], stderr=subprocess.PIPE)
        self.log_thread = threading.Thread(target=self._copy_log, args=(log,), daemon=True)
        self.log_thread.start()
        os.close(to_agent[0])
        os.close(from_agent[1])
        for fd in (to_agent[1], from_agent[0]):
            import fcntl
            try:
                fcntl.fcntl(fd, 1031, 1 << 20)  # F_SETPIPE_SZ
            except OSError:
                pass
        self.wire = Wire(from_agent[0], to_agent[1], self._last_words)

    def _copy_log(self, log):
        for line in self.process.stderr:
            log.write(line)
            log.flush()

    def _last_words(self):
        """Why it ended, for whoever waits for an answer: what it logged last and the status of runsc."""
        self.log_thread.join(10)
        try:
            return f"; runsc {self.process.poll()}, its log:\n{self.log()[-4000:]}"
        except OSError as problem:
            return f"; its log: {problem}"

    def log(self):
        with open(os.path.join(self.bundle, f"log-{self.name}"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def hello(self, generation=None, timeout=TIMEOUT, **fields):
        self.generation = secrets.token_hex(8) if generation is None else generation
        body = {
            "version": 1, "generation": self.generation, "sandbox_id": "sb" + self.generation, "hostname": "box-" + self.generation[:8],
            "wall_clock_ns": str(time.time_ns()), "entropy": secrets.token_hex(64), "env": {}, "memory_limit_mb": 0,
            "process_limit": 512, **fields,
        }
        self.wire.send(0, HELLO, json.dumps(body).encode())
        return json.loads(self.wire.wait_connection(HELLO, timeout))

    def open(self, op, **fields):
        return self.wire.open(op, **fields)

    def call(self, op, **fields):
        return self.open(op, **fields).collect().ok()

    def run(self, cmd=None, timeout=TIMEOUT, **fields):
        if cmd is not None:
            fields["cmd"] = cmd
        return self.open("exec", **fields).collect(timeout).ok()

    def start_cell(self, code, language="python", **fields):
        """ctx.run; `code` as text goes with OPEN, as bytes it is streamed behind it."""
        fields.setdefault("execution_id", uuid.uuid4().hex)
        if "id" not in fields:
            fields["language"] = language
        if isinstance(code, str):
            return self.open("ctx.run", code=code, **fields)
        stream = self.open("ctx.run", code_bytes=len(code), **fields)
        stream.send_data(code)
        stream.send_eof()
        return stream

    def run_cell(self, code, language="python", timeout=slow(40), **fields):
        return Cell(self.start_cell(code, language, **fields).collect(timeout))

    def write(self, path, data, **fields):
        stream = self.open("fs.write", path=path, **fields)
        stream.send_data(data)
        stream.send_eof()
        return stream.collect().ok().result

    def read(self, path, **fields):
        return self.call("fs.read", path=path, **fields).main

    def checkpoint(self, directory, leave_running=True):
        flags = ["--leave-running"] if leave_running else []
        subprocess.run(self.runsc("checkpoint", *flags, "--compression=none", "--image-path", directory, self.name),
                       check=True, timeout=slow(40), stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def close(self):
        subprocess.run(self.runsc("kill", self.name, "KILL"), check=False, capture_output=True)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        subprocess.run(self.runsc("delete", "--force", self.name), check=False, capture_output=True)
        os.close(self.wire.write_fd)
        self.wire.reader.join(10)
        os.close(self.wire.read_fd)
        # A newer runsc keeps an empty network namespace there, as a mount.
        subprocess.run(["umount", os.path.join(self.state_root, "null-netns")], check=False, capture_output=True)
        shutil.rmtree(self.state_root, ignore_errors=True)
        if self.owns:
            shutil.rmtree(self.bundle, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
