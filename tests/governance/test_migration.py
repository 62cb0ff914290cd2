# SPDX-License-Identifier: Apache-2.0
"""A data directory of the version before there were projects: nothing in it is lost, and who ruled it rules it still.

It is made by this viald and put back into the form it had then. With the programs of that version in VIAL_TEST_OLD_BUILD it is made by those, and is the real thing.
"""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tools import check_refusal, database, records, wait_until
from vial import Client, Daemon, build_dir, slow

OLD_BUILD = os.environ.get("VIAL_TEST_OLD_BUILD")
USER_KEY, OTHER_KEY = "vial_" + "b" * 40, "vial_" + "c" * 40
OLD_COLUMNS = "id, project, role, label, hash, source, created_at"
# As the database was: two migrations, no projects, roles named admin and user.
BACK = f"""
CREATE TABLE old_keys (id TEXT PRIMARY KEY, project TEXT NOT NULL, role TEXT NOT NULL, label TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, source TEXT NOT NULL,
 created_at INTEGER NOT NULL) STRICT;
INSERT INTO old_keys SELECT {OLD_COLUMNS} FROM keys;
DROP TABLE keys;
ALTER TABLE old_keys RENAME TO keys;
UPDATE keys SET role = 'admin' WHERE source = 'file';
DROP TABLE projects;
DROP TABLE key_uses;
DROP TABLE creations;
DROP TABLE agents;
DROP TABLE agent_versions;
DROP TABLE templates;
DROP TABLE builds;
DELETE FROM migrations WHERE number > 2;
"""
CALLS = """
INSERT INTO calls (id, sandbox_id, kind, status, detail, started_at, ended_at, outcome) VALUES
 ('call1', '{sandbox}', 'run', 'done', '{{"code": "print(40 + 2)"}}', 1700000000000, 1700000001000, '{{"exit_code": 0}}'),
 ('call2', '{sandbox}', 'exec', 'running', '{{"cmd": "sleep 5"}}', 1700000002000, 0, '');
"""


def stop(daemon):
    """As for an upgrade: the sandboxes go on."""
    daemon.process.terminate()
    daemon.process.wait(slow(30))
    daemon.log.close()


@pytest.fixture(scope="module")
def old():
    """(the daemon, started anew as today's, what was there before)"""
    folder = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    daemon = Daemon(folder, programs=Path(OLD_BUILD)) if OLD_BUILD else Daemon(folder)
    client = daemon.client()
    awake, asleep = client.create(persistent=True, metadata={"a": "b"}), client.create(persistent=True)
    for sandbox, text in ((awake, "awake"), (asleep, "asleep")):
        sandbox.exec(f"echo {text} > /workspace/note")
    asleep.spawn("sleep 100000")
    snapshot = awake.call("POST", "/snapshots", {"name": "kept"})
    asleep.call("POST", "/hibernate")
    stop(daemon)
    there = {"key": daemon.key, "awake": awake, "asleep": asleep, "snapshot": snapshot}
    with database(daemon, "rw") as db:
        if not OLD_BUILD:
            db.executescript(BACK)
            db.executescript(CALLS.format(sandbox=awake.id))
        assert db.execute("SELECT max(number) FROM migrations").fetchone() == (2,)
        assert not db.execute("SELECT name FROM sqlite_master WHERE name = 'projects'").fetchall()
        there["calls"] = db.execute("SELECT count(*) FROM calls").fetchone()[0]
        there["admin"], = db.execute("SELECT id FROM keys WHERE source = 'file'").fetchone()
        for id, project, role, key in (("k" * 20, "default", "user", USER_KEY), ("l" * 20, "team", "admin", OTHER_KEY)):
            db.execute(f"INSERT INTO keys ({OLD_COLUMNS}) VALUES (?, ?, ?, 'old', ?, 'api', 1)", (id, project, role, hashlib.sha256(key.encode()).hexdigest()))
    db.close()
    if not OLD_BUILD:
        shutil.rmtree(daemon.data / "audit", ignore_errors=True)
    daemon.programs = build_dir()
    daemon.start()
    for sandbox in (awake, asleep):
        sandbox.client = daemon.client()
    yield daemon, there
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


def test_the_admin_s_key_is_the_operator_s_of_the_default_project(old):
    daemon, there = old
    me = daemon.client(there["key"]).call("GET", "/v1/me")
    assert (me["role"], me["project"], me["key_id"]) == ("operator", "default", there["admin"]) and daemon.key == there["key"]


def test_other_keys_keep_what_they_could_do(old):
    daemon, there = old
    user, other = Client(daemon.url, USER_KEY), Client(daemon.url, OTHER_KEY)
    assert (user.call("GET", "/v1/me")["role"], user.call("GET", "/v1/me")["project"]) == ("developer", "default")
    assert (other.call("GET", "/v1/me")["role"], other.call("GET", "/v1/me")["project"]) == ("admin", "team")
    assert {one["name"] for one in daemon.client().call("GET", "/v1/projects")} == {"default", "team"}
    assert user.call("GET", there["awake"].path)["id"] == there["awake"].id
    check_refusal(other.ask("GET", there["awake"].path), 404)
    made = other.call("POST", "/v1/keys", {"role": "runner"})
    assert made["project"] == "team"


def test_what_ran_runs_on_and_what_slept_wakes(old):
    daemon, there = old
    awake, asleep = there["awake"], there["asleep"]
    assert awake.refresh()["status"] == "running" and awake.info["metadata"] == {"a": "b"} and awake.exec("cat /workspace/note")["stdout"] == "awake\n"
    assert asleep.refresh()["status"] == "hibernated"
    assert asleep.exec("cat /workspace/note; pgrep -x sleep | wc -l")["stdout"] == "asleep\n1\n"


def test_snapshots_are_there_and_can_be_used(old):
    daemon, there = old
    snapshot, = daemon.client().call("GET", "/v1/snapshots")
    assert (snapshot["id"], snapshot["name"], snapshot["size_bytes"]) == (there["snapshot"]["id"], "kept", there["snapshot"]["size_bytes"])
    copy = daemon.client().create(from_snapshot="kept")
    assert copy.exec("cat /workspace/note")["stdout"] == "awake\n"
    copy.delete()
    used = daemon.client().call("GET", "/v1/projects/default/quotas")["used"]
    assert used["snapshot_bytes"] == snapshot["size_bytes"] and used["sandboxes"] == 2


def test_the_calls_of_old_are_on_record(old):
    daemon, there = old
    assert there["calls"] >= 2
    known = wait_until(lambda: [record for record in records(daemon.client(), sandbox=there["awake"].id) + records(daemon.client(), sandbox=there["asleep"].id)
                                if record["action"] in ("run", "exec")][: there["calls"]])
    assert len(known) >= there["calls"]
    assert daemon.client().call("POST", "/v1/audit/verify", {})["ok"] is True


def test_a_second_start_changes_nothing(old):
    daemon, there = old
    client = daemon.client()
    before = [client.call("GET", path) for path in ("/v1/projects", "/v1/snapshots")], {key["id"]: key["role"] for key in client.call("GET", "/v1/keys?project=*")}
    stop(daemon)
    daemon.start()
    client = daemon.client()
    after = [client.call("GET", path) for path in ("/v1/projects", "/v1/snapshots")], {key["id"]: key["role"] for key in client.call("GET", "/v1/keys?project=*")}
    assert before == after
    there["awake"].client = client
    assert there["awake"].exec("echo x")["stdout"] == "x\n"
