# SPDX-License-Identifier: Apache-2.0
"""The PyPI package openai-agents 0.24.0, unmodified, through its client for Cloudflare's sandboxes: the session's methods, a whole run of an agent, and what goes
wrong. Hostile requests are in test_openai_agents_hostile.py, its E2B client in test_openai_agents_e2b.py."""

import os
import signal
import tarfile
import threading
import zipfile

import pytest

from tools import UNKNOWN_ID, add_key, engine_processes, records, wait_until
from vial import Sandbox
from worker import Failed, Worker

covers = pytest.mark.method
# What breaks clients: a line separator, an emoji beyond the BMP, NEL, what is not ASCII, and bytes that are no text at all.
STRANGE = "Grüße \u2028 \U0001f600 \x85 日本".encode().decode("latin-1")
NO_TEXT = bytes(range(256)).decode("latin-1")


@pytest.fixture(scope="module")
def agents(python_packages, daemon):
    worker = Worker("openai_agents.py", python_packages("openai-agents[cloudflare,e2b]==0.24.0"), {"CLOUDFLARE_SANDBOX_API_KEY": daemon.key})
    worker("provider", name="cloudflare", worker_url=daemon.url)
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def box(agents):
    """The id of the session `main`."""
    yield agents("create", files={"notes.txt": "from the manifest", "dir": {"deep": {"blob": NO_TEXT}}}, env={"GREETING": "hello  'you'", "LÄNGE": "ü"})
    agents("close")


@pytest.fixture(scope="module")
def plain(agents):
    """The session `plain`: without an environment, which the client would run every command through env(1) for."""
    yield agents("create", session="plain")
    agents("close", session="plain")


def fails(kind, call, *arguments, **keywords):
    with pytest.raises(Failed) as failed:
        call(*arguments, **keywords)
    assert failed.value.is_a(kind), failed.value
    return failed.value


# Its life

@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "CloudflareSandboxClient.create", "session.start", "session.running", "session.aclose")
def test_a_sandbox_is_made_with_its_files(agents, client, box):
    assert agents("running") is True
    assert client.call("GET", f"/v1/sandboxes/{box}")["template"] == "minimal"
    assert agents("read", path="notes.txt") == "from the manifest" and agents("read", path="dir/deep/blob") == NO_TEXT


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "CloudflareSandboxClient.delete", "session.shutdown")
def test_it_ends_and_may_be_ended_twice(agents, client):
    made = agents("create", session="short")
    agents("end", session="short", times=2)
    agents("shutdown", session="short")
    assert agents("running", session="short") is False
    assert made not in [one["id"] for one in client.sandboxes()]
    assert "there is no sandbox" in fails("ExecTransportError", agents, "run", argv=["true"], session="short").text


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "CloudflareSandboxClient.resume", "CloudflareSandboxClient.serialize_session_state",
        "CloudflareSandboxClient.deserialize_session_state", "session.stop", "session.from_state")
def test_a_session_goes_on_where_it_was_or_from_its_snapshot(agents, tmp_path):
    made = agents("create", session="first", files={"given": "by the manifest"}, snapshots=str(tmp_path))
    agents("write", session="first", path="kept", content=NO_TEXT)
    agents("run", session="first", argv=["ln", "-s", "kept", "link"])
    agents("stop", session="first")
    state = agents("state_of", session="first")
    assert agents("resume", state=state, session="again") == made
    assert agents("read", session="again", path="link") == NO_TEXT
    agents("close", session="again")
    fails("WorkspaceStartError", agents, "resume", state=state, session="gone")  # the client has no way to ask for another one: it says so
    fresh = agents("create", session="fresh", files={})
    agents("hydrate", session="fresh", path=str(next(tmp_path.glob("*.tar"))))
    assert agents("read", session="fresh", path="link") == NO_TEXT and agents("read", session="fresh", path="given") == "by the manifest"
    assert agents("run", session="fresh", argv=["stat", "-c", "%U %s", "link", "kept"])[0] == "root 4\nroot 256\n"
    assert fresh != made
    agents("close", session="fresh")


# Commands

@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.exec")
def test_commands_run_word_by_word_in_the_workspace(agents, box):
    assert agents("run", argv=["sh", "-c", "echo out; echo err >&2; pwd; exit 3"]) == ["out\n/workspace\n", "err\n", 3]
    assert agents("run", argv=["printf", "%s|", "$HOME", "a  b", "*", "ü"])[0].encode("latin-1").decode() == "$HOME|a  b|*|ü|"
    assert agents("run", argv=["echo $((6 * 7)) | tr 4 x"], shell=True) == ["x2\n", "", 0]
    assert agents("run", argv=["printenv", "GREETING", "LÄNGE"])[0].encode("latin-1").decode() == "hello  'you'\nü\n"
    assert agents("run", argv=["cat"]) == ["", "", 0]  # nothing is there to be read


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.exec")
def test_commands_run_as_somebody_else(agents, box):
    assert agents("run", argv=["id", "-un"])[0] == "root\n"
    assert agents("run", argv=["id", "-un"], user="user")[0] == "user\n"
    assert agents("run", argv=["id"], user="nobody-here")[1:] == ["sudo: unknown user: nobody-here\n", 1]


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.exec")
def test_every_byte_comes_through(agents, box):
    assert agents("run", argv=["printf", "%s", STRANGE.encode("latin-1").decode()])[0] == STRANGE
    assert agents("run", argv=["cat", "dir/deep/blob"])[0] == NO_TEXT
    assert agents("run", argv=["sh", "-c", r"printf '\360\237'; sleep 0.3; printf '\230\200\355\240\200'"])[0] == "\xf0\x9f\x98\x80\xed\xa0\x80"
    assert agents("big_output", megabytes=20) == [20 << 20, 0]


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.exec")
def test_what_takes_too_long_is_a_timeout_and_has_ended(agents, box):
    kind, seconds = agents("timed_run", argv=["sh", "-c", "echo begun; sleep 1234"], timeout=1)
    assert kind == "ExecTimeoutError" and seconds >= 5, "the client gives up five seconds after the limit, and nothing may tell it otherwise before"
    wait_until(lambda: agents("run", argv=["pgrep", "-f", "sleep 1234"])[2] == 1)


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.exec")
def test_what_cannot_run_is_an_exit_code(agents, plain):
    assert agents("run", session="plain", argv=["no-such-program", "x"]) == ["", "command not found: no-such-program\n", 127]
    assert agents("run", session="plain", argv=["/etc/passwd"]) == ["", "cannot run /etc/passwd: Permission denied\n", 126]
    assert agents("run", session="plain", argv=["sh", "-c", "kill -9 $$"])[2] == 137
    refused = fails("ExecTransportError", agents, "run", session="plain", argv=["x" * 200_000])
    assert refused.fields["context"]["http_status"] == 400 and refused.fields["retryable"] is False and "at most" in refused.text


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.exec")
def test_a_client_that_leaves_ends_its_command(agents, box):
    assert agents("leave", argv=["sleep", "4321"], seconds=1) is True
    wait_until(lambda: agents("run", argv=["pgrep", "-f", "sleep 4321"])[2] == 1)


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.exec", "session.pty_exec_start")
@pytest.mark.parametrize("how", ["deleted", "killed"])
def test_a_sandbox_that_ends_in_the_middle_is_a_broken_line(agents, client, daemon, how):
    made = agents("create", session="doomed")
    _, _, code, _ = agents("pty", session="doomed", command="sleep 600", seconds=0.5)
    assert code is None

    def end():
        if how == "deleted":
            client.call("DELETE", f"/v1/sandboxes/{made}")
        else:
            for pid in engine_processes(daemon, Sandbox(client, {"id": made})):
                os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(1, end)
    timer.start()
    failed = fails("ExecTransportError", agents, "run", argv=["sh", "-c", "echo begun; sleep 600"], session="doomed")
    timer.join()
    assert failed.type == "ExecTransportError"
    wait_until(lambda: agents("running", session="doomed") is False)
    fails("ExecTransportError", agents, "run", argv=["true"], session="doomed")
    agents("end", session="doomed")


# Files

@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.read", "session.write", "session.read_bounded")
def test_files_are_written_and_read(agents, box):
    for path, content in (("new/dirs/file", NO_TEXT), ("empty", ""), ("data: {", 'data: {"type":"x"}\n\n'), ("/workspace/abs", "absolute")):
        agents("write", path=path, content=content)
        assert agents("read", path=path) == content
    agents("write_text", path="text", text="grüße")
    assert agents("read", path="text").encode("latin-1").decode() == "grüße"
    assert agents("read_bounded", path="new/dirs/file", max_bytes=100) == NO_TEXT[:100]
    assert agents("read_bounded", path="abs", max_bytes=100) == "absolute"
    assert agents("run", argv=["stat", "-c", "%U %a", "new", "new/dirs/file"])[0] == "root 755\nroot 644\n"


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.read", "session.write")
@pytest.mark.parametrize("name", ["ü\u2028\U0001f600", "100%", "%2e%2e", "a%2fb", "q?x=1#y&z+w", " ", "-rf", "*", "a\\b", "'\"$(id)`id`"])
def test_a_name_may_be_anything(agents, box, name):
    agents("write", path=f"names/{name}", content=name.encode().decode("latin-1"))
    assert agents("read", path=f"names/{name}").encode("latin-1").decode() == name
    assert agents("run", argv=["cat", f"/workspace/names/{name}"])[0].encode("latin-1").decode() == name


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.read", "session.write")
def test_what_is_not_there_and_what_may_not_be(agents, box):
    missing = fails("WorkspaceReadNotFoundError", agents, "read", path="missing")
    assert "No such file" in missing.fields["context"]["message"]
    fails("WorkspaceReadNotFoundError", agents, "read", path="dir/missing/deeper")
    folder = fails("WorkspaceArchiveReadError", agents, "read", path="dir")
    assert "directory" in folder.fields["context"]["message"] and not folder.fields["retryable"]
    fails("WorkspaceArchiveWriteError", agents, "write", path="notes.txt/below", content="x")
    for path in ("../etc/passwd", "/etc/passwd"):
        fails("InvalidManifestPathError", agents, "read", path=path)
        fails("InvalidManifestPathError", agents, "write", path=path, content="x")
    agents("run", argv=["ln", "-s", "/etc", "out"])
    fails("InvalidManifestPathError", agents, "read", path="out/passwd")
    agents("run", argv=["rm", "out"])


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.ls", "session.mkdir", "session.rm", "session.mv", "session.same_file")
def test_the_tree_can_be_changed(agents, box):
    agents("mkdir", path="tree/a/b")
    agents("write", path="tree/a/f", content="12345")
    assert agents("ls", path="tree/a") == [["b", "directory", agents("ls", path="tree/a")[0][2], "root"], ["f", "file", 5, "root"]]
    agents("mv", source="tree/a/f", destination="tree/g")
    assert agents("read", path="tree/g") == "12345"
    assert agents("same_file", one="tree/g", other="tree/a/../g") is True and agents("same_file", one="tree/g", other="notes.txt") is False
    fails("ExecNonZeroError", agents, "rm", path="tree")
    agents("rm", path="tree", recursive=True)
    fails("ExecNonZeroError", agents, "ls", path="tree")


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.read", "session.write")
def test_many_files_at_once(agents, box):
    assert agents("many", count=16, size=50_000) is True


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.extract")
def test_archives_are_unpacked(agents, box, tmp_path):
    (tmp_path / "in").write_text("packed ü")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "in", "one/in")
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(tmp_path / "in", "two/in")
    for name, inner in (("a.tar", "one/in"), ("a.zip", "two/in")):
        agents("extract", path=f"unpacked/{name}", archive=str(tmp_path / name))
        assert agents("read", path=f"unpacked/{inner}").encode("latin-1").decode() == "packed ü"


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.apply_patch", "session.apply_manifest")
def test_patches_and_further_manifests(agents, box):
    agents("apply_patch", operations=[{"type": "create_file", "path": "p/new.txt", "diff": "+eins\n+zwei ü\n"}])
    agents("apply_patch", operations=[{"type": "update_file", "path": "p/new.txt", "diff": "@@\n-eins\n+one\n zwei ü\n"}])
    assert agents("read", path="p/new.txt").encode("latin-1").decode() == "one\nzwei ü"
    agents("apply_patch", operations=[{"type": "delete_file", "path": "p/new.txt"}])
    fails("WorkspaceReadNotFoundError", agents, "read", path="p/new.txt")
    agents("apply_manifest", files={"more": {"of": "it"}})
    assert agents("read", path="more/of") == "it"


# The workspace as a whole

@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.persist_workspace", "session.hydrate_workspace", "session.register_persist_workspace_skip_path")
def test_the_workspace_goes_out_and_into_another_sandbox(agents, tmp_path):
    agents("create", session="packed", files={"a": {"b": NO_TEXT}, "skipped": {"x": "1"}, "*": {"y": "2"}})
    agents("run", session="packed", argv=["sh", "-c", "ln -s a/b rel; ln a/b twice; mkfifo fifo; chmod 750 a; mkdir -p 'nämen 日本'; touch 'nämen 日本/z'"])
    for path in ("skipped", "*"):
        agents("skip", session="packed", path=path)
    agents("persist", session="packed", path=str(tmp_path / "w.tar"))
    with tarfile.open(tmp_path / "w.tar") as archive:
        names = {member.name.removeprefix("./"): member.type for member in archive}
    assert set(names) - {"."} == {"a", "a/b", "rel", "twice", "nämen 日本", "nämen 日本/z"}, "sockets and devices, and what is to be left out, are not in it"
    assert names["rel"] == tarfile.SYMTYPE and names["twice"] == tarfile.REGTYPE
    agents("create", session="unpacked")
    agents("hydrate", session="unpacked", path=str(tmp_path / "w.tar"))
    assert agents("read", session="unpacked", path="rel") == NO_TEXT
    assert agents("run", session="unpacked", argv=["stat", "-c", "%U %a", "a", "a/b"])[0] == "root 750\nroot 755\n"
    for session in ("packed", "unpacked"):
        agents("close", session=session)


# Terminals

@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.pty_exec_start", "session.pty_write_stdin", "session.supports_pty")
def test_a_terminal_ends_with_its_command(agents, box):
    process, output, code, seconds = agents("pty", command="echo hi; tty; exit 4", seconds=60)
    assert (process, code) == (None, 4) and output.startswith("hi\r\n/dev/pts/") and seconds < 30, "it waits for the command, and no longer"
    process, output, code, _ = agents("pty", command="printf 'name? '; read name; echo got $name", seconds=3)
    if code is None and not output:
        _, output, code = agents("type_until", process=process, chars="", word="name? ")
    assert code is None and output == "name? "
    assert agents("type_until", process=process, chars="Ädä\n", word="got") == [None, "Ädä\r\ngot Ädä\r\n", 0]
    fails("PtySessionNotFoundError", agents, "type_in", process=process, chars="x")


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.pty_exec_start", "session.pty_write_stdin")
def test_a_shell_at_a_terminal_can_be_talked_with_and_interrupted(agents, box):
    process, *_ = agents("pty", command="exec bash --norc -i", seconds=2)
    assert "42" in agents("type_until", process=process, chars="echo $((6 * 7))\n", word="42\r\n")[1]
    agents("type_in", process=process, chars="sleep 555\n", seconds=1)
    agents("type_in", process=process, chars="\x03", seconds=1)
    wait_until(lambda: agents("run", argv=["pgrep", "-f", "sleep 555"])[2] == 1)
    assert agents("type_until", process=process, chars="exit 7\n", word="\0")[0::2] == [None, 7]


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.pty_exec_start", "session.pty_terminate_all")
def test_terminals_are_hung_up(agents, box):
    for seconds in (7771, 7772):
        agents("pty", command=f"sleep {seconds}", seconds=0.5)
    wait_until(lambda: agents("run", argv=["pgrep", "-fc", "^sleep 777"])[0] == "2\n")
    agents("pty_end")
    wait_until(lambda: agents("run", argv=["pgrep", "-fc", "^sleep 777"])[0] == "0\n")


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.pty_exec_start")
def test_a_long_line_and_another_user_at_a_terminal(agents, box):
    word = "x" * 60_000
    _, output, code, _ = agents("pty", command=f"echo {word} | wc -c", seconds=60)
    assert (output, code) == ("60001\r\n", 0), "a line that is typed has at most 4095 bytes; this is none"
    assert agents("pty", command="id -un", user="root", seconds=60)[1:3] == ["root\r\n", 0]


# A whole run

@covers("OpenAI Agents SDK Python 0.24 (agents, Cloudflare client)", "Runner.run", "exec_command", "write_stdin", "apply_patch", "view_image")
def test_an_agent_uses_every_tool(agents, client):
    before = len(client.sandboxes())
    told = agents("agent")
    assert set(told["tools"]) == {"exec_command", "write_stdin", "apply_patch", "view_image"} and told["final"] == "done"
    assert "exited with code 3" in told["cat"] and told["cat"].endswith("Output:\nfrom the manifest\r\nproblem\r\n")
    assert told["ask"].endswith("Output:\nname? ") and "exited with code 0" in told["type"] and "hello Ada" in told["type"]
    assert told["patch"] == "Updated notes.txt\nCreated sub/new.txt" and told["after"].endswith("from the pätch\r\nadded")
    assert told["look"] == [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]
    assert len(client.sandboxes()) == before, "the runner ends the sandbox that it made"


# What is not offered, and who may not

@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.mount_bucket", "session.unmount_bucket", differs="Buckets are not mounted: refused with a sentence.")
def test_buckets_are_refused_with_a_sentence(agents, box):
    for call in (lambda: agents("mount", bucket="data", path="m"), lambda: agents("unmount", path="m")):
        refusal = fails("MountConfigError", call)
        assert refusal.fields["context"]["reason"].startswith("buckets cannot be mounted into a sandbox of Vial")


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.resolve_exposed_port",
        differs="This client has no ports, at Cloudflare neither: it raises before it asks. The E2B client has them.")
def test_ports_are_not_this_clients(agents, box):
    fails("ExposedPortUnavailableError", agents, "port", number=8000)


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.describe", "session.normalize_path", "session.supports_docker_volume_mounts")
def test_what_needs_no_sandbox(agents, box):
    told, path, has_terminals, has_volumes = agents("tell")
    assert told.startswith("/workspace\n") and path == "/workspace/b" and has_terminals and not has_volumes


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.register_pre_stop_hook", "session.run_pre_stop_hooks", "session.set_dependencies")
def test_hooks_of_the_application_are_called(agents, box):
    assert agents("hooks") == ["stopping"]


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "session.provision_manifest_accounts", "session.should_provision_manifest_accounts_on_resume")
def test_users_of_a_manifest_are_made_and_can_be_run_as(agents):
    agents("create", session="accounts")
    agents("accounts", session="accounts")
    assert agents("run", session="accounts", argv=["id", "-un"])[0] == "root\n"
    assert agents("run", session="accounts", argv=["id", "-un"], user="ada")[0] == "ada\n"
    agents("shutdown", session="accounts")


def test_what_a_client_leaves_in_the_workspace_is_roots_and_where_it_was(agents):
    agents("create", session="owner")
    agents("run", session="owner", argv=["sh", "-c", "echo made > here"])
    assert agents("run", session="owner", argv=["sh", "-c", "pwd; echo $HOME; stat -c '%U' here"])[0] == "/workspace\n/root\nroot\n"
    agents("shutdown", session="owner")


def test_a_key_is_needed_and_a_role_that_may(agents, daemon, box):
    for key, word in (("vial_wrong", "unauthorized"), (add_key(daemon, "default", role="viewer"), "role")):
        refused = fails("ConfigurationError", agents, "create", session="refused", api_key=key)
        assert word in refused.text, refused
    full = add_key(daemon, "agents-full")
    daemon.client().call("PUT", "/v1/projects/agents-full/quotas", {"max_sandboxes": 0})
    assert "max_sandboxes" in fails("ConfigurationError", agents, "create", session="refused", api_key=full).text


def test_another_project_sees_nothing(agents, daemon, box):
    stranger = add_key(daemon, "agents-strangers", role="admin")
    client = daemon.client(stranger)
    for method, path, body in (("POST", "exec", {"argv": ["id"], "timeout_ms": 1000}), ("GET", "running", None), ("GET", "file/etc/passwd", None),
                               ("PUT", "file/workspace/x", b"x"), ("POST", "persist", None), ("POST", "hydrate", b""), ("POST", "mount", {}), ("POST", "unmount", {})):
        for id in (box, UNKNOWN_ID):
            answer = client.ask(method, f"/v1/sandbox/{id}/{path}", body)
            assert (answer.status, answer.json()["error"].replace(id, "ID")) == (404, "there is no sandbox ID"), (path, answer.body)
    assert client.ask("DELETE", f"/v1/sandbox/{box}").status == 404
    assert agents("running") is True


def test_one_sandbox_through_two_surfaces_and_on_record_once(agents, client, box, daemon):
    agents("run", argv=["echo", "on-record-once"])
    agents("write", path="seen", content="by both")
    assert client.ask("GET", f"/v1/sandboxes/{box}/fs?path=/workspace/seen").body == b"by both"
    found = wait_until(lambda: [one for one in records(client, sandbox=box, action="exec") if "on-record-once" in str(client.call("GET", f"/v1/audit/{one['seq']}"))])
    assert len(found) == 1 and found[0]["surface"] == "cloudflare"


@covers("OpenAI Agents SDK Python 0.24 (Cloudflare client)", "CloudflareSandboxClient.create")
def test_the_address_says_which_template(agents, client, daemon):
    made = agents("create", session="template", worker_url=f"{daemon.url}/t/minimal")
    assert client.call("GET", f"/v1/sandboxes/{made}")["template"] == "minimal"
    assert agents("run", session="template", argv=["echo", "x"])[0] == "x\n" and agents("pty", session="template", command="echo y", seconds=60)[1] == "y\r\n"
    agents("close", session="template")
    refused = fails("ConfigurationError", agents, "create", session="template", worker_url=f"{daemon.url}/t/nowhere")
    assert "there is no template nowhere" in refused.text or "nowhere" in refused.text
