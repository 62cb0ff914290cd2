# SPDX-License-Identifier: Apache-2.0
"""A viald of one's own, and a small client for it. Standard library only.

    daemon = Daemon(folder)            # starts on a free port with a private data directory
    sandbox = daemon.client().create() # template `minimal`
    sandbox.exec("echo hello")["stdout"]
    daemon.stop()                      # ends the sandboxes, and checks that nothing is left
"""

import base64
import hashlib
import http.client
import json
import os
import signal
import socket
import struct
import subprocess
import time
from pathlib import Path
from urllib.parse import quote, urlencode, urlsplit

ROOT = Path(__file__).resolve().parents[2]

# Engines and machines differ in speed, and a machine from one minute to the next; every wait of every test is stretched by this.
SLOWNESS = float(os.environ.get("VIAL_TEST_SLOWNESS", "3"))


def slow(seconds):
    return seconds * SLOWNESS


def build_dir():
    return Path(os.environ.get("VIAL_BUILD_DIR", ROOT / "build"))


def images_dir():
    if "VIAL_TEST_IMAGES" in os.environ:
        return Path(os.environ["VIAL_TEST_IMAGES"])
    return Path(os.environ.get("VIAL_DATA_TEST", "/var/lib/vial-test")) / "images"


class ApiError(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body}")
        self.status = status
        self.body = body


class Answer:
    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        return self.body.decode()


class Client:
    """One key at one server. Every call uses a connection of its own."""

    def __init__(self, url, key, timeout=min(slow(70), 280)):
        self.url = url
        self.key = key
        self.timeout = timeout
        parts = urlsplit(url)
        self.address = (parts.hostname, parts.port)

    def connection(self):
        return http.client.HTTPConnection(*self.address, timeout=self.timeout)

    def open(self, method, path, body=None, headers=None, key=True):
        """The response with its body unread; close `response.connection` when done."""
        headers = dict(headers or {})
        if key:
            headers.setdefault("Authorization", f"Bearer {self.key if key is True else key}")
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection = self.connection()
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        response.connection = connection
        return response

    def ask(self, method, path, body=None, headers=None, key=True):
        """The whole answer, whatever its status."""
        response = self.open(method, path, body, headers, key)
        try:
            return Answer(response.status, response.headers, response.read())
        finally:
            response.connection.close()

    def call(self, method, path, body=None, **options):
        """The JSON of a good answer; ApiError for any other."""
        answer = self.ask(method, path, body, **options)
        if answer.status >= 400:
            raise ApiError(answer.status, answer.json() if answer.body else None)
        return answer.json() if answer.body else None

    def create(self, template="minimal", **fields):
        return Sandbox(self, self.call("POST", "/v1/sandboxes", {"template": template, **fields}))

    def sandboxes(self):
        return self.call("GET", "/v1/sandboxes")


class Sandbox:
    def __init__(self, client, info):
        self.client = client
        self.info = info
        self.id = info["id"]
        self.path = f"/v1/sandboxes/{self.id}"

    def call(self, method, path="", body=None, **options):
        return self.client.call(method, self.path + path, body, **options)

    def ask(self, method, path="", body=None, **options):
        return self.client.ask(method, self.path + path, body, **options)

    def refresh(self):
        self.info = self.call("GET")
        return self.info

    def exec(self, cmd, **fields):
        return self.call("POST", "/exec", {"cmd": cmd, **fields})

    def spawn(self, cmd, **fields):
        """A background command; returns its pid."""
        return self.call("POST", "/exec", {"cmd": cmd, "background": True, **fields})["pid"]

    def signal(self, pid, name="KILL"):
        self.call("POST", f"/processes/{pid}/signal", {"signal": name})

    def write(self, path, content):
        content = content.encode() if isinstance(content, str) else content
        answer = self.ask("PUT", f"/fs?path={quote(path)}", content)
        assert answer.status < 300, answer.body

    def read(self, path):
        answer = self.ask("GET", f"/fs?path={quote(path)}")
        assert answer.status == 200, answer.body
        return answer.body

    def serve(self, port, source, *arguments):
        """Runs Python source in the sandbox and waits until it listens on the port. Returns its pid."""
        path = f"/tmp/server-{port}.py"
        self.write(path, source)
        pid = self.spawn(f"exec python3 -u {path} {port} {' '.join(map(str, arguments))}")
        self.wait_for_port(port)
        return pid

    def wait_for_port(self, port, seconds=20):
        deadline = time.monotonic() + slow(seconds)
        while time.monotonic() < deadline:
            if any(entry["port"] == port for entry in self.call("GET", "/ports")["ports"]):
                return
            time.sleep(0.05)
        raise AssertionError(f"nothing listens on port {port}: {self.call('GET', '/processes')}")

    def websocket(self, path, **query):
        full = self.path + path + ("?" + urlencode(query) if query else "")
        return WebSocket(self.client.address, full, {"Authorization": f"Bearer {self.client.key}"})

    def delete(self):
        self.client.ask("DELETE", self.path)


class WebSocketRefused(Exception):
    def __init__(self, status, body):
        super().__init__(f"{status}: {body[:300]!r}")
        self.status = status
        self.body = body


class WebSocket:
    """A blocking client of RFC 6455, just enough for tests."""

    TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10

    def __init__(self, address, path, headers=None, host=None, timeout=min(slow(30), 120)):
        self.timeout = timeout
        self.socket = socket.create_connection(address, timeout=timeout)
        self.file = self.socket.makefile("rb")
        self.close_code = None
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {host or '%s:%d' % address}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Version: 13",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            *[f"{name}: {value}" for name, value in (headers or {}).items()],
        ]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")
        self.status = int(self.file.readline().split()[1])
        self.headers = http.client.parse_headers(self.file)
        if self.status != 101:
            body = self.file.read(int(self.headers.get("Content-Length", 0)))
            self.socket.close()
            raise WebSocketRefused(self.status, body)

    def send_frame(self, opcode, payload):
        mask = os.urandom(4)
        head = bytes([0x80 | opcode])
        if len(payload) < 126:
            head += bytes([0x80 | len(payload)])
        elif len(payload) < 65536:
            head += bytes([0x80 | 126]) + struct.pack(">H", len(payload))
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", len(payload))
        key = int.from_bytes((mask * (len(payload) // 4 + 1))[: len(payload)], "big")
        masked = (int.from_bytes(payload, "big") ^ key).to_bytes(len(payload), "big")
        self.socket.sendall(head + mask + masked)

    def send(self, message):
        if isinstance(message, dict):
            message = json.dumps(message)
        if isinstance(message, str):
            self.send_frame(self.TEXT, message.encode())
        else:
            self.send_frame(self.BINARY, message)

    def _read(self, size):
        data = self.file.read(size)
        if len(data) < size:
            raise EOFError("the connection ended in the middle of a frame")
        return data

    def receive_frame(self):
        first, second = self._read(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", self._read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self._read(8))
        return first & 0x0F, self._read(length)

    def receive(self):
        """str, bytes, or None once the other side has closed (see close_code)."""
        deadline = time.monotonic() + self.timeout
        while True:
            opcode, payload = self.receive_frame()
            if opcode == self.PING:
                self.send_frame(self.PONG, payload)
                if time.monotonic() > deadline:  # pings alone would keep the socket's own time limit from ever being reached
                    raise TimeoutError(f"no message within {self.timeout:g} s")
            elif opcode == self.CLOSE:
                self.close_code = struct.unpack(">H", payload[:2])[0] if len(payload) >= 2 else 1005
                return None
            elif opcode == self.TEXT:
                return payload.decode()
            elif opcode == self.BINARY:
                return payload

    def close(self, code=1000):
        try:
            self.send_frame(self.CLOSE, struct.pack(">H", code))
        except OSError:
            pass
        self.vanish()

    def vanish(self):
        """Away without a word."""
        self.file.close()
        self.socket.close()


class Daemon:
    """viald with a data directory, run directory and port of its own."""

    program = None  # None: viald, of the programs
    usual_programs, usual_env = None, {}  # of those that are started without any: a suite's own, or None for the build's

    def __init__(self, folder, *options, env=None, programs=None):
        self.folder = Path(folder)
        self.programs = programs or self.usual_programs or build_dir()
        self.data = self.folder / "data"
        self.options = options
        self.env = {**os.environ, **self.usual_env, **(env or {})}
        self.process = None
        self.start()

    def start(self):
        for _ in range(5):
            if self._start_on_a_free_port():
                return
        raise AssertionError("whichever port is free is taken before viald has it")

    def _start_on_a_free_port(self):
        """False when somebody else has taken that meanwhile."""
        before = len(self.log_text()) if (self.folder / "viald.log").exists() else 0
        self.log = open(self.folder / "viald.log", "ab")
        self.process = subprocess.Popen(
            [self.program or self.programs / "viald", "--config", "/dev/null", "--data-dir", self.data, "--run-dir", self.folder / "run", "--images-dir", images_dir(),
             "--listen", f"127.0.0.1:{self._free_port()}", "--default-template", "minimal", "--pool-size", "0", *map(str, self.options)],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env=self.env)
        try:
            self._wait_until_ready()
        except AssertionError:
            if self.process.poll() is None or "in use by another program" not in self.log_text()[before:]:
                raise
            self.log.close()
            return False
        return True

    def _free_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        return self.port

    def _wait_until_ready(self, seconds=slow(40)):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise AssertionError(f"viald ended with {self.process.returncode}:\n{self.log_text()[-4000:]}")
            if self._listens():
                break
            time.sleep(0.02)
        else:
            raise AssertionError("viald does not listen")
        self.url = f"http://127.0.0.1:{self.port}"

    def _listens(self):
        """It, and not somebody else who has got the port meanwhile."""
        process = Path(f"/proc/{self.process.pid}")
        try:
            sockets = [line.split() for line in (process / "net/tcp").read_text().splitlines()[1:]]
            listening = {f"socket:[{fields[9]}]" for fields in sockets if fields[3] == "0A" and int(fields[1].split(":")[1], 16) == self.port}
            return any(os.readlink(file) in listening for file in (process / "fd").iterdir())
        except OSError:  # of what has gone while it was looked at
            return False

    def log_text(self):
        return (self.folder / "viald.log").read_text(errors="replace")

    @property
    def key(self):
        return (self.data / "keys/admin.key").read_text().strip()

    def client(self, key=None):
        return Client(self.url, key or self.key)

    def rss_kb(self):
        """Memory of its own; files that are mapped (snapshots being hashed) do not count."""
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1])
        return 0

    def open_files(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def alive(self):
        return self.process.poll() is None and Client(self.url, "", timeout=slow(10)).ask("GET", "/healthz", key=False).status == 200

    def kill(self):
        """As a crash: sandboxes go on for the next viald."""
        self.process.kill()
        self.process.wait(timeout=60)
        self.log.close()

    def stop(self, seconds=slow(60)):
        """Ends viald and all its sandboxes the way Ctrl-C does, and checks that nothing is left."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        status = self.process.wait(timeout=seconds)
        self.log.close()
        assert status == 0, f"viald ended with {status}:\n{self.log_text()[-4000:]}"
        assert not self.left_behind(), f"left behind: {self.left_behind()}"

    def left_behind(self):
        """Processes that name our folder, mounts in it, and, once viald is gone, network namespaces and cgroups with the tag of our data directory
        (while it lives it keeps some ready)."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if str(self.folder) in command and "pytest" not in command:
                found.append(f"{entry.name}: {command}")
        if self.process.poll() is not None:
            tag = hashlib.sha256(str(self.data).encode()).hexdigest()[:8]
            found += [str(path) for path in Path("/run/netns").glob(f"vial-{tag}-*")]
            for pattern in (f"vial-{tag}", f"*/vial-{tag}"):
                for group in Path("/sys/fs/cgroup").glob(pattern):
                    found += [f"{path}: {path.read_text().split()}" for path in sorted(group.rglob("cgroup.procs"))]
        return found + [line for line in Path("/proc/mounts").read_text().splitlines() if str(self.folder) in line]
