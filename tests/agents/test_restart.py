# SPDX-License-Identifier: Apache-2.0
"""What was answered is there after kill -9: agents, versions, whose sandbox is whose, and what is in it. What was under way ends, and hangs nobody."""

import contextlib
import os
import shutil
import signal
import threading
import time

from people import Agent
from tools import database, engine_processes, wait_until
from vial import Sandbox


def restart(daemon):
    daemon.kill()
    daemon.start()
    return daemon.client()


def boxes(client, agent):
    return {box["id"]: box["status"] for box in client.sandboxes() if box.get("agent") == agent.name}


def test_sessions_go_on_after_a_kill_awake_and_asleep(start_daemon):
    daemon = start_daemon()
    agent = Agent(daemon.client(), "keeper")
    agent.add_version(never_expire=True)
    agent.add_version()
    places = {}
    for session, user in (("awake", "ann"), ("asleep", "ann"), ("awake", "bob")):
        places[session, user] = agent.run(f"x={session}-{user}", session=session, user=user)["session"]["sandbox_id"]
    agent.client.call("POST", f"/v1/sandboxes/{places['asleep', 'ann']}/hibernate")
    before = [(item["id"], item["user"], item["sandbox_id"], item["created_at"], item["state"]) for item in agent.sessions()["items"]]

    agent = agent.by(restart(daemon))

    assert agent.call("GET")["active_version"] == 1 and len(agent.call("GET", "/versions")) == 2
    assert [(item["id"], item["user"], item["sandbox_id"], item["created_at"], item["state"]) for item in agent.sessions()["items"]] == before
    for (session, user), box in places.items():
        answer = agent.run("echo $x", session=session, user=user)
        assert answer["stdout"].strip() == f"{session}-{user}"
        assert answer["session"]["sandbox_id"] == box and answer["session"]["fresh"] is False
    assert agent.client.call("DELETE", "/v1/users/ann")["sessions"] == 2


def test_never_expiring_sessions_outlive_the_machine_when_viald_was_stopped_for_good(start_daemon):
    """Before a machine goes down viald gets SIGINT; what is in /run does not come back."""
    daemon = start_daemon()
    agent = Agent(daemon.client(), "elephant")
    agent.add_version(never_expire=True)
    agent.add_version()
    box = agent.run("x=remembered", session="s")["session"]["sandbox_id"]
    agent.run("x=gone", session="t", version=2)
    daemon.stop()
    shutil.rmtree(daemon.folder / "run")
    daemon.start()
    agent = agent.by(daemon.client())
    answer = agent.run("echo $x", session="s")
    assert answer["stdout"].strip() == "remembered" and answer["session"]["sandbox_id"] == box and answer["session"]["fresh"] is False
    assert agent.run("echo $x", session="t", version=2)["session"]["fresh"] is True


def test_a_session_whose_guest_died_says_so_and_why(start_daemon):
    daemon = start_daemon()
    agent = Agent(daemon.client(), "mortal")
    agent.add_version()
    box = agent.exec("true", session="s")["session"]["sandbox_id"]
    for process in engine_processes(daemon, Sandbox(agent.client, {"id": box})):
        os.kill(process, signal.SIGKILL)
    wait_until(lambda: agent.call("GET", "/sessions/s")["state"] == "failed")
    answer = agent.exec("true", session="s")
    assert answer["session"]["fresh"] is True and answer["session"]["lost"]
    assert list(boxes(agent.client, agent)) == [answer["session"]["sandbox_id"]], "the dead one is gone"


def test_a_kill_while_sandboxes_are_made_leaves_none_that_no_session_knows(start_daemon):
    """Some are being booted, some are being filled with their files, some are done; whichever it is, the next call gets one that is whole."""
    daemon = start_daemon()
    agent = Agent(daemon.client(), "builder")
    agent.add_version(files=[{"path": f"/workspace/{number}", "content": "x" * 1000} for number in range(30)])
    for patience in (0.3, 1.2):
        for number in range(4):
            threading.Thread(target=quietly, args=(agent, f"s{patience}-{number}"), daemon=True).start()
        time.sleep(patience)
        agent = agent.by(restart(daemon))
        wait_until(lambda: set(boxes(agent.client, agent)) == {item["sandbox_id"] for item in agent.sessions(limit=1000)["items"]})
        for number in range(4):
            answer = agent.exec("ls /workspace | wc -l", session=f"s{patience}-{number}")
            assert answer["stdout"].strip() == "30", answer
        known = {item["sandbox_id"] for item in agent.sessions(limit=1000)["items"]}
        assert set(boxes(agent.client, agent)) == known and set(boxes(agent.client, agent).values()) == {"running"}
        for item in agent.sessions(limit=1000)["items"]:
            agent.client.call("DELETE", f"{agent.path}/sessions/{item['id']}")


def quietly(agent, session):
    try:
        agent.exec("true", session=session)
    except Exception:  # its viald was killed
        pass


def test_an_agent_whose_deletion_a_kill_interrupted_is_deleted_by_the_next_viald(start_daemon):
    daemon = start_daemon()
    agent = Agent(daemon.client(), "leaving")
    agent.add_version(never_expire=True)
    for number in range(6):
        agent.exec("true", session=f"s{number}")
    thread = threading.Thread(target=lambda: suppress(lambda: agent.ask("DELETE")), daemon=True)
    thread.start()
    wait_until(lambda: is_marked(daemon, "leaving"), interval=0.001)  # nobody finds it a moment before that is on the disk
    agent = agent.by(restart(daemon))
    wait_until(lambda: not boxes(agent.client, agent))
    assert agent.ask("GET").status == 404
    wait_until(lambda: agent.client.ask("POST", "/v1/agents", {"name": "leaving"}).status == 201)


def is_marked(daemon, name):
    with contextlib.closing(database(daemon)) as db:
        return db.execute("SELECT state FROM agents WHERE name = ?", (name,)).fetchone() != ("active",)


def suppress(act):
    try:
        act()
    except Exception:  # its viald was killed
        pass


def test_what_was_answered_about_versions_is_there_after_a_kill(start_daemon):
    daemon = start_daemon()
    agent = Agent(daemon.client(), "author", description="writes")
    for _ in range(3):
        agent.add_version(env={"A": "1"})
    agent.call("POST", "/versions/2/activate")
    agent.call("POST", "/versions/3/retire")
    before = agent.call("GET", "/versions"), agent.call("GET")
    agent = agent.by(restart(daemon))
    assert (agent.call("GET", "/versions"), agent.call("GET")) == before
    agent.client.call("DELETE", agent.path)
    agent = agent.by(restart(daemon))
    assert agent.ask("GET").status == 404
