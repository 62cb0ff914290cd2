# SPDX-License-Identifier: Apache-2.0
"""Quotas and ceilings, of projects and narrowed for keys: each is held, under a race too, counted right after a crash, and the answer says which it is, how much of it
is used and by what."""

import time

import pytest

from tools import check_refusal, follow, wait_until
from vial import Client, Sandbox
from world import Project, at_once, refused_limit

CLIENTS = 64


def make(client, **fields):
    return client.ask("POST", "/v1/sandboxes", {"template": "minimal", **fields})


def cannot_be_waited_for(answer):
    assert answer.headers["Should-Retry"] == "false" and answer.headers["x-should-retry"] == "false" and answer.headers["Retry-After"] is None


def can_be_waited_for(answer, at_most):
    assert 1 <= int(answer.headers["Retry-After"]) <= at_most and answer.headers["Should-Retry"] is None


@pytest.fixture(scope="module")
def size(client):
    """Of a sandbox that says nothing of its size."""
    template = client.call("GET", "/v1/templates/minimal")
    sandbox = client.create()
    info = sandbox.info
    sandbox.delete()
    assert template["name"] == info["template"]
    return {"vcpu": info["cpu"], "memory_mb": info["memory_mb"], "disk_mb": info["disk_mb"]}


# One after the other

@pytest.mark.parametrize("scope", ["project", "key"])
@pytest.mark.parametrize("name", ["max_sandboxes", "max_vcpu", "max_memory_mb", "max_disk_mb", "max_create_per_hour"])
def test_a_limit_of_one_sandbox_holds_the_second(project, size, name, scope):
    each = {"max_sandboxes": 1, "max_create_per_hour": 1, "max_vcpu": size["vcpu"], "max_memory_mb": size["memory_mb"], "max_disk_mb": size["disk_mb"]}[name]
    limit = each
    client = project.client
    if scope == "project":
        project.set_quotas(**{name: limit})
    else:
        client = project.key("developer", name="narrow", limits={name: limit})
        project.client.create()  # somebody else's does not count
    made = client.create()
    answer = make(client)
    detail = refused_limit(answer, name)
    assert (detail["scope"], detail["limit"], detail["used"], detail["asked"]) == (scope, limit, each, each)
    assert sum(detail["by"]["keys"].values()) == (1 if scope == "project" else 2)
    sentence = answer.json()["error"]
    assert f"{limit:g}" in sentence and ("narrow" if scope == "key" else project.name) in sentence and list(detail["by"]["keys"])[0] in sentence
    if name == "max_create_per_hour":
        can_be_waited_for(answer, 3600)
    else:
        cannot_be_waited_for(answer)
    assert len(client.sandboxes()) == (1 if scope == "project" else 2), "nothing was made"
    made.delete()
    assert make(client).status == (429 if name == "max_create_per_hour" else 201)


def test_a_limit_of_nothing_is_one(project):
    for name in ("max_sandboxes", "max_vcpu", "max_memory_mb", "max_disk_mb", "max_create_per_hour"):
        project.set_quotas(**{name: 0})
        answer = make(project.client)
        assert refused_limit(answer, name)["limit"] == 0
        cannot_be_waited_for(answer)
    project.set_quotas()
    sandbox = project.client.create()
    project.set_quotas(max_concurrent_runs=0)
    cannot_be_waited_for(sandbox.ask("POST", "/exec", {"cmd": "true"}))
    project.set_quotas(max_snapshot_bytes=0)
    answer = sandbox.ask("POST", "/snapshots", {})
    refused_limit(answer, "max_snapshot_bytes")
    cannot_be_waited_for(answer)


def test_more_than_an_hour_holds_is_not_worth_waiting_for(project):
    sandbox = project.client.create()
    project.set_quotas(max_create_per_hour=3)
    answer = sandbox.ask("POST", "/fork-tree", {"count": 4})
    assert refused_limit(answer, "max_create_per_hour")["asked"] == 4
    cannot_be_waited_for(answer)
    assert sandbox.ask("POST", "/fork-tree", {"count": 2}).status == 201
    answer = sandbox.ask("POST", "/fork-tree", {"count": 2})
    assert refused_limit(answer, "max_create_per_hour")["used"] == 3
    can_be_waited_for(answer, 3600)


def test_runs_at_the_same_time_are_limited_and_worth_waiting_for(project):
    sandbox = project.client.create()
    narrow = project.key("runner", name="narrow", limits={"max_concurrent_runs": 1})
    project.set_quotas(max_concurrent_runs=2)
    own = Sandbox(narrow, sandbox.info)
    streams = [follow(narrow, "POST", f"{sandbox.path}/exec/stream", {"cmd": "echo here; sleep 1000"})]
    next(streams[0])
    answer = own.ask("POST", "/run", {"code": "1", "language": "bash"})
    assert refused_limit(answer, "max_concurrent_runs")["scope"] == "key"
    can_be_waited_for(answer, 60)
    terminal = sandbox.websocket("/pty")
    answer = sandbox.ask("POST", "/exec", {"cmd": "true"})
    detail = refused_limit(answer, "max_concurrent_runs")
    assert (detail["scope"], detail["used"]) == ("project", 2) and detail["by"]["keys"] == {"narrow": 1, f"developer of {project.name}": 1}
    assert project.used()["concurrent_runs"] == 2
    terminal.close()
    streams[0].close()
    wait_until(lambda: project.used()["concurrent_runs"] == 0)
    assert own.exec("echo x")["stdout"] == "x\n"


def test_snapshots_are_limited_by_their_bytes(project):
    sandbox = project.client.create()
    first = sandbox.call("POST", "/snapshots", {"name": "first"})
    assert project.used()["snapshot_bytes"] == first["size_bytes"]
    project.set_quotas(max_snapshot_bytes=first["size_bytes"] + 1000)
    answer = sandbox.ask("POST", "/snapshots", {})
    detail = refused_limit(answer, "max_snapshot_bytes")
    assert detail["used"] == first["size_bytes"] and detail["asked"] > 1000 and detail["by"]["snapshots"] == {"first": first["size_bytes"]}
    cannot_be_waited_for(answer)
    assert [one["id"] for one in project.client.call("GET", "/v1/snapshots")] == [first["id"]], "nothing of it is left"
    project.client.call("DELETE", f"/v1/snapshots/{first['id']}")
    project.set_quotas(max_snapshot_bytes=3 * first["size_bytes"])
    assert sandbox.ask("POST", "/snapshots", {}).status == 201


def test_a_key_s_own_limit_of_snapshot_bytes_counts(project):
    sandbox = project.client.create()
    narrow = project.key("developer", limits={"max_snapshot_bytes": 1})
    assert refused_limit(Sandbox(narrow, sandbox.info).ask("POST", "/snapshots", {}), "max_snapshot_bytes")["scope"] == "key"
    assert sandbox.ask("POST", "/snapshots", {}).status == 201


# Ceilings

@pytest.mark.parametrize("scope", ["project", "key"])
def test_a_ceiling_of_lifetime_bounds_what_is_asked_and_what_is_not(project, scope):
    client = project.client
    if scope == "project":
        project.set_quotas(max_ttl_seconds=60)
    else:
        client = project.key("developer", limits={"max_ttl_seconds": 60})
    assert "ttl_seconds" in check_refusal(make(client, ttl_seconds=61), 400)
    assert "ttl_seconds" in check_refusal(make(client, ttl_seconds=0), 400)
    assert "ttl_seconds" in check_refusal(make(client, ttl_seconds=0, persistent=True), 400)
    assert client.create().info["ttl_seconds"] == 60
    persistent = client.create(persistent=True)
    assert persistent.info["ttl_seconds"] == 60
    assert "ttl_seconds" in check_refusal(persistent.ask("PATCH", "/lifecycle", {"ttl_seconds": 61}), 400)
    assert persistent.call("PATCH", "/lifecycle", {"ttl_seconds": 60})["ttl_seconds"] == 60


def test_children_of_a_fork_live_no_longer_than_their_maker_may_give(project):
    parent = project.client.create(persistent=True)
    assert parent.info["ttl_seconds"] == 0
    narrow = project.key("developer", limits={"max_ttl_seconds": 60})
    child = Sandbox(narrow, parent.info).call("POST", "/fork-tree", {"count": 1})["children"][0]
    assert narrow.call("GET", f"/v1/sandboxes/{child['id']}")["ttl_seconds"] == 60


@pytest.mark.parametrize("scope", ["project", "key"])
def test_a_ceiling_of_networks_forbids_others(project, scope):
    allowed = {"network_modes": ["disabled"]}
    parent = project.client.create(network={"mode": "open"})
    client = project.client
    if scope == "project":
        project.set_quotas(**allowed)
    else:
        client = project.key("developer", limits=allowed)
    for mode in ("filtered", "open"):
        assert "network_modes" in check_refusal(make(client, network={"mode": mode}), 403)
    sandbox = client.create(network={"mode": "disabled"})
    assert "network_modes" in check_refusal(sandbox.ask("PUT", "/network", {"mode": "open"}), 403)
    assert sandbox.refresh()["network"]["mode"] == "disabled"
    assert "network_modes" in check_refusal(Sandbox(client, parent.info).ask("POST", "/fork", {}), 403)


@pytest.mark.parametrize("scope", ["project", "key"])
def test_a_ceiling_of_sizes_forbids_larger_ones(project, scope):
    parent = project.client.create(memory_mb=2100)
    client = project.client
    if scope == "project":
        project.set_quotas(tiers=["2x2"])
    else:
        client = project.key("developer", limits={"tiers": ["2x2"]})
    for size in ({"memory_mb": 2049}, {"cpu": 2.5}):
        assert "tiers" in check_refusal(make(client, **size), 403)
    assert make(client, memory_mb=256, cpu=2).status == 201
    for path, body in (("/fork", {}), ("/fork-tree", {"count": 1})):
        assert "tiers" in check_refusal(Sandbox(client, parent.info).ask("POST", path, body), 403)


def test_templates_are_counted_though_there_are_none_yet(project):
    project.set_quotas(max_templates=0)
    assert project.used()["templates"] == 0 and make(project.client).status == 201


# What sleeps

def test_what_sleeps_takes_a_place_but_no_memory_and_waking_asks_again(project, size):
    project.set_quotas(max_memory_mb=size["memory_mb"], max_vcpu=size["vcpu"])
    first = project.client.create(persistent=True)
    refused_limit(make(project.client), "max_vcpu")
    first.call("POST", "/hibernate")
    used = project.used()
    assert (used["sandboxes"], used["vcpu"], used["memory_mb"], used["disk_mb"]) == (1, 0, 0, size["disk_mb"])
    second = project.client.create()
    for method, path, body in (("POST", "/wake", None), ("POST", "/exec", {"cmd": "true"}), ("POST", "/run", {"code": "1", "language": "bash"}), ("POST", "/fork", {})):
        answer = first.ask(method, path, body)
        assert answer.status == 429, (path, answer.body)
        refused_limit(answer, "max_vcpu")
    assert first.refresh()["status"] == "hibernated"
    second.delete()
    assert first.exec("echo awake")["stdout"] == "awake\n"
    assert project.used()["memory_mb"] == size["memory_mb"]


def test_a_limit_below_what_is_used_takes_nothing_away_but_gives_nothing(project):
    sandboxes = [project.client.create() for _ in range(3)]
    state = project.set_quotas(max_sandboxes=1)
    assert state["used"]["sandboxes"] == 3 and state["quotas"] == {"max_sandboxes": 1}
    assert refused_limit(make(project.client), "max_sandboxes")["used"] == 3
    assert sandboxes[0].exec("echo x")["stdout"] == "x\n"
    for sandbox in sandboxes:
        refused_limit(make(project.client), "max_sandboxes")
        sandbox.delete()
    assert make(project.client).status == 201


def test_one_project_s_limit_is_not_another_s(client, project):
    project.set_quotas(max_sandboxes=0)
    other = Project(client)
    other.client.create().delete()
    refused_limit(make(project.client), "max_sandboxes")


def test_put_replaces_all_and_patch_what_it_names(client, project):
    project.set_quotas(max_sandboxes=5, max_vcpu=2.5, tiers=["2x2"])
    changed = client.call("PATCH", project.path, {"quotas": {"max_sandboxes": None, "max_disk_mb": 7}, "ceilings": {"network_modes": ["open"]}})
    assert changed["quotas"] == {"max_vcpu": 2.5, "max_disk_mb": 7, "tiers": ["2x2"], "network_modes": ["open"]}
    assert project.set_quotas(max_templates=1)["quotas"] == {"max_templates": 1}


def test_me_shows_what_one_may_have_and_has(project):
    project.set_quotas(max_sandboxes=5)
    narrow = project.key("viewer", limits={"max_vcpu": 1})
    limits = narrow.call("GET", "/v1/me")["limits"]
    assert limits["project"] == {"max_sandboxes": 5} and limits["key"] == {"max_vcpu": 1} and limits["used"]["sandboxes"] == 0


# Under a race

def statuses(answers):
    return sorted(answer.status for answer in answers)


@pytest.mark.parametrize("name,scope", [("max_sandboxes", "project"), ("max_create_per_hour", "key"), ("max_vcpu", "project"), ("max_memory_mb", "key")])
def test_of_64_clients_exactly_as_many_get_a_sandbox_as_fit(project, size, name, scope):
    limit = {"max_vcpu": 3 * size["vcpu"], "max_memory_mb": 3 * size["memory_mb"]}.get(name, 3)
    client = project.client
    if scope == "project":
        project.set_quotas(**{name: limit})
    else:
        client = project.key("developer", limits={name: limit})
    answers = at_once(CLIENTS, lambda number: make(client))
    assert statuses(answers) == [201] * 3 + [429] * (CLIENTS - 3)
    assert len(client.sandboxes()) == 3 and project.used()["created_last_hour"] == 3


@pytest.mark.parametrize("name", ["max_sandboxes", "max_create_per_hour"])
def test_of_64_forks_exactly_as_many_are_made_as_fit(project, name):
    parent = project.client.create()
    project.set_quotas(**{name: 1 + 3})
    answers = at_once(CLIENTS, lambda number: parent.ask("POST", "/fork-tree", {"count": 1}))
    assert statuses(answers) == [201] * 3 + [429] * (CLIENTS - 3), {answer.status: answer.body for answer in answers}
    assert len(project.client.sandboxes()) == 4 and project.used()["created_last_hour"] == 4


def test_a_fork_that_does_not_fit_whole_makes_nothing(project):
    parent = project.client.create()
    project.set_quotas(max_sandboxes=3)
    detail = refused_limit(parent.ask("POST", "/fork-tree", {"count": 3}), "max_sandboxes")
    assert (detail["used"], detail["asked"]) == (1, 3) and len(project.client.sandboxes()) == 1
    assert parent.ask("POST", "/fork-tree", {"count": 2}).status == 201
    refused_limit(parent.ask("POST", "/fork", {}), "max_sandboxes")


@pytest.mark.parametrize("scope", ["project", "key"])
def test_of_64_clients_never_more_run_at_once_than_may(project, scope):
    client = project.client
    if scope == "project":
        project.set_quotas(max_concurrent_runs=5)
    else:
        client = project.key("developer", limits={"max_concurrent_runs": 5})
    sandbox = client.create()
    opened = at_once(CLIENTS, lambda number: client.open("POST", f"{sandbox.path}/exec/stream", {"cmd": "sleep 1000"}))
    assert sorted(response.status for response in opened) == [200] * 5 + [429] * (CLIENTS - 5)
    assert project.used()["concurrent_runs"] == 5
    for response in opened:
        response.connection.close()
        response.close()
    wait_until(lambda: project.used()["concurrent_runs"] == 0)


# After a crash

def test_all_is_counted_right_after_a_crash(start_daemon):
    daemon = start_daemon()
    project = Project(daemon.client())
    awake, asleep, gone = project.client.create(persistent=True), project.client.create(persistent=True), project.client.create()
    awake.call("POST", "/fork-tree", {"count": 2})
    asleep.call("POST", "/hibernate")
    awake.call("POST", "/snapshots", {})
    gone.delete()
    before = project.used()
    assert before["created_last_hour"] == 5 and before["sandboxes"] == 4
    project.set_quotas(max_sandboxes=4, max_create_per_hour=6)
    daemon.kill()
    daemon.start()
    project.operator, project.client = daemon.client(), Client(daemon.url, project.client.key)
    assert project.used() == before
    refused_limit(make(project.client), "max_sandboxes")
    project.client.call("DELETE", awake.path)
    assert make(project.client).status == 201
    daemon.kill()
    daemon.start()
    project.operator, project.client = daemon.client(), Client(daemon.url, project.client.key)
    assert project.used()["created_last_hour"] == 6
    project.client.call("DELETE", asleep.path)
    answer = make(project.client)
    assert refused_limit(answer, "max_create_per_hour")["used"] == 6
    can_be_waited_for(answer, 3600)


def test_killed_in_the_middle_of_64_creations_none_is_too_many_or_forgotten(start_daemon):
    daemon = start_daemon()
    project = Project(daemon.client())
    project.set_quotas(max_create_per_hour=6, max_sandboxes=6)
    key = project.client.key
    told = []

    def create(number):
        if number == 0:
            time.sleep(0.35)
            daemon.process.kill()
            return None
        answer = make(Client(daemon.url, key, timeout=20))
        told.append(answer)
        return answer

    at_once(24, create)
    daemon.process.wait()
    daemon.log.close()
    daemon.start()
    project.operator, project.client = daemon.client(), Client(daemon.url, key)
    answered = {answer.json()["id"] for answer in told if answer.status == 201}
    there = {one["id"] for one in project.client.sandboxes() if one["status"] != "failed"}
    assert answered <= there and len(project.client.sandboxes()) <= 6
    assert len(answered) <= project.used()["created_last_hour"] <= 6
    project.set_quotas(max_sandboxes=6)
    room = 6 - project.used()["sandboxes"]
    answers = at_once(8, lambda number: make(project.client))
    assert statuses(answers) == [201] * room + [429] * (8 - room)
