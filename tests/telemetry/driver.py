# SPDX-License-Identifier: Apache-2.0
"""src/telemetry in a process of its own; see otlp_driver.c."""

import json
import os
import subprocess
from pathlib import Path

from waiting import slow, wait_until

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("VIAL_BUILD_DIR", ROOT / "build")) / "tests/telemetry/otlp-driver"
HURRY = 10  # most tests do not want to wait for seconds,
LEISURE = 0.002  # and some show that nothing waits: here all waiting is for minutes
PATIENCE_MS = 300_000  # a collector that means to answer may stall on a busy machine: only tests of one that hangs give it less


def environment(**more):
    """Ours, but for settings of viald: the test runner has some."""
    return {**{name: value for name, value in os.environ.items() if not name.startswith("VIAL_")}, **more}


def command(endpoint, *flags, config="/dev/null", hurry=HURRY, request_ms=PATIENCE_MS):
    return [PROGRAM, "--config", config, "--hurry", str(hurry), "--request-ms", str(request_ms), "--otlp-endpoint", endpoint, *flags]


class Driver:
    def __init__(self, endpoint, *flags, log, env=None, **options):
        self.log = Path(log)
        with open(self.log, "w") as stderr:
            self.process = subprocess.Popen(command(endpoint, *flags, **options), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
                                            text=True, env=environment(**(env or {})))
        self.is_on = self.read()["is_on"]

    def read(self):
        line = self.process.stdout.readline()
        assert line, f"the driver ended: {self.log.read_text()}"
        return json.loads(line)

    def ask(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.read()

    def add(self, name="run", times=1, **span):
        """Seconds that it took."""
        return self.ask(do="add", times=times, span={"name": name, "started_us": 1, "ended_us": 2, **span})["us"] / 1e6

    def stats(self):
        return self.ask(do="stats")

    def await_stats(self, seconds=10, **wanted):
        def is_so():
            self.last = self.stats()
            return all(self.last[name] == value for name, value in wanted.items())
        wait_until(is_so, seconds, lambda: f"{self.last} is not {wanted}; {self.log.read_text()[-2000:]}")
        return self.last

    def await_failures(self, least, seconds=10):
        """At least so many requests that failed: where nobody answers there is soon another one."""
        wait_until(lambda: self.stats()["failed_requests"] >= least, seconds, lambda: f"{self.stats()}; {self.log.read_text()[-2000:]}")
        return self.stats()

    def await_complaint(self):
        """The first line that was complained in; it comes a moment after the numbers."""
        wait_until(self.complaints, 10, lambda: f"no complaint in {self.log.read_text()[-2000:]}")
        return self.complaints()[0]

    def complaints(self):
        return [line for line in self.log.read_text().splitlines() if "level=warning" in line]

    def free(self):
        """Seconds that vial_otlp_free() took. The process ends with it, and well: a sanitizer's finding would show."""
        seconds = self.ask(do="free")["ms"] / 1e3
        self.end()
        return seconds

    def end(self):
        self.process.stdin.close()
        status = self.process.wait(timeout=slow(20))
        self.process.stdout.close()
        assert status == 0, f"the driver ended with {status}: {self.log.read_text()}"
