# SPDX-License-Identifier: Apache-2.0
"""A database that cannot be read costs nothing but the start: no guest, no image, no snapshot; repaired, everything is there again."""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
from pathlib import Path

import pytest

from test_states import run, value, wait_for
from tools import engine_processes
from vial import Daemon, Sandbox, build_dir, images_dir, slow


class Estate:
    """A viald with one sandbox that runs, one that sleeps and a snapshot, stopped as for an upgrade: all of it waits for the next one."""

    def __init__(self):
        self.daemon = Daemon(Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")), "--pool-size", "1")
        client = self.daemon.client()
        self.running, self.asleep = client.create(ttl_seconds=0), client.create(ttl_seconds=0)
        for sandbox in (self.running, self.asleep):
            run(sandbox, "x = 'state'")
        self.snapshot = self.running.call("POST", "/snapshots", {"name": "kept"})["id"]
        self.asleep.call("POST", "/hibernate")
        self.guests = engine_processes(self.daemon, self.running)
        assert self.guests
        self.down()
        self.database = self.daemon.data / "db.sqlite"
        self.good = self.database.read_bytes()

    def down(self):
        self.daemon.process.send_signal(signal.SIGTERM)
        assert self.daemon.process.wait(slow(60)) == 0

    def sql(self, statement, *values):
        with sqlite3.connect(self.database) as db:
            result = db.execute(statement, values).fetchall()
        db.close()
        return result

    def repair(self):
        for suffix in ("-wal", "-shm"):
            Path(f"{self.database}{suffix}").unlink(missing_ok=True)
        self.database.write_bytes(self.good)

    def is_untouched(self):
        assert all(Path(f"/proc/{pid}").exists() for pid in self.guests), "the guest was killed"
        assert (self.daemon.data / "hibernated" / self.asleep.id / "manifest.json").exists(), "the image was deleted"
        assert (self.daemon.data / "snapshots" / self.snapshot / "manifest.json").exists(), "the snapshot was deleted"
        return True

    def refuses_to_start(self):
        done = subprocess.run([build_dir() / "viald", "--config", "/dev/null", "--data-dir", self.daemon.data, "--run-dir", self.daemon.folder / "run",
                               "--images-dir", images_dir(), "--listen", "127.0.0.1:0"], capture_output=True, text=True, timeout=slow(60))
        assert done.returncode == 1, done
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1 and lines[0].startswith("viald: ") and "db.sqlite" in lines[0], done.stderr
        return lines[0]

    def everything_is_there(self):
        """With the database as it was; and down again for the next one."""
        if self.daemon.process.poll() is None:
            self.down()
        self.repair()
        self.daemon.start()
        client = self.daemon.client()
        for sandbox in (self.running, self.asleep):
            assert value(Sandbox(client, sandbox.info), "x") == "'state'"
        twin = client.create(from_snapshot="kept")
        assert value(twin, "x") == "'state'"
        twin.delete()
        client.call("POST", f"{self.asleep.path}/hibernate")
        assert engine_processes(self.daemon, self.running) == self.guests, "it is another guest"
        self.down()
        self.good = self.database.read_bytes()

    def remove(self):
        if self.daemon.process.poll() is not None:
            self.daemon.start()
        self.daemon.stop()
        shutil.rmtree(self.daemon.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def shared():
    estate = Estate()
    yield estate
    estate.remove()


@pytest.fixture
def estate(shared):
    """Whatever a test does to its database, once that is repaired everything is there again."""
    yield shared
    shared.everything_is_there()


@pytest.fixture
def own():
    estate = Estate()
    yield estate
    estate.remove()


def page_of(estate, table):
    (number,), = estate.sql("SELECT rootpage FROM sqlite_master WHERE name = ?", table)
    (size,), = estate.sql("PRAGMA page_size")
    return (number - 1) * size, size


def zero_a_page(estate, table):
    offset, size = page_of(estate, table)
    with open(estate.database, "r+b") as file:
        file.seek(offset)
        file.write(bytes(size))


def hide_rows(estate, table):
    """A b-tree page whose count of cells is smaller than it was: reading it succeeds, and gives less."""
    offset, _ = page_of(estate, table)
    with open(estate.database, "r+b") as file:
        file.seek(offset + 3)
        file.write(b"\0\0")


def drop(estate, table):
    estate.sql(f"DROP TABLE {table}")


def cut(estate, table):
    os.truncate(estate.database, len(estate.good) // 2)


def empty(estate, table):
    os.truncate(estate.database, 0)


def lose(estate, table):
    os.unlink(estate.database)


@pytest.mark.parametrize("damage,table", [(zero_a_page, "sandboxes"), (zero_a_page, "snapshots"), (hide_rows, "sandboxes"), (hide_rows, "snapshots"),
                                          (drop, "sandboxes"), (drop, "snapshots"), (cut, None), (empty, None), (lose, None)],
                         ids=lambda value: getattr(value, "__name__", value))
def test_a_database_that_cannot_be_read_refuses_the_start_and_touches_nothing(estate, damage, table):
    damage(estate, table)
    for _ in range(2):  # nor does the first refusal make the second start easier
        sentence = estate.refuses_to_start()
        assert "backup" in sentence, sentence
        assert estate.is_untouched()


def spoil(document):
    return document[:len(document) // 2]


def forget_host(document):
    return json.dumps({name: field for name, field in json.loads(document).items() if name != "host_id"})


def confuse(document):
    return json.dumps({**json.loads(document), "network": 7})


@pytest.mark.parametrize("which,damage", [("running", spoil), ("running", forget_host), ("running", lambda document: "[]"), ("asleep", spoil), ("asleep", confuse)],
                         ids=["running: cut", "running: no host_id", "running: no object", "asleep: cut", "asleep: wrong type"])
def test_one_damaged_record_is_shown_as_failed_and_costs_neither_its_guest_nor_its_image(estate, which, damage):
    victim = getattr(estate, which)
    other = estate.asleep if which == "running" else estate.running
    (document,), = estate.sql("SELECT document FROM sandboxes WHERE id = ?", victim.id)
    broken = damage(document)
    estate.sql("UPDATE sandboxes SET document = ? WHERE id = ?", broken, victim.id)
    estate.daemon.start()
    client = estate.daemon.client()
    shown = Sandbox(client, victim.info).refresh()
    assert shown["status"] == "failed" and "cannot be read" in shown["reason"], shown
    refusal = client.ask("PATCH", f"{victim.path}/lifecycle", {"ttl_seconds": 100})
    assert refusal.status == 409, refusal.body
    assert client.ask("POST", f"{victim.path}/exec", {"cmd": "true"}).status == 503
    assert value(Sandbox(client, other.info), "x") == "'state'"
    if which == "running":
        client.call("POST", f"{estate.asleep.path}/hibernate")
    assert estate.is_untouched()
    estate.down()
    assert estate.sql("SELECT document FROM sandboxes WHERE id = ?", victim.id) == [(broken,)], "what could be repaired was written over"


def test_a_record_without_an_id_costs_nobody_anything(estate):
    estate.sql("UPDATE sandboxes SET id = '../x' WHERE id = ?", estate.running.id)
    estate.daemon.start()
    assert [entry["id"] for entry in estate.daemon.client().sandboxes()] == [estate.asleep.id]
    assert estate.is_untouched()


def test_a_snapshot_with_a_damaged_record_is_restored_from_its_sealed_manifest(estate):
    estate.sql("UPDATE snapshots SET document = 'x' WHERE id = ?", estate.snapshot)
    estate.daemon.start()
    client = estate.daemon.client()
    assert [entry["id"] for entry in client.call("GET", "/v1/snapshots")] == [estate.snapshot]
    twin = client.create(from_snapshot=estate.snapshot)
    assert value(twin, "x") == "'state'"
    twin.delete()


def test_a_snapshot_with_neither_record_nor_manifest_is_kept_and_refused(estate):
    estate.sql("UPDATE snapshots SET document = '{}' WHERE id = ?", estate.snapshot)
    manifest = estate.daemon.data / "snapshots" / estate.snapshot / "manifest.json"
    text = manifest.read_text()
    manifest.write_text("x")
    estate.daemon.start()
    answer = estate.daemon.client().ask("POST", "/v1/sandboxes", {"from_snapshot": estate.snapshot})
    assert answer.status == 409, answer.body
    assert estate.is_untouched() and estate.daemon.alive()
    manifest.write_text(text)


def test_a_damaged_record_can_be_deleted_and_the_next_start_sweeps_what_was_its_own(own):
    own.sql("UPDATE sandboxes SET document = 'x' WHERE id = ?", own.running.id)
    own.daemon.start()
    client = own.daemon.client()
    assert client.ask("DELETE", own.running.path).status == 204
    assert client.ask("GET", own.running.path).status == 404
    own.down()
    own.daemon.start()
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in own.guests))
    assert value(Sandbox(own.daemon.client(), own.asleep.info), "x") == "'state'"


def test_ctrl_c_leaves_what_belongs_to_a_damaged_record(own):
    own.sql("UPDATE sandboxes SET document = 'x' WHERE id = ?", own.asleep.id)
    own.daemon.start()
    own.daemon.process.send_signal(signal.SIGINT)
    assert own.daemon.process.wait(slow(60)) == 0
    assert (own.daemon.data / "hibernated" / own.asleep.id / "manifest.json").exists()
    assert own.sql("SELECT document FROM sandboxes WHERE id = ?", own.asleep.id) == [("x",)]
