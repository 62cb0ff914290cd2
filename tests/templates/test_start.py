# SPDX-License-Identifier: Apache-2.0
"""Templates with a start command: it is started while the template is baked, and goes on running in every sandbox made of it."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest

from builds import Builder
from tools import check_refusal, database, out, processes, run, wait_until
from vial import Sandbox

SERVE = "exec python3 -u -m http.server 8000"
READY = "curl -sf localhost:8000/ > /dev/null"


def asked(sandbox, path=""):
    """What its server answers, without waiting for one."""
    return out(sandbox, f"curl -sf localhost:8000/{path}")


def named(sandbox, text):
    return [process for process in processes(sandbox).values() if text in process["cmd"] and process["state"] == "running"]


def recorded(daemon):
    """Sandboxes, those of builds too; what waits in the pool is none."""
    return database(daemon).execute("SELECT id FROM sandboxes").fetchall()


@pytest.fixture(scope="module")
def served(builder):
    """A server in /srv/www that answers once it is ready."""
    return builder.build("served", steps=[{"workdir": "/srv/www"}, {"env": {"GREETING": "hello"}}, {"run": "echo template > page", "user": "user"}], start_command=SERVE, ready_command=READY)


def test_it_runs_in_every_sandbox_from_the_first_moment_and_in_each_on_its_own(builder, served):
    client = builder.client
    with ThreadPoolExecutor(10) as pool:
        sandboxes = list(pool.map(lambda _: client.create("served", memory_mb=256), range(10)))
        assert all(sandbox.info["boot_mode"] in ("pool", "restore") for sandbox in sandboxes)
        assert list(pool.map(lambda sandbox: asked(sandbox, "page"), sandboxes)) == ["template\n"] * 10
        list(pool.map(lambda sandbox: out(sandbox, f"echo {sandbox.id} > /srv/www/page"), sandboxes))
        assert list(pool.map(lambda sandbox: asked(sandbox, "page"), sandboxes)) == [f"{sandbox.id}\n" for sandbox in sandboxes]
        assert list(pool.map(lambda sandbox: client.ask("GET", f"/v1/sandboxes/{sandbox.id}").status, sandboxes)) == [200] * 10
        one, *others = sandboxes
        (server,) = named(one, "http.server")
        one.signal(server["pid"])
        wait_until(lambda: not named(one, "http.server"))
        assert all(pool.map(lambda sandbox: asked(sandbox, "page"), others)), "another one's server has ended"
        list(pool.map(lambda sandbox: sandbox.delete(), sandboxes))


def test_it_is_an_ordinary_background_command_of_user_in_the_templates_folder_and_environment(builder, served):
    sandbox = builder.client.create("served")
    (server,) = named(sandbox, "http.server")
    assert list(processes(sandbox)) == [server["pid"]], "how often it was asked whether it is ready is nobody's business"
    assert (server["user"], server["cwd"], server["background"], server["cmd"]) == ("user", "/srv/www", True, SERVE)
    environment = out(sandbox, f"tr '\\0' '\\n' < /proc/{server['pid']}/environ").splitlines()
    assert "GREETING=hello" in environment and "HOME=/home/user" in environment and "VIAL_SANDBOX_ID=" in environment
    # What it prints goes nowhere in particular, and does not hold it up: far more than a pipe or the ring has room for.
    run(sandbox, "import http.client\nfor i in range(50):\n    there = http.client.HTTPConnection('localhost', 8000)\n    there.request('GET', '/' + 'x' * 30000)\n    there.getresponse().read()")
    assert asked(sandbox, "page") == "template\n"
    sandbox.signal(server["pid"], "TERM")
    wait_until(lambda: not named(sandbox, "http.server"))
    sandbox.delete()


def test_it_goes_on_in_forks_and_through_sleep(builder, served):
    sandbox = builder.client.create("served", persistent=True)
    out(sandbox, "echo changed > page")
    child = Sandbox(sandbox.client, sandbox.call("POST", "/fork", {})["sandbox"])
    assert asked(child, "page") == "changed\n"
    out(child, "echo of the child > page")
    sandbox.call("POST", "/hibernate")
    assert sandbox.refresh()["status"] == "hibernated"
    assert asked(sandbox, "page") == "changed\n" and asked(child, "page") == "of the child\n"
    for one in (child, sandbox):
        one.delete()


def test_the_template_and_the_builds_log_tell_of_it(builder, served):
    shown = builder.template("served")
    assert (shown["start_command"], shown["ready_command"], shown["ready"]) == (SERVE, READY, True) and "start_user" not in shown
    build = builder.get(served["build_id"])
    assert (build["start_command"], build["ready_command"]) == (SERVE, READY)
    events = [entry["text"] for entry in builder.log(served["build_id"]) if entry["stream"] == "event"]
    assert f"running the start command: {SERVE}" in events and f"waiting until the ready command succeeds: {READY}" in events and "it is ready" in events
    assert "\"GET / HTTP/1.1\" 200" in builder.printed(served["build_id"]), "the server's own log"


def test_another_size_has_it_too_and_is_refused_where_it_cannot_be_baked(builder):
    builder.build("sized", steps=[], cpu=1, memory_mb=512, start_command=f"[ $(nproc) -lt 3 ] || {{ echo too wide; exit 9; }}; {SERVE}", ready_command=READY)
    sandbox = builder.client.create("sized", cpu=2)
    assert out(sandbox, "nproc") == "2\n" and asked(sandbox)
    sandbox.delete()
    message = check_refusal(builder.client.ask("POST", "/v1/sandboxes", {"template": "sized", "cpu": 3}), 503)
    assert "start command" in message and "it exited with 9" in message and "too wide" in message
    assert builder.client.sandboxes() == []


def test_after_warm_code_as_another_user_and_with_a_ready_command_that_succeeds_at_last(builder):
    builder.build("warmed", steps=[{"run": "install -d -m 777 /srv/here"}], warm="open('/srv/here/warm', 'w').write('it was')", start_user="root",
                  start_command="cat /srv/here/warm > /srv/here/found; whoami >> /srv/here/found; exec sleep infinity",
                  ready_command="echo asked >> /srv/here/asked; [ $(wc -l < /srv/here/asked) = 3 ]")
    sandbox = builder.client.create("warmed")
    assert out(sandbox, "cat /srv/here/found; wc -l < /srv/here/asked") == "it wasroot\n3\n"
    assert [process["user"] for process in named(sandbox, "sleep infinity")] == ["root"]
    sandbox.delete()


def test_a_command_that_leaves_something_in_the_background_may_end_well(builder):
    builder.build("leaving", steps=[], start_command="nohup setsid python3 -m http.server 8000 > /dev/null 2>&1 &", ready_command=READY)
    sandbox = builder.client.create("leaving")
    assert asked(sandbox)
    sandbox.delete()


def test_a_ready_command_alone_and_a_start_command_alone(builder):
    builder.build("only-ready", steps=[], ready_command="[ -e /tmp/second ] || { [ -e /tmp/first ] && touch /tmp/second; touch /tmp/first; false; }")
    builder.build("only-start", steps=[], start_command="echo done > /tmp/once")
    sandboxes = [builder.client.create(name) for name in ("only-ready", "only-start")]
    assert [out(sandbox, "cat /tmp/second /tmp/once 2>/dev/null; true") for sandbox in sandboxes] == ["", "done\n"]
    assert out(sandboxes[0], "ls /tmp/second")
    for sandbox in sandboxes:
        sandbox.delete()


@pytest.mark.parametrize("fields, said", [
    ({"start_command": "echo starting; echo no such thing >&2; exit 3", "ready_command": "false"},
     ["the start command failed before it was ready: it exited with 3", "last lines of the start command:\nstarting\nno such thing"]),
    ({"start_command": "exit 4"}, ["start command failed", "it exited with 4"]),
    ({"start_command": "kill -9 $$", "ready_command": "false"}, ["start command failed", "KILL"]),
    ({"start_command": "echo here; sleep 1000", "ready_command": "echo not yet; exit 7", "timeout_seconds": 20},
     ["the ready command did not succeed within 20 seconds: it exited with 7", "last lines of the start command:\nhere", "last lines of the ready command:\nnot yet"]),
    ({"start_command": "true", "ready_command": "true", "start_user": "nobody-like-it"}, ["the start command could not be run", "nobody-like-it"]),
], ids=["fails", "fails alone", "is killed", "never ready", "no such user"])
@pytest.mark.parametrize("base", ["minimal", "made"])
def test_one_that_fails_fails_the_build_with_a_sentence_and_leaves_nothing(builder, daemon, made, base, fields, said):
    build = builder.fail("failing", base=base, steps=[], **fields)
    assert all(part in build["error"] for part in said), build["error"]
    assert build["phase"] == "baking" and len(build["error"]) < 10000 and builder.log(build["build_id"])[-1]["text"].startswith("the build has failed: the ")
    check_refusal(builder.client.ask("GET", "/v1/templates/failing"), 404)
    wait_until(lambda: not recorded(daemon))


@pytest.mark.parametrize("fields, said", [
    ({"ready_command": "echo hangs; sleep 1000"}, ["within 10 seconds: its last run did not end", "hangs"]),
    ({"start_command": "yes", "ready_command": "false"}, ["within 10 seconds: it exited with 1", "\ny\ny"]),
], ids=["a ready command that hangs", "a start command that prints without end"])
def test_what_it_may_take_and_print_is_bounded(builder, daemon, fields, said):
    build = builder.fail("bounded", steps=[], timeout_seconds=10, **fields)
    assert all(part in build["error"] for part in said), build["error"]
    assert len(build["error"]) < 10000 and (daemon.data / "builds" / f"{build['build_id']}.log").stat().st_size < 9 << 20 and daemon.rss_kb() < 120_000
    wait_until(lambda: not recorded(daemon))


@pytest.fixture(scope="module")
def made(builder):
    """A template that was made out of a sandbox."""
    sandbox = builder.client.create("minimal")
    run(sandbox, "x = 41")
    sandbox.call("POST", "/template", {"name": "made"})
    sandbox.delete()
    return "made"


def test_upon_a_sandbox_it_runs_in_the_memory_that_is_kept_and_in_what_is_built_upon_that(builder, made):
    fields = {"base": made, "steps": [{"env": {"GREETING": "hello"}}, {"workdir": "/srv/www"}, {"run": "echo made > page", "user": "user"}], "ready_command": READY}
    build = builder.build("upon", start_command=SERVE, **fields)
    assert builder.build("upon-again", start_command=SERVE, **fields)["cached"] and not build["cached"]
    assert not builder.build("upon-other", start_command=f"true; {SERVE}", **fields)["cached"]
    builder.build("above", base="upon", steps=[{"run": "curl -sf localhost:8000/page > /srv/seen"}])
    assert builder.template("upon")["start_command"] == SERVE and "start_command" not in builder.template("above")
    for name in ("upon", "upon-again", "above"):
        sandbox = builder.client.create(name)
        assert asked(sandbox, "page") == "made\n" and run(sandbox, "print(x)")["stdout"] == "41\n"
        (server,) = named(sandbox, "http.server")
        assert server["cwd"] == "/srv/www" and "GREETING=hello" in out(sandbox, f"cat /proc/{server['pid']}/environ").split("\0")
        if name == "above":
            assert out(sandbox, "cat /srv/seen") == "made\n"
        sandbox.delete()


def test_what_is_built_upon_it_inherits_it_unless_it_says_its_own(builder, served):
    builder.build("inheriting", base="served", steps=[{"run": "echo child > page"}])
    builder.build("renewing", base="served", steps=[], start_command="exec sleep 86397", ready_command="pgrep -f 'sleep 8639[7]'")
    builder.build("quiet", base="served", steps=[], start_command="")
    shown = {name: builder.template(name) for name in ("inheriting", "renewing", "quiet")}
    assert shown["inheriting"]["start_command"] == SERVE and shown["renewing"]["start_command"] == "exec sleep 86397" and "start_command" not in shown["quiet"]
    found = {}
    for name in shown:
        sandbox = builder.client.create(name)
        found[name] = [process["cmd"] for process in processes(sandbox).values() if process["background"]]
        assert name != "inheriting" or asked(sandbox, "page") == "child\n"
        sandbox.delete()
    assert found == {"inheriting": [SERVE], "renewing": ["exec sleep 86397"], "quiet": []}


def test_another_start_command_makes_children_stale_and_a_rebuild_starts_what_was_asked_for(builder):
    builder.build("changing", steps=[], start_command="exec sleep 86391", ready_command="true")
    builder.build("following", base="changing", steps=[{"run": "true"}])
    first = builder.build("changing", steps=[], start_command="exec sleep 86392", ready_command="true")
    assert first["cached"] is False and builder.template("following")["stale"] is True
    assert builder.wait(builder.client.call("POST", "/v1/templates/following/rebuild", {})["build_id"])["status"] == "ready"
    assert builder.template("following")["stale"] is False
    sandbox = builder.client.create("following")
    assert named(sandbox, "sleep 86392") and not named(sandbox, "sleep 86391")
    sandbox.delete()


SECRET = "correct-horse-battery-staple"


def test_secrets_of_the_build_are_not_in_its_environment_and_not_in_what_it_is_told_to_have_said(builder, daemon):
    builder.build("discreet", secrets={"TOKEN": SECRET}, steps=[{"run": "test -n \"$TOKEN\""}], start_command="env > /tmp/env; exec sleep infinity", ready_command="[ -s /tmp/env ]")
    sandbox = builder.client.create("discreet")
    assert "HOME=" in out(sandbox, "cat /tmp/env") and "TOKEN" not in out(sandbox, "cat /tmp/env; cat /proc/*/environ 2> /dev/null; true")
    sandbox.delete()
    build = builder.fail("indiscreet", secrets={"TOKEN": SECRET}, steps=[{"run": "echo $TOKEN > /opt/kept"}], start_command="cat /opt/kept; exit 3")
    assert "[redacted]" in build["error"] and SECRET not in json.dumps([build, builder.log(build["build_id"])])
    # Another size is baked when nobody knows any more what was secret; only whoever may make a sandbox of it is told what was said.
    builder.build("later-indiscreet", secrets={"TOKEN": SECRET}, steps=[{"run": "echo $TOKEN > /opt/kept"}],
                  start_command="cat /opt/kept; [ $(nproc) -lt 3 ] || exit 3", cpu=1)
    assert SECRET in check_refusal(builder.client.ask("POST", "/v1/sandboxes", {"template": "later-indiscreet", "cpu": 3}), 503)
    assert "baking failed" in daemon.log_text() and SECRET not in daemon.log_text()


def test_cancelling_ends_one_that_waits_upon_a_sandbox(builder, daemon, made):
    build = builder.begin("waiting", base=made, steps=[], start_command="sleep 1000", ready_command="false")["build_id"]
    wait_until(lambda: any("waiting until" in entry["text"] for entry in builder.log(build)), 60)
    builder.client.call("POST", f"/v1/templates/builds/{build}/cancel")
    assert "cancelled by" in builder.wait(build)["error"]
    wait_until(lambda: not recorded(daemon))


@pytest.mark.parametrize("fields, said", [
    ({"start_user": "root", "steps": [{"run": "true"}]}, "start_user"), ({"start_command": "x" * (128 * 1024 + 1), "steps": []}, "start_command"),
    ({"ready_command": "x" * (128 * 1024 + 1), "steps": []}, "ready_command"), ({"ready_command": "", "steps": []}, "ready_command"),
    ({"start_command": "true", "start_user": "x" * 65, "steps": []}, "start_user"), ({"start_command": ["true"], "steps": []}, "start_command"),
], ids=["user alone", "long start", "long ready", "empty ready", "long user", "list"])
def test_what_makes_no_sense_is_refused(builder, fields, said):
    assert said in check_refusal(builder.refuse(**fields), 400)


def test_after_a_restart_it_runs_as_before_also_where_it_has_to_be_baked_again(start_daemon):
    daemon = start_daemon()
    builder = Builder(daemon.client())
    builder.build("kept", steps=[{"run": "echo kept > /opt/page"}, {"workdir": "/opt"}], start_command=SERVE, ready_command=READY)
    waiting = builder.begin("waiting", steps=[], start_command="exec sleep 86390", ready_command="[ -e /tmp/never ]")["build_id"]
    wait_until(lambda: any("waiting until" in entry["text"] for entry in builder.log(waiting)), 60)
    daemon.kill()
    daemon.start()
    builder = Builder(daemon.client())
    assert builder.wait(waiting)["error"].startswith("viald was restarted")
    for baked in (False, True):
        wait_until(lambda: builder.template("kept")["status"] == "ready", 120)
        sandbox = builder.client.create("kept")
        assert asked(sandbox, "page") == "kept\n" and builder.template("kept")["start_command"] == SERVE
        sandbox.delete()
        if not baked:
            daemon.kill()
            (checkpoint,) = daemon.data.glob("templates/*/baked-*")
            shutil.rmtree(checkpoint)
            daemon.start()
            builder = Builder(daemon.client())
    assert list(daemon.data.glob("templates/*/baked-*"))
