# SPDX-License-Identifier: Apache-2.0
"""Every field of every route of governance, wrong in every way: 400 with the field named, and nothing changed."""

import json

import pytest

from tools import check_refusal, with_query
from world import Project

LONG, NUL, CONTROL = "x" * 5000, "a\0b", "a\x01\nb"
TEXT = [1, 1.5, True, [], {}, NUL]
NUMBER = ["1", "", True, [], {}, -1, 1.5, 1e300, 2**60, -(2**63), 2**64]
QUOTAS = {name: NUMBER for name in ("max_sandboxes", "max_memory_mb", "max_disk_mb", "max_snapshot_bytes", "max_templates", "max_create_per_hour", "max_concurrent_runs", "max_ttl_seconds")}
QUOTAS["max_vcpu"] = ["1", "", True, [], {}, -1, -0.001, 1e300, 2**60]
QUOTAS["network_modes"] = ["open", 1, {}, [], ["none"], [1], [None], ["open", ""], ["OPEN"], [["open"]], ["open\0"]]
QUOTAS["tiers"] = ["2x2", 1, {}, [], ["3x3"], [1], [None], ["2x2", ""], ["2X2"], ["2x2 "], ["2x2\0"], ["2x02"]]
LISTS = ["a", 1, {}, [1], [None], [[]], [{}], ["x" * 200], ["a"] * 65, [NUL]]
ALLOW = {"agents": LISTS, "templates": LISTS, "network_modes": [*LISTS, ["none"], [""], ["OPEN"]],
         "source_cidrs": [*LISTS, ["10.0.0.0/33"], ["10.0.0.1/8"], ["localhost"], [""], ["10.0.0"], ["::/129"], ["10.0.0.0/-1"], ["::1/-1"], ["10.0.0.0/+8"], ["10.0.0.0/"], ["10.0.0.0/8/8"], ["::/4294967296"], ["10.0.0.0/8 "], ["*"], ["fe80::1%eth0"]]}
EXPIRES = [1, True, [], {}, "", "tomorrow", "2020-01-01T00:00:00Z", "2030-13-01T00:00:00Z", "2030-02-30T00:00:00Z", "2030-01-01", "99999-01-01T00:00:00Z", NUL,
           "2030-01-01T00:00:00Z\n", "-2030-01-01T00:00:00Z", "2030-01-01T25:00:00Z", "2030-01-01T00:00:00+99:00"]
KEY = {"name": [*TEXT, "x" * 129, LONG, CONTROL], "role": [*TEXT, "", "root", "Admin", "admin ", "user", LONG], "expires_at": EXPIRES}


def cases():
    """(method, what, a body that would do, field as it is named, the bad values, how the body is made)"""
    for field, values in KEY.items():
        yield "POST", "/v1/keys", {"role": "viewer"}, field, values, None
        yield "PATCH", "/v1/keys/{key}", {}, field, values, None
    yield "POST", "/v1/keys", {"role": "viewer"}, "form", [*TEXT, "", "jwt", "VIAL", "vial_"], None
    yield "POST", "/v1/keys", {"role": "viewer"}, "project", [1, True, [], {}, NUL], None
    for method, path, body in (("POST", "/v1/keys", {"role": "viewer"}), ("PATCH", "/v1/keys/{key}", {})):
        yield method, path, body, "allow", ["a", 1, True, [], ["templates"]], None
        yield method, path, body, "limits", ["a", 1, True, [], ["max_sandboxes"]], None
        for field, values in ALLOW.items():
            yield method, path, body, field, values, "allow"
        for field, values in QUOTAS.items():
            yield method, path, body, field, values, "limits"
        for field in ("template", "", "Templates", "role", "roles"):
            yield method, path, body, field, [["minimal"]], "allow"
        for field in ("max_sandbox", "MAX_VCPU", "sandboxes", "max_agents"):
            yield method, path, body, field, [1, None], "limits"
    yield "POST", "/v1/keys/{key}/rotate", {}, "overlap_seconds", ["1", True, [], {}, -1, 1.5, 2592001, 1e300, 2**63], None
    yield "POST", "/v1/projects", {}, "name", [*TEXT, "", "A", "a_b", "-a", "a-", "a.b", "a/b", "..", "a b", "ä", "x" * 64, LONG, "*", "a\n", None], None
    for method, path, body in (("POST", "/v1/projects", {"name": "never-made"}), ("PATCH", "/v1/projects/{project}", {})):
        yield method, path, body, "description", [*TEXT, "x" * 1025, LONG, CONTROL, "\x7f"], None
        yield method, path, body, "legal_hold", [0, 1, "true", [], {}], None
        for group in ("quotas", "ceilings"):
            yield method, path, body, group, ["a", 1, True, [], ["max_vcpu"]], None
            for field, values in QUOTAS.items():
                yield method, path, body, field, values, group
            yield method, path, body, "max_sandbox", [1, None], group
    for field, values in {**QUOTAS, "max_sandbox": [1, None], "ttl": [1]}.items():
        yield "PUT", "/v1/projects/{project}/quotas", {}, field, values, None
    # What is not known would change what the caller believes of the key.
    for field in ("expires", "expire_at", "allows", "limit", "quotas", "scopes"):
        yield "POST", "/v1/keys", {"role": "viewer"}, field, [1, {}, "2030-01-01T00:00:00Z"], None
        yield "PATCH", "/v1/keys/{key}", {}, field, [1, {}, "2030-01-01T00:00:00Z"], None
    for field in ("quota", "limits", "max_sandboxes", "legalHold"):
        yield "POST", "/v1/projects", {"name": "never-made"}, field, [1, {}, True], None
        yield "PATCH", "/v1/projects/{project}", {}, field, [1, {}, True], None


CASES = list(cases())


@pytest.fixture(scope="module")
def target(client):
    project = Project(client, quotas={"max_sandboxes": 3})
    project.target = project.make_key("runner", allow={"templates": ["minimal"]}, limits={"max_vcpu": 2})
    return project


def state(client, project):
    """All that could have changed."""
    keys = [{name: value for name, value in key.items() if name != "last_used_at"} for key in client.call("GET", "/v1/keys?project=*")]
    return keys, client.call("GET", "/v1/projects"), client.call("GET", project.path + "/quotas")["quotas"]


def unreadable(value):
    return "\\u0000" in json.dumps(value) or (isinstance(value, int) and not -(2**63) <= value < 2**63)


@pytest.mark.parametrize("method,path,body,field,values,group", CASES, ids=[f"{method} {path} {group + '.' if group else ''}{field}" for method, path, _, field, _, group in CASES])
def test_a_bad_value_is_refused_by_the_field_s_name(client, target, method, path, body, field, values, group):
    path = path.format(key=target.target["id"], project=target.name)
    before = state(client, target)
    for value in values:
        bad = {**body, group: {field: value}} if group else {**body, field: value}
        sentence = check_refusal(client.ask(method, path, bad), 400)
        # What no JSON of ours has (a NUL, a number beyond 64 bits) is told by its place, before anybody looks at fields.
        assert field in sentence or ("the JSON is not valid" in sentence and unreadable(value)), (value, sentence)
    assert state(client, target) == before


@pytest.mark.parametrize("text", ['{"max_vcpu": NaN}', '{"max_vcpu": Infinity}', '{"max_vcpu": 1e999}', '{"max_sandboxes": 1, "max_sandboxes": 2}', "[]", "1", '"a"', "", "{", '{"max_vcpu": 01}',
                                  '{"max_sandboxes": 99999999999999999999999999}', '{"a\\u0000": 1}', "null", '{"tiers": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}'])
def test_what_is_no_object_of_quotas_is_refused(client, target, text):
    before = state(client, target)
    answer = client.ask("PUT", target.path + "/quotas", text.encode(), headers={"Content-Type": "application/json"})
    if text == "":
        assert answer.status in (200, 400)
        client.call("PUT", target.path + "/quotas", before[2])
    else:
        check_refusal(answer, 400)
    assert state(client, target) == before


def test_a_field_of_one_s_own_may_be_called_origin(client, target):
    made = client.call("POST", "/v1/keys", {"role": "viewer", "project": target.name, "origin": {"model": "m", "tool_call_id": "t"}})
    client.call("DELETE", f"/v1/keys/{made['id']}")
    for origin in ({"model": 1}, {"who": "x"}, [], "x", {"model": "x" * 300}):
        assert "origin" in check_refusal(client.ask("POST", "/v1/keys", {"role": "viewer", "origin": origin}), 400)


@pytest.mark.parametrize("name", ["none", "A", "..%2f", "a" * 64, "%00", "*", "-", "default%20"])
def test_a_project_that_there_is_not_is_404_whatever_its_name(client, name):
    for method, path, body in (("GET", "", None), ("PATCH", "", {}), ("DELETE", "", None), ("GET", "/quotas", None), ("PUT", "/quotas", {})):
        assert client.ask(method, f"/v1/projects/{name}{path}", body).status in (400, 404), (method, path)


@pytest.mark.parametrize("query,field", [
    ({"from": "yesterday"}, "from"), ({"from": "2026-1-1"}, "from"), ({"to": "2026-02-30"}, "to"), ({"to": ""}, "to"), ({"to": "2026-01-01T00:00:00Z"}, "to"), ({"from": "' OR 1=1"}, "from"),
    ({"from": "2026-01-0x"}, "from"), ({"from": "-026-01-01"}, "from"), ({"group_by": "hour"}, "group_by"), ({"group_by": "day,day;"}, "group_by"), ({"group_by": "day,"}, "group_by"),
    ({"group_by": "key_id"}, "group_by"), ({"format": "xml"}, "format"), ({"format": ""}, "format")], ids=str)
def test_a_bad_question_about_usage_is_refused(client, query, field):
    assert field in check_refusal(client.ask("GET", with_query("/v1/projects/default/usage", **query)), 400)


@pytest.mark.parametrize("query,field", [({"limit": "0"}, "limit"), ({"limit": "-1"}, "limit"), ({"limit": "1001"}, "limit"), ({"limit": "x"}, "limit"), ({"limit": "1e3"}, "limit"), ({"limit": ""}, "limit"),
                                         ({"limit": "9" * 30}, "limit"), ({"cursor": "x"}, "cursor"), ({"cursor": ""}, "cursor")], ids=str)
def test_a_bad_question_about_keys_is_refused(client, query, field):
    assert field in check_refusal(client.ask("GET", with_query("/v1/keys", **query)), 400)


def test_texts_of_people_are_kept_as_they_are(client, target):
    name = "Zoë's \"key\" <b>&amp; 'x' \\ 🔑"
    made = client.call("POST", "/v1/keys", {"role": "viewer", "project": target.name, "name": name})
    assert client.call("GET", f"/v1/keys/{made['id']}")["name"] == name
    assert client.call("PATCH", target.path, {"description": name})["description"] == name
    assert json.loads(json.dumps(name)) == name
