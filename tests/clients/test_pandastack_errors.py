# SPDX-License-Identifier: Apache-2.0
"""The PyPI package pandastack 0.10.0, unmodified, against viald in trouble: what it repeats by itself and what not, streams that break, every exception class."""

import http.server
import importlib
import sys
import threading
import time
import urllib.request

import pytest

from tools import add_key, wait_until
from vial import slow

covers = pytest.mark.method


@pytest.fixture(scope="module")
def pandastack(python_packages):
    sys.path.insert(0, str(python_packages("pandastack==0.10.0")))
    module = importlib.import_module("pandastack")
    yield module
    sys.path.pop(0)


@pytest.fixture(scope="module")
def client(pandastack, daemon):
    return pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(30))


@pytest.fixture
def box(client):
    with client.sandboxes.create(template="minimal") as sandbox:
        yield sandbox


def host_memory_mb():
    with open("/proc/meminfo") as lines:
        return int(next(line for line in lines if line.startswith("MemTotal")).split()[1]) // 1024


# Room

@pytest.fixture
def crowded(start_daemon):
    """A viald with room for one sandbox, and somebody who takes it: (daemon, the sandbox that is in the way)."""
    percent = 20
    daemon = start_daemon("--memory-overcommit-percent", percent)
    own_mb = daemon.client().call("GET", "/v1/templates/minimal")["memory_mb"]
    return daemon, daemon.client().create(memory_mb=host_memory_mb() * percent // 100 - own_mb // 2)


@covers("PandaStack Python 0.10", "Sandbox.create")
def test_a_503_means_that_nothing_was_made_and_asking_again_helps(pandastack, crowded):
    daemon, in_the_way = crowded
    asked_again, there = [], []

    def on_retry(event):
        asked_again.append(event)
        there.append(len(daemon.client().sandboxes()))
        in_the_way.delete()

    client = pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(30), on_create_retry=on_retry)
    with client.sandboxes.create(template="minimal") as made:
        assert [one.id for one in client.sandboxes.list()] == [made.id], "asked twice, and made once"
    assert [(event.status_code, event.retry_after_seconds) for event in asked_again] == [(503, 5.0)] and "no room" in asked_again[0].error
    assert there == [1]


@covers("PandaStack Python 0.10", "Sandbox.create")
def test_whoever_has_waited_enough_is_told_why(pandastack, crowded):
    daemon, _ = crowded
    cancel = threading.Event()
    client = pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(30), on_create_retry=lambda event: cancel.set())
    with pytest.raises(pandastack.CreateCancelled, match="no room") as cancelled:
        client.sandboxes.create(template="minimal", cancel=cancel)
    assert isinstance(cancelled.value.__cause__, pandastack.ServerError)
    with pytest.raises(pandastack.CreateCancelled, match="before it was sent"):
        client.sandboxes.create(template="minimal", cancel=cancel)
    with pytest.raises(pandastack.ServerError, match="no room"):
        pandastack.Client(api_url=daemon.url, api_key=daemon.key, max_create_retry_seconds=0).sandboxes.create(template="minimal")
    assert len(client.sandboxes.list()) == 1


@covers("PandaStack Python 0.10", "Sandbox.create", "Sandbox.fork", "Sandbox.fork_tree")
@pytest.mark.parametrize("quota", [{"max_sandboxes": 1}, {"max_create_per_hour": 1}], ids=str)
def test_a_quota_is_told_at_once(pandastack, daemon, quota):
    """Without a minute of asking again; what a quota of an hour says of coming back is longer than this client waits."""
    project = "full-" + list(quota)[0].replace("_", "-")
    key = add_key(daemon, project)
    daemon.client().call("PUT", f"/v1/projects/{project}/quotas", quota)
    asked_again = []
    client = pandastack.Client(api_url=daemon.url, api_key=key, timeout=slow(30), on_create_retry=asked_again.append)
    with client.sandboxes.create(template="minimal") as only:
        for create in (lambda: client.sandboxes.create(template="minimal"), only.fork, lambda: only.fork_tree(2)):
            begun = time.monotonic()
            with pytest.raises(pandastack.BadRequestError, match=list(quota)[0]):
                create()
            assert time.monotonic() - begun < slow(5)
    assert asked_again == []


# Streams

@covers("PandaStack Python 0.10", "Sandbox.exec_stream", "Sandbox.kill")
def test_a_sandbox_that_ends_in_the_middle_of_a_stream_ends_it_with_an_error(pandastack, client):
    sandbox = client.sandboxes.create(template="minimal")
    seen = []

    def on_stdout(chunk):
        seen.append(chunk)
        sandbox.kill()

    with pytest.raises(pandastack.ServerError) as broken:
        sandbox.exec_stream("echo begun; sleep 100", on_stdout=on_stdout)
    assert seen == ["begun\n"] and str(broken.value)


@covers("PandaStack Python 0.10", "CodeContext.run_code", "Sandbox.exec")
@pytest.mark.parametrize("way", ["exec", "run_code"])
def test_a_sandbox_that_ends_under_a_call_is_told_of(pandastack, client, way):
    sandbox = client.sandboxes.create(template="minimal")
    call = {"exec": lambda: sandbox.exec("touch /tmp/begun; sleep 100"),
            "run_code": lambda: sandbox.create_code_context().run_code("import time; open('/tmp/begun', 'w'); time.sleep(100)")}[way]
    errors = []

    def run():
        try:
            call()
        except Exception as error:  # noqa: BLE001  (whichever it is)
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: sandbox.filesystem.exists("/tmp/begun"))
    sandbox.kill()
    thread.join(slow(30))
    assert len(errors) == 1 and isinstance(errors[0], (pandastack.NotFoundError, pandastack.ServerError)) and not isinstance(errors[0], pandastack.SandboxTimeout), errors


class Cutting(http.server.BaseHTTPRequestHandler):
    """Something in between that ends an answer after the first event as if that were all."""
    target = ""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = urllib.request.Request(self.target + self.path, body, {name: self.headers[name] for name in ("Authorization", "Content-Type", "User-Agent", "Accept")})
        with urllib.request.urlopen(asked, timeout=slow(30)) as answer:
            self.send_response(200)
            self.send_header("Content-Type", answer.headers["Content-Type"])
            self.end_headers()
            for line in answer:
                self.wfile.write(line)
                if not line.strip():
                    return

    def log_message(self, *arguments):
        pass


@covers("PandaStack Python 0.10", "Sandbox.exec_stream")
def test_a_stream_without_its_end_is_no_success(pandastack, daemon, box):
    between = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("ToDaemon", (Cutting,), {"target": daemon.url}))
    threading.Thread(target=between.serve_forever, daemon=True).start()
    client = pandastack.Client(api_url=f"http://127.0.0.1:{between.server_port}", api_key=daemon.key, timeout=slow(30))
    sandbox = pandastack.Sandbox(id=box.id, template="", cpu=1, memory_mb=1, status="", _client=client)
    with pytest.raises(pandastack.ExecInterrupted) as broken:
        sandbox.exec_stream("echo begun; exec sleep 100")
    assert (broken.value.partial_stdout, broken.value.partial_stderr) == ("begun\n", "")
    between.shutdown()
    wait_until(lambda: box.exec("pgrep -x sleep").exit_code == 1)  # who leaves ends what runs


# Every class

@covers("PandaStack Python 0.10", "Sandbox.explore", "Sandbox.exec")
def test_every_class_of_the_package_is_provoked(pandastack, client, box, daemon):
    """Those that need more than a call have their own test: here, in test_pandastack_python.py and in test_pandastack_templates.py."""
    causes = {
        "AuthError": lambda: pandastack.Client(api_url=daemon.url, api_key="pds_wrong").me(),
        "NotFoundError": lambda: box.filesystem.read("/none"),
        "BadRequestError": lambda: box.exec(""),
        "SandboxTimeout": lambda: box.exec("sleep 100", timeout_seconds=1),
        "CommandFailed": lambda: box.exec("exit 7", check=True),
        "ExploreError": lambda: box.explore(["exit 1"]),
        "ConnectionError": lambda: pandastack.Client(api_url="http://127.0.0.1:1", api_key="x").me(),
    }
    for name, cause in causes.items():
        with pytest.raises(Exception) as raised:
            cause()
        assert type(raised.value).__name__ == name, (name, raised.value)
        assert name == "ExploreError" or isinstance(raised.value, pandastack.PandastackError)
    elsewhere = {"PandastackError", "ServerError", "ExecInterrupted", "TemplateBuildError", "CreateCancelled", "APIConnectionError"}
    exceptions = {name for name, value in vars(pandastack.exceptions).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert exceptions == set(causes) - {"ExploreError"} | elsewhere, "a class that nobody provokes"
