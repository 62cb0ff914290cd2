# SPDX-License-Identifier: Apache-2.0
"""What happened in a session is one query of the record, and what was used is charged to the agent."""

from people import Agent
from tools import wait_until
from vial import Client


def records(client, **query):
    text = "&".join(f"{name}={value}" for name, value in query.items())
    return client.call("GET", f"/v1/audit?limit=1000&{text}")["items"]


def test_what_happened_in_a_session_is_one_query(client, agent):
    agent.run("echo one", session="told", user="ann")
    agent.exec("echo two", session="told", user="ann")
    agent.ask("PUT", agent.fs("/fs", "/workspace/three", session="told", user="ann"), b"x")
    agent.exec("echo elsewhere", session="other")
    agent.ask("DELETE", "/sessions/told?user=ann")
    found = wait_until(lambda: len(some := records(client, agent=agent.name, session="told")) >= 6 and some)
    assert [record["action"] for record in reversed(found)] == ["sandbox.create", "run", "exec", "file.write", "sandbox.delete", "session.end"]
    for record in found:
        assert (record["agent"], record["session"], record["user"]) == (agent.name, "told", "ann")
        assert record.get("version") == (None if record["action"] == "session.end" else 1), "a session is ended in all versions"
    assert len({record["sandbox"] for record in found if "sandbox" in record}) == 1


def test_the_record_stays_when_the_user_is_forgotten_and_says_that_he_was(client, agent):
    agent.exec("echo secret", session="s", user="ann")
    agent.call("DELETE", "/users/ann")
    found = wait_until(lambda: len(some := records(client, agent=agent.name)) >= 6 and some)
    assert [record["action"] for record in found[:2]] == ["user.forget", "sandbox.delete"] and found[0]["user"] == "ann" and found[0]["sessions"] == 1
    assert "exec" in [record["action"] for record in found]


def test_what_is_done_to_an_agent_is_on_record_without_what_may_be_secret(client, agent):
    agent.add_version(env={"TOKEN": "do-not-tell"}, files=[{"path": "/workspace/f", "content": "do-not-tell"}])
    agent.call("POST", "/versions/2/activate")
    agent.call("POST", "/versions/1/retire")
    found = wait_until(lambda: len(some := records(client, agent=agent.name)) >= 5 and some)
    assert [(record["action"], record.get("version")) for record in reversed(found)] == [
        ("agent.create", None), ("agent.version", 1), ("agent.version", 2), ("agent.activate", 2), ("agent.retire", 1)]
    assert "do-not-tell" not in str([client.call("GET", f"/v1/audit/{record['seq']}") for record in found])


def test_what_an_agent_uses_is_charged_to_it(project):
    agent = Agent(project.client)
    agent.add_version()
    agent.exec("true", session="s")
    agent.run("echo", session="s")
    rows = wait_until(lambda: [row for row in project.usage(group_by="agent") if row["agent"] == agent.name and row["runs"] >= 2])
    assert rows[0]["runs"] == 2


def test_a_refused_call_is_on_record_under_its_agent(client, agent, project):
    viewer = client.call("POST", "/v1/keys", {"name": "looker", "role": "viewer"})
    assert agent.by(Client(client.url, viewer["key"])).ask("POST", "/exec", {"cmd": "true"}).status == 403
    found = wait_until(lambda: [one for one in records(client, agent=agent.name, action="exec") if one["outcome"] == "refused"])
    assert found[0]["principal"]["id"] == viewer["id"]
