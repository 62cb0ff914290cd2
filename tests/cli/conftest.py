# SPDX-License-Identifier: Apache-2.0
"""The CLI against a stand-in (always) and against a real viald (when VIAL_TEST_URL and VIAL_TEST_KEY name one)."""

import json
import os
import pathlib
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE))

from fakeviald import FakeViald  # noqa: E402
from terminal import Terminal  # noqa: E402

ROOT = HERE.parent.parent
BINARY = os.environ.get("VIAL_CLI") or str(pathlib.Path(os.environ.get("VIAL_BUILD", ROOT / "build")) / "vial")
REAL_URL, REAL_KEY = os.environ.get("VIAL_TEST_URL"), os.environ.get("VIAL_TEST_KEY")


class Server:
    def __init__(self, url, key, fake=None):
        self.url, self.key, self.fake = url, key, fake
        self.name = "fake" if fake else "real"
        self.created = []

    def request(self, method, path, body=None):
        """(status, JSON or None), without the CLI: for arranging and checking."""
        request = urllib.request.Request(self.url + "/v1" + path, method=method,
                                         data=json.dumps(body).encode() if body is not None else None,
                                         headers={"Authorization": "Bearer " + self.key, "Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                text = answer.read()
                return answer.status, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, None

    def sandbox_ids(self):
        found = self.request("GET", "/sandboxes?limit=500")[1]
        ids = []
        while True:
            items = found if isinstance(found, list) else found["items"]
            ids += [s["id"] for s in items]
            if isinstance(found, list) or not found.get("next"):
                return ids
            found = self.request("GET", "/sandboxes?limit=500&cursor=" + found["next"])[1]

    def supports(self, method, path, body=None):
        """Does a route exist in this server? Asked of a fresh sandbox."""
        if self.fake:
            return True
        status, sandbox = self.request("POST", "/sandboxes", {"template": "minimal"})
        assert status == 201
        try:
            return self.request(method, f"/sandboxes/{sandbox['id']}{path}", body)[0] < 400
        finally:
            self.request("DELETE", "/sandboxes/" + sandbox["id"])


@pytest.fixture(scope="session", params=["fake", "real"])
def server(request):
    if request.param == "real":
        if not (REAL_URL and REAL_KEY):
            pytest.skip("no real viald: VIAL_TEST_URL and VIAL_TEST_KEY are not set")
        yield Server(REAL_URL, REAL_KEY)
        return
    fake = FakeViald()
    yield Server(fake.url, fake.key, fake)
    fake.stop()


@pytest.fixture(scope="session")
def fake_server():
    fake = FakeViald()
    yield Server(fake.url, fake.key, fake)
    fake.stop()


class Vial:
    """Runs the binary: vial("ls", "--json") → a CompletedProcess with text output."""

    def __init__(self, server, home):
        self.server, self.terminals = server, []
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("VIAL_") and k != "NO_COLOR"}
        self.env |= {"VIAL_URL": server.url, "VIAL_API_KEY": server.key, "HOME": str(home), "TERM": "xterm", "LC_ALL": "C.UTF-8",
                     "XDG_STATE_HOME": str(home / "state"), "VIAL_DATA": str(home / "none")}

    def __call__(self, *args, input=None, check=True, env=None, binary=False, timeout=60, stdin=None, **options):
        """input=None gives an empty standard input, so that nothing waits for one."""
        if input is None and stdin is None:
            stdin = subprocess.DEVNULL
        done = subprocess.run([BINARY, *map(str, args)], input=input, stdin=stdin, capture_output=True, text=not binary,
                              env=self.env | (env or {}), timeout=timeout, **options)
        assert not check or done.returncode == 0, f"vial {args} ended with {done.returncode}: {done.stderr!r}"
        return done

    def json(self, *args, **options):
        return json.loads(self(*args, "--json", **options).stdout)

    def popen(self, *args, **options):
        return subprocess.Popen([BINARY, *map(str, args)], env=self.env, **options)

    def terminal(self, *args, rows=24, columns=80, env=None):
        terminal = Terminal([BINARY, *map(str, args)], self.env | (env or {}), rows, columns)
        self.terminals.append(terminal)
        return terminal


def make_vial(server, home):
    vial = Vial(server, home)
    yield vial
    for terminal in vial.terminals:
        terminal.close()


@pytest.fixture
def vial(server, tmp_path):
    (tmp_path / "home").mkdir()
    yield from make_vial(server, tmp_path / "home")


@pytest.fixture
def fake_vial(fake_server, tmp_path):
    """Against the stand-in only: for answers that no honest server gives."""
    (tmp_path / "home").mkdir()
    yield from make_vial(fake_server, tmp_path / "home")


def sandbox_of(vial):
    id_ = vial("create", "--template", "minimal").stdout.strip()
    yield id_
    vial.server.request("DELETE", "/sandboxes/" + id_)


@pytest.fixture
def sandbox(vial):
    yield from sandbox_of(vial)


@pytest.fixture
def fake_sandbox(fake_vial):
    yield from sandbox_of(fake_vial)


@pytest.fixture(scope="session")
def has_base64(server):
    """Does exec/stream honour "encoding": "base64"?"""
    if server.fake:
        return True
    sandbox = server.request("POST", "/sandboxes", {"template": "minimal"})[1]
    request = urllib.request.Request(f"{server.url}/v1/sandboxes/{sandbox['id']}/exec/stream", method="POST",
                                     data=b'{"argv":["echo"],"encoding":"base64"}', headers={"Authorization": "Bearer " + server.key})
    with urllib.request.urlopen(request) as answer:
        text = answer.read()
    server.request("DELETE", "/sandboxes/" + sandbox["id"])
    return b"chunk_base64" in text


@pytest.fixture
def exact_bytes(has_base64):
    if not has_base64:
        pytest.skip("this viald streams text only: bytes that are not UTF-8 are replaced")


@pytest.fixture(scope="session")
def has_kernels(server):
    return server.supports("POST", "/run", {"code": "1", "language": "python"})


@pytest.fixture
def kernels(has_kernels):
    if not has_kernels:
        pytest.skip("this viald has no kernels yet")


@pytest.fixture(scope="session")
def has_forks(server):
    return server.supports("POST", "/pause")


@pytest.fixture
def forks(has_forks):
    if not has_forks:
        pytest.skip("this viald has no snapshots and forks yet")
