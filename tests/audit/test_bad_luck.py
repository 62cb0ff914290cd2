# SPDX-License-Identifier: Apache-2.0
"""A full disk, a database that somebody else holds, a clock that is set back, a second viald."""

import os
import subprocess
import threading
import time

import pytest
from moved_clock import Clock
from record import bare_options, database, export, found, keys, prove, verdict, work
from tools import check_refusal, wait_until
from vial import Daemon
from verifier import verify


@pytest.fixture
def small_disk(place):
    """A data directory on a disk of its own; gives a function that leaves so many bytes free on it."""
    (place / "data").mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m,mode=0700", "tmpfs", place / "data"], check=True)

    def leave(free):
        filler = place / "data/filler"
        filler.unlink(missing_ok=True)
        if free is None:
            return
        disk = os.statvfs(place / "data")
        chunk, size = 64 * 1024 * 1024, 0
        with open(filler, "wb") as file:
            while chunk >= 4096 and (wanted := min(chunk, disk.f_bavail * disk.f_frsize - free - size)) > 0:
                try:  # others write at the same time
                    os.posix_fallocate(file.fileno(), size, wanted)
                    size += wanted
                except OSError:
                    chunk //= 2

    yield leave
    subprocess.run(["umount", place / "data"], check=True)


class OnDisk(Daemon):
    """The disk is the test's, and goes after viald."""

    def left_behind(self):
        return [line for line in super().left_behind() if not line.startswith(f"tmpfs {self.data} ")]


@pytest.fixture
def on_small_disk(place, small_disk):
    """viald with a sandbox on such a disk."""
    daemon = OnDisk(place, env={"VIAL_FAULTS": str(place / "faults")})
    try:
        yield daemon, daemon.client().create(), small_disk
    finally:
        small_disk(None)
        daemon.stop()


def test_on_a_full_disk_code_is_refused_with_a_sentence_and_nothing_that_was_done_is_lost(on_small_disk):
    daemon, sandbox, leave = on_small_disk
    client = daemon.client()
    results = []
    running = threading.Thread(target=lambda: results.append(sandbox.exec("sleep 20; echo under way")))
    running.start()
    wait_until(lambda: "vial_audit_open_operations 1" in client.ask("GET", "/metrics").text)
    leave(0)
    answers = []

    def refused():
        answers.append(sandbox.ask("POST", "/exec", {"cmd": "echo while full"}))
        return answers[-1].status in (503, 507)

    wait_until(refused)
    sentence = check_refusal(answers[-1], 503, 507)
    assert "record" in sentence and "nothing more is done" in sentence
    assert "vial_audit_failing 1" in client.ask("GET", "/metrics").text and "code is refused" in daemon.log_text()
    running.join()
    assert results[0]["stdout"] == "under way\n"  # it had its room
    assert client.ask("GET", "/v1/audit").status == 200 and verdict(client)["finding"] == "good"

    leave(None)
    wait_until(lambda: sandbox.ask("POST", "/exec", {"cmd": "echo room again"}).status == 200)
    done = [record["body"]["cmd"] for record in found(client, action="exec", limit=1000) if record["outcome"] == "done"]
    assert done.count("sleep 20; echo under way") == 1 and done[-1] == "echo room again"
    assert done.count("echo while full") == len([answer for answer in answers if answer.status == 200])
    assert "vial_audit_failing 0" in client.ask("GET", "/metrics").text and "written to the database again" in daemon.log_text()
    prove(client)


def test_a_disk_that_is_full_for_a_moment_stops_nobody_and_all_of_it_is_on_record(on_small_disk):
    """As it is while a snapshot is tried that does not fit."""
    daemon, sandbox, leave = on_small_disk
    client = daemon.client()
    (daemon.folder / "faults").write_text("audit.grace_ms 300000\n")  # a moment, also for a machine that stalls in it
    leave(0)
    statuses = []

    def fails():
        statuses.append(sandbox.ask("POST", "/exec", {"cmd": "true"}).status)
        return "vial_audit_failing 1" in client.ask("GET", "/metrics").text

    wait_until(fails)
    leave(None)
    statuses.append(sandbox.ask("POST", "/exec", {"cmd": "true"}).status)
    assert set(statuses) == {200}
    wait_until(lambda: "vial_audit_failing 0" in client.ask("GET", "/metrics").text)
    assert len(found(client, action="exec", limit=1000)) == len(statuses)
    prove(client)


def test_what_stops_something_is_possible_on_a_full_disk_and_on_record_afterwards(on_small_disk):
    daemon, sandbox, leave = on_small_disk
    client = daemon.client()
    leave(0)
    wait_until(lambda: sandbox.ask("POST", "/exec", {"cmd": "true"}).status in (503, 507))
    assert sandbox.ask("POST", "/pause").status == 204
    leave(None)
    wait_until(lambda: [record["outcome"] for record in found(client, action="sandbox.pause")] == ["done"])
    daemon.kill()
    daemon.start()
    prove(daemon.client())


def test_a_viald_killed_on_a_full_disk_starts_there_again_and_lost_nothing(place, small_disk):
    daemon = OnDisk(place, *bare_options(place))
    try:
        answered = work(daemon.client(), 5)
        small_disk(0)
        for number in range(5):
            answer = daemon.client().ask("POST", "/v1/keys", {"name": f"full-{number}", "role": "viewer"})
            answered += [answer.json()["id"]] if answer.status == 201 else []
        daemon.kill()
        small_disk(1024 * 1024)  # a little, for what else it needs
        daemon.start()
        small_disk(None)
        wait_until(lambda: daemon.client().ask("POST", "/v1/keys", {"name": "after", "role": "viewer"}).status == 201)
        created = [record["body"]["key"] for record in found(daemon.client(), action="key.create", limit=1000) if record["outcome"] == "done"]
        assert created[: len(answered)] == answered
        prove(daemon.client())
    finally:
        small_disk(None)
        daemon.stop()


def test_while_somebody_else_holds_the_database_code_is_refused_and_nothing_is_lost(bare):
    daemon = bare()
    client = daemon.client()
    work(client, 3)
    verdict(client)
    holder = database(daemon)
    holder.execute("BEGIN IMMEDIATE")
    before = work(client, 1, "held")  # recorded, but not in the database yet
    answer = wait_until(lambda: (answer := client.ask("POST", "/v1/keys", {"name": "refused", "role": "viewer"})).status != 201 and answer, interval=0.5)
    assert "cannot be recorded, so nothing more is done" in check_refusal(answer, 503)
    assert client.call("GET", "/v1/audit")["items"]  # what is there is shown
    assert verdict(client)["finding"] == "good" and verdict(client)["records"] == 3
    holder.rollback()
    holder.close()
    wait_until(lambda: client.ask("POST", "/v1/keys", {"name": "after", "role": "viewer"}).status == 201)
    assert before[0] in [record["body"].get("key") for record in found(client, limit=1000)]
    prove(client)


def test_readers_do_not_hold_up_what_is_written(bare):
    daemon = bare()
    client = daemon.client()
    work(client, 5)
    verdict(client)
    reader = database(daemon)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM records").fetchone() == (5,)
    work(client, 20)
    assert len(found(client, limit=1000)) == 25 and verdict(client)["ok"]
    assert reader.execute("SELECT count(*) FROM records").fetchone() == (5,)  # as a backup would see it
    reader.close()


def test_a_clock_that_is_set_back_is_told_and_the_order_and_the_chain_hold(bare, place):
    clock = Clock(place)
    daemon = bare(env=clock.env)
    client = daemon.client()
    work(client, 3, "before")
    clock.set(-3600)
    work(client, 3, "back")
    records = found(client)
    assert [record["seq"] for record in records] == list(range(1, 8))
    assert [record["action"] for record in records] == ["key.create"] * 3 + ["clock.back"] + ["key.create"] * 3
    assert 3_300_000 < records[3]["clock_back_ms"] < 3_610_000  # less by what lies between the two
    assert records[4]["time"] < records[0]["time"]
    # By time each is found where its clock said it was, whatever its number.
    assert [record["seq"] for record in found(client, **{"from": records[0]["time"]})] == [1, 2, 3]
    assert [record["seq"] for record in found(client, to=records[0]["time"])] == [4, 5, 6, 7]
    clock.set(-2 * 3600)
    daemon.kill()
    daemon.start()
    client = daemon.client()
    work(client, 1, "down")
    clock.set(0)
    work(client, 1, "right again")
    assert [record["action"] for record in found(client, action="clock.back")] == ["clock.back"] * 2
    assert [record["seq"] for record in found(client, **{"from": records[0]["time"]})][:3] == [1, 2, 3]
    prove(client)
    assert verify(export(client, **{"from": records[0]["time"]}), keys(client))[0] == "good"


def test_a_second_viald_on_one_data_directory_is_refused_and_the_record_is_as_it_was(bare):
    daemon = bare()
    work(daemon.client(), 3)
    second = subprocess.run([daemon.programs / "viald", "--config", "/dev/null", "--data-dir", daemon.data, "--run-dir", daemon.folder / "run2", "--listen", "127.0.0.1:0",
                             *map(str, daemon.options)], capture_output=True, text=True, timeout=60)
    assert second.returncode == 1 and "another viald already uses" in second.stderr
    work(daemon.client(), 3)
    assert prove(daemon.client()) == 6


def test_a_key_that_many_use_at_once_gets_records_without_a_gap(bare):
    daemon = bare("--audit-head-records", 7)
    threads = [threading.Thread(target=work, args=(daemon.client(), 25, f"t{number}")) for number in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        assert verdict(daemon.client())["ok"]
        time.sleep(0.05)
    assert [record["seq"] for record in found(daemon.client(), limit=1000)] == list(range(1, 201))
    assert prove(daemon.client()) == 200
