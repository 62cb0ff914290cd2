# SPDX-License-Identifier: Apache-2.0
"""The foundation's promises: creation, commands, files, requests."""

import functools
import os
import re
import subprocess
import tempfile
import threading
import time

from bare import Bare
from harness import Daemon, ratio_row, timed

FILE_MB = 256


def creation(n):
    """Create without pool against bare `runsc restore`, taken in turns so that a noisy neighbour hits both."""
    ours, floor = [], []
    with Daemon(pool_size=0) as daemon:
        daemon.create()
        with Bare(daemon) as bare:
            for _ in range(n):
                floor.append(bare.time_restore())
                start = time.perf_counter()
                sandbox = daemon.create()
                ours.append((time.perf_counter() - start) * 1000)
                daemon.delete(sandbox)
    return [ratio_row("create without pool (restore)", ours, floor, "bare runsc restore", 1.3)]


# Three starts of the same program by a process of the guest, in milliseconds: what gVisor takes for it, before anybody has asked over HTTP.
SPAWN = """
import os, time
def spawn():
    start = time.perf_counter()
    os.waitpid(os.posix_spawn("/usr/bin/true", ["true"], {}), 0)
    return (time.perf_counter() - start) * 1000
print(*(spawn() for _ in range(3)))
"""


def execution(n):
    ours, inside, floor = [], [], []
    with Daemon(pool_size=0) as daemon:
        sandbox = daemon.create()
        body = {"argv": ["true"]}
        daemon.call("POST", f"/sandboxes/{sandbox}/exec", body)
        with Bare(daemon) as bare:
            name = bare.start()
            for _ in range(n):
                ours += [timed(lambda: daemon.call("POST", f"/sandboxes/{sandbox}/exec", body)) for _ in range(3)]
                floor.append(timed(lambda: bare.execute(name)))
                inside += [float(word) for word in daemon.run(sandbox, SPAWN)["stdout"].split()]
                floor.append(timed(lambda: bare.execute(name)))  # each has its turn after the same
    return [ratio_row('hot exec ["true"]', ours, floor, "runsc exec true", 0.4),
            ratio_row('hot exec ["true"], beside gVisor alone', ours, inside, "posix_spawn of it by a process of the guest", 1.5)]


def files():
    rows = []
    with Daemon(pool_size=0) as daemon, tempfile.NamedTemporaryFile() as local:
        sandbox = daemon.create()
        local.write(os.urandom(1024 * 1024) * FILE_MB)
        local.flush()
        url = f"http://127.0.0.1:{daemon.port}/v1/sandboxes/{sandbox}/fs?path=big.bin"
        curl = ["curl", "-s", "-S", "-f", "-H", "Authorization: Bearer " + daemon.key]
        before, peak, done = daemon.resident_mb(), [0.0], threading.Event()

        def watch():
            while not done.wait(0.02):
                peak[0] = max(peak[0], daemon.resident_mb())

        watcher = threading.Thread(target=watch)
        watcher.start()
        up = [timed(lambda: subprocess.run([*curl, "-T", local.name, url], check=True, stdout=subprocess.DEVNULL)) for _ in range(3)]
        down = [timed(lambda: subprocess.run([*curl, "-o", "/dev/null", url], check=True)) for _ in range(3)]
        done.set()
        watcher.join()
        for name, spent in (("file up", up), ("file down", down)):
            speed = FILE_MB * 1.048576 / (min(spent) / 1000)
            rows.append({"case": f"{FILE_MB} MB {name}", "n": 3, "value": round(speed), "unit": "MB/s", "at_least": 150})
        rows.append({"case": "viald's memory meanwhile", "value": round(peak[0] - before, 1), "unit": "MB more", "at_most": 32})
    return rows


def requests():
    """wrk on one core, viald on the other."""
    with Daemon(pool_size=0) as daemon:
        sandbox = daemon.create()
        url = f"http://127.0.0.1:{daemon.port}/v1/sandboxes/{sandbox}"
        subprocess.run(["taskset", "-pc", "0", str(daemon.process.pid)], stdout=subprocess.DEVNULL)
        output = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", "-c64", "-d5s", "-H", "Authorization: Bearer " + daemon.key, url],
                                capture_output=True, text=True, check=True).stdout
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
        errors = "Non-2xx" in output
    return [{"case": "GET one sandbox, 64 connections, one core", "value": 0 if errors else round(rate), "unit": "requests/s", "at_least": 25000}]


def cases(quick):
    n = 5 if quick else 30
    return [functools.partial(creation, n), functools.partial(execution, n), files, requests]
