# SPDX-License-Identifier: Apache-2.0
"""The PyPI package pandastack 0.10.0, unmodified, against viald: every method of its sandbox part. Templates are in test_pandastack_templates.py."""

import importlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from tools import add_key, wait_until
from vial import slow

SDK = "PandaStack Python 0.10"
covers = pytest.mark.method
# What breaks clients: a line separator, an emoji beyond the BMP, NEL, what is not ASCII, and a lone carriage return.
STRANGE = "Grüße \u2028 \U0001f600 \x85 Ångström\u2029 日本"


@pytest.fixture(scope="module")
def pandastack(python_packages):
    sys.path.insert(0, str(python_packages("pandastack==0.10.0")))
    module = importlib.import_module("pandastack")
    yield module
    sys.path.pop(0)


@pytest.fixture(scope="module")
def client(pandastack, daemon):
    client = pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(30))
    pandastack.set_default_client(client)
    yield client
    pandastack.set_default_client(None)


@pytest.fixture(scope="module")
def box(client):
    sandbox = client.sandboxes.create(template="minimal", metadata={"made": "by pandastack"})
    yield sandbox
    sandbox.kill()


@pytest.fixture(scope="module")
def context(box):
    return box.create_code_context("python")


# Sandboxes

@covers("PandaStack Python 0.10", "client.me")
def test_me_says_whose_key_it_is(client):
    assert client.me()["project"] == "default"


@covers("PandaStack Python 0.10", "Sandbox.create", "Sandbox.get", "Sandbox.list", "Sandbox.refresh", "Sandbox.kill", "Sandbox.from_dict")
def test_a_sandbox_is_made_found_and_ended(pandastack, client):
    with pandastack.Sandbox.create(template="minimal", metadata={"a": "ä"}, ttl_seconds=600) as made:
        assert (made.status, made.template, made.metadata, made.cpu >= 1) == ("running", "minimal", {"a": "ä"}, True)
        assert made.id in [one.id for one in pandastack.Sandbox.list()]
        found = pandastack.Sandbox.get(made.id)
        assert (found.id, found.metadata, found.created_at) == (made.id, made.metadata, made.created_at)
        made.pause()
        assert made.status == "running" and made.refresh().status == "paused"
    with pytest.raises(pandastack.NotFoundError, match=made.id):
        pandastack.Sandbox.get(made.id)
    assert pandastack.Sandbox.from_dict({"id": "x"}, client=client).template == "code-interpreter"


@covers("PandaStack Python 0.10", "sandboxes.create", "sandboxes.get", "sandboxes.list", "sandboxes.delete")
def test_the_same_through_the_client(pandastack, client):
    made = client.sandboxes.create(template="minimal", persistent=True)
    assert made.persistent and client.sandboxes.get(made.id).persistent
    client.sandboxes.delete(made.id)
    assert made.id not in [one.id for one in client.sandboxes.list()]


@covers("PandaStack Python 0.10", "sandboxes.create", differs="Volumes are not offered yet: a create that names one is refused with a sentence.")
def test_a_volume_is_refused_and_not_forgotten(pandastack, client):
    before = len(client.sandboxes.list())
    with pytest.raises(pandastack.BadRequestError, match="no volumes here yet"):
        client.sandboxes.create(template="minimal", volumes=[{"name": "data", "read_only": True}])
    assert len(client.sandboxes.list()) == before


@covers("PandaStack Python 0.10", "Sandbox.pause", "Sandbox.resume", "Sandbox.hibernate", "Sandbox.wake")
def test_a_sandbox_rests_and_goes_on(box):
    box.filesystem.write("/tmp/kept", "still here")
    for rest, asleep, rise in ((box.pause, "paused", box.resume), (box.hibernate, "hibernated", box.wake)):
        rest()
        assert box.refresh().status == asleep
        rise()
        assert box.refresh().status == "running"
        assert box.filesystem.read("/tmp/kept") == b"still here"


@covers("PandaStack Python 0.10", "Sandbox.lifecycle", "Sandbox.set_ttl", "Sandbox.set_persistent")
def test_its_life_can_be_changed(box):
    assert box.set_ttl(1234)["ttl_seconds"] == 1234 and box.lifecycle()["ttl_seconds"] == 1234
    assert box.set_persistent(True)["persistent"] is True and box.persistent
    assert box.set_persistent(False)["persistent"] is False and box.refresh().persistent is False


# Commands

@covers("PandaStack Python 0.10", "Sandbox.exec", "commands.run", "Sandbox.run_code")
def test_commands_say_what_they_printed_and_how_they_ended(pandastack, box):
    result = box.exec("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code) == ("out\n", "err\n", 3)
    assert box.commands.run("cat; echo $((6 * 7))", timeout=20).stdout == "42\n"
    assert box.run_code("print('a' * 3)").stdout == "aaa\n" and box.run_code("echo $0 $BASH", language="bash").stdout.startswith("bash /")
    with pytest.raises(pandastack.CommandFailed) as failed:
        box.exec("echo half; exit 7", check=True)
    assert (failed.value.exit_code, failed.value.stdout) == (7, "half\n")


@covers("PandaStack Python 0.10", "Sandbox.exec", "commands.run")
@pytest.mark.parametrize("call", ["exec", "commands.run", "exec_stream"])
def test_what_takes_too_long_is_a_timeout(pandastack, box, call):
    calls = {"exec": lambda: box.exec("sleep 100", timeout_seconds=1), "commands.run": lambda: box.commands.run("sleep 100", timeout=1),
             "exec_stream": lambda: box.exec_stream("echo first; sleep 100", on_stdout=seen.append, timeout_seconds=15)}
    seen = []
    with pytest.raises(pandastack.SandboxTimeout):
        calls[call]()
    assert seen == (["first\n"] if call == "exec_stream" else [])
    assert box.exec("pgrep -x sleep").exit_code == 1, "it was told that it ended, and it runs on"


@covers("PandaStack Python 0.10", "Sandbox.exec_stream")
def test_a_stream_brings_all_there_is_in_order(box):
    out, err = [], []
    code = box.exec_stream("for i in 1 2 3; do echo $i; sleep 0.2; done; echo no >&2; exit 5", on_stdout=out.append, on_stderr=err.append)
    assert (code, "".join(out), "".join(err)) == (5, "1\n2\n3\n", "no\n") and len(out) > 1


@covers("PandaStack Python 0.10", "Sandbox.exec", "Sandbox.exec_stream", "Sandbox.run_code", "CodeContext.run_code", "filesystem.write", "filesystem.read")
def test_no_character_is_lost_on_any_way(box, context):
    seen = []
    assert box.exec(f"printf %s '{STRANGE}'").stdout == STRANGE
    assert box.exec_stream(f"printf %s '{STRANGE}'", on_stdout=seen.append) == 0 and "".join(seen) == STRANGE
    assert box.run_code(f"print({STRANGE!r}, end='')").stdout == STRANGE
    run = context.run_code(f"print({STRANGE!r}, end='')\n{STRANGE!r}")
    assert run.stdout == STRANGE and run.text == repr(STRANGE)
    box.filesystem.write(f"/tmp/{STRANGE}", STRANGE)
    assert box.filesystem.read(f"/tmp/{STRANGE}").decode() == STRANGE
    assert STRANGE in [entry.name for entry in box.filesystem.listdir("/tmp")]


@covers("PandaStack Python 0.10", "Sandbox.exec", "Sandbox.exec_stream", "CodeContext.run_code")
def test_what_is_no_text_breaks_nothing(pandastack, box, context):
    """Half of a surrogate pair: three bytes that are no UTF-8 where a program prints it, and no Unicode where a client sends it."""
    seen = []
    assert set(box.exec(r"printf '\355\240\200'").stdout) == {"\ufffd"}
    assert box.exec_stream(r"printf 'a\355\240\200b'", on_stdout=seen.append) == 0
    assert "".join(seen)[0] == "a" and "".join(seen)[-1] == "b" and set("".join(seen)[1:-1]) == {"\ufffd"}
    assert context.run_code(r"'\ud800'").text == r"'\ud800'"
    for send in (box.exec, context.run_code):
        with pytest.raises(pandastack.BadRequestError, match="."):
            send("# \ud800")
    assert box.exec("echo alive").stdout == "alive\n"


# Code

@covers("PandaStack Python 0.10", "Sandbox.create_code_context", "CodeContext.run_code", "CodeContext.close")
def test_a_context_keeps_what_it_was_told(pandastack, box):
    with box.create_code_context("py") as one, box.create_code_context() as other:
        assert one.language == "python" and one.run_code("x = 41").error is None
        run = one.run_code("print('seen')\nx + 1")
        assert (run.text, run.stdout, run.exit_code, run.logs["stderr"]) == ("42", "seen\n", 0, "")
        assert "NameError" in other.run_code("x").error
        failed = one.run_code("1 / 0")
        assert "ZeroDivisionError" in failed.error and failed.exit_code == 1
        with pytest.raises(pandastack.SandboxTimeout):
            one.run_code("import time; time.sleep(100)", timeout_seconds=1)
        assert one.run_code("'again'").text == "'again'"
    with pytest.raises(pandastack.NotFoundError):
        one.run_code("x")


@covers("PandaStack Python 0.10", "CodeContext.run_code")
def test_results_are_what_the_client_can_read(context):
    """It takes every value as text, so JSON comes as JSON text: `.json` gives the object again."""
    run = context.run_code("from IPython.display import JSON, display\ndisplay(JSON({'a': [1, None, 'ü']}))\n"
                           "display({'application/vnd.example+json': {'b': 2}, 'text/plain': 'p'}, raw=True)\n"
                           "class T:\n    def _repr_html_(self): return '<b>h</b>'\n    def _repr_png_(self): return b'\\x89PNG'\nT()")
    assert run.error is None and len(run.results) == 3
    assert run.results[0].json == {"a": [1, None, "ü"]}
    assert run.results[1].data == {"application/vnd.example+json": '{"b":2}', "text/plain": "p"}
    assert run.results[2].html == "<b>h</b>" and run.png == run.results[2].chart == "iVBORw=="


# Files

@covers("PandaStack Python 0.10", "filesystem.read", "filesystem.write", "filesystem.upload", "filesystem.download", "filesystem.listdir", "filesystem.stat",
        "filesystem.exists", "filesystem.walk")
def test_files_go_up_and_down(pandastack, box, tmp_path):
    files, content = box.filesystem, bytes(range(256)) * 8192
    (tmp_path / "up").write_bytes(content)
    files.upload(tmp_path / "up", "/workspace/d/e/blob")
    files.download("/workspace/d/e/blob", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == content == files.read("/workspace/d/e/blob")
    files.write("/workspace/d/empty", b"")
    assert files.read("/workspace/d/empty") == b""
    assert [(entry.name, entry.path, entry.is_dir) for entry in files.listdir("/workspace/d")] == [("e", "/workspace/d/e", True), ("empty", "/workspace/d/empty", False)]
    stat = files.stat("/workspace/d/e/blob")
    assert (stat.name, stat.path, stat.size, stat.is_dir, stat.mtime > 0) == ("blob", "/workspace/d/e/blob", len(content), False, True)
    assert files.exists("/workspace/d/e") and not files.exists("/workspace/none")
    assert [(path, [d.name for d in dirs], [f.name for f in inner]) for path, dirs, inner in files.walk("/workspace/d")] == [
        ("/workspace/d", ["e"], ["empty"]), ("/workspace/d/e", [], ["blob"])]
    with pytest.raises(pandastack.NotFoundError):
        files.read("/workspace/none")


# Logs

@covers("PandaStack Python 0.10", "Sandbox.logs")
def test_logs_are_lines_and_can_be_followed(client):
    with client.sandboxes.create(template="minimal") as sandbox:
        sandbox.exec("echo first; echo 'zweite ü \U0001f600'; echo problem >&2")
        assert list(sandbox.logs(stream="stdout")) == ["first", "zweite ü \U0001f600"]
        assert list(sandbox.logs(stream="stderr")) == ["problem"]
        assert [line for line in sandbox.logs() if line.endswith("first")]
        following = sandbox.logs(stream="stdout", follow=True)
        assert [next(following), next(following)] == ["first", "zweite ü \U0001f600"]
        sandbox.exec("echo 'später \u2028 x'")
        assert next(following) == "später \u2028 x"
    assert list(following) == [], "the end of the sandbox is the end of its logs"


# Snapshots and forks

@covers("PandaStack Python 0.10", "Sandbox.snapshot", "snapshots.list", "snapshots.get", "snapshots.delete")
def test_a_snapshot_can_be_started_again(pandastack, client, box):
    box.filesystem.write("/workspace/then", "then")
    snapshot = box.snapshot()
    box.filesystem.write("/workspace/then", "now")
    with client.sandboxes.create(from_snapshot=snapshot) as copy:
        assert copy.from_snapshot == snapshot and copy.filesystem.read("/workspace/then") == b"then"
    assert snapshot in [one["id"] for one in client.snapshots.list(sandbox_id=box.id)]
    shown = client.snapshots.get(snapshot)
    assert shown["sandbox_id"] == box.id and shown["template"] == "minimal" and shown["size_bytes"] > 0 and shown["created_at"]
    client.snapshots.delete(snapshot)
    with pytest.raises(pandastack.NotFoundError):
        client.snapshots.get(snapshot)


@covers("PandaStack Python 0.10", "Sandbox.fork", "sandboxes.fork")
def test_a_fork_goes_its_own_way(client, box):
    for fork in (box.fork, lambda **words: client.sandboxes.fork(box.id, **words)):
        with fork(metadata={"role": "child"}) as child:
            child.filesystem.write("/workspace/only-child", "x")
            assert not box.filesystem.exists("/workspace/only-child")
            assert child.metadata["role"] == "child" and child.metadata["fork_parent_id"] == box.id


@covers("PandaStack Python 0.10", "Sandbox.fork_tree", "sandboxes.fork_tree", "Sandbox.promote", "sandboxes.promote")
@pytest.mark.parametrize("way", ["Sandbox", "sandboxes"])
def test_one_of_a_tree_is_kept(pandastack, client, box, way):
    children = box.fork_tree(3) if way == "Sandbox" else client.sandboxes.fork_tree(box.id, 3)
    tree = children[0].metadata["fork_tree_id"]
    assert {child.metadata["fork_tree_id"] for child in children} == {tree}
    winner = children[1]
    answer = winner.promote(cleanup_siblings=True) if way == "Sandbox" else client.sandboxes.promote(winner.id, cleanup_siblings=True, tree_id=tree)
    assert (answer["winner"], answer["tree_id"], answer["failures"]) == (winner.id, tree, {})
    assert set(answer["deleted"]) == {children[0].id, children[2].id}
    winner.kill()


@covers("PandaStack Python 0.10", "Sandbox.fork_tree")
def test_children_that_did_not_come_to_be_are_left_out(pandastack, start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    client = pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(30))
    parent = client.sandboxes.create(template="minimal")
    faults.write_text("boot.launch 3\n")  # one for each child; the counting began with the parent
    children = parent.fork_tree(3)
    assert 0 < len(children) < 3 and all(child.exec("echo well").stdout == "well\n" for child in children)
    faults.write_text("boot.launch\n")
    with pytest.raises(pandastack.ServerError):
        parent.fork_tree(2)


@covers("PandaStack Python 0.10", "Sandbox.explore")
def test_exploring_keeps_the_best_and_forgets_the_rest(pandastack, client, box):
    from pandastack.explore import Candidate
    before = box.lifecycle()["ttl_seconds"]
    lives = []

    def score(sandbox, outcome):
        lives.append(sandbox.lifecycle()["ttl_seconds"])
        return len(outcome.stdout_tail)

    result = box.explore(["echo 1 > /root/answer; echo low", Candidate.shell("high", "sh -c 'echo $WORD > /root/answer'; echo high up", env={"WORD": "9"}), "exit 1",
                          Candidate.shell("slow", "sleep 100", timeout_s=1)], score_fn=score, ttl_seconds=120)
    assert result.errors == [] and result.reap_failures == {} and len(result.outcomes) == 4 and len(result.reaped) == 3
    assert set(lives) == {120}, "a fork that is forgotten must not outlive the exploration"
    assert [outcome.timed_out for outcome in result.outcomes if outcome.label == "slow"] == [True]
    assert result.winner_outcome.label == "high" and result.winner_outcome.files_changed == ["/root/answer"]
    assert result.tree_id and result.winner.filesystem.read("/root/answer") == b"9\n"
    assert result.winner.lifecycle()["ttl_seconds"] == before, "what was promoted is no trial any more"
    assert {one.id for one in client.sandboxes.list()} & set(result.reaped) == set()
    result.winner.kill()


# Previews

@covers("PandaStack Python 0.10", "Sandbox.preview_url", "Sandbox.preview_urls",
        differs="A preview needs the key (or an address with a token): the hosted one is open to whoever knows it. With plain HTTP, set "
                "`PANDASTACK_PREVIEW_HOST=localhost:7070` and give `scheme=\"http\"`.")
def test_the_address_of_a_preview_leads_to_the_program(client, box, daemon, monkeypatch):
    monkeypatch.setenv("PANDASTACK_PREVIEW_HOST", f"localhost:{daemon.port}")
    box.exec("mkdir -p /workspace/site && echo 'hello preview' > /workspace/site/index.html && cd /workspace/site && "
             "nohup python3 -m http.server 8000 > /dev/null 2>&1 &")
    wait_until(lambda: 8000 in box.preview_urls())
    url = box.preview_url(8000, scheme="http")
    assert url == f"http://8000-{box.id}.localhost:{daemon.port}" and box.preview_urls()[8000] == url.replace("http:", "https:")
    # Names below localhost are this machine, for browsers; resolvers do not all know it.
    request = urllib.request.Request(f"{daemon.url}/index.html", headers={"Host": url.removeprefix("http://"), "Authorization": f"Bearer {daemon.key}"})
    assert urllib.request.urlopen(request, timeout=slow(20)).read() == b"hello preview\n"


# Tokens

@covers("PandaStack Python 0.10", "tokens.create", "tokens.list", "tokens.revoke")
def test_tokens_are_keys(pandastack, client, daemon):
    token = client.tokens.create("ci für alle", expires_in_days=30)
    assert token.name == "ci für alle" and token.token.startswith(token.prefix) and token.prefix.startswith("pds_")
    other = pandastack.Client(api_url=daemon.url, api_key=token.token)
    assert other.me()["project"] == "default"
    shown = {one.prefix: one for one in client.tokens.list()}
    assert shown[token.prefix].name == "ci für alle" and shown[token.prefix].token is None and shown[token.prefix].created_at == token.created_at
    client.tokens.revoke(token.prefix)
    with pytest.raises(pandastack.AuthError):
        other.me()
    assert token.prefix not in [one.prefix for one in client.tokens.list()]
    with pytest.raises(pandastack.NotFoundError):
        client.tokens.revoke(token.prefix)
    with pytest.raises(pandastack.BadRequestError, match="expires_in_days"):
        client.tokens.create("x", expires_in_days=0)


# Volumes

@covers("PandaStack Python 0.10", "volumes.create", "volumes.list", "volumes.get", "volumes.delete", differs="Volumes are not offered yet: refused with a sentence.")
def test_volumes_are_refused_with_a_sentence(pandastack, client):
    for call in (lambda: client.volumes.create("data", 100), client.volumes.list, lambda: client.volumes.get("data"), lambda: client.volumes.delete("data")):
        with pytest.raises(pandastack.BadRequestError, match="no volumes here yet"):
            call()


# Refusals

def test_every_exception_has_its_cause(pandastack, client, daemon, box):
    with pytest.raises(pandastack.AuthError):
        pandastack.Client(api_url=daemon.url, api_key="pds_wrong").me()
    with pytest.raises(pandastack.NotFoundError):
        client.sandboxes.get("a" * 20)
    with pytest.raises(pandastack.BadRequestError, match="count"):
        box.fork_tree(0)
    with pytest.raises(pandastack.BadRequestError, match="there is no template"):
        client.sandboxes.create(template="nowhere")
    with pytest.raises(pandastack.exceptions.ConnectionError):
        pandastack.Client(api_url="http://127.0.0.1:1", api_key="x").me()
    viewer = pandastack.Client(api_url=daemon.url, api_key=add_key(daemon, "default", role="viewer"))
    with pytest.raises(pandastack.BadRequestError, match="role"):
        viewer.sandboxes.create(template="minimal")


@covers("PandaStack Python 0.10", "Sandbox.exec_stream")
def test_a_stream_that_breaks_off_is_no_success(pandastack, start_daemon):
    daemon = start_daemon()
    sandbox = pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(30)).sandboxes.create(template="minimal")
    seen = []

    def on_stdout(chunk):
        seen.append(chunk)
        daemon.kill()

    with pytest.raises((pandastack.ExecInterrupted, pandastack.exceptions.ConnectionError, OSError)) as broken:
        sandbox.exec_stream("echo begun; sleep 100", on_stdout=on_stdout)
    assert seen == ["begun\n"] and (not isinstance(broken.value, pandastack.ExecInterrupted) or broken.value.partial_stdout == "begun\n")
    daemon.start()


def test_a_full_project_says_so_at_once(pandastack, client, daemon):
    """This client asks again for a minute where an answer says that it may; a quota says nothing of the kind."""
    key = add_key(daemon, "full")
    daemon.client().call("PUT", "/v1/projects/full/quotas", {"max_sandboxes": 1})
    asked_again = []
    full = pandastack.Client(api_url=daemon.url, api_key=key, timeout=slow(30), on_create_retry=asked_again.append)
    with full.sandboxes.create(template="minimal") as only:
        for create in (lambda: full.sandboxes.create(template="minimal"), only.fork, lambda: only.fork_tree(2)):
            with pytest.raises(pandastack.BadRequestError, match="max_sandboxes"):
                create()
    assert asked_again == []


def test_two_projects_cannot_see_each_other(pandastack, client, daemon, box):
    stranger = pandastack.Client(api_url=daemon.url, api_key=add_key(daemon, "strangers", role="admin"))
    snapshot = box.snapshot()
    assert stranger.sandboxes.list() == [] and stranger.snapshots.list() == [] and stranger.templates.builds() == []
    assert daemon.key[:8] not in [token.prefix for token in stranger.tokens.list()]
    theirs = pandastack.Sandbox(id=box.id, template="", cpu=1, memory_mb=1, status="", _client=stranger)
    for call in (lambda: stranger.sandboxes.get(box.id), lambda: stranger.sandboxes.delete(box.id), lambda: theirs.exec("id"), theirs.fork, theirs.pause,
                 lambda: theirs.exec_stream("id"), lambda: list(theirs.logs()), lambda: theirs.filesystem.read("/etc/passwd"), theirs.create_code_context,
                 lambda: stranger.snapshots.get(snapshot), lambda: stranger.snapshots.delete(snapshot), theirs.preview_urls, theirs.lifecycle):
        with pytest.raises(pandastack.NotFoundError):
            call()
    with pytest.raises(pandastack.PandastackError):
        stranger.sandboxes.create(from_snapshot=snapshot)
    client.snapshots.delete(snapshot)


def test_the_record_says_pandastack(client, box, daemon):
    box.exec("echo on-record")
    records = wait_until(lambda: [one for one in daemon.client().call("GET", f"/v1/audit?action=exec&sandbox={box.id}")["items"]])
    assert records[0]["surface"] == "pandastack"


def test_its_network_is_this_surfaces_setting(pandastack, start_daemon):
    daemon = start_daemon("--pandastack-network", "open")
    made = pandastack.Client(api_url=daemon.url, api_key=daemon.key, timeout=slow(30)).sandboxes.create(template="minimal")
    assert daemon.client().call("GET", f"/v1/sandboxes/{made.id}/network")["mode"] == "open"
    assert daemon.client().call("GET", f"/v1/sandboxes/{daemon.client().create().id}/network")["mode"] == "disabled"


OLD = """
import pandastack
client = pandastack.Client()
with client.sandboxes.create(template="minimal") as sandbox:
    seen = []
    code = sandbox.exec_stream("printf 'Gr\\u00fc\\u00dfe \\u2028 \\U0001f600'; exit 4", on_stdout=seen.append)
    assert (code, "".join(seen)) == (4, "Gr\\u00fc\\u00dfe \\u2028 \\U0001f600"), (code, seen)
    for call in (lambda: sandbox.exec("sleep 100", timeout_seconds=1), lambda: sandbox.exec_stream("sleep 100", timeout_seconds=1)):
        try:
            call()
        except pandastack.SandboxTimeout:
            continue
        raise AssertionError("no timeout")
    assert list(sandbox.logs(stream="stdout")), "no logs"
    children = sandbox.fork_tree(2)
    assert children[0].promote(cleanup_siblings=True)["deleted"] == [children[1].id]
    children[0].kill()
print(pandastack.__version__)
"""


def test_the_version_before_works_as_well(python_packages, daemon):
    done = subprocess.run([sys.executable, "-c", OLD], capture_output=True, text=True, timeout=slow(60),
                          env={**os.environ, "PYTHONPATH": str(python_packages("pandastack==0.9.0")), "PANDASTACK_API": daemon.url, "PANDASTACK_API_KEY": daemon.key})
    assert (done.returncode, done.stdout) == (0, "0.9.0\n"), done.stderr
