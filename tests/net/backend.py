# SPDX-License-Identifier: Apache-2.0
"""Where the tests get sandboxes from. Every backend offers the same few calls, so the same table runs against

- DriverBackend: src/net/ alone (netdriver.c), a "sandbox" being plain processes in the slot's namespace;
- VialdBackend (VIAL_NET_BACKEND=viald): a viald on its HTTP API with real sandboxes, in the internet's host namespace.
"""
import http.client
import json
import os
import socket
import subprocess
import time

import pytest

import internet

HERE = os.path.dirname(os.path.abspath(__file__))
CLIENT = open(os.path.join(HERE, "client.py")).read()
BUILD = os.environ.get("VIAL_BUILD", os.path.join(HERE, "..", "..", "build"))


def patience():
    """How much longer things may take than on an idle machine, by its load."""
    return max(1.0, os.getloadavg()[0] / os.cpu_count())


def wait_until(condition, seconds=60):
    """Asks until the answer is true, for so long at most, and gives the last answer."""
    end = time.monotonic() + seconds
    while not (answer := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return answer


AT_ONCE_MS = 7000  # less is an answer on however busy a machine: a silence lasts the whole TIMEOUT of client.py


class Refused(Exception):
    """The library or viald said no; the message is its own."""


class Sandbox:
    """run() is the one thing a backend's sandbox must have of its own."""

    def try_all(self, attempts):
        done = self.run(["python3", "-c", CLIENT, json.dumps(attempts)])
        if done.returncode:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)

    def try_until(self, attempts, wanted):
        """The results that are as wanted, else those of the third time: a busy moment passes, what is wrong stays so."""
        for _ in range(3):
            results = self.try_all(attempts)
            if wanted(results):
                break
        return results

    def try_one(self, **attempt):
        return self.try_all([attempt])[0]


class DriverSandbox(Sandbox):
    def __init__(self, backend, answer):
        self.backend, self.slot, self.netns, self.ms = backend, answer["slot"], answer["netns"], answer.get("ms")

    def prefix(self):
        mount = "mount --bind \"$0\" /etc/resolv.conf && mount --bind /dev/null /etc/hosts && exec \"$@\""
        return ["nsenter", f"--net={self.netns}", "unshare", "-m", "sh", "-c", mount, self.backend.resolv_conf]

    def run(self, argv, timeout=60, **kw):
        return subprocess.run(self.prefix() + argv, text=True, capture_output=True, timeout=timeout, **kw)

    def popen(self, argv, **kw):
        return subprocess.Popen(self.prefix() + argv, text=True, **kw)

    def set_policy(self, network):
        return self.backend.call("set", slot=self.slot, network=network)

    def check(self, host, port):
        return self.backend.call("check", slot=self.slot, host=host, port=port)

    def events(self, after=0):
        return self.backend.call("events", slot=self.slot, after=after)["events"]

    def counters(self):
        return self.backend.call("counters", slot=self.slot)

    def close(self):
        self.backend.call("release", slot=self.slot)


class DriverBackend:
    """`net` is an Internet; None: the machine's own network and resolvers, as viald would have them."""

    def __init__(self, net, data_dir, prepared=4):
        self.net, self.data_dir, self.prepared = net, data_dir, prepared
        self.resolv_conf = os.path.join(net.dir if net else data_dir, "resolv.conf")
        with open(self.resolv_conf, "w") as f:
            f.write("nameserver 192.0.0.1\noptions timeout:10 attempts:1\n")
        self.start()

    def start(self, sweep=True):
        argv = [os.path.join(BUILD, "src/net/vial-net-driver"), "--data-dir", self.data_dir, "--prepared", str(self.prepared),
                "--sealed-port", "7777"]
        if self.net:
            argv = ["nsenter", f"--net=/run/netns/{self.net.host_ns}", *argv, "--resolver", internet.RESOLVER]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        if sweep:
            self.call("start")

    def call(self, op, **fields):
        self.process.stdin.write(json.dumps({"op": op, **fields}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the driver died ({self.process.wait()})")
        answer = json.loads(line)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def create(self, network=None, limits=None):
        return DriverSandbox(self, self.call("acquire", label="test", network=network, limits=limits or {}))

    def adopt(self, slot, network):
        return DriverSandbox(self, self.call("adopt", slot=slot, label="test", network=network))

    def stats(self):
        return self.call("stats")

    def settle(self, **wanted):
        """Waits until the stock looks like that."""
        end = time.monotonic() + 120
        while time.monotonic() < end:
            stats = self.stats()
            if all(stats[k] == v for k, v in wanted.items()):
                return stats
            time.sleep(0.02)
        raise AssertionError(f"{stats} never became {wanted}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def close(self):
        if self.process.poll() is None:
            try:
                self.call("quit")
            except (RuntimeError, BrokenPipeError):
                pass
            self.process.wait(20)


class VialdSandbox(Sandbox):
    def __init__(self, backend, answer):
        self.backend, self.id = backend, answer["id"]

    def run(self, argv, timeout=60):
        got = self.backend.request("POST", f"/v1/sandboxes/{self.id}/exec", {"argv": argv, "timeout_seconds": timeout, "user": "root"})
        return subprocess.CompletedProcess(argv, got["exit_code"], got["stdout"], got["stderr"])

    def set_policy(self, network):
        return self.backend.request("PUT", f"/v1/sandboxes/{self.id}/network", network)

    def check(self, host, port):
        return self.backend.request("POST", f"/v1/sandboxes/{self.id}/network/check", {"host": host, "port": port})

    def events(self, after=0):
        return self.backend.request("GET", f"/v1/sandboxes/{self.id}/network/events?after={after}")["events"]

    def close(self):
        self.backend.request("DELETE", f"/v1/sandboxes/{self.id}")


class VialdBackend:
    """A viald in the internet's host namespace, spoken to over a unix socket."""

    def __init__(self, net, data_dir, *options):
        self.net, self.data_dir, self.options = net, data_dir, options
        self.socket = os.path.join(net.dir, "viald")
        self.log = os.path.join(net.dir, "viald.log")
        self.start()
        self.key = open(os.path.join(data_dir, "keys", "admin.key")).read().strip()

    def start(self, *more):
        images = os.environ.get("VIAL_IMAGES_DIR", "/var/lib/vial-test/images")
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["nsenter", f"--net=/run/netns/{self.net.host_ns}", os.path.join(BUILD, "viald"), f"--data-dir={self.data_dir}",
                 f"--run-dir={self.net.dir}/run", f"--images-dir={images}", f"--listen=unix:{self.socket}", f"--resolvers={internet.RESOLVER}",
                 "--default-template=minimal", "--pool-size=1", "--log-level=warning", "--config=/dev/null", *self.options, *more],
                stdout=log, stderr=log)
        deadline = time.monotonic() + 300
        while "Vial is ready" not in open(self.log).read():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("viald did not start: " + open(self.log).read()[-2000:])
            time.sleep(0.1)

    def kill(self):
        """As a crash: sandboxes go on for the next viald."""
        self.process.kill()
        self.process.wait()

    def request(self, method, path, body=None):
        text = self.text(path, method, body)
        return json.loads(text) if text else {}

    def text(self, path, method="GET", body=None):
        connection = http.client.HTTPConnection("viald", timeout=120)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(120)
        connection.sock.connect(self.socket)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json", "Host": "localhost"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 400:
            raise Refused(json.loads(text)["error"])
        return text.decode()

    def create(self, network=None, limits=None):
        if set(limits or {}) - {"rate_mbit", "max_connections"}:
            pytest.skip("the API does not have these caps")
        if limits:
            network = {**network, "limits": limits}
        return VialdSandbox(self, self.request("POST", "/v1/sandboxes", {"template": "minimal", **({"network": network} if network else {})}))

    def close(self):
        self.process.terminate()
        self.process.wait(30)
