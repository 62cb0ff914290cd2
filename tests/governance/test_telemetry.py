# SPDX-License-Identifier: Apache-2.0
"""What others can see of viald: spans at a collector, logs with trace ids, and metrics for who may see them."""

import json
import re
import time
from pathlib import Path

import pytest

from collector import Collector, hang
from test_system import parse_prometheus
from tools import run, slow, wait_until
from vial import Client, Daemon
from world import Project

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy/grafana/vial.json"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
CALL = {"model": "m-1", "provider": "p", "response_id": "r-1", "tool_call_id": "call_7", "user": "ada"}


@pytest.fixture(scope="module")
def collector():
    collector = Collector()
    yield collector
    collector.stop()


@pytest.fixture(scope="module")
def daemon(folder, collector):
    daemon = Daemon(folder, "--otlp-endpoint", collector.url, "--log-format", "json", "--log-level", "debug")
    yield daemon
    daemon.stop()


def attributes(span):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in span.attributes}


def trace(number):
    return f"{number:032x}"


def header(trace_id, parent=PARENT):
    return {"traceparent": f"00-{trace_id}-{parent}-01"}


def spans_of(collector, trace_id, n=1):
    """Those of a trace, when there are at least so many."""
    def found():
        spans = {span.span_id: span for span in collector.spans() if span.trace_id.hex() == trace_id}  # by their ids: one that stalls is sent a batch again
        return list(spans.values()) if len(spans) >= n else None
    return wait_until(found)


def test_every_operation_is_one_span_below_its_caller_s(client, collector, sandbox):
    calls = [
        ("POST", f"{sandbox.path}/exec", {"cmd": "true"}, "exec"), ("POST", f"{sandbox.path}/run", {"code": "1", "language": "bash"}, "run"),
        ("POST", f"{sandbox.path}/exec/stream", {"cmd": "true"}, "exec"), ("PUT", f"{sandbox.path}/fs?path=/workspace/t", b"x", "file.write"),
        ("GET", f"{sandbox.path}/fs?path=/workspace/t", None, "file.read"), ("GET", f"{sandbox.path}/processes", None, "process.read"),
        ("PATCH", f"{sandbox.path}/lifecycle", {"idle_seconds": 0}, "lifecycle.change"), ("POST", "/v1/keys", {"role": "viewer"}, "key.create"),
        ("PUT", f"{sandbox.path}/network", {"mode": "disabled"}, "network.change"), ("POST", f"{sandbox.path}/snapshots", {}, "snapshot.take"),
        ("POST", f"{sandbox.path}/fork-tree", {"count": 1}, "sandbox.fork"), ("POST", "/v1/projects", {"name": "traced"}, "project.create"),
    ]
    for number, (method, path, body, name) in enumerate(calls, 1):
        answer = client.ask(method, path, body, headers=header(trace(number)))
        assert answer.status < 300, answer.body
    for number, (_, _, _, name) in enumerate(calls, 1):
        spans = spans_of(collector, trace(number))
        assert [span.name for span in spans] == [name] and spans[0].parent_span_id.hex() == PARENT
        assert spans[0].end_time_unix_nano >= spans[0].start_time_unix_nano
    time.sleep(1.2)  # nor does a second one come later
    assert all(len(spans_of(collector, trace(number))) == 1 for number in range(1, len(calls) + 1))


def test_a_run_has_the_names_that_are_agreed_on_for_tools_of_models(client, collector, sandbox):
    client.call("POST", f"{sandbox.path}/run", {"code": "exit 0", "language": "bash", "origin": CALL}, headers=header(trace(0x100)))
    span = spans_of(collector, trace(0x100))[0]
    assert {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "run", "gen_ai.tool.call.id": "call_7", "gen_ai.request.model": "m-1", "gen_ai.provider.name": "p",
            "gen_ai.response.id": "r-1", "enduser.id": "ada", "vial.project": "default", "vial.sandbox.id": sandbox.id, "vial.template": "minimal"}.items() <= attributes(span).items()
    client.ask("PUT", f"{sandbox.path}/fs?path=/workspace/t", b"x", headers={**header(trace(0x101)), "X-Vial-Origin": json.dumps(CALL)})
    span = spans_of(collector, trace(0x101))[0]
    assert attributes(span)["gen_ai.tool.call.id"] == "call_7" and "gen_ai.operation.name" not in attributes(span)


def test_what_fails_or_is_refused_is_a_span_with_an_error(client, collector, sandbox):
    viewer = Client(client.url, client.call("POST", "/v1/keys", {"role": "viewer"})["key"])
    assert viewer.ask("POST", f"{sandbox.path}/exec", {"cmd": "true"}, headers=header(trace(0x200))).status == 403
    span = spans_of(collector, trace(0x200))[0]
    assert span.name == "exec" and span.status.code == 2 and attributes(span)["error.type"] == "forbidden" and span.parent_span_id.hex() == PARENT
    assert client.ask("GET", f"{sandbox.path}/fs?path=/nothing", headers=header(trace(0x201))).status == 404
    span = spans_of(collector, trace(0x201))[0]
    assert span.name == "file.read" and span.status.code == 2 and attributes(span)["error.type"] == "not_found"


def test_the_record_and_the_log_have_the_trace_too(daemon, client, sandbox):
    client.call("POST", f"{sandbox.path}/exec", {"cmd": "true"}, headers=header(TRACE))
    found = wait_until(lambda: client.call("GET", f"/v1/audit?trace_id={TRACE}")["items"])
    assert (found[0]["origin"]["trace_id"], found[0]["origin"]["parent_span_id"]) == (TRACE, PARENT)
    lines = wait_until(lambda: [line for line in daemon.log_text().splitlines() if TRACE in line])
    parsed = [json.loads(line) for line in lines]
    assert any(line["trace_id"] == TRACE and line["request_id"] for line in parsed)
    for line in daemon.log_text().splitlines():
        assert "level=" not in line and (not line.startswith("{") or json.loads(line)["message"]), line  # what a person is told at the start is no log


@pytest.mark.parametrize("endpoint", ["nobody", "silent", "refusing"])
def test_a_collector_that_does_not_work_blocks_and_fails_nothing(start_daemon, endpoint):
    listener = Collector().always(hang if endpoint == "silent" else b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")
    port = listener.port
    if endpoint == "nobody":
        listener.stop()
    daemon = start_daemon("--otlp-endpoint", f"http://127.0.0.1:{port}")
    try:
        client = daemon.client()
        sandbox = client.create()
        begun = time.monotonic()
        for _ in range(30):
            assert sandbox.exec("echo x")["stdout"] == "x\n"
        assert time.monotonic() - begun < slow(20)
        samples = parse_prometheus(client.ask("GET", "/metrics").text)
        assert samples['vial_otlp_spans_total{fate="exported"}'] == 0
    finally:
        listener.stop()


# Metrics

def test_a_project_s_key_sees_its_own_numbers_and_nothing_of_others(client):
    own, other = Project(client, quotas={"max_sandboxes": 7}), Project(client, quotas={"max_vcpu": 3})
    sandbox = own.client.create()
    for _ in range(3):
        sandbox.exec("true")
    other.client.create()
    for path in ("/metrics", "/v1/metrics"):
        text = own.key("viewer").ask("GET", path).text
        samples = parse_prometheus(text)
        assert other.name not in text.replace(own.name, "") and 'project="default"' not in text
        assert {re.match(r"[a-z_]+", name)[0] for name in samples} == {"vial_sandboxes", "vial_project_used", "vial_project_limit", "vial_project_runs_total"}
    assert samples[f'vial_project_runs_total{{project="{own.name}"}}'] == 3
    assert [value for name, value in samples.items() if name.startswith("vial_project_limit")] == [7]
    assert [value for name, value in samples.items() if name.startswith("vial_project_used") and "sandboxes" in name] == [1]
    everything = parse_prometheus(client.ask("GET", "/metrics").text)
    for name in (own.name, other.name, "default"):
        assert any(f'project="{name}"' in sample for sample in everything)
    assert {"vial_http_requests_total", "vial_audit_records_total"} <= {re.match(r"[a-z_]+", name)[0] for name in everything}


def queries(node):
    if isinstance(node, dict):
        for name, value in node.items():
            if name == "expr":
                yield value
            else:
                yield from queries(value)
    elif isinstance(node, list):
        for value in node:
            yield from queries(value)


def test_the_dashboard_asks_for_what_there_is(start_daemon):
    daemon = start_daemon("--pool-size", 1, "--otlp-endpoint", "http://127.0.0.1:9")
    client = daemon.client()
    project = Project(client, quotas={"max_sandboxes": 7})
    run(project.client.create(), "1", "bash")
    dashboard = json.loads(DASHBOARD.read_text())
    assert dashboard["title"] and dashboard["panels"] and len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    named = set(re.findall(r"\bvial_[a-z_]+", " ".join(queries(dashboard))))
    types = {line.split()[2]: line.split()[3] for line in client.ask("GET", "/metrics").text.splitlines() if line.startswith("# TYPE ")}
    assert named and named <= set(types), named - set(types)
    for query in queries(dashboard):
        for counter in re.findall(r"(?:rate|increase)\(\s*(vial_[a-z_]+)", query):
            assert types[counter] == "counter", query
    labels = {name: set() for name in types}
    for line in client.ask("GET", "/metrics").text.splitlines():
        if not line.startswith("#"):
            labels.setdefault(re.match(r"[a-z_]+", line)[0], set()).update(re.findall(r'([a-z_]+)="', line))
    for query in queries(dashboard):
        for name, selector in re.findall(r"(vial_[a-z_]+)\{([^}]*)\}", query):
            assert set(re.findall(r"([a-z_]+)\s*[=!]", selector)) <= labels[name], query
