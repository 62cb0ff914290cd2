# SPDX-License-Identifier: Apache-2.0
"""The PyPI package openai-agents 0.24.0, unmodified, through its E2B client, which pins e2b 2.31.0 and e2b-code-interpreter 2.8.1."""

import tarfile

import pytest

from tools import wait_until
from worker import Failed, Worker

covers = pytest.mark.method
STRANGE = "Grüße \u2028 \U0001f600 \x85 日本".encode().decode("latin-1")
NO_TEXT = bytes(range(256)).decode("latin-1")


@pytest.fixture(scope="module")
def agents(python_packages, daemon):
    key = daemon.client().call("POST", "/v1/keys", {"name": "agents through E2B", "role": "developer", "project": "default", "form": "e2b"})["key"]
    worker = Worker("openai_agents.py", python_packages("openai-agents[cloudflare,e2b]==0.24.0"),
                    {"E2B_API_URL": daemon.url, "E2B_SANDBOX_URL": daemon.url, "E2B_API_KEY": key})
    worker("provider", name="e2b", sandbox_type="e2b", template="minimal")
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def box(agents):
    yield agents("create", files={"notes.txt": "from the manifest", "dir": {"blob": NO_TEXT}}, env={"GREETING": "hello  'you'"}, metadata={"of": "agents"})
    agents("close")


def fails(kind, call, *arguments, **keywords):
    with pytest.raises(Failed) as failed:
        call(*arguments, **keywords)
    assert failed.value.is_a(kind), failed.value
    return failed.value


def ids(client):
    return [one["id"] for one in client.sandboxes()]


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "E2BSandboxClient.create", "session.start", "session.running", "session.shutdown", "E2BSandboxClient.delete")
@pytest.mark.parametrize("kind", ["e2b", "e2b_code_interpreter"])
def test_a_sandbox_is_made_and_ended(agents, client, kind):
    made = agents("create", session=kind, sandbox_type=kind, files={"a": "ä"})
    assert made in ids(client) and agents("running", session=kind) is True and agents("read", session=kind, path="a") == "ä"
    agents("end", session=kind)  # of this client's `delete` the sandbox's end is no part
    agents("shutdown", session=kind)
    assert made not in ids(client) and agents("running", session=kind) is False
    fails("SandboxError", agents, "run", argv=["true"], session=kind)


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.exec")
def test_commands(agents, box):
    assert agents("run", argv=["sh", "-c", "echo out; echo err >&2; pwd; exit 3"]) == ["out\n/workspace\n", "err\n", 3]
    assert agents("run", argv=["printenv", "GREETING", "E2B_SANDBOX"])[0] == "hello  'you'\ntrue\n"
    assert agents("run", argv=["printf", "%s", STRANGE.encode("latin-1").decode()])[0] == STRANGE
    assert agents("run", argv=["id", "-un"])[0] == "user\n" and agents("run", argv=["id", "-un"], user="root")[0] == "root\n"
    assert agents("run", argv=["no-such-program"])[2] == 127
    kind, seconds = agents("timed_run", argv=["sleep", "2468"], timeout=1)
    assert kind == "ExecTimeoutError" and seconds < 60
    wait_until(lambda: agents("run", argv=["pgrep", "-f", "^sleep 2468"])[2] == 1)


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.exec")
def test_no_output_is_lost(agents, box):
    assert agents("big_output", megabytes=20) == [20 << 20, 0]


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.read", "session.write", "session.read_bounded")
def test_files_are_written_and_read(agents, box):
    assert agents("read", path="notes.txt") == "from the manifest" and agents("read", path="dir/blob") == NO_TEXT
    for path, content in (("new/dirs/file", NO_TEXT), ("empty", ""), ("ü \U0001f600 100%2f?#&+", "x")):
        agents("write", path=path, content=content)
        assert agents("read", path=path) == content
    assert agents("read_bounded", path="dir/blob", max_bytes=10) == NO_TEXT[:10]
    fails("WorkspaceReadNotFoundError", agents, "read", path="missing")
    for path in ("../etc/passwd", "/etc/passwd"):
        fails("InvalidManifestPathError", agents, "read", path=path)
    assert agents("many", count=8, size=50_000) is True


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.ls", "session.mkdir", "session.rm", "session.mv", "session.same_file", "session.apply_patch",
        "session.apply_manifest", "session.describe", "session.normalize_path", "session.supports_pty", "session.supports_docker_volume_mounts")
def test_the_tree_can_be_changed(agents, box):
    agents("mkdir", path="tree/a/b")
    agents("write", path="tree/a/f", content="12345")
    assert [entry[:2] for entry in agents("ls", path="tree/a")] == [["b", "directory"], ["f", "file"]]
    agents("mv", source="tree/a/f", destination="tree/g")
    assert agents("read", path="tree/g") == "12345" and agents("same_file", one="tree/g", other="tree/a/../g") is True
    agents("rm", path="tree", recursive=True)
    fails("ExecNonZeroError", agents, "ls", path="tree")
    agents("apply_patch", operations=[{"type": "create_file", "path": "p/new.txt", "diff": "+one\n+zwei ü\n"}])
    assert agents("read", path="p/new.txt").encode("latin-1").decode() == "one\nzwei ü"
    agents("apply_manifest", files={"more": {"of": "it"}})
    assert agents("read", path="more/of") == "it"
    assert agents("tell")[1:] == ["/workspace/b", True, False]


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.pty_exec_start", "session.pty_write_stdin", "session.pty_terminate_all")
def test_processes_that_go_on(agents, box):
    process, output, code, _ = agents("pty", command="echo begun; sleep 1; echo ended; exit 4", tty=False, seconds=30)
    assert (process, output, code) == (None, "begun\nended\n", 4)
    process, output, code, _ = agents("pty", command="printf 'name? '; read name; echo got $name; exit", seconds=2)
    if code is None and "name? " not in output:
        _, output, code = agents("type_until", process=process, chars="", word="name? ")
    assert code is None and "name? " in output
    assert "got Ädä" in agents("type_until", process=process, chars="Ädä\n", word="got Ädä")[1]
    agents("pty", command="sleep 7773", tty=False, seconds=0.5)
    agents("pty_end")
    wait_until(lambda: agents("run", argv=["pgrep", "-fc", "^sleep 7773"])[0] == "0\n")


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.persist_workspace", "session.hydrate_workspace", "session.stop", "session.aclose",
        "session.from_state", "E2BSandboxClient.resume", "E2BSandboxClient.serialize_session_state", "E2BSandboxClient.deserialize_session_state")
@pytest.mark.parametrize("how", ["tar", "snapshot"])
def test_a_session_goes_on_in_a_new_sandbox_from_its_snapshot(agents, client, tmp_path, how):
    made = agents("create", session=how, files={"given": "by the manifest"}, snapshots=str(tmp_path), workspace_persistence=how, on_timeout="kill")
    agents("write", session=how, path="kept", content=NO_TEXT)
    agents("stop", session=how)
    state = agents("state_of", session=how)
    agents("shutdown", session=how)
    assert made not in ids(client)
    other = agents("resume", state=state, session=f"{how} again")
    assert other != made and agents("read", session=f"{how} again", path="kept") == NO_TEXT
    assert agents("read", session=f"{how} again", path="given") == "by the manifest"
    agents("close", session=f"{how} again")


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.shutdown", "E2BSandboxClient.resume")
def test_a_sandbox_that_is_paused_at_the_end_goes_on(agents, client):
    made = agents("create", session="paused", pause_on_exit=True)
    agents("write", session="paused", path="kept", content="kept")
    agents("run", session="paused", argv=["sh", "-c", "echo outside > /tmp/outside"])
    state = agents("state_of", session="paused")
    agents("shutdown", session="paused")
    assert client.call("GET", f"/v1/sandboxes/{made}")["status"] == "hibernated"
    assert agents("resume", state=state, session="woken") == made
    assert agents("read", session="woken", path="kept") == "kept" and agents("run", session="woken", argv=["cat", "/tmp/outside"])[0] == "outside\n"
    client.call("DELETE", f"/v1/sandboxes/{made}")
    assert agents("running", session="woken") is False


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.persist_workspace")
def test_a_workspace_of_many_megabytes_is_whole(agents, tmp_path):
    """This client has its archive as the output of a command, in base64."""
    agents("create", session="big")
    agents("run", session="big", argv=["sh", "-c", "head -c 12000000 /dev/urandom > big; sha256sum big > sum"])
    agents("persist", session="big", path=str(tmp_path / "w.tar"))
    with tarfile.open(tmp_path / "w.tar") as archive:
        assert archive.getmember("./big").size == 12_000_000
    agents("shutdown", session="big")


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.extract", "session.register_persist_workspace_skip_path", "session.register_pre_stop_hook",
        "session.run_pre_stop_hooks", "session.set_dependencies")
def test_archives_hooks_and_what_is_left_out(agents, tmp_path):
    (tmp_path / "in").write_text("packed ü")
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(tmp_path / "in", "one/in")
    agents("create", session="archives", files={"skipped": {"x": "1"}})
    agents("extract", session="archives", path="unpacked/a.tar", archive=str(tmp_path / "a.tar"))
    assert agents("read", session="archives", path="unpacked/one/in").encode("latin-1").decode() == "packed ü"
    agents("skip", session="archives", path="skipped")
    agents("persist", session="archives", path=str(tmp_path / "w.tar"))
    with tarfile.open(tmp_path / "w.tar") as archive:
        assert "./unpacked/one/in" in archive.getnames() and "./skipped/x" not in archive.getnames()
    assert agents("hooks", session="archives") == ["stopping"]
    agents("shutdown", session="archives")


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.provision_manifest_accounts", "session.should_provision_manifest_accounts_on_resume",
        differs="Commands are `user`'s, who may not make accounts with useradd: make them when the template is built.")
def test_users_of_a_manifest_are_refused_by_the_system(agents):
    agents("create", session="accounts")
    fails("ExecNonZeroError", agents, "accounts", session="accounts")
    agents("shutdown", session="accounts")


@covers("OpenAI Agents SDK Python 0.24 (E2B client)", "session.resolve_exposed_port",
        differs="The address is what e2b 2.31 makes of its domain: it is this host's where host names are set up (E2B_DOMAIN).")
def test_a_port_has_an_address(agents):
    made = agents("create", session="port", exposed_ports=[8000])
    host, _, _ = agents("port", session="port", number=8000)
    assert host.startswith(f"8000-{made}.")
    agents("shutdown", session="port")


@covers("OpenAI Agents SDK Python 0.24 (agents, E2B client)", "Runner.run", "exec_command", "write_stdin", "apply_patch", "view_image")
def test_an_agent_uses_every_tool(agents, client):
    before = len(client.sandboxes())
    told = agents("agent")
    assert set(told["tools"]) == {"exec_command", "write_stdin", "apply_patch", "view_image"} and told["final"] == "done"
    assert "exited with code 3" in told["cat"] and "from the manifest" in told["cat"] and "name? " in told["ask"] and "hello Ada" in told["type"]
    assert told["patch"] == "Updated notes.txt\nCreated sub/new.txt" and "from the pätch" in told["after"]
    assert told["look"] == [{"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}]
    assert len(client.sandboxes()) == before
