# SPDX-License-Identifier: Apache-2.0
"""Sessions whose template was made out of a sandbox: they are their own users'."""

import time

import pytest
from people import Agent


def template_of(client, sandbox, name):
    client.call("POST", f"/v1/sandboxes/{sandbox}/template", {"name": name})
    return name


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
    assert time.monotonic() - started < 60, "it goes as far as the rounds of an ending that finds no end"
    assert not [box for box in client.sandboxes() if box.get("agent") == "heir"]
