# SPDX-License-Identifier: Apache-2.0
"""What was used, and by whom: exact across crashes and restarts, and the same sum however it is grouped."""

import csv
import io
import random
import time

import pytest

from tools import check_refusal, run, with_query
from vial import Client
from world import Project

GROUPS = ("none", "day", "template", "agent", "key", "project", "day,template", "day,template,agent,key,project")
NUMBERS = ("sandbox_seconds", "vcpu_seconds", "memory_gb_seconds", "runs", "bytes_in", "bytes_out")


def sums(rows):
    return {name: round(sum(row[name] for row in rows), 3) for name in NUMBERS}


class Watch:
    """How long something was at least, and at most: from before it was asked for to after it was told, and the other way round."""

    def __init__(self):
        self.least = self.most = 0.0

    def begin(self, action):
        before = time.monotonic()
        result = action()
        self.outer, self.inner = before, time.monotonic()
        return result

    def end(self, action):
        inner = time.monotonic()
        result = action()
        self.least += inner - self.inner
        self.most += time.monotonic() - self.outer
        return result

    def check(self, seconds):
        assert self.least - 0.01 <= seconds <= self.most + 0.01, (self.least, seconds, self.most)


def today():
    return time.strftime("%Y-%m-%d", time.gmtime())


def test_seconds_are_those_that_it_was_awake(project):
    watch = Watch()
    sandbox = watch.begin(lambda: project.client.create(persistent=True, cpu=2, memory_mb=512))
    time.sleep(0.5)
    watch.end(lambda: sandbox.call("POST", "/hibernate"))
    asleep = project.total()["sandbox_seconds"]
    watch.check(asleep)
    time.sleep(1.2)
    assert project.total()["sandbox_seconds"] == asleep, "what sleeps is not charged"
    watch.begin(lambda: sandbox.call("POST", "/wake"))
    time.sleep(0.3)
    watch.end(sandbox.delete)
    total = project.total()
    watch.check(total["sandbox_seconds"])
    assert total["vcpu_seconds"] == pytest.approx(2 * total["sandbox_seconds"], abs=0.01)
    assert total["memory_gb_seconds"] == pytest.approx(0.5 * total["sandbox_seconds"], abs=0.01)
    time.sleep(0.3)
    assert project.total() == total, "what is gone is not charged"


def test_what_is_awake_is_charged_up_to_now(project):
    watch = Watch()
    watch.begin(project.client.create)
    time.sleep(0.4)
    first = watch.end(project.total)["sandbox_seconds"]
    watch.check(first)
    time.sleep(0.4)
    assert project.total()["sandbox_seconds"] >= first + 0.4


def test_runs_and_bytes_are_counted_exactly(project):
    sandbox = project.client.create()
    for _ in range(3):
        sandbox.exec("true")
    run(sandbox, "echo x", "bash")
    sandbox.ask("POST", "/exec", {"cmd": "exit 3"})
    sandbox.ask("POST", "/exec", {})  # refused: no run
    sandbox.ask("GET", "/processes")
    before = project.total()
    assert before["runs"] == 5
    sandbox.write("/workspace/f", b"x" * 100_000)
    between = project.total()
    assert between["bytes_in"] - before["bytes_in"] == 100_000 and between["runs"] == 5
    assert sandbox.read("/workspace/f") == b"x" * 100_000
    assert 100_000 <= project.total()["bytes_out"] - between["bytes_out"] < 101_000  # with what is said of the file


def test_however_it_is_grouped_the_sum_is_the_same(client, project):
    other = project.make_key("developer", name="another")
    first, second = project.client.create(), Client(client.url, other["key"]).create()
    first.exec("true")
    for _ in range(2):
        second.exec("true")
    for sandbox in (first, second):
        sandbox.delete()
    tables = {group: project.usage(group) for group in GROUPS}
    for group, rows in tables.items():
        assert sums(rows) == pytest.approx(sums(tables["none"]), abs=0.01), group
    by_key = {row["key_id"]: row["runs"] for row in tables["key"]}
    assert by_key[other["id"]] == 2 and by_key[project.client.call("GET", "/v1/me")["key_id"]] == 1
    assert {row["template"] for row in tables["template"] if row["runs"]} == {"minimal"}
    assert {row["day"] for row in tables["day"]} == {today()} and {row["project"] for row in tables["project"]} == {project.name}
    everybody = client.call("GET", "/v1/projects/*/usage?group_by=project")
    assert sums([row for row in everybody if row["project"] == project.name]) == pytest.approx(sums(tables["none"]), abs=0.01)
    assert "operator" in check_refusal(project.client.ask("GET", "/v1/projects/*/usage"), 403)


def test_a_span_of_days_is_asked_for_with_from_and_to(project):
    sandbox = project.client.create()
    sandbox.exec("true")
    yesterday, tomorrow = (time.strftime("%Y-%m-%d", time.gmtime(time.time() + days * 86400)) for days in (-1, 1))
    for span, runs in (({}, 1), ({"from": today()}, 1), ({"to": today()}, 1), ({"from": today(), "to": today()}, 1), ({"from": tomorrow}, 0), ({"to": yesterday}, 0)):
        assert project.usage("none", **span)[0]["runs"] == runs, span
    assert project.usage("day", to=yesterday) == []


def test_csv_says_the_same_as_json(project):
    sandbox = project.client.create()
    sandbox.exec("true")
    sandbox.delete()
    path = with_query(project.path + "/usage", group_by="day,template,agent,key")
    rows, answer = project.client.call("GET", path), project.client.ask("GET", path + "&format=csv")
    assert answer.headers["Content-Type"].startswith("text/csv")
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(table) == len(rows)
    for row, line in zip(rows, table):
        assert list(line) == list(row)
        for name, value in row.items():
            assert line[name] == value if isinstance(value, str) else float(line[name]) == pytest.approx(value, abs=0.001)
    empty = project.client.ask("GET", path + "&format=csv&to=2000-01-01").text
    assert empty.splitlines() == [",".join(rows[0])], "a table without rows has its head"


def test_usage_is_exact_across_crashes(start_daemon):
    """Killed at random again and again, between calls and in the middle of them: every run that was answered counts once, and a sandbox for as long as it lived,
    also while no viald was there."""
    daemon = start_daemon()
    project = Project(daemon.client())
    rng = random.Random(12)
    watch = Watch()
    sandbox = watch.begin(lambda: project.client.create(persistent=True))
    answered = 0
    for _ in range(4):
        for _ in range(rng.randrange(1, 8)):
            sandbox.exec("true")
            answered += 1
        time.sleep(rng.random() * 0.3)
        daemon.kill()
        time.sleep(rng.random() * 0.5)
        daemon.start()
        project.operator, project.client = daemon.client(), Client(daemon.url, project.client.key)
        sandbox.client = project.client
        assert project.total()["runs"] == answered
    watch.end(lambda: sandbox.call("POST", "/hibernate"))
    watch.check(project.total()["sandbox_seconds"])
    daemon.kill()
    time.sleep(0.5)
    daemon.start()
    project.operator = daemon.client()
    total = project.total()
    watch.check(total["sandbox_seconds"])
    assert total["runs"] == answered
    assert sums(project.usage("day,template,agent,key")) == pytest.approx(sums([total]), abs=0.01)


def test_an_orderly_restart_loses_and_adds_nothing(start_daemon):
    daemon = start_daemon()
    project = Project(daemon.client())
    watch = Watch()
    sandbox = watch.begin(project.client.create)
    sandbox.exec("true")
    daemon.process.terminate()
    daemon.process.wait()
    daemon.log.close()
    daemon.start()
    project.operator = daemon.client()
    sandbox.client = Client(daemon.url, project.client.key)
    watch.end(sandbox.delete)
    total = project.total()
    watch.check(total["sandbox_seconds"])
    assert total["runs"] == 1
