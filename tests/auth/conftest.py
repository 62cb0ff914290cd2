# SPDX-License-Identifier: Apache-2.0
"""People's tokens: build/tests/auth/oidc-driver, which is src/auth/oidc.h and nothing else, with providers true and false in front of it."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
for folder in ("", "auth"):
    sys.path.insert(0, str(TESTS / folder))

import forge
import npm

DRIVERS = Path(os.environ.get("VIAL_TEST_OIDC_DRIVERS", Path(os.environ.get("VIAL_BUILD", TESTS.parent / "build")) / "tests/auth"))
PATIENCE = 20 * float(os.environ.get("VIAL_TEST_SLOWNESS", "1"))
OIDC_PROVIDER = "8.8.1"
# A provider of the tests may stall on a busy machine; USUAL is for those who show what becomes of one that takes too long.
USUAL, PATIENT = {}, {"fetch_ms": 300_000}
# Keys are fetched every second, and a second lies between fetches for unknown ones. FORGETFUL also forgets those it has not had again for a while.
IMPATIENT = {**PATIENT, "refresh_ms": 1000, "fetch_pause_ms": 1000}
FORGETFUL = {**IMPATIENT, "keep_ms": 15_000}


class Driver:
    """The program; questions are numbered by it and answered in any order."""

    def __init__(self, program, settings, environment):
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        self.log = []
        self.process = subprocess.Popen([DRIVERS / program, "--config=/dev/null", *flags], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, env=environment)
        self.lines = queue.Queue()
        self.early = []
        self.asked = 0
        self.readers = [threading.Thread(target=self.read), threading.Thread(target=self.read_log)]
        for reader in self.readers:
            reader.start()

    def read(self):
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def read_log(self):
        for line in self.process.stderr:
            self.log.append(line.decode().rstrip())

    def wait_for(self, wanted, seconds=PATIENCE):
        """The first line, come or to come, that `wanted` likes."""
        end = time.monotonic() + seconds
        for line in self.early:
            if wanted(line):
                self.early.remove(line)
                return line
        while True:
            try:
                line = self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"the driver did not say it in time; it said {self.early} and {self.log[-5:]}") from None
            assert line is not None, f"the driver ended: {self.log[-20:]}"
            if wanted(line):
                return line
            self.early.append(line)

    def write(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else line.encode())
        self.process.stdin.write(b"\n")
        self.process.stdin.flush()

    def start(self, token, project=None):
        """Asks; the answer is for later."""
        self.asked += 1
        token = token if isinstance(token, bytes) else token.encode()
        self.write(token + (b"\t" + project.encode() if project is not None else b""))
        return self.asked

    def answer(self, n, seconds=PATIENCE):
        return self.wait_for(lambda line: line.get("n") == n, seconds)

    def ask(self, token, project=None):
        return self.answer(self.start(token, project))

    def who(self, token, project=None):
        """The identity of a token that must be good."""
        answer = self.ask(token, project)
        assert "identity" in answer, answer
        return answer["identity"]

    def refusal(self, token, project=None):
        """(status, sentence) of a token that must be refused."""
        answer = self.ask(token, project)
        assert "error" in answer, answer
        message = answer["error"]["message"]
        text = token if isinstance(token, str) else token.decode(errors="replace")
        assert not any(part and part in message for part in text.split(".") if len(part) > 8), "the sentence quotes the token"
        return answer["error"]["status"], message

    def ended(self, seconds=PATIENCE):
        """The questions whose identities ended next."""
        return self.wait_for(lambda line: "ended" in line, seconds)["ended"]

    def has_said(self, text, seconds=PATIENCE):
        """Whether it is in the log, now or soon."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if any(text in line for line in self.log):
                return True
            time.sleep(0.05)
        return False

    def stop(self):
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            for reader in self.readers:
                reader.join(PATIENCE)
            self.process.stdout.close()
            self.process.stderr.close()
        assert self.process.returncode == 0, self.log


def clean_environment():
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VIAL_") and not name.lower().endswith("_proxy")}
    return {**kept, "ASAN_OPTIONS": "detect_leaks=1"}


@pytest.fixture
def driver():
    """Starts a driver: driver(oidc_issuer=..., times=IMPATIENT, environment={...})."""
    running = []

    def start(times=PATIENT, environment=None, **settings):
        defaults = {"oidc_issuer": forge.ISSUER, "oidc_audience": forge.AUDIENCE, "oidc_rules": "sub=* -> default:viewer", "oidc_clock_skew_seconds": 0}
        settings = {name: value for name, value in {**defaults, **settings}.items() if value is not None}
        times = {f"OIDC_{name.upper()}": str(ms) for name, ms in times.items()}
        running.append(Driver("oidc-driver-timed", settings, {**clean_environment(), **times, **(environment or {})}))
        running[-1].wait_for(lambda line: "ready" in line)
        return running[-1]
    yield start
    for one in running:
        one.stop()


@pytest.fixture
def refused_start():
    """The sentence with which a start with these settings ends."""
    def run(**settings):
        flags = [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]
        done = subprocess.run([DRIVERS / "oidc-driver", "--config=/dev/null", *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=PATIENCE, env=clean_environment())
        assert done.returncode == 1, done
        return done.stderr.strip()
    return run


@pytest.fixture(scope="session")
def keys():
    """One of each algorithm, made once: RSA takes its time."""
    return {"RS256": forge.Key("RS256", "rsa-1"), "ES256": forge.Key("ES256", "ec-1"), "EdDSA": forge.Key("EdDSA", "ed-1")}


@pytest.fixture
def key_file(tmp_path):
    """Writes a key set in one step: key_file(set) -> its path."""
    path = tmp_path / "jwks.json"

    def write(document):
        new = path.with_suffix(".new")
        new.write_bytes(document if isinstance(document, bytes) else json.dumps(document).encode())
        new.rename(path)
        return path
    return write


class RealProvider:
    def __init__(self, package):
        self.process = subprocess.Popen(["node", TESTS / "auth/provider.mjs", package], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line, self.process.stderr.read()
        self.issuer = json.loads(line)["issuer"]

    def order(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def stop(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.fixture
def provider():
    one = RealProvider(npm.install("oidc-provider", OIDC_PROVIDER))
    yield one
    one.stop()
