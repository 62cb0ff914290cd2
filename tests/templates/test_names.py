# SPDX-License-Identifier: Apache-2.0
"""Names and tags, what is cached, what is stale, and the end of a template with sandboxes alive."""

from concurrent.futures import ThreadPoolExecutor

from builds import Builder
from tools import check_refusal, out, run, wait_until


def layers(daemon):
    return {path.name for path in (daemon.data / "layers").glob("*")} if (daemon.data / "layers").exists() else set()


def value(client, name):
    sandbox = client.create(name)
    text = out(sandbox, "cat /opt/version").strip()
    sandbox.delete()
    return text


def version(builder, name, text, **fields):
    return builder.build(name, steps=[{"run": f"echo {text} > /opt/version"}], **fields)


def test_a_name_alone_is_the_newest_whatever_its_tag(builder):
    version(builder, "tagged:one", "one")
    assert value(builder.client, "tagged") == "one"
    version(builder, "tagged:two", "two")
    assert [value(builder.client, name) for name in ("tagged", "tagged:latest", "tagged:one", "tagged:two")] == ["two", "two", "one", "two"]
    shown = {template["name"]: template["tags"] for template in builder.client.call("GET", "/v1/templates") if template["name"].startswith("tagged")}
    assert shown == {"tagged:one": ["one"], "tagged:two": ["two", "latest"]}
    builder.delete("tagged:two")
    assert value(builder.client, "tagged") == "one"
    builder.delete("tagged")
    check_refusal(builder.client.ask("GET", "/v1/templates/tagged:one"), 404)
    check_refusal(builder.client.ask("POST", "/v1/sandboxes", {"template": "tagged"}), 400)


def test_equal_steps_on_an_equal_base_are_taken_from_the_cache_unless_that_is_not_wanted(builder):
    steps = [{"run": "date +%N > /opt/version"}]
    first = builder.build("cache-a", steps=steps)
    second = builder.build("cache-b", steps=steps)
    third = builder.build("cache-c", steps=steps, no_cache=True)
    other = builder.build("cache-d", steps=[{"run": "date  +%N > /opt/version"}])
    assert [build["cached"] for build in (first, second, third, other)] == [False, True, False, False]
    a, b, c = (value(builder.client, f"cache-{letter}") for letter in "abc")
    assert a == b and a != c
    for letter in "abcd":
        builder.delete(f"cache-{letter}")


def test_two_builds_of_one_name_at_once_do_not_mix_and_the_later_one_is_the_latest(builder):
    def one(text):
        return builder.build("race", steps=[{"run": f"echo {text} > /opt/version; sleep 0.3; echo {text} > /opt/other"}])

    with ThreadPoolExecutor(2) as pool:
        builds = list(pool.map(one, ("left", "right")))
    latest = max(builds, key=lambda build: build["ended_at"])
    sandbox = builder.client.create("race")
    both = out(sandbox, "cat /opt/version /opt/other").split()
    sandbox.delete()
    assert both[0] == both[1] and both[0] in builder.get(latest["build_id"])["steps"][0]["run"]
    assert sum(template["name"] == "race" for template in builder.client.call("GET", "/v1/templates")) == 1
    builder.delete("race")


def test_a_rebuilt_base_marks_its_children_stale_and_a_rebuild_makes_them_new(builder):
    version(builder, "ground", "one")
    builder.build("derived", base="ground", steps=[{"run": "cat /opt/version > /opt/copy"}])
    assert builder.template("derived")["stale"] is False
    version(builder, "ground", "two")
    assert builder.template("derived")["stale"] is True
    sandbox = builder.client.create("derived")
    assert out(sandbox, "cat /opt/copy /opt/version") == "one\none\n"
    rebuilt = builder.client.call("POST", "/v1/templates/derived/rebuild", {})
    assert builder.wait(rebuilt["build_id"])["status"] == "ready"
    assert builder.template("derived")["stale"] is False
    fresh = builder.client.create("derived")
    assert out(fresh, "cat /opt/copy /opt/version") == "two\ntwo\n"
    assert out(sandbox, "cat /opt/copy") == "one\n"
    sandbox.delete()
    fresh.delete()
    builder.delete("derived")
    builder.delete("ground")


def test_deleting_a_template_leaves_alone_what_was_made_of_it_and_its_layer_goes_with_the_last(builder, daemon):
    before = layers(daemon)
    version(builder, "doomed", "kept")
    builder.build("heir", base="doomed", steps=[{"env": {"A": "b"}}])
    client = builder.client
    awake = client.create("doomed")
    asleep = client.create("doomed", persistent=True)
    asleep.call("POST", "/hibernate")
    origin = client.create("doomed")
    snapshot = origin.call("POST", "/snapshots", {})["id"]
    origin.delete()
    builder.delete("doomed")
    check_refusal(client.ask("POST", "/v1/sandboxes", {"template": "doomed"}), 400)
    assert layers(daemon) - before
    restored = client.create(None, from_snapshot=snapshot)
    forked = client.call("POST", f"/v1/sandboxes/{awake.id}/fork", {})["sandbox"]["id"]
    assert value(client, "heir") == "kept"
    for sandbox in (awake, asleep, restored):
        assert out(sandbox, "cat /opt/version") == "kept\n"
    assert client.call("POST", f"/v1/sandboxes/{forked}/exec", {"cmd": "cat /opt/version"})["stdout"] == "kept\n"
    builder.delete("heir")
    for sandbox in (awake, asleep, restored):
        sandbox.delete()
    client.call("DELETE", f"/v1/sandboxes/{forked}")
    assert layers(daemon) - before, "the snapshot needs it"
    client.call("DELETE", f"/v1/snapshots/{snapshot}")
    version(builder, "sweeper", "x")
    builder.delete("sweeper")
    # Those of earlier tests may still have been on their way out at the beginning.
    wait_until(lambda: layers(daemon) <= before)
    known = {template["template_id"] for template in client.call("GET", "/v1/templates") if not template["is_global"]}
    wait_until(lambda: {path.name for path in (daemon.data / "templates").iterdir()} == known)


def test_one_that_is_deleted_while_another_size_of_it_is_baked_leaves_nothing_and_whoever_wanted_that_gets_it(builder, daemon):
    client = builder.client
    home = daemon.data / "templates" / version(builder, "sized", "kept")["build_id"]
    with ThreadPoolExecutor(1) as pool:
        wanted = pool.submit(client.create, "sized", cpu=3)
        wait_until(lambda: list(home.glob("baking-*")) or wanted.done(), 60, 0.01)
        builder.delete("sized")
        sandbox = wanted.result()
    assert out(sandbox, "cat /opt/version") == "kept\n"
    sandbox.delete()
    wait_until(lambda: not list(home.parent.glob(f"{home.name}*")))


def test_a_sandbox_as_it_is_now_becomes_a_template_and_goes_on(builder):
    client = builder.client
    origin = client.create("minimal")
    run(origin, "x = 41")
    out(origin, "echo here > /home/user/file")
    made = origin.call("POST", "/template", {"name": "promoted:one"})
    assert made["name"] == "promoted:one" and made["status"] == "ready" and made["tags"] == ["one", "latest"]
    run(origin, "x = 0")
    copies = [client.create("promoted") for _ in range(2)]
    assert [run(copy, "x += 1; print(x)")["stdout"] for copy in copies] == ["42\n", "42\n"]
    assert copies[0].info["template"] == "promoted" and out(copies[1], "cat /home/user/file") == "here\n"
    drawn = {run(sandbox, "import random, os; print(os.urandom(8).hex(), random.random())")["stdout"] for sandbox in (*copies, origin)}
    assert len(drawn) == 3
    snapshot = made["snapshot_id"]
    assert "template" in check_refusal(client.ask("DELETE", f"/v1/snapshots/{snapshot}"), 409)
    assert "sandbox" in check_refusal(client.ask("POST", "/v1/templates/promoted/rebuild", {}), 409)
    builder.delete("promoted")
    wait_until(lambda: client.ask("GET", f"/v1/snapshots/{snapshot}").status == 404)
    assert run(copies[0], "print(x)")["stdout"] == "42\n"
    for sandbox in (*copies, origin):
        sandbox.delete()


def test_templates_and_builds_are_their_projects_alone(builder, daemon):
    version(builder, "private", "mine")
    operator = builder.client
    operator.call("POST", "/v1/projects", {"name": "other-one"})
    stranger = daemon.client(operator.call("POST", "/v1/keys", {"name": "s", "role": "developer", "project": "other-one"})["key"])
    build = operator.call("GET", "/v1/templates/builds?name=private")[0]["build_id"]
    assert all(template["is_global"] for template in stranger.call("GET", "/v1/templates"))
    assert stranger.call("GET", "/v1/templates/builds") == []
    for method, path in (("GET", "/v1/templates/private"), ("DELETE", "/v1/templates/private"), ("GET", f"/v1/templates/builds/{build}"),
                         ("GET", f"/v1/templates/builds/{build}/logs"), ("POST", f"/v1/templates/builds/{build}/cancel")):
        check_refusal(stranger.ask(method, path), 404)
    assert "private" not in stranger.ask("GET", "/v1/me").text and "private" not in stranger.ask("GET", "/metrics").text
    check_refusal(stranger.ask("POST", "/v1/sandboxes", {"template": "private"}), 400)
    check_refusal(stranger.ask("POST", "/v1/templates", {"name": "thief", "base": "private", "steps": [{"run": "true"}]}), 400)
    operator.call("DELETE", "/v1/projects/other-one")
    builder.delete("private")


def test_quotas_and_narrowed_keys_hold_for_builds(builder, daemon):
    operator = builder.client
    operator.call("POST", "/v1/projects", {"name": "small-one"})

    def key(**fields):
        return daemon.client(operator.call("POST", "/v1/keys", {"name": "k", "role": "developer", "project": "small-one", **fields})["key"])

    def ask(client, **fields):
        return client.ask("POST", "/v1/templates", {"name": "t", "base": "minimal", "steps": [{"run": "true"}], **fields})

    operator.call("PUT", "/v1/projects/small-one/quotas", {"max_templates": 0})
    refused = ask(key())
    check_refusal(refused, 429)
    assert refused.json()["detail"]["limit"]["name"] == "max_templates" and refused.headers["Should-Retry"] == "false"
    operator.call("PUT", "/v1/projects/small-one/quotas", {"network_modes": ["disabled"], "tiers": ["2x2"]})
    assert "network_modes" in check_refusal(ask(key(), network={"mode": "open"}), 403)
    assert "tiers" in check_refusal(ask(key(), tier="4x16"), 403)
    assert "allow.templates" in check_refusal(ask(key(allow={"templates": ["other"]})), 403)
    assert "allow.templates" in check_refusal(ask(key(allow={"templates": ["minimal"]})), 403)
    slow_one = ask(key(), steps=[{"run": "sleep 1000"}]).json()["build_id"]
    cancel = ("POST", f"/v1/templates/builds/{slow_one}/cancel")
    assert "allow.templates" in check_refusal(key(allow={"templates": ["minimal"]}).ask(*cancel), 403)
    assert key(allow={"templates": ["t"]}).ask(*cancel).status == 200
    check_refusal(daemon.client(operator.call("POST", "/v1/keys", {"name": "r", "role": "runner", "project": "small-one"})["key"]).ask(
        "POST", "/v1/templates", {"name": "t", "steps": [{"run": "true"}]}), 403)
    operator.call("PUT", "/v1/projects/small-one/quotas", {"max_sandboxes": 0})
    inner = ask(key()).json()["build_id"]
    wait_until(lambda: key().call("GET", f"/v1/templates/builds/{inner}")["status"] == "failed")
    assert "max_sandboxes" in key().call("GET", f"/v1/templates/builds/{inner}")["error"]
    operator.call("DELETE", "/v1/projects/small-one")


def test_the_number_of_templates_holds_while_some_are_being_made_and_for_names_that_keep_another_tag(builder, daemon):
    operator = builder.client
    operator.call("POST", "/v1/projects", {"name": "few"})
    operator.call("PUT", "/v1/projects/few/quotas", {"max_templates": 1})
    mine = Builder(daemon.client(operator.call("POST", "/v1/keys", {"name": "k", "role": "developer", "project": "few"})["key"]))
    sandboxes = [mine.client.create("minimal") for _ in range(2)]
    with ThreadPoolExecutor(2) as pool:
        made = list(pool.map(lambda i: sandboxes[i].ask("POST", "/template", {"name": f"made-{i}"}), range(2)))
    assert sorted(answer.status for answer in made) == [201, 429], [answer.body for answer in made]
    assert len(mine.client.call("GET", "/v1/snapshots")) == 1
    (name,) = (template["name"] for template in mine.client.call("GET", "/v1/templates") if not template["is_global"])
    sandboxes[0].call("POST", "/template", {"name": name})  # in its place
    for sandbox in sandboxes:
        sandbox.delete()
    mine.delete(name)
    mine.build("a:v1", steps=[{"env": {"A": "b"}}])
    assert "max_templates" in check_refusal(mine.refuse("a", steps=[{"env": {"A": "c"}}]), 429), "a:v1 would stay beside it"
    mine.build("a:v1", steps=[{"env": {"A": "c"}}])
    operator.call("DELETE", "/v1/projects/few")
