# SPDX-License-Identifier: Apache-2.0
"""A version is numbered, never changed, and one of them is active; a change is the next one."""

import base64
import io
import json
import sqlite3
import tarfile
import zipfile
from contextlib import closing, contextmanager

import pytest
from people import Agent
from tools import check_refusal
from world import at_once


def states(agent):
    return {version["version"]: version["state"] for version in agent.call("GET", "/versions")}


def test_an_agent_is_made_shown_listed_and_deleted(client):
    agent = Agent(client, "analyst", description="reads tables")
    assert agent.info["description"] == "reads tables" and agent.info["active_version"] is None and agent.info["versions"] == 0
    assert agent.call("GET") == agent.info and agent.info in client.call("GET", "/v1/agents")
    assert "analyst" in check_refusal(client.ask("POST", "/v1/agents", {"name": "analyst"}), 409)
    assert "version" in check_refusal(agent.ask("POST", "/exec", {"cmd": "true"}), 409)
    assert client.ask("DELETE", agent.path).status == 204
    check_refusal(agent.ask("GET"), 404)
    Agent(client, "analyst")
    client.call("DELETE", "/v1/agents/analyst")


def test_the_first_version_is_active_at_once_and_later_ones_when_they_are_activated(agent):
    assert states(agent) == {1: "active"}
    assert agent.add_version() == 2 and states(agent) == {2: "ready", 1: "active"}
    assert agent.exec("true")["session"]["version"] == 1 and agent.exec("true", version=2)["session"]["version"] == 2
    assert agent.call("POST", "/versions/2/activate")["state"] == "active"
    assert states(agent) == {2: "active", 1: "ready"} and agent.call("GET")["active_version"] == 2
    assert agent.add_version(activate=True) == 3 and states(agent)[3] == "active"


def test_a_call_without_a_version_goes_to_the_active_one_and_never_to_the_old_one_s_sandbox(agent):
    old = agent.exec("echo old > /workspace/f", session="s")
    agent.add_version(activate=True)
    new = agent.exec("cat /workspace/f", session="s")
    assert new["exit_code"] != 0 and new["session"]["version"] == 2 and new["session"]["sandbox_id"] != old["session"]["sandbox_id"]
    assert agent.exec("cat /workspace/f", session="s", version=1)["stdout"].strip() == "old"
    assert agent.call("GET", "/sessions/s")["version"] == 2
    assert agent.ask("DELETE", "/sessions/s").status == 204
    assert agent.sessions()["items"] == [], "a session ends in all versions, unless one is named"


def test_versions_made_at_once_are_numbered_without_gaps(agent):
    numbers = at_once(16, lambda _: agent.add_version())
    assert sorted(numbers) == list(range(2, 18))


def test_a_version_shows_all_that_was_said_of_it(agent):
    said = {"template": "minimal", "tier": "2x4", "network": {"mode": "filtered", "allow_out": ["example.org"]}, "idle_seconds": 300, "never_expire": False,
            "languages": ["python", "bash"], "env": {"A": "1"}, "files": [{"path": "/workspace/a", "content": "abc"}],
            "prompt_ref": "prompts/7", "metadata": {"owner": "me"}}
    made = agent.call("POST", "/versions", said)
    assert made == agent.call("GET", "/versions/2") and made["version"] == 2 and made["agent"] == agent.name
    for name, value in said.items():
        assert made[name] == value or name == "network" and made[name]["allow_out"] == ["example.org"], name
    assert (made["cpu"], made["memory_mb"]) == (2, 4096)
    assert agent.call("GET", "/versions")[0]["files"] == [{"path": "/workspace/a", "size": 3}], "a list does not carry the files"


def test_retiring_drains_new_sessions_are_refused_and_those_there_are_go_on(agent):
    agent.exec("echo kept > /workspace/f", session="s")
    assert "activate another" in check_refusal(agent.ask("POST", "/versions/1/retire"), 409)
    agent.add_version(activate=True)
    assert agent.call("POST", "/versions/1/retire")["state"] == "draining"
    assert agent.exec("cat /workspace/f", session="s", version=1)["stdout"].strip() == "kept"
    assert "retired" in check_refusal(agent.ask("POST", "/exec", {"cmd": "true", "session": "new", "version": 1}), 409)
    assert "retired" in check_refusal(agent.ask("POST", "/versions/1/activate"), 409)
    assert agent.ask("DELETE", "/sessions/s?version=1").status == 204
    assert states(agent)[1] == "retired" and agent.call("POST", "/versions/1/retire")["state"] == "retired"
    check_refusal(agent.ask("POST", "/exec", {"cmd": "true", "session": "s", "version": 1}), 409)


def test_versions_that_are_none_are_not_found(agent):
    for number in ("2", "0", "-1", "x", "99999999999999999999"):
        check_refusal(agent.ask("GET", f"/versions/{number}"), 404)
        check_refusal(agent.ask("POST", f"/versions/{number}/activate"), 404)
    check_refusal(agent.ask("POST", "/exec", {"cmd": "true", "version": 7}), 404)


BAD = [
    ({"template": "nothing-like-it"}, "template"), ({"tier": "3x3"}, "tier"), ({"tier": "2x4", "memory_mb": 512}, "tier"), ({"memory_mb": 1}, "memory_mb"),
    ({"idle_seconds": 299}, "idle_seconds"), ({"idle_seconds": "600"}, "idle_seconds"), ({"never_expire": 1}, "never_expire"), ({"languages": []}, "languages"),
    ({"languages": [7]}, "languages"), ({"languages": "python"}, "languages"), ({"languages": ["python,bash"]}, "languages"), ({"languages": ["pyhton"]}, "languages"), ({"env": {"A=B": "x"}}, "env"), ({"metadata": {"a": 1}}, "metadata"),
    ({"network": {"mode": "sideways"}}, "mode"), ({"files": [{"path": "/a"}]}, "files[0]"), ({"files": [{"content": "x"}]}, "path"),
    ({"files": [{"path": "/a", "content": "x", "content_base64": "eA=="}]}, "files[0]"), ({"files": [{"path": "/a", "content_base64": "***"}]}, "Base64"),
    *[({"files": [{"path": "/a", "content_base64": text}]}, "Base64") for text in ("eA", "eA=", "eA==eA==", "=eA=", "====", "eA==\n")],
    ({"files": [{"path": "/a", "content": "x" * (8 * 1024 * 1024 + 1)}]}, "files"), ({"files": {}}, "files"),
    ({"packages": {"gem": ["a"]}}, "packages"), ({"packages": {"pip": ["-e."]}, "network": {"mode": "open"}}, "dash"), ({"packages": {"pip": "numpy"}}, "packages"),
    ({"packages": {"pip": ["numpy"]}}, "network"), ({"prompt_ref": ""}, "prompt_ref"), ({"volumes": []}, "volumes"), ({"ttl_seconds": 5}, "ttl_seconds"),
]


@pytest.mark.parametrize("fields,named", BAD, ids=[str(fields)[:60] for fields, _ in BAD])
def test_what_a_version_cannot_be_is_refused_by_name_and_makes_none(agent, fields, named):
    assert named in check_refusal(agent.ask("POST", "/versions", {"template": "minimal", **fields}), 400)
    assert list(states(agent)) == [1]


@pytest.mark.parametrize("name", ["", "-a", ".a", "a/b", "a b", "x" * 65, "ä", None, 7])
def test_names_that_an_agent_cannot_have(client, name):
    assert "name" in check_refusal(client.ask("POST", "/v1/agents", {"name": name}), 400)


def test_packages_that_cannot_be_installed_fail_the_call_with_what_the_installer_said_and_leave_nothing(client, agent):
    """There is no registry at that address: what matters is that nobody gets a sandbox that is not what its version says."""
    agent.add_version(activate=True, packages={"pip": ["no-such-package-anywhere"]}, env={"PIP_INDEX_URL": "http://127.0.0.1:9/", "PIP_RETRIES": "0"},
                      network={"mode": "filtered"})
    answer = agent.ask("POST", "/exec", {"cmd": "true", "session": "s"})
    assert "pip" in check_refusal(answer, 502)
    assert agent.sessions()["items"] == [] and not [box for box in client.sandboxes() if box.get("agent") == agent.name]


def wheel(name, code):
    """A package as pip wants it, one module."""
    content, info = io.BytesIO(), f"{name}-1.0.dist-info"
    with zipfile.ZipFile(content, "w") as file:
        file.writestr(f"{name}.py", code)
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        file.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        file.writestr(f"{info}/RECORD", "")
    return content.getvalue()


def npm_archive(name, code):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as file:
        for path, text in (("package.json", json.dumps({"name": name, "version": "1.0.0"})), ("index.js", code)):
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size = len(text)
            file.addfile(entry, io.BytesIO(text.encode()))
    return content.getvalue()


def test_packages_are_there_for_the_first_call_of_each_session(agent):
    """Out of files of the version itself: an index that needs no network."""
    files = [{"path": path, "content_base64": base64.b64encode(content).decode()} for path, content in (
        ("/workspace/wheels/seven-1.0-py3-none-any.whl", wheel("seven", "value = 7\n")), ("/workspace/eight.tgz", npm_archive("eight", "module.exports = 8\n")))]
    agent.add_version(activate=True, template="code-interpreter", files=files, packages={"pip": ["seven"], "npm": ["/workspace/eight.tgz"]},
                      env={"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "/workspace/wheels"}, network={"mode": "filtered"})
    for session in ("one", "two"):
        assert agent.run("import seven; print(seven.value)", language="python", session=session)["stdout"] == "7\n"
        assert agent.run("console.log(require('eight'))", language="javascript", session=session)["stdout"] == "8\n"
    assert len(agent.sessions()["items"]) == 2


def test_deleting_an_agent_ends_all_its_sandboxes_those_being_made_and_forks_too(client):
    agent = Agent(client)
    agent.add_version()
    agent.add_version(never_expire=True)
    box = agent.exec("true", session="a")["session"]["sandbox_id"]
    slept = agent.exec("true", session="b", version=2)["session"]["sandbox_id"]
    client.call("POST", f"/v1/sandboxes/{slept}/hibernate")
    client.call("POST", f"/v1/sandboxes/{box}/fork", {})
    results = at_once(6, lambda number: agent.ask("DELETE") if number == 0 else agent.ask("POST", "/exec", {"cmd": "true", "session": f"n{number}"}))
    assert results[0].status == 204
    assert {answer.status for answer in results[1:]} <= {200, 404, 409, 503}, [answer.body for answer in results]
    assert not [one for one in client.sandboxes() if one.get("agent") == agent.name]
    check_refusal(agent.ask("POST", "/exec", {"cmd": "true"}), 404)


def test_a_list_of_versions_says_how_large_their_files_are(agent):
    contents = [bytes(range(size)) for size in range(8)]
    files = [{"path": f"/workspace/{len(content)}", "content_base64": base64.b64encode(content).decode()} for content in contents]
    number = agent.add_version(files=[*files, {"path": "/workspace/text", "content": "größe"}])
    shown = {version["version"]: version for version in agent.call("GET", "/versions")}[number]["files"]
    assert [file["size"] for file in shown] == [*range(8), len("größe".encode())]
    assert agent.exec("cd /workspace; stat -c %s 0 1 2 3 4 5 6 7", version=number)["stdout"].split() == [str(size) for size in range(8)]


@contextmanager
def database(daemon):
    """While it is stopped."""
    daemon.kill()
    with closing(sqlite3.connect(daemon.folder / "data/db.sqlite")) as db:
        yield db
        db.commit()
    daemon.start()


def test_a_project_has_so_many_agents_and_no_more(start_daemon):
    daemon = start_daemon()
    first = Agent(daemon.client(), "first")
    with database(daemon) as db:
        db.executemany("INSERT INTO agents SELECT ?, project, ?, state, document, active, created_at FROM agents WHERE name = 'first'",
                       [(f"{number:020}", f"copy-{number}") for number in range(9998)])
    client = daemon.client()
    Agent(client, "last")
    assert "at most 10000 agents" in check_refusal(client.ask("POST", "/v1/agents", {"name": "one-too-many"}), 409)
    project = client.call("POST", "/v1/projects", {"name": "other"})["name"]
    key = client.call("POST", "/v1/keys", {"name": "other", "role": "developer", "project": project})["key"]
    Agent(daemon.client(key), "elsewhere")
    client.call("DELETE", first.path)
    Agent(client, "in-its-place")


def test_the_versions_of_a_project_take_so_much_memory_and_no_more(start_daemon):
    daemon = start_daemon()
    large = [{"path": "/workspace/f", "content": "x" * (8 * 1024 * 1024)}]
    agent, other = Agent(daemon.client(), "first"), Agent(daemon.client(), "other")
    agent.add_version(files=large)
    with database(daemon) as db:
        (id_,) = db.execute("SELECT id FROM agents WHERE name = 'first'").fetchone()
        db.executemany("INSERT INTO agent_versions SELECT ?, agent_id, ?, document, retired_at, created_at FROM agent_versions WHERE agent_id = ? AND number = 1",
                       [(f"{id_}/{number}", number, id_) for number in range(2, 31)])
    agent, other = agent.by(daemon.client()), other.by(daemon.client())
    assert agent.add_version(files=large) == 31
    for one in (agent, other):
        refusal = check_refusal(one.ask("POST", "/versions", {"template": "minimal", "files": large}), 409)
        assert "at most 256 MiB" in refusal and "these take 248" in refusal
    other.add_version()
    assert {file["size"] for version in agent.call("GET", "/versions") for file in version["files"]} == {8 * 1024 * 1024}
    agent.client.call("DELETE", agent.path)
    other.add_version(files=large)
