# SPDX-License-Identifier: Apache-2.0
"""The daemon about itself: health, identity, templates, Prometheus metrics, and what a sandbox uses."""

import re

from tools import check_refusal, wait_until


def test_health_needs_no_key(client):
    for path in ("/healthz", "/v1/healthz"):
        answer = client.ask("GET", path, key=False)
        assert answer.status == 200
        assert answer.json()["status"] == "ok" and answer.json()["version"] and answer.json()["engine"] in ("gvisor", "microvm")


def test_head_is_answered_wherever_get_is(client, sandbox):
    for path in ("/healthz", "/v1/me", sandbox.path):
        answer = client.ask("HEAD", path)
        assert answer.status == 200 and answer.body == b""


def test_me_says_whose_key_it_is(client):
    me = client.call("GET", "/v1/me")
    assert me["project"] == "default" and me["role"] == "operator"
    assert re.fullmatch(r"[a-z0-9]{20}", me["key_id"])
    assert me["engine"] and me["engine_reason"]
    assert client.key not in str(me)


def test_the_key_is_taken_from_either_header(client):
    assert client.ask("GET", "/v1/me", headers={"X-API-Key": client.key}, key=False).status == 200
    assert client.ask("GET", "/v1/me", headers={"Authorization": f"bearer {client.key}"}, key=False).status == 200
    assert client.ask("GET", "/v1/me", key=False).status == 401
    assert client.ask("GET", f"/v1/me?key={client.key}", key=False).status == 401


def test_templates_are_listed_and_found_by_name_and_alias(client):
    templates = {template["name"]: template for template in client.call("GET", "/v1/templates")}
    assert "minimal" in templates
    assert client.call("GET", "/v1/templates/minimal") == templates["minimal"]
    if "code-interpreter" in templates:
        assert client.call("GET", "/v1/templates/base") == templates["code-interpreter"]
    check_refusal(client.ask("GET", "/v1/templates/nothing"), 404)
    check_refusal(client.ask("GET", "/v1/templates/..%2f..%2fetc"), 400, 404)


SAMPLE = re.compile(r'^([a-zA-Z_:][a-zA-Z0-9_:]*)(\{[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\[\\"n])*")*\})? '
                    r'([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?|[-+]Inf|NaN)$')


def parse_prometheus(text):
    """The samples of Prometheus' text format 0.0.4; fails on whatever its parser would refuse."""
    assert text.endswith("\n")
    types, helped, samples = {}, set(), {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram", "summary", "untyped")
            types[name] = kind
        elif line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in helped
            helped.add(name)
        elif line:
            match = SAMPLE.match(line)
            assert match, line
            base = re.sub(r"_(bucket|sum|count)$", "", match[1])
            assert match[1] in types or base in types, f"{match[1]} has no type"
            key = match[1] + (match[2] or "")
            assert key not in samples, f"{key} twice"
            samples[key] = float(match[3])
    assert set(types) == helped
    return samples


def test_metrics_are_prometheus_text_and_count_truly(client, sandbox):
    for path in ("/metrics", "/v1/metrics"):
        answer = client.ask("GET", path)
        assert answer.status == 200 and answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    before = parse_prometheus(answer.text)
    assert before['vial_sandboxes{state="running"}'] >= 1
    assert before["process_resident_memory_bytes"] > 1e6
    assert before['vial_network_slots{state="held"}'] >= 1
    extra = client.create()
    client.ask("GET", "/v1/nothing-here")
    after = parse_prometheus(client.ask("GET", "/metrics").text)
    assert after['vial_sandboxes{state="running"}'] == before['vial_sandboxes{state="running"}'] + 1
    assert after['vial_network_slots{state="held"}'] == before['vial_network_slots{state="held"}'] + 1
    assert after['vial_http_requests_total{class="4xx"}'] == before['vial_http_requests_total{class="4xx"}'] + 1
    extra.delete()


def test_metrics_need_a_key(client):
    check_refusal(client.ask("GET", "/metrics", key=False), 401)


def test_a_sandbox_says_what_it_uses(sandbox):
    before = sandbox.call("GET", "/metrics")
    for field in ("cpu_ms", "memory_used_kb", "memory_limit_kb", "disk_used_kb", "disk_total_kb", "processes"):
        assert before[field] >= 0, field
    sandbox.exec("python3 -c 'sum(range(3_000_000))'; head -c 20000000 /dev/zero > /workspace/blob")
    wait_until(lambda: sandbox.call("GET", "/metrics")["cpu_ms"] > before["cpu_ms"])
    after = sandbox.call("GET", "/metrics")
    assert after["disk_used_kb"] >= before["disk_used_kb"] + 15_000
    assert after["host_memory_kb"] > 1000 and after["host_cpu_ms"] > 0
    sandbox.exec("rm /workspace/blob")


def test_a_sandbox_says_what_its_network_refused(sandbox):
    before = sandbox.call("GET", "/metrics")["network"]
    assert set(before) == {"connections_allowed", "connections_denied", "dns_allowed", "dns_denied", "bytes_in", "bytes_out"}
    sandbox.exec("python3 -c 'import socket; socket.create_connection((\"93.184.216.34\", 80), 5)'")
    wait_until(lambda: sandbox.call("GET", "/metrics")["network"]["connections_denied"] == before["connections_denied"] + 1)
    after = sandbox.call("GET", "/metrics")["network"]
    assert after["connections_allowed"] == 0 and after["bytes_out"] > before["bytes_out"]


def test_an_unknown_path_is_404_and_a_wrong_method_405_with_the_right_ones(client):
    check_refusal(client.ask("GET", "/v1/nothing"), 404)
    check_refusal(client.ask("GET", "/"), 404)
    answer = client.ask("PUT", "/v1/sandboxes")
    check_refusal(answer, 405)
    assert {"GET", "POST"} <= set(answer.headers["Allow"].replace(",", " ").split())


def test_a_request_id_is_kept_when_harmless(client):
    assert client.ask("GET", "/v1/me", headers={"X-Request-Id": "abc-1"}).headers["X-Request-Id"] == "abc-1"
    assert client.ask("GET", "/v1/me", headers={"X-Request-Id": "a b"}).headers["X-Request-Id"] != "a b"
