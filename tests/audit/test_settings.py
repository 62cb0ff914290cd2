# SPDX-License-Identifier: Apache-2.0
"""Without a record, with one that waits for the disk, and with what older versions kept."""

import json
import sqlite3
import threading

from record import found, prove, verdict, work
from tools import check_refusal, wait_until

OLD = """
CREATE TABLE migrations (number INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at TEXT NOT NULL) STRICT;
CREATE TABLE keys (id TEXT PRIMARY KEY, project TEXT NOT NULL, role TEXT NOT NULL, label TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, source TEXT NOT NULL,
 created_at INTEGER NOT NULL) STRICT;
CREATE TABLE sandboxes (id TEXT PRIMARY KEY, project TEXT NOT NULL, key_id TEXT NOT NULL, template_name TEXT NOT NULL, engine TEXT NOT NULL,
 status TEXT NOT NULL, document TEXT NOT NULL, created_at INTEGER NOT NULL, updated_at INTEGER NOT NULL, expires_at INTEGER NOT NULL) STRICT;
CREATE TABLE calls (id TEXT PRIMARY KEY, sandbox_id TEXT NOT NULL, kind TEXT NOT NULL, status TEXT NOT NULL, detail TEXT NOT NULL,
 started_at INTEGER NOT NULL, ended_at INTEGER NOT NULL, outcome TEXT NOT NULL DEFAULT '') STRICT;
CREATE INDEX calls_by_sandbox ON calls (sandbox_id, started_at);
CREATE INDEX calls_by_time ON calls (started_at);
CREATE TABLE snapshots (id TEXT PRIMARY KEY, project TEXT NOT NULL, sandbox_id TEXT NOT NULL, template_name TEXT NOT NULL, name TEXT NOT NULL,
 document TEXT NOT NULL, size_bytes INTEGER NOT NULL, created_at INTEGER NOT NULL) STRICT;
INSERT INTO migrations VALUES (1, 'keys, sandboxes, calls, snapshots', '2026-01-01T00:00:00.000Z'), (2, 'outcomes of calls', '2026-01-01T00:00:00.000Z');
"""


def make_old_data(data, count):
    """As version 2 of the database left it: the last call was running."""
    data.mkdir(mode=0o700)
    db = sqlite3.connect(data / "db.sqlite")
    db.executescript(OLD)
    for number in range(count):
        is_last = number == count - 1
        db.execute("INSERT INTO calls VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                   (f"{number:020}", "s" * 20, "run", "running" if is_last else "done", json.dumps({"code": f"print({number})"}), 1_700_000_000_000 + number * 1000,
                    0 if is_last else 1_700_000_000_500 + number * 1000, "" if is_last else json.dumps({"exit_code": 0, "duration_ms": 500})))
    db.commit()
    db.close()


def test_what_older_versions_kept_of_calls_becomes_the_beginning_of_the_chain(bare, place):
    make_old_data(place / "data", 50)
    daemon = bare()
    records = found(daemon.client(), limit=1000)
    assert len(records) == 50 and all(record["imported"] and record["action"] == "run" and record["sandbox"] == "s" * 20 for record in records)
    first, last = records[0], records[-1]
    assert (first["outcome"], first["exit_code"], first["duration_ms"], first["body"]["code"]) == ("done", 0, 500, "print(0)")
    assert first["began"] == "2023-11-14T22:13:20.000Z" and last["outcome"] == "interrupted" and last["body"]["code"] == "print(49)"
    assert prove(daemon.client()) == 50 and [record["seq"] for record in found(daemon.client(), text="print 7")] == [8]
    db = sqlite3.connect(f"file:{daemon.data}/db.sqlite?mode=ro", uri=True)
    assert db.execute("SELECT count(*) FROM calls").fetchone() == (0,)
    db.close()
    daemon.kill()
    daemon.start()
    assert len(found(daemon.client(), limit=1000)) == 51  # and the export that proved it


def test_a_crash_between_the_import_and_its_end_imports_nothing_twice(bare, place):
    make_old_data(place / "data", 20)
    daemon = bare()
    work(daemon.client(), 1)
    daemon.kill()
    db = sqlite3.connect(place / "data/db.sqlite")  # as if viald had died before it could forget them
    db.execute("INSERT INTO calls VALUES ('again', 's', 'run', 'done', '{}', 1, 2, '')")
    db.commit()
    db.close()
    daemon.start()
    assert [record["action"] for record in found(daemon.client(), limit=1000)] == ["run"] * 20 + ["key.create"]


def test_without_an_audit_everything_else_works(bare):
    daemon = bare("--audit", "false")
    client = daemon.client()
    key = work(client, 3)[0]
    client.call("DELETE", f"/v1/keys/{key}")
    for method, path in (("GET", "/v1/audit"), ("GET", "/v1/audit/1"), ("GET", "/v1/audit/heads"), ("POST", "/v1/audit/verify"), ("GET", "/v1/audit/export"),
                         ("GET", "/v1/projects/default/usage")):
        assert "setting `audit` is off" in check_refusal(client.ask(method, path), 503)
    assert client.ask("GET", "/metrics").status == 200
    assert not (daemon.data / "audit.sqlite").exists() and not list(daemon.data.glob("audit/*.spool"))
    daemon.stop()
    daemon = bare()
    work(daemon.client(), 2)
    assert prove(daemon.client()) == 2
    daemon.stop()
    daemon = bare("--audit", "false")  # for a while
    work(daemon.client(), 2)
    daemon.stop()
    daemon = bare()
    work(daemon.client(), 1)
    assert prove(daemon.client()) == 4  # two, an export, one


def test_with_audit_sync_an_answer_waits_for_the_disk(bare, place):
    faults = place / "faults"
    daemon = bare("--audit-sync", "true", env={"VIAL_FAULTS": str(faults)})
    client = daemon.client()
    work(client, 20)
    faults.write_text("audit.sync\n")
    assert "withheld" in check_refusal(client.ask("POST", "/v1/keys", {"name": "unflushed", "role": "viewer"}), 503)
    # Whoever tells of nothing new waits for nothing, and is answered.
    assert client.ask("GET", "/v1/projects").status == 200
    faults.unlink()
    wait_until(lambda: client.ask("POST", "/v1/keys", {"name": "flushed", "role": "viewer"}).status == 201)
    names = [record["body"]["name"] for record in found(client, action="key.create")]
    assert names[:20] == [f"key-{number}" for number in range(20)] and "unflushed" in names and names[-1] == "flushed"
    prove(client)


def test_with_audit_sync_many_at_a_time_share_a_flush(bare):
    daemon = bare("--audit-sync", "true")
    threads = [threading.Thread(target=work, args=(daemon.client(), 10, f"thread-{number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found(daemon.client(), action="key.create", limit=1000)) == 80
    prove(daemon.client())


def test_a_database_of_a_newer_version_is_left_alone(bare):
    daemon = bare()
    work(daemon.client(), 1)
    daemon.stop()
    db = sqlite3.connect(daemon.data / "audit.sqlite")
    db.execute("PRAGMA user_version = 99")
    db.close()
    try:
        bare()
        raise SystemError("it started")
    except AssertionError as error:
        assert "newer Vial" in str(error)
    db = sqlite3.connect(daemon.data / "audit.sqlite")
    db.execute("PRAGMA user_version = 1")
    db.close()
    daemon = bare()
    assert verdict(daemon.client())["ok"]
