# SPDX-License-Identifier: Apache-2.0
"""The PyPI package e2b 2.63.0, unmodified, against viald: its control plane. What happens inside of sandboxes is in test_e2b_*.py, templates in
test_e2b_control_templates.py."""

import datetime
import os
import signal
import time

import pytest

from e2b_environment import e2b  # noqa: F401  (a fixture)
from tools import add_key, engine_processes, wait_until
from vial import Sandbox, slow

NOBODY = "i" + "a" * 19


@pytest.fixture(scope="module")
def box(e2b):
    sandbox = e2b.Sandbox.create("minimal", metadata={"made": "by e2b", "k ey": "v&1=ä"}, timeout=600)
    yield sandbox
    sandbox.kill()


@pytest.fixture
def own(e2b):
    """One to be put to sleep, or ended."""
    sandbox = e2b.Sandbox.create("minimal", timeout=600)
    yield sandbox
    sandbox.kill()


def pages(paginator):
    found = []
    while paginator.has_next:
        found.append(paginator.next_items())
    return found


def ids(paginator):
    return [one.sandbox_id for page in pages(paginator) for one in page]


def at(daemon):
    """Another viald than the environment's, where it is now."""
    return {"api_url": daemon.url, "sandbox_url": daemon.url, "api_key": daemon.key}


def seconds_left(info):
    return (info.end_at - datetime.datetime.now(datetime.timezone.utc)).total_seconds()


# From the beginning to the end

@pytest.mark.method("E2B Python 2.63", "Sandbox.create", "Sandbox.get_info", "Sandbox.kill", "Sandbox.is_running")
def test_a_sandbox_is_made_shown_and_ended(e2b):
    with e2b.Sandbox.create("minimal", timeout=100, metadata={"a": "ä"}, envs={"GREETING": "grüße"}) as made:
        info = made.get_info()
        assert (info.sandbox_id, info.template_id, info.metadata, info.state) == (made.sandbox_id, "minimal", {"a": "ä"}, e2b.SandboxState.RUNNING)
        assert 90 < seconds_left(info) <= 100 and info.cpu_count >= 1 and info.memory_mb > 100 and info.started_at < info.end_at
        assert info.lifecycle == {"auto_resume": False, "on_timeout": "kill"} and info.allow_internet_access is False
        assert made.is_running() and made.commands.run("echo $GREETING").stdout == "grüße\n"
    assert not made.is_running() and made.kill() is False and e2b.Sandbox.kill(NOBODY) is False
    with pytest.raises(e2b.SandboxNotFoundException):
        made.get_info()


@pytest.mark.method("E2B Python 2.63", "Sandbox.create")
def test_what_is_asked_for_by_default_is_the_image_that_has_all(e2b):
    with e2b.Sandbox.create(timeout=60) as made:
        assert made.get_info().template_id == "code-interpreter"


@pytest.mark.method("E2B Python 2.63", "Sandbox.create", "Sandbox.get_mcp_url", "Sandbox.get_mcp_token", differs="Volumes, MCP gateways, workload identities, an egress proxy, DNS servers and transform rules are refused with a sentence.")
def test_what_there_is_not_is_refused_and_not_forgotten(e2b, box):
    before = sorted(ids(e2b.Sandbox.list()))
    for sentence, fields in (("volumes", {"volume_mounts": {"/data": "some-volume"}}), ("MCP gateway", {"mcp": {"filesystem": {}}}),
                             ("proxy", {"network": {"egress_proxy": {"address": "127.0.0.1:1080"}}}), ("resolver", {"network": {"dns_servers": ["1.1.1.1"]}}),
                             ("memory", {"lifecycle": {"on_timeout": {"action": "pause", "keep_memory": False}}})):
        with pytest.raises(e2b.SandboxException, match=sentence) as refused:
            e2b.Sandbox.create("minimal", **fields)
        assert refused.value.status_code == 400
    with pytest.raises(e2b.SandboxException, match="no template \"nothing-like-it\"") as missing:
        e2b.Sandbox.create("nothing-like-it")
    assert missing.value.status_code == 404
    assert sorted(ids(e2b.Sandbox.list())) == before
    assert box.get_mcp_url().endswith("/mcp")
    with pytest.raises(e2b.FileNotFoundException):
        box.get_mcp_token()


@pytest.mark.method("E2B Python 2.63", "Sandbox.list")
def test_lists_are_filtered_ordered_and_paged(e2b, box):
    with e2b.Sandbox.create("minimal", metadata={"n": "1"}) as first, e2b.Sandbox.create("minimal", metadata={"n": "1", "more": "x"}) as second:
        assert ids(e2b.Sandbox.list(query=e2b.SandboxQuery(metadata={"n": "1"}))) == [second.sandbox_id, first.sandbox_id]
        assert ids(e2b.Sandbox.list(query=e2b.SandboxQuery(metadata={"n": "1"}), order="asc")) == [first.sandbox_id, second.sandbox_id]
        assert ids(e2b.Sandbox.list(query=e2b.SandboxQuery(metadata={"n": "1", "more": "x"}))) == [second.sandbox_id]
        assert ids(e2b.Sandbox.list(query=e2b.SandboxQuery(metadata={"k ey": "v&1=ä"}))) == [box.sandbox_id]
        assert ids(e2b.Sandbox.list(query=e2b.SandboxQuery(template="minimal", started_after=box.get_info().started_at)))[-1] == box.sandbox_id
        assert ids(e2b.Sandbox.list(query=e2b.SandboxQuery(state=[e2b.SandboxState.PAUSED]))) == []
        paged = pages(e2b.Sandbox.list(limit=2))
        assert [len(page) for page in paged] == [2, 1] and len({one.sandbox_id for page in paged for one in page}) == 3


@pytest.mark.method("E2B Python 2.63", "Sandbox.set_timeout")
def test_its_end_can_be_nearer_and_farther(e2b, own):
    own.set_timeout(1000)
    assert 800 < seconds_left(own.get_info()) <= 1000
    e2b.Sandbox.set_timeout(own.sandbox_id, 1)
    wait_until(lambda: not own.is_running())
    with pytest.raises(e2b.SandboxNotFoundException):
        own.set_timeout(100)
    with pytest.raises(e2b.SandboxException, match="timeout|ttl_seconds"):
        e2b.Sandbox.create("minimal", timeout=-5)


@pytest.mark.method("E2B Python 2.63", "Sandbox.set_timeout")
def test_a_life_of_no_seconds_is_over_and_not_without_end(e2b):
    with e2b.Sandbox.create("minimal", timeout=600, lifecycle={"on_timeout": "pause"}) as sleeper, e2b.Sandbox.create("minimal", timeout=600) as mortal:
        for box in (sleeper, mortal):
            box.connect(timeout=0)
            assert seconds_left(box.get_info()) > 500, "connecting only makes it longer"
            box.set_timeout(0)
        wait_until(lambda: sleeper.get_info().state == e2b.SandboxState.PAUSED)
        assert not sleeper.is_running(), "whoever sees it paused does not see it run"
        wait_until(lambda: not mortal.is_running())
        with pytest.raises(e2b.SandboxNotFoundException):
            mortal.get_info()
        sleeper.connect(timeout=100)
        assert sleeper.is_running() and seconds_left(sleeper.get_info()) <= 100


# Sleep

@pytest.mark.method("E2B Python 2.63", "Sandbox.pause", "Sandbox.connect", "Sandbox.beta_pause")
def test_a_paused_sandbox_goes_on_where_it_was(e2b, own):
    server = own.commands.run("echo begun; sleep 1000", background=True)
    own.files.write("/tmp/kept", "still here")
    token = own.connection_config.sandbox_headers["X-Access-Token"]
    assert own.pause() is True and own.pause() is False and own.beta_pause() is False
    info = own.get_info()
    assert info.state == e2b.SandboxState.PAUSED and own.sandbox_id in ids(e2b.Sandbox.list(query=e2b.SandboxQuery(state=[e2b.SandboxState.PAUSED])))
    assert not own.is_running()
    with pytest.raises(e2b.SandboxNotRunningException):
        own.commands.run("id")
    again = e2b.Sandbox.connect(own.sandbox_id, timeout=200)
    assert again.is_running() and again.files.read("/tmp/kept") == "still here" and again.connection_config.sandbox_headers["X-Access-Token"] == token
    assert server.pid in [one.pid for one in again.commands.list()], "what ran was not kept"
    assert 100 < seconds_left(again.get_info()) <= 200 and own.commands.run("echo on").stdout == "on\n"


@pytest.mark.method("E2B Python 2.63", "Sandbox.connect", "Sandbox.set_timeout")
def test_connecting_only_makes_a_life_longer(e2b, own):
    before = own.get_info().end_at
    own.connect(timeout=10)
    assert own.get_info().end_at == before
    own.connect(timeout=2000)
    assert 1800 < seconds_left(own.get_info()) <= 2000
    with pytest.raises(e2b.SandboxNotFoundException):
        e2b.Sandbox.connect(NOBODY)


@pytest.mark.method("E2B Python 2.63", "Sandbox.create", "Sandbox.connect")
def test_a_life_that_ends_in_a_pause(e2b):
    made = e2b.Sandbox.create("minimal", timeout=600, lifecycle={"on_timeout": "pause"})
    made.files.write("/tmp/kept", "still here")
    assert made.get_info().lifecycle["on_timeout"] == "pause"
    made.set_timeout(1)
    wait_until(lambda: made.get_info().state == e2b.SandboxState.PAUSED)
    time.sleep(3)  # longer than its life: it stands still
    with pytest.raises(e2b.SandboxNotRunningException):
        made.files.read("/tmp/kept")
    assert made.get_info().state == e2b.SandboxState.PAUSED
    made.connect(timeout=60)
    assert made.files.read("/tmp/kept") == "still here" and seconds_left(made.get_info()) > 10
    assert made.kill() is True


@pytest.mark.method("E2B Python 2.63", "Sandbox.create")
def test_one_that_resumes_by_itself_wakes_when_it_is_used(e2b):
    made = e2b.Sandbox.create("minimal", timeout=100, lifecycle={"on_timeout": "pause", "auto_resume": True})
    made.files.write("/tmp/kept", "still here")
    assert made.get_info().lifecycle == {"auto_resume": True, "on_timeout": "pause"}
    made.pause()
    assert made.get_info().state == e2b.SandboxState.PAUSED
    assert made.files.read("/tmp/kept") == "still here"
    assert made.get_info().state == e2b.SandboxState.RUNNING and 20 < seconds_left(made.get_info()) <= 100
    made.kill()


def test_whoever_else_would_use_what_rests_is_told_so(e2b, own, daemon):
    own.pause()
    native = daemon.client(os.environ["E2B_API_KEY"])
    answer = native.ask("POST", f"/v1/sandboxes/{own.sandbox_id}/exec", {"cmd": "id"})
    assert answer.status == 409 and "put to rest" in answer.json()["message"]
    native.call("POST", f"/v1/sandboxes/{own.sandbox_id}/wake")
    assert own.is_running() and native.call("POST", f"/v1/sandboxes/{own.sandbox_id}/exec", {"cmd": "echo on"})["stdout"] == "on\n"


def test_one_that_others_have_put_to_sleep_is_paused_too(e2b, own, daemon):
    native = daemon.client(os.environ["E2B_API_KEY"])
    path = f"/v1/sandboxes/{own.sandbox_id}"
    own.files.write("/tmp/kept", "still here")
    native.call("POST", path + "/pause")
    assert own.get_info().state == e2b.SandboxState.PAUSED
    assert own.connect(timeout=700).files.read("/tmp/kept") == "still here" and seconds_left(own.get_info()) > 600
    native.call("POST", path + "/hibernate")
    assert own.get_info().state == e2b.SandboxState.PAUSED and own.pause() is True and own.pause() is False
    assert native.ask("POST", path + "/exec", {"cmd": "id"}).status == 409
    assert own.connect().files.read("/tmp/kept") == "still here"


def test_no_pause_is_longer_than_a_life_may_be(e2b, daemon):
    key = add_key(daemon, "e2bshort", form="e2b")
    daemon.client().call("PUT", "/v1/projects/e2bshort/quotas", {"max_ttl_seconds": 20})
    with pytest.raises(e2b.SandboxException, match="ttl_seconds"):
        e2b.Sandbox.create("minimal", timeout=21, api_key=key)
    made = e2b.Sandbox.create("minimal", timeout=20, api_key=key)
    made.pause()
    assert made.get_info().state == e2b.SandboxState.PAUSED
    wait_until(lambda: not ids(e2b.Sandbox.list(api_key=key)))
    assert made.kill(api_key=key) is False


@pytest.mark.parametrize("fault", ["", "hibernate.renamed crash"], ids=["viald is killed while it rests", "and when it had all but begun to"])
def test_a_rest_outlives_viald(e2b, start_daemon, tmp_path, fault):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    made = e2b.Sandbox.create("minimal", timeout=600, lifecycle={"on_timeout": "pause"}, **at(daemon))
    made.files.write("/tmp/kept", "still here")
    faults.write_text(fault)
    made.set_timeout(1)
    wait_until(lambda: daemon.process.poll() is not None if fault else made.get_info().state == e2b.SandboxState.PAUSED)
    daemon.kill()
    faults.write_text("")
    daemon.start()
    time.sleep(2)
    assert e2b.Sandbox.get_info(made.sandbox_id, **at(daemon)).state == e2b.SandboxState.PAUSED
    again = e2b.Sandbox.connect(made.sandbox_id, timeout=60, **at(daemon))
    assert again.files.read("/tmp/kept") == "still here" and seconds_left(again.get_info()) > 10


def test_one_that_cannot_be_put_to_rest_lives_on(e2b, start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("hibernate.rename")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    made = e2b.Sandbox.create("minimal", timeout=2, lifecycle={"on_timeout": "pause"}, **at(daemon))
    wait_until(lambda: "its time is up, and it rests" in daemon.log_text())
    with pytest.raises(e2b.SandboxException, match="cannot be put in place"):
        made.pause()
    assert made.is_running() and made.get_info().state == e2b.SandboxState.RUNNING and seconds_left(made.get_info()) > 30
    faults.write_text("")
    assert made.pause() is True and made.get_info().state == e2b.SandboxState.PAUSED


@pytest.mark.method("E2B Python 2.63", "Sandbox.pause", "Sandbox.create_snapshot", differs="Only with memory: keep_memory=False and mode=\"filesystem\" are refused with a sentence.")
def test_files_without_memory_are_refused(e2b, box):
    for call in (lambda: box.pause(keep_memory=False), lambda: box.create_snapshot(mode="filesystem")):
        with pytest.raises(e2b.SandboxException, match="memory") as refused:
            call()
        assert refused.value.status_code == 400
    assert box.is_running()


# Forks and snapshots

@pytest.mark.method("E2B Python 2.63", "Sandbox.fork")
def test_forks_have_what_their_parent_had(e2b, own):
    own.files.write("/tmp/which", "parent")
    before = own.get_info().end_at
    children = own.fork(timeout=100, count=2)
    for child in children:
        assert child.files.read("/tmp/which") == "parent" and 85 < seconds_left(child.get_info()) <= 100
        child.files.write("/tmp/which", child.sandbox_id)
    assert own.files.read("/tmp/which") == "parent" and own.get_info().end_at == before
    assert [child.files.read("/tmp/which") for child in children] == [child.sandbox_id for child in children] and all(child.kill() for child in children)
    with pytest.raises(e2b.SandboxNotFoundException):
        e2b.Sandbox.fork(NOBODY)


@pytest.mark.method("E2B Python 2.63", "Sandbox.create_snapshot", "Sandbox.list_snapshots", "Sandbox.delete_snapshot", "Sandbox.create")
def test_snapshots_are_taken_listed_used_and_deleted(e2b, own):
    own.files.write("/tmp/kept", "in the snapshot")
    named, nameless = own.create_snapshot(name="control-plane"), own.create_snapshot()
    assert named.snapshot_id == "e2b/control-plane:default" and named.names == [named.snapshot_id]
    assert nameless.snapshot_id.endswith(":default") and nameless.names == []
    own.files.write("/tmp/kept", "later")
    listed = [one.snapshot_id for page in pages(own.list_snapshots(limit=1)) for one in page]
    assert listed == [nameless.snapshot_id, named.snapshot_id]
    assert [one.snapshot_id for one in e2b.Sandbox.list_snapshots(name="control-plane").next_items()] == [named.snapshot_id]
    for snapshot in (named, nameless):
        with e2b.Sandbox.create(snapshot.snapshot_id, timeout=60) as made:
            assert made.files.read("/tmp/kept") == "in the snapshot"
        assert e2b.Sandbox.delete_snapshot(snapshot.snapshot_id) is True and e2b.Sandbox.delete_snapshot(snapshot.snapshot_id) is False
    with pytest.raises(e2b.SandboxNotFoundException):
        e2b.Sandbox.create_snapshot(NOBODY)


# Network, metrics, logs

@pytest.mark.method("E2B Python 2.63", "Sandbox.update_network", differs="A sandbox's network is closed unless the setting e2b_network, or the sandbox, opens it.")
def test_the_network_of_a_living_sandbox_is_replaced(e2b, own, daemon):
    native = daemon.client(os.environ["E2B_API_KEY"])

    def policy():
        return native.call("GET", f"/v1/sandboxes/{own.sandbox_id}/network")

    own.update_network({"allow_out": ["example.com", "203.0.113.0/24"], "deny_out": ["0.0.0.0/0"]})
    assert policy()["mode"] == "filtered" and sorted(policy()["allow_out"]) == ["203.0.113.0/24", "example.com"]
    assert sorted(own.get_info().network["allow_out"]) == ["203.0.113.0/24", "example.com"] and own.get_info().network["deny_out"] == ["0.0.0.0/0"]
    own.update_network({"allow_internet_access": True})
    assert policy()["mode"] == "open" and own.get_info().allow_internet_access is True
    own.update_network({})
    assert policy()["mode"] == "disabled"
    with pytest.raises(e2b.SandboxException, match="deny_out"):
        own.update_network({"deny_out": ["203.0.113.0/77"]})
    with pytest.raises(e2b.SandboxNotFoundException):
        e2b.Sandbox.update_network(NOBODY, {})


@pytest.mark.method("E2B Python 2.63", "Sandbox.get_metrics", differs="What it uses now, as one entry: nothing is kept of before. While it is paused there is none.")
def test_metrics_say_what_is_used(e2b, own):
    metric, = own.get_metrics()
    assert metric.cpu_count >= 1 and 0 < metric.mem_used < metric.mem_total and 0 <= metric.disk_used < metric.disk_total
    assert own.get_metrics(end=datetime.datetime.now() - datetime.timedelta(hours=1)) == []
    assert len(own.get_metrics(start=own.get_info().started_at, end=datetime.datetime.now() + datetime.timedelta(hours=1))) == 1
    own.pause()
    assert own.get_metrics() == [] and own.get_info().state == e2b.SandboxState.PAUSED
    with pytest.raises(e2b.SandboxNotFoundException):
        e2b.Sandbox.get_metrics(NOBODY)


def test_routes_that_no_sdk_calls_any_more(e2b, own, daemon):
    native = daemon.client(os.environ["E2B_API_KEY"])
    native.call("POST", f"/v1/sandboxes/{own.sandbox_id}/exec", {"cmd": "echo first-line; echo second-line; echo bad >&2"})
    path = f"/sandboxes/{own.sandbox_id}"
    logs = native.call("GET", path + "/logs")
    assert "first-line" in [one["line"] for one in logs["logs"]]
    assert {"message": "bad", "level": "error"}.items() <= next(one for one in logs["logEntries"] if one["message"] == "bad").items()
    messages = [one["message"] for one in native.call("GET", f"/v2{path}/logs?direction=backward&search=-line&limit=2")["logs"]]
    assert messages == ["second-line", "first-line"]
    assert native.ask("GET", f"/v2{path}/logs?direction=sideways").status == 400
    before = own.get_info().end_at
    assert native.ask("POST", path + "/refreshes", {"duration": 10}).status == 204 and own.get_info().end_at == before
    assert native.ask("POST", path + "/refreshes", {"duration": 5000}).status == 204 and seconds_left(own.get_info()) > 4900
    assert native.ask("POST", path + "/resume", {"timeout": 100}).status == 409
    assert native.ask("POST", path + "/pause").status == 204 and native.ask("POST", path + "/pause", {}).status == 409
    assert native.ask("POST", path + "/resume", {"timeout": 100, "autoPause": True}).status == 201 and own.get_info().lifecycle["on_timeout"] == "pause"
    assert native.ask("POST", path + "/connect", {"timeout": 100}).status == 200
    assert own.sandbox_id in [one["sandboxID"] for one in native.call("GET", "/sandboxes")]


# Exceptions

def test_each_refusal_is_its_own_exception(e2b, daemon, own):
    with pytest.raises(e2b.AuthenticationException):
        e2b.Sandbox.create("minimal", api_key="e2b_" + "0" * 40)
    viewer = add_key(daemon, "e2b", role="viewer")
    with pytest.raises(e2b.SandboxException) as refused:
        e2b.Sandbox.create("minimal", api_key=viewer)
    assert refused.value.status_code == 403
    key = add_key(daemon, "e2bfull")
    daemon.client().call("PUT", "/v1/projects/e2bfull/quotas", {"max_sandboxes": 1})
    begun = time.monotonic()
    with e2b.Sandbox.create("minimal", api_key=key) as only:
        for create in (lambda: e2b.Sandbox.create("minimal", api_key=key), lambda: e2b.Sandbox.fork(only.sandbox_id, api_key=key)):
            with pytest.raises(e2b.RateLimitException, match="max_sandboxes"):
                create()
    assert time.monotonic() - begun < slow(10), "a quota was asked again and again"


def test_who_may_not_change_lives_connects_and_changes_none(e2b, daemon, own):
    runner = {"api_key": add_key(daemon, "e2b", role="runner")}
    before = own.get_info()
    with pytest.raises(e2b.SandboxException) as refused:
        own.set_timeout(5000, **runner)
    assert refused.value.status_code == 403
    native = daemon.client(runner["api_key"])
    assert native.ask("POST", f"/sandboxes/{own.sandbox_id}/connect", {"timeout": 5000, "autoPause": True}).status == 200
    after = own.get_info()
    assert after.end_at == before.end_at and after.lifecycle["on_timeout"] == "kill"
    own.pause()
    woken = e2b.Sandbox.connect(own.sandbox_id, timeout=5000, **runner)
    assert woken.commands.run("echo awake").stdout == "awake\n" and 500 < seconds_left(own.get_info()) <= 600


def test_no_room_is_told_as_busy(e2b, box, start_daemon, tmp_path):
    (tmp_path / "faults").write_text(f"host.memory_mb {box.get_info().memory_mb + 100}\n")
    daemon = start_daemon("--memory-overcommit-percent", "100", env={"VIAL_FAULTS": str(tmp_path / "faults")})
    options = {**at(daemon), "retries": 0}
    with e2b.Sandbox.create("minimal", **options) as only:
        with pytest.raises(e2b.ServiceBusyException, match="memory_overcommit_percent"):
            e2b.Sandbox.create("minimal", **options)
        assert ids(e2b.Sandbox.list(**options)) == [only.sandbox_id]


@pytest.mark.parametrize("end", ["kill", "pause", "expiry"])
def test_what_was_running_hears_of_the_end(e2b, own, end):
    """A stream that breaks off is no end of a command: the client looks at the sandbox's health, and says what became of it."""
    handle = own.commands.run("echo begun; sleep 1000", background=True, timeout=0)
    if end == "expiry":
        own.set_timeout(1)
    else:
        assert getattr(own, end)() is True
    with pytest.raises(e2b.SandboxNotRunningException):
        handle.wait()
    with pytest.raises(e2b.SandboxNotRunningException):
        own.files.read("/etc/hostname")
    if end == "pause":
        own.connect(timeout=60)
        assert handle.pid in [one.pid for one in own.commands.list()] and own.commands.connect(handle.pid).kill() is True


def test_one_that_has_died_is_no_more(e2b, own, daemon):
    native = daemon.client(os.environ["E2B_API_KEY"])
    for pid in engine_processes(daemon, Sandbox(native, {"id": own.sandbox_id})):
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: native.call("GET", f"/v1/sandboxes/{own.sandbox_id}")["status"] == "failed")
    for call in (own.get_info, own.pause, own.connect, own.fork, own.create_snapshot, own.get_metrics, lambda: own.set_timeout(10), lambda: own.update_network({})):
        with pytest.raises(e2b.SandboxNotFoundException):
            call()
    assert not own.is_running() and own.sandbox_id not in ids(e2b.Sandbox.list())


def test_two_projects_cannot_see_each_other(e2b, daemon, box):
    other = {"api_key": add_key(daemon, "e2bstrangers", role="admin", form="e2b")}
    snapshot = box.create_snapshot(name="not-theirs")
    assert ids(e2b.Sandbox.list(**other)) == [] and e2b.Sandbox.list_snapshots(**other).next_items() == []
    assert e2b.Sandbox.kill(box.sandbox_id, **other) is False and e2b.Sandbox.delete_snapshot(snapshot.snapshot_id, **other) is False
    for call in (e2b.Sandbox.get_info, e2b.Sandbox.connect, e2b.Sandbox.pause, e2b.Sandbox.fork, e2b.Sandbox.create_snapshot, e2b.Sandbox.get_metrics,
                 lambda *a, **k: e2b.Sandbox.set_timeout(*a, 10, **k), lambda *a, **k: e2b.Sandbox.update_network(*a, {}, **k)):
        with pytest.raises(e2b.SandboxNotFoundException):
            call(box.sandbox_id, **other)
    with pytest.raises(e2b.SandboxException, match="no template"):
        e2b.Sandbox.create(snapshot.snapshot_id, **other)
    assert box.is_running() and e2b.Sandbox.delete_snapshot(snapshot.snapshot_id) is True


def test_the_record_says_e2b(e2b, own, daemon):
    own.pause()
    own.connect()
    found = daemon.client(add_key(daemon, "e2b", role="admin")).call("GET", f"/v1/audit?sandbox={own.sandbox_id}")["items"]
    assert [one["surface"] for one in found if one["action"] in ("sandbox.hibernate", "sandbox.wake")] == ["e2b", "e2b"]
