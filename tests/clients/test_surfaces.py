# SPDX-License-Identifier: Apache-2.0
"""What holds for all surfaces together: one sandbox is one sandbox, streams carry every character, errors are the same in all words, the network is closed until
somebody opens it. Whose a sandbox is: test_surfaces_tenants.py."""

import collections
import http.client
import importlib
import subprocess
import sys
import time

import pytest

import surfaces
from tools import add_key, records, wait_until, with_query
from vial import build_dir, slow

# What breaks clients: a line separator, an emoji beyond the BMP, NEL, what is not ASCII.
STRANGE = "Grüße \u2028 \U0001f600 \x85 Ångström\u2029 日本"
STREAMS = [stream for stream in surfaces.STREAMS if stream.is_served()]
by_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: stream.name.replace(" ", "-"))
by_surface = pytest.mark.parametrize("surface", surfaces.served())


@pytest.fixture(scope="module")
def box(client):
    return client.create().id


def test_every_surface_is_known_here():
    assert set(surfaces.served()) <= set(surfaces.CREATES), "say in surfaces.py how it makes a sandbox"
    assert set(surfaces.served()) == {stream.surface for stream in STREAMS}, "say in surfaces.py how it streams"


# One sandbox

def test_one_sandbox_through_all_surfaces_is_one_sandbox(daemon, python_packages):
    """Made by E2B's package, used by PandaStack's and by hand, listed by our own, and in the audit once per call with the surface's name."""
    key = add_key(daemon, "shared", form="e2b")
    client = daemon.client(key)
    for package in ("e2b==2.63.0", "pandastack==0.10.0"):
        sys.path.insert(0, str(python_packages(package)))
    e2b, pandastack = importlib.import_module("e2b"), importlib.import_module("pandastack")
    made = e2b.Sandbox.create("minimal", timeout=600, metadata={"made": "by e2b"}, api_url=daemon.url, sandbox_url=daemon.url, api_key=key, request_timeout=slow(30))
    assert made.commands.run("echo e2b > /tmp/trace; chmod 666 /tmp/trace").exit_code == 0

    found = pandastack.Client(api_url=daemon.url, api_key=key, timeout=slow(30)).sandboxes.get(made.sandbox_id)
    assert found.metadata["made"] == "by e2b"
    assert found.exec("cat /tmp/trace; echo pandastack >> /tmp/trace").stdout == "e2b\n"
    others = [stream for stream in STREAMS if stream.surface not in ("e2b", "pandastack") and stream.name != "native run"]
    for stream in others:
        assert stream.run(client, made.sandbox_id, f"echo {stream.surface} >> /tmp/trace")[0] == 200
    assert made.files.read("/tmp/trace").split() == ["e2b", "pandastack", *[stream.surface for stream in others]]

    assert [(one["id"], one["metadata"]["made"], one["status"]) for one in client.sandboxes()] == [(made.sandbox_id, "by e2b", "running")]
    told = collections.Counter((one["action"], one["surface"]) for one in records(client, sandbox=made.sandbox_id) if one["action"] in ("sandbox.create", "exec", "run"))
    assert told == {("sandbox.create", "e2b"): 1, ("exec", "e2b"): 1, ("exec", "pandastack"): 1,
                    **{("run" if stream.surface == "podflare" else "exec", stream.surface): 1 for stream in others}}
    found.kill()
    assert client.sandboxes() == [] and not made.is_running()


@by_surface
def test_each_surface_says_its_name_in_the_record(client, surface):
    sandbox_id = surfaces.create(client, surface)
    assert [one["surface"] for one in records(client, sandbox=sandbox_id, action="sandbox.create")] == [surface]
    client.call("DELETE", f"/v1/sandboxes/{sandbox_id}")


# Streams

@by_stream
def test_streams_are_ascii_with_a_charset_and_lose_nothing(client, box, stream):
    status, headers, body = stream.run(client, box, f"printf %s '{STRANGE}'; printf %s 'Fehler ü' >&2")
    assert (status, headers["Content-Type"]) == (200, stream.content_type), body
    assert stream.content_type.startswith("application/connect") or body.isascii(), "not every client reads what is not ASCII"
    assert "Content-Encoding" not in headers
    assert (stream.text(body, "stdout"), stream.text(body, "stderr")) == (STRANGE, "Fehler ü")
    assert stream.ended_well(body), body


@by_stream
def test_half_a_character_breaks_no_stream(client, box, stream):
    """Half of a surrogate pair, as three bytes of a program; and one in the JSON of whoever asks."""
    _, _, body = stream.run(client, box, r"printf 'a\355\240\200b'")
    text = stream.text(body, "stdout")
    assert text[0] + text[-1] == "ab" and set(text[1:-1]) == {"\ufffd"} and stream.ended_well(body)
    status, _, body = stream.run(client, box, "# \ud800")
    assert (status == 400 or b"invalid_argument" in body) and not stream.ended_well(body), body
    assert stream.text(stream.run(client, box, "echo alive")[2], "stdout").strip() == "alive"


@by_stream
def test_what_is_printed_comes_while_it_runs(client, box, stream):
    seen = f"/tmp/seen-{stream.name.replace(' ', '-')}"
    response = stream.open(client, box, f"echo first; until [ -e {seen} ]; do sleep 0.1; done; echo last")
    has_arrived, body = False, b""
    while piece := response.read1(65536):
        body += piece
        if not has_arrived and "first" in stream.text(body if body.endswith(b"\n") or "process" in stream.name else b"", "stdout"):
            has_arrived = True  # else the last one never comes
            client.call("POST", f"/v1/sandboxes/{box}/exec", {"cmd": f"touch {seen}"})
    assert stream.text(body, "stdout").split() == ["first", "last"]
    response.connection.close()


@by_stream
def test_a_sandbox_that_ends_in_the_middle_ends_the_stream_and_not_as_a_success(client, stream):
    sandbox_id = client.create().id
    response = stream.open(client, sandbox_id, "echo begun; sleep 1000")
    body = b""
    while "begun" not in stream.text(body, "stdout"):
        body += response.read1(65536)
    client.call("DELETE", f"/v1/sandboxes/{sandbox_id}")
    begun = time.monotonic()
    try:
        while piece := response.read1(65536):
            body += piece
    except (http.client.IncompleteRead, ConnectionError):
        pass
    assert time.monotonic() - begun < slow(10) and not stream.ended_well(body), body
    response.connection.close()


@by_stream
def test_who_leaves_a_stream_ends_what_runs(client, stream):
    sandbox = client.create()
    word = stream.name.replace(" ", "-")
    response = stream.open(client, sandbox.id, f"echo begun; sh -c 'sleep 1000 # {word}'")
    body = b""
    while "begun" not in stream.text(body, "stdout"):
        body += response.read1(65536)
    running = lambda: sandbox.exec("pgrep -x sleep")["exit_code"] == 0  # noqa: E731
    wait_until(running)
    response.connection.close()
    response.close()
    if stream.name != "e2b process":  # theirs go on, until they are connected to again or killed
        wait_until(lambda: not running())
    sandbox.delete()


# Errors

UNION = {"code", "message", "error", "type", "request_id"}


def check_error(answer, status):
    body = answer.json()
    assert answer.status == status and isinstance(body["message"], str) and body["message"], answer.body
    if answer.headers["Content-Type"] == "application/json" and "request_id" in body:
        assert UNION <= set(body) and body["message"] == body["error"] and body["request_id"] == answer.headers["X-Request-Id"], body


@by_surface
def test_errors_are_told_in_all_dialects_at_once(client, surface):
    """No key, an unknown sandbox: with the words that each client looks for."""
    path, body, headers, _ = surfaces.CREATES[surface]
    refusals = [(client.ask("POST", path, body, headers=headers, key=False), 401), (client.ask("POST", path, body, headers=headers, key="wrong"), 401)]
    stream = next(stream for stream in STREAMS if stream.surface == surface)
    if surface != "e2b":
        refusals.append((client.ask("POST", stream.pattern.replace("{id}", "a" * 20), stream.body("true"), headers=stream.headers("")), 404))
    refusals.append((client.ask("GET" if surface == "e2b" else "DELETE", {"e2b": "/sandboxes/", "cloudflare": "/v1/sandbox/", "podflare": "/podflare/v1/sandboxes/"}.get(
        surface, "/v1/sandboxes/") + "a" * 20, headers=headers), 404))
    for answer, status in refusals:
        said = answer.json()
        assert answer.status == status, answer.body
        assert UNION <= set(said) and said["message"] == said["error"] != "" and said["code"] in (status, said["type"]), said


@by_surface
def test_a_limit_that_stays_is_not_asked_for_again(daemon, surface):
    """Each of these clients repeats a 429 unless it is told in its own words that this is of no use."""
    project = f"full-{surface}"
    full = daemon.client(add_key(daemon, project))
    daemon.client().call("PUT", f"/v1/projects/{project}/quotas", {"max_sandboxes": 0})
    path, body, headers, _ = surfaces.CREATES[surface]
    answer = full.ask("POST", path, body, headers=headers)
    assert answer.status == 429 and "max_sandboxes" in answer.json()["message"], answer.body
    assert answer.headers["Retry-After"] is None and answer.headers["Should-Retry"] == "false" == answer.headers["x-should-retry"]


# Network

@by_stream
def test_the_network_is_closed_and_whoever_misses_it_reads_how_to_open_it(client, stream):
    sandbox_id = surfaces.create(client, stream.surface)
    assert client.call("GET", f"/v1/sandboxes/{sandbox_id}/network")["mode"] == "disabled"
    _, _, body = stream.run(client, sandbox_id, "python3 -c \"import socket; socket.getaddrinfo('example.com', 80)\"")
    assert "It can be opened" in stream.text(body, "stderr") and "_network=open" in stream.text(body, "stderr"), body
    client.call("DELETE", f"/v1/sandboxes/{sandbox_id}")


def test_a_setting_of_each_surface_opens_it(start_daemon):
    others = [surface for surface in surfaces.served() if surface != "native"]
    known = subprocess.run([build_dir() / "viald", "--help"], capture_output=True, text=True, timeout=20).stdout
    assert [surface for surface in others if f"--{surface}-network" not in known] == []
    for chosen in others:
        client = start_daemon(f"--{chosen}-network", "open").client()
        modes = {surface: client.call("GET", f"/v1/sandboxes/{surfaces.create(client, surface)}/network")["mode"] for surface in surfaces.served()}
        assert modes == {surface: "open" if surface == chosen else "disabled" for surface in surfaces.served()}
        told = client.call("GET", with_query("/v1/audit", action="sandbox.create", limit=10))["items"]
        assert {one["surface"] for one in told} == set(surfaces.served())
