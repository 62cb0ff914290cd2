# SPDX-License-Identifier: Apache-2.0
"""A version that could not be stored never was: its number is free again, what was active is active, and the next viald starts. And a version that the
database has lost all the same costs its own agent its calls, and nobody else anything."""

import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

from people import Agent
from tools import check_refusal, database, wait_until
from vial import Daemon, slow
from world import at_once


@contextlib.contextmanager
def refusing(daemon, table, how="FAIL", when=""):
    """Its rows cannot be written meanwhile; ROLLBACK: the whole transaction is lost, as SQLite does it when the disk is full."""
    change(daemon, f"CREATE TRIGGER refuses BEFORE INSERT ON {table} {when} BEGIN SELECT RAISE({how}, 'injected'); END")
    try:
        yield
    finally:
        change(daemon, "DROP TRIGGER refuses")


def change(daemon, *statements):
    with contextlib.closing(database(daemon, "rw")) as db:
        for statement in statements:
            db.execute(statement)
        db.commit()


def versions(agent):
    return {version["version"]: version["state"] for version in agent.call("GET", "/versions")}


def restart(daemon, agent):
    daemon.kill()
    daemon.start()
    return agent.by(daemon.client())


@pytest.fixture
def agent(daemon):
    return Agent(daemon.client())  # which another test has restarted


@pytest.mark.parametrize("table", ["agent_versions", "agents"])
@pytest.mark.parametrize("how", ["FAIL", "ROLLBACK"])
def test_a_first_version_that_cannot_be_stored_is_refused_and_the_next_one_is_the_first(daemon, agent, table, how):
    with refusing(daemon, table, how):
        check_refusal(agent.ask("POST", "/versions", {"template": "minimal"}), 500, 507)
        assert versions(agent) == {} and agent.call("GET")["active_version"] is None
        check_refusal(agent.ask("POST", "/exec", {"cmd": "true"}), 409)
    agent = restart(daemon, agent)
    assert versions(agent) == {} and agent.call("GET")["active_version"] is None
    assert agent.add_version() == 1 and agent.add_version() == 2
    agent = restart(daemon, agent)
    assert versions(agent) == {1: "active", 2: "ready"}


def test_a_later_version_that_cannot_be_stored_leaves_the_others_and_the_active_one(daemon, agent):
    agent.add_version()
    for body in ({"activate": True}, {}):
        with refusing(daemon, "agent_versions"):
            check_refusal(agent.ask("POST", "/versions", {"template": "minimal", **body}), 500)
        assert versions(agent) == {1: "active"}
    assert agent.exec("true")["session"]["version"] == 1
    assert agent.add_version(activate=True) == 2
    agent = restart(daemon, agent)
    assert versions(agent) == {2: "active", 1: "ready"}


def test_of_versions_made_at_once_none_is_stored_behind_one_that_cannot_be(daemon, agent):
    """Whichever comes third fails: as only one row can, of a disk that is nearly full."""
    with refusing(daemon, "agent_versions", when="WHEN NEW.number = 3"):
        answers = at_once(12, lambda number: agent.ask("POST", "/versions", {"template": "minimal", "activate": number % 2 == 0}))
    made = sorted(answer.json()["version"] for answer in answers if answer.status == 201)
    assert made == [1, 2] and all(check_refusal(answer, 500) for answer in answers if answer.status != 201)
    shown = versions(agent)
    assert sorted(shown) == made
    agent = restart(daemon, agent)
    assert versions(agent) == shown and agent.add_version() == 3


def test_an_activation_that_cannot_be_stored_did_not_happen(daemon, agent):
    agent.add_version()
    agent.add_version()
    with refusing(daemon, "agents"):
        check_refusal(agent.ask("POST", "/versions/2/activate"), 500)
        assert versions(agent) == {1: "active", 2: "ready"}
    assert agent.call("POST", "/versions/2/activate")["state"] == "active"
    agent = restart(daemon, agent)
    assert versions(agent) == {2: "active", 1: "ready"}


def test_an_agent_that_is_deleted_while_versions_are_made_leaves_no_row(daemon):
    for _ in range(5):
        agent = Agent(daemon.client())
        at_once(8, lambda number: agent.ask("DELETE") if number == 3 else agent.ask("POST", "/versions", {"template": "minimal"}))
        with contextlib.closing(database(daemon)) as db:
            wait_until(lambda: not db.execute("SELECT 1 FROM agent_versions v WHERE NOT EXISTS (SELECT 1 FROM agents a WHERE a.id = v.agent_id)").fetchall())
        assert agent.ask("GET").status == 404


def test_a_version_for_which_the_disk_is_too_full_is_no_obstacle_to_the_next_start():
    """Its agent's own, small record would find room."""
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    small, daemon = folder / "data", None
    small.mkdir()
    os.system(f"mount -t tmpfs -o size=200m tmpfs {small}")
    try:
        daemon = Daemon(folder)
        agent = Agent(daemon.client())
        large = {"template": "minimal", "files": [{"path": "/workspace/large", "content": "z" * (8 << 20)}]}
        wait_until(lambda: daemon.log_text().count("Vial is ready"))
        (small / "filler").write_bytes(b"z" * (os.statvfs(small).f_bavail * os.statvfs(small).f_frsize - (4 << 20)))
        check_refusal(agent.ask("POST", "/versions", large), 500, 507)
        assert versions(agent) == {}
        agent = restart(daemon, agent)
        assert versions(agent) == {} and agent.add_version() == 1
        (small / "filler").unlink()
        assert agent.call("POST", "/versions", large)["version"] == 2
        agent = restart(daemon, agent)
        assert versions(agent) == {1: "active", 2: "ready"}
    finally:
        if daemon and daemon.process.poll() is None:
            daemon.process.send_signal(signal.SIGINT)
            daemon.process.wait(slow(30))
        os.system(f"umount {small}")
        shutil.rmtree(folder, ignore_errors=True)


LOST = {"its version 1": "DELETE FROM agent_versions WHERE number = 1", "its active version": "UPDATE agents SET active = 9",
        "no number": "UPDATE agent_versions SET number = 77777777777 WHERE number = 1"}


@pytest.mark.parametrize("lost", LOST)
def test_an_agent_that_has_lost_a_version_is_not_called_others_are_and_nothing_of_it_is_ended(start_daemon, lost):
    daemon = start_daemon()
    agent, other = Agent(daemon.client(), "unlucky"), Agent(daemon.client(), "other")
    for one in (agent, other):
        one.add_version()
        one.add_version()
    box = agent.exec("echo kept > /workspace/f", session="s")["session"]["sandbox_id"]
    which = f" {'AND' if 'WHERE' in LOST[lost] else 'WHERE'} {'agent_id' if 'versions' in LOST[lost] else 'id'} = (SELECT id FROM agents WHERE name = 'unlucky')"
    with contextlib.closing(database(daemon)) as db:
        before = db.execute("SELECT active FROM agents").fetchall(), db.execute("SELECT * FROM agent_versions ORDER BY id").fetchall()
    daemon.kill()
    change(daemon, LOST[lost] + which)
    daemon.start()
    agent, other = agent.by(daemon.client()), other.by(daemon.client())

    assert other.exec("true")["exit_code"] == 0
    for method, path, body in (("POST", "/exec", {"cmd": "true"}), ("POST", "/run", {"code": "1", "version": 2}), ("POST", "/versions", {"template": "minimal"}),
                               ("POST", "/versions/2/activate", None), ("GET", "", None), ("GET", "/versions", None)):
        assert "has lost its" in check_refusal(agent.ask(method, path, body), 409)
    assert {one["name"] for one in agent.client.call("GET", "/v1/agents")} >= {"unlucky", "other"}
    assert [item["sandbox_id"] for item in agent.sessions()["items"]] == [box]
    assert agent.client.call("GET", f"/v1/sandboxes/{box}")["status"] == "running"
    if lost == "its active version":  # repaired
        daemon.kill()
        change(daemon, "UPDATE agents SET active = 1")
        daemon.start()
        agent = agent.by(daemon.client())
        assert agent.exec("cat /workspace/f", session="s")["stdout"] == "kept\n"
        with contextlib.closing(database(daemon)) as db:
            assert (db.execute("SELECT active FROM agents").fetchall(), db.execute("SELECT * FROM agent_versions ORDER BY id").fetchall()) == before
    assert agent.client.ask("DELETE", agent.path).status == 204
    assert Agent(agent.client, "unlucky").add_version() == 1
    agent = restart(daemon, agent)
    assert versions(agent) == {1: "active"} and agent.client.ask("GET", f"/v1/sandboxes/{box}").status == 404
