# SPDX-License-Identifier: Apache-2.0
"""A session's sandbox is made by its first call, is its own, and is the same until it ends."""

from urllib.parse import quote

from people import Agent
from tools import all_events, check_refusal, wait_until
from world import at_once


def place(answer):
    session = answer["session"]
    return session["sandbox_id"], session["version"], session["id"], session.get("user")


def test_the_first_call_makes_the_sandbox_and_later_ones_find_what_it_left(agent):
    first = agent.run("x=41", session="s1")
    second = agent.run("echo $((x + 1))", session="s1")
    assert first["session"]["fresh"] is True and second["session"]["fresh"] is False
    assert second["stdout"].strip() == "42"
    assert place(first) == place(second) and first["session"]["agent"] == agent.name


def test_two_versions_two_sessions_two_users_never_share_one(agent):
    agent.add_version()
    calls = [dict(session=session, user=user, version=version) for session in ("a", "b") for user in (None, "ann") for version in (1, 2)]
    boxes = [agent.exec(f"echo {number} > /workspace/mine", **call)["session"]["sandbox_id"] for number, call in enumerate(calls)]
    assert len(set(boxes)) == len(calls)
    for number, call in enumerate(calls):
        assert agent.exec("cat /workspace/mine", **call)["stdout"].strip() == str(number)


def test_what_one_user_had_does_not_become_anothers_by_a_merge_or_a_rollback(client, agent):
    box = {user: agent.exec(f"echo {user} > /workspace/mine", user=user)["session"]["sandbox_id"] for user in ("ann", "bob")}
    fork = client.call("POST", f"/v1/sandboxes/{box['ann']}/fork", {})["sandbox"]["id"]
    snapshot = client.call("POST", f"/v1/sandboxes/{box['ann']}/snapshots", {})["id"]
    assert "different users" in check_refusal(client.ask("POST", f"/v1/sandboxes/{box['bob']}/merge", {"winner": fork}), 409)
    assert "different users" in check_refusal(client.ask("POST", f"/v1/sandboxes/{box['bob']}/rollback", {"snapshot": snapshot}), 409)
    assert "session" in check_refusal(client.ask("POST", f"/v1/sandboxes/{fork}/merge", {"winner": box["ann"]}), 409)
    assert agent.exec("cat /workspace/mine", user="bob")["stdout"] == "bob\n"
    client.call("POST", f"/v1/sandboxes/{box['ann']}/rollback", {"snapshot": snapshot})
    client.call("POST", f"/v1/sandboxes/{box['ann']}/merge", {"winner": fork})
    again = agent.exec("cat /workspace/mine", user="ann")
    assert again["stdout"] == "ann\n" and again["session"]["sandbox_id"] == box["ann"] and again["session"]["fresh"] is False
    client.call("DELETE", f"/v1/snapshots/{snapshot}")


def test_a_call_that_names_no_session_is_in_the_one_called_default(agent):
    made = agent.exec("true")
    named = agent.exec("true", session="default")
    assert place(made) == place(named) and named["session"]["fresh"] is False


def test_sixty_four_first_calls_at_once_make_exactly_one(client, agent):
    answers = at_once(64, lambda number: agent.exec("echo hello", session="crowd"))
    assert {answer["stdout"].strip() for answer in answers} == {"hello"}
    assert len({answer["session"]["sandbox_id"] for answer in answers}) == 1
    assert len([box for box in client.sandboxes() if box.get("agent") == agent.name]) == 1


def test_a_session_whose_sandbox_is_gone_gets_a_new_one_and_says_so(client, agent):
    first = agent.exec("echo there > /workspace/f", session="s")
    client.call("DELETE", f"/v1/sandboxes/{first['session']['sandbox_id']}")
    second = agent.exec("cat /workspace/f", session="s")
    assert second["exit_code"] != 0 and second["session"]["fresh"] is True
    assert second["session"]["sandbox_id"] != first["session"]["sandbox_id"]


def test_an_idle_session_ends_and_one_that_never_expires_sleeps_and_wakes_with_its_state(client, agent):
    """The least idle time of a version is minutes; a sandbox can be told a shorter one."""
    agent.add_version(never_expire=True)
    ending, sleeping = agent.run("x=1", session="s", version=1), agent.run("x=1", session="s", version=2)
    for answer in (ending, sleeping):
        client.call("PATCH", f"/v1/sandboxes/{answer['session']['sandbox_id']}/lifecycle", {"idle_seconds": 1})
    wait_until(lambda: [(item["version"], item["state"]) for item in agent.sessions()["items"]] == [(2, "hibernated")])
    again = agent.run("echo $x", session="s", version=2)
    assert again["stdout"].strip() == "1" and again["session"] == sleeping["session"] | {"fresh": False}
    anew = agent.run("echo $x", session="s", version=1)
    assert anew["stdout"].strip() == "" and anew["session"]["fresh"] is True


def test_what_a_session_s_answer_says_is_in_the_header_and_the_stream_too(client, agent):
    answer = agent.ask("POST", "/exec", {"cmd": "true", "session": "s", "user": "ü"})
    assert '"id":"s"' in answer.headers["X-Vial-Session"] and "\\u00fc" in answer.headers["X-Vial-Session"].lower()
    events = all_events(client, "POST", agent.path + "/exec/stream", {"cmd": "echo out", "session": "s", "user": "ü"})
    assert events[0] == ("session", answer.json()["session"] | {"fresh": False})
    assert events[-1][0] == "exit" and events[-1][1]["session"]["id"] == "s"
    events = all_events(client, "POST", agent.path + "/run/stream", {"code": "echo out", "language": "bash", "session": "s", "user": "ü"})
    assert events[0][0] == "session" and events[-1][0] == "end" and events[-1][1]["session"]["user"] == "ü"


def test_files_go_into_the_session_and_come_out_of_it(agent):
    where = dict(session="s", user="ann")
    assert agent.ask("PUT", agent.fs("/fs", "/workspace/a", **where), b"content").status == 200
    assert agent.exec("cat /workspace/a", **where)["stdout"] == "content"
    assert agent.ask("GET", agent.fs("/fs", "/workspace/a", **where)).body == b"content"
    assert agent.ask("GET", agent.fs("/fs", "/workspace/a", session="other")).status == 404
    assert [entry["name"] for entry in agent.call("GET", agent.fs("/fs/dir", "/workspace", **where))["entries"]] == ["a"]
    assert agent.call("GET", agent.fs("/fs/stat", "/workspace/a", **where))["size"] == 7
    assert agent.ask("POST", "/fs/mkdir?session=s&user=ann", {"path": "/workspace/d"}).status == 204
    assert agent.ask("POST", "/fs/move?session=s&user=ann", {"path": "/workspace/a", "to": "/workspace/d/a"}).status == 204
    assert agent.exec("cat /workspace/d/a", **where)["stdout"] == "content"
    assert agent.ask("DELETE", agent.fs("/fs", "/workspace/d", **where)).status == 204
    assert agent.exec("ls /workspace", **where)["stdout"] == ""


def test_user_is_whom_a_call_is_for_and_run_as_who_runs_it_inside(agent):
    assert agent.exec("id -un", user="root")["stdout"].strip() == agent.exec("id -un", user="somebody")["stdout"].strip()
    assert agent.exec("id -un", run_as="root")["stdout"].strip() == "root"


def test_the_languages_of_a_version_are_all_that_it_runs(agent):
    agent.add_version(languages=["bash"], activate=True)
    assert agent.run("echo $BASH_VERSION", language=None)["stdout"].strip(), "the first of them is meant when none is named"
    assert "bash" in check_refusal(agent.ask("POST", "/run", {"code": "1", "language": "python"}), 400)


def test_sessions_are_listed_newest_first_in_pages_and_by_what_they_are(client, agent):
    agent.add_version()
    for number in range(5):
        agent.exec("true", session=f"s{number}", user="ann" if number % 2 else None, version=1 + number // 3)
    listed = agent.sessions()
    assert [item["id"] for item in listed["items"]] == ["s4", "s3", "s2", "s1", "s0"] and listed["next"] is None
    assert {item["state"] for item in listed["items"]} == {"running"} and all(item["last_call_at"] for item in listed["items"])
    pages, cursor = [], None
    while True:
        page = agent.sessions(limit=2, **({"cursor": cursor} if cursor else {}))
        pages += [item["id"] for item in page["items"]]
        cursor = page["next"]
        if not cursor:
            break
    assert pages == ["s4", "s3", "s2", "s1", "s0"]
    assert [item["id"] for item in agent.sessions(user="ann")["items"]] == ["s3", "s1"]
    assert [item["id"] for item in agent.sessions(version=2)["items"]] == ["s4", "s3"]
    box = agent.sessions(version=2)["items"][0]["sandbox_id"]
    client.call("POST", f"/v1/sandboxes/{box}/hibernate")
    assert [item["id"] for item in agent.sessions(state="hibernated")["items"]] == ["s4"]
    assert len(agent.sessions(state="running")["items"]) == 4


def test_a_page_goes_on_where_it_was_although_its_last_one_has_ended(agent):
    for number in range(4):
        agent.exec("true", session=f"s{number}")
    page = agent.sessions(limit=2)
    assert agent.ask("DELETE", "/sessions/s2").status == 204
    assert [item["id"] for item in agent.sessions(limit=2, cursor=page["next"])["items"]] == ["s1", "s0"]


def test_one_session_is_shown_and_ended(client, agent):
    box = agent.exec("true", session="s", user="ann")["session"]["sandbox_id"]
    assert agent.call("GET", "/sessions/s?user=ann")["sandbox_id"] == box
    check_refusal(agent.ask("GET", "/sessions/s"), 404)
    check_refusal(agent.ask("DELETE", "/sessions/s"), 404)
    assert agent.ask("DELETE", "/sessions/s?user=ann").status == 204
    check_refusal(agent.ask("GET", "/sessions/s?user=ann"), 404)
    check_refusal(client.ask("GET", f"/v1/sandboxes/{box}"), 404)
    assert agent.exec("true", session="s", user="ann")["session"]["fresh"] is True


def test_names_may_be_what_people_call_things(agent):
    for session, user in (("2024-05-01 10:00", "ann@example.org"), ("größe/ü", "auth0|123"), ("a%2Fb", "x y")):
        assert agent.exec("true", session=session, user=user)["session"]["fresh"] is True
        assert agent.call("GET", f"/sessions/{quote(session, safe='')}?user={quote(user, safe='')}")["id"] == session
        assert agent.ask("DELETE", f"/sessions/{quote(session, safe='')}?user={quote(user, safe='')}").status == 204
    for bad in ("", "a\nb", "..", "x" * 129, 5):
        assert "session" in check_refusal(agent.ask("POST", "/exec", {"cmd": "true", "session": bad}), 400)


def test_everything_of_a_user_is_forgotten_at_once_and_nothing_of_others(client, agent):
    other = Agent(client)
    other.add_version()
    kept = [agent.exec("true", session="s", user="bob"), agent.exec("true", session="s")]
    for number in range(3):
        agent.exec("true", session=f"s{number}", user="ann")
    other.exec("true", user="ann")
    assert agent.call("DELETE", "/users/ann")["sessions"] == 3
    assert agent.sessions(user="ann")["items"] == [] and len(other.sessions(user="ann")["items"]) == 1
    assert client.call("DELETE", "/v1/users/ann")["sessions"] == 1
    assert other.sessions()["items"] == []
    assert {item["sandbox_id"] for item in agent.sessions()["items"]} == {answer["session"]["sandbox_id"] for answer in kept}
    assert client.call("DELETE", "/v1/users/ann")["sessions"] == 0
    client.call("DELETE", other.path)


def test_forks_and_snapshots_of_a_user_s_sandbox_are_forgotten_with_him(client, agent):
    box = agent.exec("echo private > /workspace/f", user="ann")["session"]["sandbox_id"]
    kept = agent.exec("true", user="bob")["session"]["sandbox_id"]
    fork = client.call("POST", f"/v1/sandboxes/{box}/fork", {})["sandbox"]["id"]
    snapshot = client.call("POST", f"/v1/sandboxes/{fork}/snapshots", {})["id"]
    copy = client.call("POST", "/v1/sandboxes", {"from_snapshot": snapshot})["id"]
    assert agent.call("DELETE", "/users/ann") == {"sessions": 1, "sandboxes": 1, "snapshots": 1}
    check_refusal(client.ask("GET", f"/v1/snapshots/{snapshot}"), 404)
    assert client.call("DELETE", "/v1/users/ann") == {"sessions": 0, "sandboxes": 1, "snapshots": 0}
    assert not {box, fork, copy} & {one["id"] for one in client.sandboxes()} and kept in {one["id"] for one in client.sandboxes()}


def test_what_was_said_of_a_version_is_what_its_sandboxes_are(client, agent):
    agent.add_version(activate=True, memory_mb=640, cpu=1.5, env={"NAME": "value"}, metadata={"team": "a"}, network={"mode": "filtered"}, idle_seconds=1200,
                      files=[{"path": "/workspace/one", "content": "text"}, {"path": "/workspace/two", "content_base64": "AAEC", "mode": "600"}])
    answer = agent.exec("echo $NAME; cat /workspace/one; od -An -tx1 /workspace/two; stat -c %a /workspace/two", session="s")
    assert answer["stdout"] == "value\ntext 00 01 02\n600\n"
    info = client.call("GET", f"/v1/sandboxes/{answer['session']['sandbox_id']}")
    assert (info["memory_mb"], info["cpu"], info["metadata"], info["network"]["mode"]) == (640, 1.5, {"team": "a"}, "filtered")
    assert (info["idle_seconds"], info["on_idle"], info["persistent"]) == (1200, "delete", False)
    assert (info["agent"], info["version"], info["session"]) == (agent.name, 2, "s")
    agent.add_version(activate=True, never_expire=True)
    info = client.call("GET", f"/v1/sandboxes/{agent.exec('true')['session']['sandbox_id']}")
    assert (info["idle_seconds"], info["on_idle"], info["persistent"], info["ttl_seconds"]) == (600, "hibernate", True, 0)
