# SPDX-License-Identifier: Apache-2.0
"""A viald of the benchmark's own, a keep-alive client, and the statistics every case reports in."""

import atexit
import functools
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("VIAL_BUILD") or os.environ.get("VIAL_BUILD_DIR", os.path.join(ROOT, "build"))


RUNSC = os.environ.get("VIAL_RUNSC") or "runsc"  # viald takes the same one, by the same name


@functools.cache
def images(template):
    """The image's record in a folder of our own: what is baked there was baked by the programs that are measured, and nothing but this template waits
    in a pool beside what is measured."""
    folder = tempfile.mkdtemp(prefix="vial-bench-images-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shutil.copy(os.path.join(os.environ.get("VIAL_IMAGES_DIR", "/var/lib/vial-test/images"), f"{template}.json"), folder)
    return folder


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def stats(values):
    """n, p50 and p99 of times in milliseconds."""
    return {"n": len(values), "p50_ms": round(percentile(values, 0.5), 2), "p99_ms": round(percentile(values, 0.99), 2)}


def ratio_row(case, ours, floor, floor_name, limit, **more):
    """A promise beside its floor: times in milliseconds of both, taken in turns in this run."""
    return {"case": case, **stats(ours), "floor": floor_name, "floor_ms": stats(floor)["p50_ms"],
            "ratio": round(percentile(ours, 0.5) / percentile(floor, 0.5), 3), "limit": limit, **more}


def timed(action):
    start = time.perf_counter()
    action()
    return (time.perf_counter() - start) * 1000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Daemon:
    def __init__(self, pool_size=2, template="minimal", **settings):
        self.data = tempfile.mkdtemp(prefix="vial-bench-")
        self.port = free_port()
        self.template = template
        self.log = open(os.path.join(self.data, "viald.log"), "a+")
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in settings.items()]
        self.command = [os.path.join(BUILD, "viald"), f"--data-dir={self.data}", f"--images-dir={images(template)}", f"--listen=127.0.0.1:{self.port}",
                        f"--pool-size={pool_size}", f"--default-template={template}", "--log-level=warning", *flags]
        try:
            self.start()
            with open(os.path.join(self.data, "keys", "admin.key")) as file:
                self.key = file.read().strip()
        except BaseException:
            self.stop()
            raise

    def start(self):
        self.connection = None
        self.log.truncate(0)
        self.process = subprocess.Popen(self.command, stdout=self.log, stderr=self.log, start_new_session=True)
        deadline = time.time() + 300
        while "Vial is ready" not in open(self.log.name).read():
            if self.process.poll() is not None or time.time() > deadline:
                raise RuntimeError("viald did not start: " + open(self.log.name).read()[-2000:])
            time.sleep(0.01)

    def restart(self, meanwhile=lambda: None):
        """How many milliseconds until it is ready again. `meanwhile` is done while no viald is there."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)
        meanwhile()
        return timed(self.start)

    def request(self, method, target, body=None, headers=None, connection=None):
        """The answer's bytes; whatever the dialect."""
        if connection is None:
            if self.connection is None:
                self.connection = self.connect()
            connection = self.connection
        payload = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        connection.request(method, target, payload, headers or {})
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {target}: {answer.status} {content[:300]}")
        return content

    def call(self, method, path, body=None, raw=False, connection=None):
        content = self.request(method, "/v1" + path, body, {"Authorization": "Bearer " + self.key}, connection)
        return content if raw else (json.loads(content) if content else None)

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)

    def create(self, **body):
        return self.call("POST", "/sandboxes", {"template": self.template, **body})["id"]

    def delete(self, sandbox):
        self.call("DELETE", f"/sandboxes/{sandbox}")

    def run(self, sandbox, code="1+1", language="python"):
        return self.call("POST", f"/sandboxes/{sandbox}/run", {"code": code, "language": language})

    def pool(self):
        return self.call("GET", "/me").get("pool", {}).get(self.template, {})

    def wait_for_pool(self, ready, blank=0, seconds=60):
        deadline = time.time() + seconds
        while time.time() < deadline:
            state = self.pool()
            if state.get("ready", 0) >= ready and state.get("blank", 0) >= blank:
                return
            time.sleep(0.02)
        raise RuntimeError(f"the pool did not fill: {self.pool()}")

    def hosts(self):
        """The folders of all guests, those of the pool included."""
        return set(os.listdir(os.path.join(self.data, "sandboxes")))

    def hibernate(self, sandbox):
        """How many milliseconds it took. Comes back when the guest's memory is free again, which is after the answer: else that would slow down what is
        measured next."""
        before = self.hosts()
        spent = timed(lambda: self.call("POST", f"/sandboxes/{sandbox}/hibernate"))
        deadline = time.time() + 60
        while not before - self.hosts():
            if time.time() > deadline:
                raise RuntimeError("a guest that was hibernated has not gone")
            time.sleep(0.005)
        return spent

    def resident_mb(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * 4096 / 1e6

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.data, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
