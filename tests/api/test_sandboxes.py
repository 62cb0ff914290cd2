# SPDX-License-Identifier: Apache-2.0
"""Sandboxes: made, shown, listed, filtered, ended."""

import re

import pytest

from tools import UNKNOWN_ID, check_refusal, out, with_query
from vial import ApiError

TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


def create_refusal(client, **fields):
    return check_refusal(client.ask("POST", "/v1/sandboxes", {"template": "minimal", **fields}), 400)


def test_a_new_sandbox_runs_and_says_what_it_is(client, sandbox):
    shown = client.call("GET", sandbox.path)
    assert shown == {**sandbox.info, "status": "running"}
    assert re.fullmatch(r"[a-z0-9]{20}", shown["id"])
    assert shown["template"] == "minimal"
    assert shown["engine"] in ("gvisor", "microvm")
    assert shown["isolation"]
    assert shown["cpu"] > 0 and shown["memory_mb"] >= 128 and shown["disk_mb"] > 0
    assert shown["metadata"] == {}
    assert shown["network"] == {"mode": "disabled"}
    assert shown["boot_mode"] in ("pool", "restore", "cold")
    assert shown["boot_ms"] >= 0
    assert TIME.fullmatch(shown["created_at"]) and TIME.fullmatch(shown["expires_at"])
    assert (shown["ttl_seconds"], shown["idle_seconds"], shown["on_idle"], shown["persistent"]) == (3600, 0, "delete", False)


def test_creating_answers_201_and_the_default_template_needs_no_body(client):
    answer = client.ask("POST", "/v1/sandboxes")
    assert answer.status == 201
    assert answer.json()["template"] == "minimal"
    assert client.ask("DELETE", f"/v1/sandboxes/{answer.json()['id']}").status == 204


def test_a_deleted_sandbox_is_gone_for_every_route(client):
    sandbox = client.create()
    assert sandbox.ask("DELETE").status == 204
    assert sandbox.ask("GET").status == 404
    assert sandbox.ask("DELETE").status == 404
    assert sandbox.ask("POST", "/exec", {"cmd": "true"}).status == 404
    assert sandbox.id not in [one["id"] for one in client.sandboxes()]


def test_deleting_ends_what_runs_in_it(client):
    sandbox = client.create()
    response = client.open("POST", sandbox.path + "/exec/stream", {"cmd": "echo here; sleep 1000"})
    assert b"stdout" in response.readline()
    assert sandbox.ask("DELETE").status == 204
    rest = response.read().decode()
    response.connection.close()
    assert "error" in rest


def test_metadata_is_kept_as_given(client):
    metadata = {"owner": "ci", "naïve": "ünïcødé 🙂", "empty": ""}
    sandbox = client.create(metadata=metadata)
    assert sandbox.refresh()["metadata"] == metadata
    sandbox.delete()


def test_environment_reaches_every_command_and_every_kernel(client):
    sandbox = client.create(env={"GREETING": "hello world", "EMPTY": ""})
    assert out(sandbox, "echo $GREETING${EMPTY-unset}") == "hello world\n"
    assert out(sandbox, "echo $GREETING", env={"GREETING": "bye"}) == "bye\n"
    ran = sandbox.call("POST", "/run", {"code": "import os; print(os.environ['GREETING'])"})
    assert ran["stdout"] == "hello world\n"
    assert "GREETING" not in str(sandbox.refresh()), "the environment may hold secrets and is not shown"
    sandbox.delete()


@pytest.fixture(scope="module")
def family(client):
    made = [client.create(metadata={"family": "brown", "n": str(n), "even": "yes" if n % 2 == 0 else "no"}) for n in range(3)]
    yield made
    for one in made:
        one.delete()


def ids(list_):
    return [one["id"] for one in list_]


def test_the_list_has_all_sandboxes_newest_first(client, sandbox, family):
    listed = ids(client.sandboxes())
    assert [id_ for id_ in listed if id_ in {one.id for one in family}] == [one.id for one in reversed(family)]
    assert sandbox.id in listed


def test_the_list_is_filtered_by_metadata(client, family):
    assert ids(client.call("GET", "/v1/sandboxes?metadata.family=brown&metadata.even=yes")) == [family[2].id, family[0].id]
    assert client.call("GET", "/v1/sandboxes?metadata.family=green") == []
    assert client.call("GET", "/v1/sandboxes?metadata.family=") == []


def test_the_list_is_filtered_by_state(client, family):
    family[1].call("POST", "/pause")
    assert ids(client.call("GET", "/v1/sandboxes?state=paused")) == [family[1].id]
    family[1].call("POST", "/resume")
    assert client.call("GET", "/v1/sandboxes?state=paused") == []
    assert "state" in check_refusal(client.ask("GET", "/v1/sandboxes?state=happy"), 400)


def test_pages_follow_each_other_and_the_last_says_so(client, family):
    seen, cursor = [], None
    for _ in family:
        query = {"metadata.family": "brown", "limit": 1} | ({"cursor": cursor} if cursor else {})
        page = client.call("GET", with_query("/v1/sandboxes", **query))
        seen += ids(page["items"])
        cursor = page["next"]
        if not cursor:
            break
    assert seen == [one.id for one in reversed(family)] and cursor is None


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "1.5", "99999999999999999999"])
def test_an_impossible_page_size_is_refused(client, limit):
    assert "limit" in check_refusal(client.ask("GET", f"/v1/sandboxes?limit={limit}"), 400)


def test_unknown_fields_are_ignored(client):
    client.create(colour="blue").delete()


@pytest.mark.parametrize("field,value", [
    ("template", "no-such-template"), ("template", "../../etc"), ("engine", "docker"), ("from_snapshot", UNKNOWN_ID),
])
def test_what_does_not_exist_cannot_be_started_from(client, field, value):
    error = check_refusal(client.ask("POST", "/v1/sandboxes", {"template": "minimal", field: value}), 400, 404)
    assert value.split("/")[0] in error or field in error


@pytest.mark.parametrize("field,value", [
    ("cpu", 0), ("cpu", -1), ("cpu", 65), ("cpu", "2"), ("cpu", True), ("cpu", 1e308),
    ("memory_mb", 0), ("memory_mb", 127), ("memory_mb", -5), ("memory_mb", 10**9), ("memory_mb", 512.5), ("memory_mb", "512"),
    ("ttl_seconds", -1), ("ttl_seconds", 2**31), ("ttl_seconds", "60"), ("idle_seconds", -1), ("idle_seconds", 1.5), ("idle_seconds", []),
    ("on_idle", "explode"), ("on_idle", 1), ("persistent", "yes"), ("persistent", 1),
    ("metadata", []), ("metadata", "a"), ("metadata", {"a": 1}), ("metadata", {"a": None}), ("metadata", {"a": "x" * 2000}),
    ("metadata", {str(n): "" for n in range(100)}), ("metadata", {"k" * 200: ""}),
    ("env", []), ("env", {"A": 1}), ("env", {"A=B": "c"}), ("env", {"": "c"}), ("env", {"A": "x" * 40000}), ("env", {str(n): "" for n in range(300)}),
    ("network", "open"), ("network", []),
    ("template", ""), ("template", 1), ("template", "x" * 200), ("engine", ""), ("from_snapshot", {}),
])
def test_a_wrong_value_is_refused_and_the_field_is_named(client, field, value):
    before = len(client.sandboxes())
    assert field in create_refusal(client, **{field: value})
    assert len(client.sandboxes()) == before


@pytest.mark.parametrize("network", [{"mode": "bridge"}, {"mode": 1}, {"mode": ""}, {"mode": []}, {"mode": None}])
def test_an_unknown_network_mode_is_refused(client, network):
    assert "mode" in create_refusal(client, network=network)


def test_null_is_the_default_of_an_optional_field_and_refused_where_absence_means_more(client, sandbox):
    optional = ("template", "cpu", "memory_mb", "ttl_seconds", "idle_seconds", "on_idle", "persistent", "metadata", "env", "network", "engine")
    made = client.call("POST", "/v1/sandboxes", dict.fromkeys(optional))
    plain = client.call("POST", "/v1/sandboxes", {})
    for field in ("template", "cpu", "memory_mb", "ttl_seconds", "idle_seconds", "on_idle", "persistent", "metadata", "network"):
        assert made[field] == plain[field]
    for one in (made, plain):
        client.ask("DELETE", f"/v1/sandboxes/{one['id']}")
    before = sandbox.call("GET", "/network")
    for field in ("mode", "allow_out", "deny_out"):
        for body in ({field: None}, {"mode": "open", "allow_out": ["1.2.3.4"], field: None}):
            error = check_refusal(sandbox.ask("PUT", "/network", body), 400)
            assert field in error and "null" in error
            assert field in create_refusal(client, network=body)
    assert sandbox.call("GET", "/network") == before
    for field in ("ttl_seconds", "idle_seconds", "persistent", "on_idle"):
        error = check_refusal(sandbox.ask("PATCH", "/lifecycle", {field: None}), 400)
        assert field in error and "null" in error
    for path, body in (("/run", {"code": None}), ("/fs/mkdir", {"path": None}), ("/fork-tree", {"count": None}), ("/network/check", {"host": None}),
                       ("/previews", {"port": None})):
        assert list(body)[0] in check_refusal(sandbox.ask("POST", path, body), 400)
    for body in ({"argv": ["true", None]}, {"cmd": "true", "env": {"A": None}}, {"cmd": None}):
        check_refusal(sandbox.ask("POST", "/exec", body), 400)


def test_more_than_max_sandboxes_are_refused_with_429(start_daemon):
    daemon = start_daemon("--max-sandboxes", 1)
    client = daemon.client()
    first = client.create()
    with pytest.raises(ApiError) as refusal:
        client.create()
    assert refusal.value.status == 429 and refusal.value.body["type"] == "quota"
    assert check_refusal(first.ask("POST", "/fork", {}), 429)
    first.delete()
    client.create().delete()


def test_sandboxes_do_not_see_each_other(client, sandbox):
    other = client.create()
    sandbox.write("/workspace/mine", b"1")
    assert other.exec("ls /workspace/mine")["exit_code"] == 2
    assert out(sandbox, "hostname") != out(other, "hostname")
    assert out(other, "ps -e | wc -l || ls /proc").strip()
    other.delete()
