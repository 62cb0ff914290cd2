# SPDX-License-Identifier: Apache-2.0
"""Spaces with the PyPI package podflare 0.0.22: sandboxes that freeze when nobody uses them, and the webhook that tells so."""

import hashlib
import hmac
import http.server
import importlib
import json
import sys
import threading
import time

import pytest

from tools import records, wait_until
from vial import slow

covers = pytest.mark.method


@pytest.fixture(scope="module")
def podflare(python_packages):
    sys.path.insert(0, str(python_packages("podflare==0.0.22")))
    module = importlib.import_module("podflare")
    yield module
    sys.path.pop(0)


class Receiver(http.server.ThreadingHTTPServer):
    """Takes events; `answers` are the statuses of the first ones (or functions that give them), then 204."""

    def __init__(self, *answers):
        super().__init__(("127.0.0.1", 0), Hook)
        self.answers, self.heard = list(answers), []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/hook"

    def events(self):
        return [json.loads(body) for path, _, body in self.heard if path == "/hook"]

    def frozen(self):
        """Each event once: whoever is slow to answer is told again."""
        return list({(event["sandbox_id"], event["frozen_at_ms"]): event for event in self.events()}.values())


class Hook(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.heard.append((self.path, self.headers, self.rfile.read(int(self.headers["Content-Length"]))))
        answer = self.server.answers.pop(0) if self.server.answers else 204
        self.send_response(answer() if callable(answer) else answer)
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_):
        pass


def slowly(status, event):
    """None before the event, and each four seconds after it was asked for."""
    def answer():
        event.wait()
        time.sleep(4)
        return status
    return answer


@pytest.fixture
def receiver():
    receivers = []

    def make(*answers):
        receivers.append(Receiver(*answers))
        return receivers[-1]

    yield make
    for one in receivers:
        one.shutdown()
        one.server_close()


def states(client):
    return {one["id"]: one["status"] for one in client.call("GET", "/v1/sandboxes")}


@covers("Podflare Python 0.0.22", "Sandbox.resume", "Client.resume_space", "Client.delete_space",
        differs="A Space is its sandbox, asleep under the same id, which resuming keeps; any other call of that id wakes it, too. Deleting one of the two deletes both.")
def test_what_nobody_uses_freezes_and_is_taken_up_again(podflare, start_daemon, receiver, tmp_path):
    hook, secret = receiver(), tmp_path / "secret"
    secret.write_text("s3cret\n")
    daemon = start_daemon("--frozen-webhook-url", hook.url, "--frozen-webhook-secret-file", secret)
    client, transport = daemon.client(), podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    sandbox = podflare.Sandbox(client=transport, persistent=True, idle_timeout_seconds=20)  # not before it has run something
    sandbox.run_code("x = 'kept'")
    wait_until(hook.frozen, 60)
    event, = hook.frozen()
    assert (event["type"], event["space_id"], event["sandbox_id"], event["project"], event["template"]) == ("sandbox.frozen", sandbox.id, sandbox.id, "default", "minimal")
    assert abs(event["frozen_at_ms"] / 1000 - time.time()) < slow(60)
    path, headers, body = hook.heard[0]
    assert headers["X-Vial-Signature"] == "sha256=" + hmac.new(b"s3cret", body, hashlib.sha256).hexdigest() and headers["Content-Type"] == "application/json"
    assert states(client)[sandbox.id] == "hibernated"

    back = podflare.Sandbox.resume(event["space_id"], client=transport, idle_timeout_seconds=600, timeout_seconds=1200, egress=True)
    assert back.run_code("x").stdout == "'kept'"
    life = client.call("GET", f"/v1/sandboxes/{back.id}/lifecycle")
    assert (life["idle_seconds"], life["on_idle"], life["persistent"], life["ttl_seconds"]) == (600, "delete", False, 1200)
    assert client.call("GET", f"/v1/sandboxes/{back.id}/network")["mode"] == "open"
    httpx = sys.modules["httpx"]
    for call in (transport.resume_space, transport.delete_space):  # it is awake: there is none
        with pytest.raises(httpx.HTTPStatusError) as refused:
            call(event["space_id"])
        assert refused.value.response.status_code == 404
    assert [record["action"] for record in records(client, sandbox=back.id)] == [
        "sandbox.create", "run", "sandbox.hibernate", "network.change", "lifecycle.change", "sandbox.wake", "run"]

    client.call("POST", f"/v1/sandboxes/{back.id}/hibernate")
    again = podflare.Sandbox.resume(back.id, client=transport, persistent=True, idle_timeout_seconds=1)
    wait_until(lambda: len(hook.frozen()) == 2, 60)
    assert states(client)[again.id] == "hibernated"
    transport.delete_space(again.id)
    assert again.id not in states(client)


def test_one_that_does_not_persist_ends(podflare, start_daemon, receiver):
    hook = receiver()
    daemon = start_daemon("--frozen-webhook-url", hook.url)
    transport = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    sandbox = podflare.Sandbox(client=transport, idle_timeout_seconds=1)
    kept = podflare.Sandbox(client=transport, persistent=True)
    assert daemon.client().call("GET", f"/v1/sandboxes/{kept.id}/lifecycle")["idle_seconds"] == 300, "or it would never freeze"
    wait_until(lambda: sandbox.id not in states(daemon.client()), 30)
    assert hook.heard == [] and kept.id in states(daemon.client())


def test_an_event_is_told_again_until_it_is_taken_and_nowhere_else(podflare, start_daemon, receiver):
    hook = receiver(500, 307)
    daemon = start_daemon("--frozen-webhook-url", hook.url)
    transport = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    podflare.Sandbox(client=transport, persistent=True, idle_timeout_seconds=1)
    wait_until(lambda: len(hook.heard) >= 3, 60)
    assert {path for path, _, _ in hook.heard} == {"/hook"} and hook.events()[0] == hook.events()[1] == hook.events()[2]


def test_a_receiver_that_is_away_holds_up_nobody(podflare, start_daemon, receiver):
    hook = receiver()
    hook.shutdown()  # it still accepts connections, and says nothing
    daemon = start_daemon("--frozen-webhook-url", hook.url)
    transport = podflare.Client(host=daemon.url + "/podflare", api_key=daemon.key, timeout=slow(30))
    sandbox = podflare.Sandbox(client=transport, persistent=True, idle_timeout_seconds=1)
    wait_until(lambda: states(daemon.client())[sandbox.id] == "hibernated", 30)
    assert sandbox.run_code("1 + 1").stdout == "2"
    started = time.monotonic()
    daemon.stop()
    assert time.monotonic() - started < slow(20)


def test_a_receiver_that_is_slow_does_not_hold_up_the_end(start_daemon, receiver):
    """It takes every event, each after four seconds: eight of them are half a minute."""
    may_begin = threading.Event()
    hook = receiver(*[slowly(204, may_begin)] * 100)
    daemon = start_daemon("--frozen-webhook-url", hook.url)
    client = daemon.client()
    for _ in range(8):
        client.create(idle_seconds=1, on_idle="hibernate")
    wait_until(lambda: len(states(client)) == 8 and set(states(client).values()) == {"hibernated"}, 60)
    wait_until(lambda: hook.heard)
    may_begin.set()
    daemon.stop()
    assert len(hook.frozen()) < 8


@pytest.mark.parametrize("address", ["ftp://127.0.0.1/", "http://user:word@127.0.0.1/", "127.0.0.1"])
def test_an_address_that_cannot_be_meant_is_refused_at_start(start_daemon, address):
    with pytest.raises(AssertionError, match="frozen_webhook_url"):
        start_daemon("--frozen-webhook-url", address)
