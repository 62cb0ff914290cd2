# SPDX-License-Identifier: Apache-2.0
"""Who may use an agent, and whose room its sandboxes take."""

from people import Agent
from tools import check_refusal
from world import Project, at_once, refused_limit


def test_a_runner_uses_an_agent_though_he_may_not_create_sandboxes(project):
    agent = Agent(project.client)
    agent.add_version()
    runner = agent.by(project.key("runner"))
    check_refusal(runner.client.ask("POST", "/v1/sandboxes", {"template": "minimal"}), 403)
    assert runner.exec("echo mine", session="s")["session"]["fresh"] is True
    assert [item["id"] for item in runner.sessions()["items"]] == ["s"]
    for method, path, body in (("POST", "/versions", {}), ("GET", "/versions", None), ("DELETE", "", None), ("GET", "", None)):
        assert runner.ask(method, path, body).json()["detail"]["role"] == "developer"
    assert runner.ask("DELETE", "/sessions/s").status == 204


def test_an_agent_of_another_project_does_not_exist(client, project):
    agent = Agent(project.client)
    agent.add_version()
    agent.exec("true", session="s")
    stranger = agent.by(client)
    for method, path, body in (("GET", "", None), ("POST", "/exec", {"cmd": "true"}), ("GET", "/sessions", None), ("DELETE", "/sessions/s", None), ("DELETE", "", None),
                               ("DELETE", "/users/ann", None), ("POST", "/versions", {"template": "minimal"})):
        check_refusal(stranger.ask(method, path, body), 404)
    twin = Agent(client, agent.name)
    twin.add_version()
    assert twin.exec("true", session="s")["session"]["fresh"] is True, "the same name in another project is another agent"
    client.call("DELETE", twin.path)
    assert agent.exec("true", session="s")["session"]["fresh"] is False


def test_a_key_for_certain_agents_has_nothing_to_do_with_others(project):
    mine, other = Agent(project.client, "mine"), Agent(project.client, "other")
    for agent in (mine, other):
        agent.add_version()
        agent.exec("true", session="s", user="ann")
    narrowed = project.key("developer", allow={"agents": ["mine"]})
    assert mine.by(narrowed).exec("true", session="s", user="ann")["session"]["fresh"] is False
    assert [one["name"] for one in narrowed.call("GET", "/v1/agents")] == ["mine"]
    for method, path, body in (("POST", "/exec", {"cmd": "true"}), ("GET", "", None), ("DELETE", "", None), ("GET", "/sessions", None)):
        assert "allow.agents" in check_refusal(other.by(narrowed).ask(method, path, body), 403)
    assert "allow.agents" in check_refusal(narrowed.ask("POST", "/v1/agents", {"name": "third"}), 403)
    assert narrowed.call("DELETE", "/v1/users/ann")["sessions"] == 1, "of the agents that it is for"
    assert len(other.sessions()["items"]) == 1


def test_the_project_s_quotas_hold_for_sandboxes_of_agents(project):
    agent = Agent(project.client)
    agent.add_version()
    project.set_quotas(max_sandboxes=1)
    agent.exec("true", session="a")
    refused_limit(agent.ask("POST", "/exec", {"cmd": "true", "session": "b"}), "max_sandboxes")
    assert [item["id"] for item in agent.sessions()["items"]] == ["a"], "a session that got no sandbox is none"
    assert agent.exec("true", session="a")["exit_code"] == 0
    agent.ask("DELETE", "/sessions/a")
    assert agent.exec("true", session="b")["session"]["fresh"] is True


def test_a_key_that_may_not_make_it_keeps_nobody_else_from_it(project):
    """All call at once; whichever comes first, those whose key suffices get their answer."""
    agent = Agent(project.client)
    agent.add_version(network={"mode": "filtered"})
    poor = agent.by(project.key("runner", limits={"max_sandboxes": 0}))
    good = agent.by(project.key("runner"))
    answers = at_once(12, lambda number: (good if number % 2 else poor).ask("POST", "/exec", {"cmd": "echo hi", "session": "s"}))
    assert {answer.status for answer in answers[1::2]} == {200}, [answer.body for answer in answers]
    assert {answer.status for answer in answers[0::2]} <= {200, 429}
    assert len(agent.sessions()["items"]) == 1


def test_deleting_a_project_deletes_its_agents(client):
    project = Project(client)
    agent = Agent(project.client)
    agent.add_version(never_expire=True)
    agent.exec("true", session="s")
    client.call("DELETE", project.path)
    assert not [box for box in client.sandboxes() if box.get("agent") == agent.name]
