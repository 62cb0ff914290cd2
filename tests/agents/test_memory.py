# SPDX-License-Identifier: Apache-2.0
"""Sessions whose template was made out of a sandbox: they are their own users', and whoever's memory they began with is forgotten in them, too."""

import threading
import time

import pytest
from people import Agent
from tools import check_refusal, slow, wait_until


def template_of(client, sandbox, name):
    client.call("POST", f"/v1/sandboxes/{sandbox}/template", {"name": name})
    return name


def templates(client):
    return {item["name"] for item in client.call("GET", "/v1/templates") if item.get("snapshot_id")}


def restart(daemon):
    daemon.kill()
    daemon.start()
    return daemon.client()


def user_of(client, answer):
    return client.call("GET", f"/v1/sandboxes/{answer['session']['sandbox_id']}").get("user")


@pytest.mark.parametrize("whose", [None, "ann"])
def test_a_session_on_a_template_made_out_of_a_sandbox_is_its_own_users_and_ends_like_any(start_daemon, whose):
    daemon = start_daemon()
    client = daemon.client()
    if whose:
        author = Agent(client, "author")
        author.add_version()
        origin = author.run("x=of-the-template", session="s", user=whose)["session"]["sandbox_id"]
    else:
        origin = client.call("POST", "/v1/sandboxes", {"template": "minimal"})["id"]
        client.call("POST", f"/v1/sandboxes/{origin}/run", {"code": "x=of-the-template", "language": "bash"})
    agent = Agent(client, "heir")
    agent.add_version(template=template_of(client, origin, "origin"), never_expire=True)
    boxes = {}
    for user in ("bob", "ann", None):
        answer = agent.run("echo $x; x=of-the-session", session="s", user=user)
        assert answer["stdout"] == "of-the-template\n" and answer["session"]["fresh"] is True
        assert user_of(client, answer) == user
        boxes[user] = answer["session"]["sandbox_id"]
    client.call("POST", f"/v1/sandboxes/{boxes['bob']}/hibernate")

    client = restart(daemon)
    agent = agent.by(client)

    for user in ("ann", "bob", None):
        answer = agent.run("echo $x", session="s", user=user)
        assert answer["stdout"] == "of-the-session\n" and answer["session"]["fresh"] is False
        assert answer["session"]["sandbox_id"] == boxes[user] and user_of(client, answer) == user
    assert agent.ask("DELETE", "/sessions/s?user=bob").status == 204
    assert {item.get("user") for item in agent.sessions()["items"]} == {"ann", None}
    agent.add_version(activate=True)
    agent.call("POST", "/versions/1/retire")
    for path in ("/sessions/s?user=ann", "/sessions/s"):
        assert agent.ask("DELETE", path).status == 204
    assert agent.call("GET", "/versions/1")["state"] == "retired"
    agent.exec("true", session="t", user="bob")
    started = time.monotonic()
    assert agent.ask("DELETE").status == 204
    assert time.monotonic() - started < 200, "it goes as far as the rounds of an ending that finds no end"
    assert not [box for box in client.sandboxes() if box.get("agent") == "heir"]


def test_who_is_forgotten_is_so_in_templates_of_his_memory_and_in_what_was_made_of_them(client, agent):
    agent.run("x=of-ann", user="ann")
    origin = agent.run("echo $x", user="ann")["session"]["sandbox_id"]
    mine = template_of(client, agent.run("x=of-bob", user="bob")["session"]["sandbox_id"], "of-bob")
    hers = template_of(client, origin, "of-ann")
    other = Agent(client)
    other.add_version(template=hers)
    other.add_version(template=mine)
    heir = other.run("echo $x", user="bob")
    assert heir["stdout"] == "of-ann\n"
    kept = other.run("echo $x", user="bob", version=2)["session"]["sandbox_id"]
    # Twice handed on: a template of bob's session on ann's, and carol's on that.
    grandchild = template_of(client, heir["session"]["sandbox_id"], "of-both")
    other.add_version(template=grandchild)
    carols = other.run("echo $x", user="carol", version=3)["session"]["sandbox_id"]
    plain = client.call("POST", "/v1/sandboxes", {"template": grandchild})["id"]
    fork = client.call("POST", f"/v1/sandboxes/{carols}/fork", {})["sandbox"]["id"]

    # For this agent alone: what was his there, and the template that is a snapshot of it.
    assert agent.call("DELETE", "/users/ann") == {"sessions": 1, "sandboxes": 0, "snapshots": 1}
    assert templates(client) >= {mine, grandchild} and hers not in templates(client)
    assert heir["session"]["sandbox_id"] in {box["id"] for box in client.sandboxes()}
    check_refusal(other.ask("POST", "/exec", {"cmd": "true", "session": "new", "user": "bob"}), 400)

    # For the project: bob's and carol's sessions that began with her memory, the fork of one, the sandbox, the template.
    assert client.call("DELETE", "/v1/users/ann") == {"sessions": 0, "sandboxes": 4, "snapshots": 1}
    left = {box["id"] for box in client.sandboxes()}
    assert not left & {heir["session"]["sandbox_id"], carols, plain, fork} and kept in left
    assert mine in templates(client) and grandchild not in templates(client)
    assert {item["sandbox_id"] for item in other.sessions()["items"]} == {kept}
    found = client.call("GET", "/v1/audit?action=template.delete&limit=5")["items"]
    assert {"of-ann:latest", "of-both:latest"} == {record["template"] for record in found}
    client.call("DELETE", other.path)
    client.call("DELETE", f"/v1/templates/{mine}")


def test_whose_memory_it_is_outlives_a_restart_and_goes_with_a_rollback(start_daemon):
    daemon = start_daemon()
    client = daemon.client()
    agent = Agent(client, "heir")
    agent.add_version()
    hers = template_of(client, agent.run("x=of-ann", user="ann")["session"]["sandbox_id"], "of-ann")
    agent.add_version(template=hers, activate=True, never_expire=True)
    box = agent.run("true", user="bob")["session"]["sandbox_id"]
    snapshot = client.call("POST", f"/v1/sandboxes/{box}/snapshots", {})["id"]
    client.call("POST", f"/v1/sandboxes/{box}/rollback", {"snapshot": snapshot})
    client = restart(daemon)
    assert client.call("DELETE", "/v1/users/ann") == {"sessions": 1, "sandboxes": 1, "snapshots": 2}
    assert client.sandboxes() == [] and client.call("GET", "/v1/snapshots") == []
    assert client.call("DELETE", "/v1/users/bob") == {"sessions": 0, "sandboxes": 0, "snapshots": 0}


def test_snapshots_of_an_agent_that_is_gone_are_forgotten_with_their_user(client):
    agent = Agent(client)
    agent.add_version()
    box = agent.exec("true", user="dora")["session"]["sandbox_id"]
    client.call("POST", f"/v1/sandboxes/{box}/snapshots", {})
    client.call("DELETE", agent.path)
    assert client.call("DELETE", "/v1/users/dora") == {"sessions": 0, "sandboxes": 0, "snapshots": 1}


def test_nobody_is_told_that_a_user_is_forgotten_while_his_memory_is_still_being_sealed(start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    client = daemon.client()
    agent = Agent(client, "slow")
    agent.add_version()
    box = agent.exec("true", user="ann")["session"]["sandbox_id"]
    agent.exec("true", user="bob")
    faults.write_text("manifest.wait 1\nforget.rounds 5\n")
    taking = threading.Thread(target=lambda: client.ask("POST", f"/v1/sandboxes/{box}/snapshots", {}))
    taking.start()
    sealing = daemon.folder / "data/snapshots"
    wait_until(lambda: sealing.exists() and any(sealing.iterdir()))
    time.sleep(1)

    # Nobody waits for another's.
    assert client.call("DELETE", "/v1/users/bob")["sessions"] == 1
    # Else the answer is late, and then it is not that all is gone.
    refusal = client.ask("DELETE", "/v1/users/ann")
    assert "not everything of the user is gone yet, ask again" in check_refusal(refusal, 504)
    faults.write_text("")
    taking.join()
    client.call("DELETE", "/v1/users/ann")
    assert client.call("GET", "/v1/snapshots") == [] and client.sandboxes() == []


def test_forgetting_waits_for_a_snapshot_that_is_just_being_sealed(start_daemon, tmp_path):
    faults = tmp_path / "faults"
    faults.write_text("")
    daemon = start_daemon(env={"VIAL_FAULTS": str(faults)})
    client = daemon.client()
    agent = Agent(client, "slow")
    agent.add_version()
    box = agent.exec("true", user="ann")["session"]["sandbox_id"]
    faults.write_text("manifest.wait 1\n")
    taking = threading.Thread(target=lambda: client.ask("POST", f"/v1/sandboxes/{box}/snapshots", {}))
    taking.start()
    sealing = daemon.folder / "data/snapshots"
    wait_until(lambda: sealing.exists() and any(sealing.iterdir()))
    answers = []
    forgetting = threading.Thread(target=lambda: answers.append(client.call("DELETE", "/v1/users/ann")))
    forgetting.start()
    forgetting.join(13)  # longer than the hundred rounds that once were all
    assert answers == []
    faults.write_text("")
    forgetting.join(slow(60))
    taking.join()
    assert answers == [{"sessions": 1, "sandboxes": 0, "snapshots": 1}]
    assert client.call("GET", "/v1/snapshots") == []
