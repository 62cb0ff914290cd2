# SPDX-License-Identifier: Apache-2.0
"""audit: the list, tail, show, export, and verify by viald. What is offline is in test_audit_verify.py."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import pytest
from conftest import BINARY, ROOT, Server, make_vial

sys.path.insert(0, str(ROOT / "tests" / "api"))

from vial import Daemon, slow  # noqa: E402


@pytest.fixture(scope="module")
def daemon():
    folder = tempfile.mkdtemp(prefix="cli-")
    daemon = Daemon(folder)
    client = daemon.client()
    client.call("POST", "/v1/projects", {"name": "lab"})
    lab = daemon.client(client.call("POST", "/v1/keys", {"name": "chief", "role": "admin", "project": "lab"})["key"])
    for number in range(30):
        (lab if number % 3 == 0 else client).call("POST", "/v1/keys", {"name": f"key-{number}", "role": "viewer"})
    yield daemon
    daemon.stop()
    shutil.rmtree(folder)


@pytest.fixture
def vial(daemon, tmp_path):
    yield from make_vial(Server(daemon.url, daemon.key), tmp_path)


def newest(vial):
    return vial.json("audit", "-n", "1")[0]["seq"]


# --- the list ---


def test_the_last_records_are_shown_newest_last(vial):
    lines = vial("audit").stdout.splitlines()
    assert lines[0].split()[:3] == ["SEQ", "TIME", "WHO"] and len(lines) == 21
    numbers = [int(line.split()[0]) for line in lines[1:]]
    assert numbers == list(range(numbers[0], numbers[0] + 20)) and numbers[-1] == newest(vial)
    assert re.search(r"^ *\d+  .* admin +default +key\.create +done +- +key-29$", vial("audit", "-n", "5000").stdout, re.M)


def test_json_is_as_the_api_gives_it(vial, daemon):
    records = vial.json("audit", "-n", "5")
    assert records == daemon.client().call("GET", "/v1/audit?limit=5")["items"]
    assert [r["seq"] for r in records] == sorted((r["seq"] for r in records), reverse=True)


def test_more_than_a_page_is_fetched(vial):
    numbers = [r["seq"] for r in vial.json("audit", "-n", "5000")]
    assert numbers == list(range(len(numbers), 0, -1)) and len(numbers) > 30
    assert vial("audit", "-q", "-n", "3").stdout.split() == [str(n) for n in sorted(numbers[:3])]
    assert vial.json("audit", "-n", "0") == []


def test_filters_find_what_they_name(vial):
    assert {r["action"] for r in vial.json("audit", "--action", "project.create")} == {"project.create"}
    assert vial.json("audit", "--principal", "nobody-at-all") == []
    assert vial.json("audit", "--from", "2h", "--action", "project.create") and vial.json("audit", "--to", "2h") == []
    assert vial.json("audit", "--from", "2026-01-01", "--to", "2099-01-01T00:00:00+01:00", "-n", "1")
    done = vial("audit", "--action", "no.such")
    assert done.stdout == "" and "there is no such record" in done.stderr
    assert vial.json("audit", "--trace", "0" * 32) == []


def test_what_ran_is_found_by_its_sandbox_and_its_words(vial):
    id_ = vial("create", "--template", "minimal").stdout.strip()
    try:
        vial("exec", id_, "-c", "echo marmalade\nexit 3", check=False)
        found = vial.json("audit", "--sandbox", id_[:8], "--text", "marmalade")
        assert [(r["action"], r["exit_code"], r["sandbox"]) for r in found] == [("exec", 3, id_)]
        assert re.search(r" exec +done +" + id_ + r"  echo marmalade exit 3 \(exit 3\)$", vial("audit", "--sandbox", id_).stdout, re.M)
        shown = vial("audit", "show", found[0]["seq"]).stdout
        assert re.search(r"^action +exec$", shown, re.M) and "\ncmd\n  echo marmalade\n  exit 3\n" in shown and "salt" not in shown
    finally:
        vial("rm", id_)
    assert {r["action"] for r in vial.json("audit", "--sandbox", id_)} == {"sandbox.create", "exec", "sandbox.delete"}
    done = vial("audit", "--sandbox", id_[:8], check=False)
    assert done.returncode == 1 and "wants the whole id" in done.stderr


def test_a_viewer_sees_the_records_of_his_project(vial):
    secret = vial("key", "create", "watch", "--role", "viewer", "--project", "lab").stdout.strip()
    env = {"env": {"VIAL_API_KEY": secret}}
    vial("key", "ls", check=False, **env)  # refused, and so on record
    mine = vial.json("audit", "-n", "100", **env)
    assert mine and {r["project"] for r in mine} == {"lab"}
    assert (mine[0]["action"], mine[0]["outcome"], mine[0]["principal"]["name"]) == ("key.read", "refused", "watch")
    assert "role operator" in vial("audit", "--all", check=False, **env).stderr
    assert "there is no project default" in vial("audit", "--project", "default", check=False, **env).stderr
    other = next(r["seq"] for r in vial.json("audit", "-n", "100") if r["project"] == "default")
    assert "there is no record" in vial("audit", "show", other, check=False, **env).stderr
    assert vial("audit", "verify", **env).stdout.startswith("good: ")
    all_ = vial.json("audit", "--all", "-n", "100")
    assert {r["project"] for r in all_} == {"lab", "default"} and {r["project"] for r in vial.json("audit", "--project", "lab")} == {"lab"}


@pytest.mark.parametrize("args, words", [
    (["audit", "tial"], 'did you mean "tail"'), (["audit", "show"], "something is missing: vial audit show SEQ"), (["audit", "show", "x"], "is not the number"),
    (["audit", "show", "0"], "is not the number"), (["audit", "-n", "-1"], "whole number"), (["audit", "--from", "noon"], "--from wants a time"),
    (["audit", "--to", ""], "--to wants a time"), (["audit", "--all", "--project", "x"], "exclude each other"), (["audit", "tail", "-f", "--to", "1h"], "exclude"),
    (["audit", "export"], "something is missing"), (["audit", "export", "x", "--text", "y"], "it is for `vial audit` and `vial audit tail`"),
    (["audit", "--follow"], "it is for `vial audit tail`"),
])
def test_wrong_usage_says_what_would_do(vial, args, words):
    done = vial(*args, check=False)
    assert done.returncode == 2 and words in done.stderr and done.stdout == "" and done.stderr.count("\n") == 1


# --- tail ---


class Follower:
    """`vial audit tail -f --json` in the background; its lines as they come."""

    def __init__(self, vial, *args):
        self.process = vial.popen("audit", "tail", "-f", "--json", *args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        self.records, self.notes = [], []
        self.threads = [threading.Thread(target=self.read, args=(self.process.stdout, lambda line: self.records.append(json.loads(line)))),
                        threading.Thread(target=self.read, args=(self.process.stderr, self.notes.append))]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def read(stream, take):
        for line in stream:
            take(line)

    def numbers(self):
        return [r["seq"] for r in self.records]

    def wait(self, ready, what, seconds=slow(15)):
        deadline = time.monotonic() + seconds
        while not ready(self):
            assert self.process.poll() is None and time.monotonic() < deadline, f"{what}: {self.numbers()} {self.notes}"
            time.sleep(0.05)

    def end(self):
        self.process.send_signal(signal.SIGINT)
        status = self.process.wait(slow(10))
        for thread in self.threads:
            thread.join(slow(10))
        return status


@pytest.fixture
def follow(vial):
    followers = []

    def start(*args):
        followers.append(Follower(vial, *args))
        return followers[-1]

    yield start
    for follower in followers:
        if follower.process.poll() is None:
            follower.process.kill()
            follower.process.wait()


def test_tail_prints_a_line_for_each_record(vial):
    lines = vial("audit", "tail", "-n", "3").stdout.splitlines()
    assert [int(line.split()[0]) for line in lines] == [newest(vial) - 2, newest(vial) - 1, newest(vial)]
    assert all(re.match(r" *\d+  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", line) for line in lines)


def test_following_neither_misses_nor_repeats_a_record(vial, daemon, follow):
    """Many records at once, more than a page, while it looks."""
    start = newest(vial)
    follower = follow("-n", "1")
    follower.wait(lambda f: f.numbers() == [start], "the last record did not come")
    client = daemon.client()
    for _ in range(450):
        client.ask("POST", "/v1/keys", {"name": "x", "role": "king"})  # no record: invalid
    ids = [client.call("POST", "/v1/keys", {"name": "flood", "role": "viewer"})["id"] for _ in range(450)]
    last = newest(vial)
    assert last == start + len(ids)
    follower.wait(lambda f: f.numbers()[-1:] == [last], "not all came")
    assert follower.numbers() == list(range(start, last + 1))
    assert follower.end() == 130


def test_following_survives_a_restart_of_viald(vial, daemon, follow, tmp_path):
    port = daemon.port
    start = newest(vial)
    follower = follow("-n", "1")
    follower.wait(lambda f: f.numbers() == [start], "the last record did not come")
    daemon.kill()
    follower.wait(lambda f: any("waiting for it" in note for note in f.notes), "it did not notice")
    daemon._free_port = lambda: port  # where the follower looks
    try:
        daemon.start()
        daemon.port = port
        client = daemon.client()
        for number in range(5):
            client.call("POST", "/v1/keys", {"name": f"after-{number}", "role": "viewer"})
        last = newest(vial)
        follower.wait(lambda f: f.numbers()[-1:] == [last], "what came after the restart did not come")
        assert follower.numbers() == list(range(start, last + 1)) and any("answers again" in note for note in follower.notes)
    finally:
        del daemon._free_port
    assert follower.end() == 130


def test_following_with_a_filter_and_nothing_before(vial, daemon, follow):
    client = daemon.client()
    id_ = client.call("POST", "/v1/keys", {"name": "spin", "role": "viewer"})["id"]
    before = newest(vial)
    follower = follow("-n", "0", "--action", "key.rotate")
    rotated = []

    def rotate(*_):
        client.call("POST", f"/v1/keys/{id_}/rotate")
        rotated.append(newest(vial))

    def began(f):
        """Only what comes after it has begun is told, so something has to come until it has."""
        rotate()
        return f.records

    follower.wait(began, "it told of nothing")
    client.call("POST", "/v1/keys", {"name": "not-a-rotation", "role": "viewer"})
    rotate()
    follower.wait(lambda f: f.numbers()[-1] == rotated[-1], "the last did not come")
    assert follower.numbers() == rotated[-len(follower.records):] and follower.numbers()[0] > before
    assert {r["action"] for r in follower.records} == {"key.rotate"} and follower.end() == 130


def test_following_ends_when_the_reader_leaves(vial):
    pipe = vial.popen("audit", "tail", "-f", stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    assert pipe.stdout.readline()
    pipe.stdout.close()
    assert pipe.wait(slow(10)) == 141


def test_following_gives_up_when_the_key_is_revoked(vial):
    secret = vial("key", "create", "fleeting", "--role", "viewer").stdout.strip()
    process = subprocess.Popen([BINARY, "audit", "tail", "-f"], env=vial.env | {"VIAL_API_KEY": secret}, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    vial("key", "rm", "fleeting")
    assert process.wait(slow(10)) == 1 and "VIAL_API_KEY" in process.stderr.read()


def test_a_passing_refusal_is_waited_for(fake_vial, fake_server):
    governance = fake_server.fake.governance
    follower = Follower(fake_vial, "-n", "2")
    try:
        follower.wait(lambda f: f.numbers() == [6, 7], "the last two did not come")
        governance.unavailable = 2
        governance.records.append(governance.records[-1] | {"seq": 8})
        follower.wait(lambda f: f.numbers() == [6, 7, 8], "the new one did not come")
        assert any("shutting down" in note for note in follower.notes)
    finally:
        governance.unavailable = 0
        del governance.records[7:]
        assert follower.end() == 130


def test_another_chain_begins_anew(fake_vial, fake_server):
    governance = fake_server.fake.governance
    before = list(governance.records)
    follower = Follower(fake_vial, "-n", "1")
    try:
        follower.wait(lambda f: f.numbers() == [7], "the last did not come")
        governance.records[:] = [before[0] | {"chain": "other"}, before[1] | {"chain": "other"}]
        follower.wait(lambda f: f.numbers() == [7, 1, 2], "the new chain did not come")
        assert any("another record" in note for note in follower.notes)
    finally:
        governance.records[:] = before
        assert follower.end() == 130


# --- export and verify ---


def test_an_export_is_verified_offline(vial, daemon, tmp_path):
    done = vial("audit", "export", tmp_path / "all.jsonl")
    assert done.stdout == "" and re.search(r"\d+ records, 0 of them only as hashes", done.stderr)
    assert os.stat(tmp_path / "all.jsonl").st_mode & 0o777 == 0o600 and len(os.listdir(tmp_path)) == 1
    offline = {"env": {"VIAL_URL": "http://127.0.0.1:1", "VIAL_API_KEY": ""}}
    verdict = vial.json("audit", "verify", tmp_path / "all.jsonl", "--key", daemon.data / "keys/audit.pub", **offline)
    assert verdict["ok"] and verdict["first"] == 1 and verdict["records"] == verdict["bodies"] == verdict["signed_through"]
    piped = vial("audit", "export", "-", "-q").stdout
    assert vial("audit", "verify", "-", "--key", daemon.data / "keys/audit.pub", "--heads", daemon.data / "audit/heads.jsonl", input=piped, **offline).returncode == 0


@pytest.mark.parametrize("filters, holds", [
    (["--project", "lab"], lambda r: r["project"] == "lab"),
    (["--action", "project.create"], lambda r: r["action"] == "project.create"),
    (["--principal", "admin"], lambda r: r["principal"]["name"] == "admin"),
    (["--trace", "4bf92f3577b34da6a3ce929d0e0e4736"], lambda r: r["origin"]["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"),
])
def test_an_export_shows_what_was_asked_for_and_still_proves_the_whole(vial, daemon, tmp_path, filters, holds):
    daemon.client().call("POST", "/v1/keys", {"name": "traced", "role": "viewer"}, headers={"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"})
    info = vial.json("audit", "export", tmp_path / "e", *filters)
    shown = [json.loads(line)["record"] for line in (tmp_path / "e").read_text().splitlines() if line.startswith('{"record"')]
    assert shown and len(shown) == info["shown"] < info["records"] and all(holds(record) for record in shown)
    assert vial.json("audit", "verify", tmp_path / "e", "--key", daemon.data / "keys/audit.pub")["records"] == info["records"]


def test_an_export_is_not_silently_wider_than_asked(daemon):
    """Words are not looked for in an export: whoever asks for them is told, and not given everything."""
    answer = daemon.client().ask("GET", "/v1/audit/export?text=marmalade")
    assert answer.status == 400 and "text" in answer.json()["error"]


def test_an_export_of_a_stretch_of_time(vial, daemon, tmp_path):
    middle = vial.json("audit", "show", "10")["time"]
    vial("audit", "export", tmp_path / "e", "--from", middle)
    verdict = vial.json("audit", "verify", tmp_path / "e", "--key", daemon.data / "keys/audit.pub")
    assert verdict["ok"] and 1 < verdict["first"] <= 10
    done = vial("audit", "export", tmp_path / "none", "--from", "2099-01-01")
    assert "no record is in it" in done.stderr


def test_one_changed_byte_of_an_export_is_named(vial, daemon, tmp_path):
    vial("audit", "export", tmp_path / "e")
    text = (tmp_path / "e").read_text()
    assert text.count('"name":"key-17"') == 1
    (tmp_path / "e").write_text(text.replace('"name":"key-17"', '"name":"key-71"'))
    seq = next(r["seq"] for r in vial.json("audit", "-n", "5000") if (r["body"] or {}).get("name") == "key-17")
    done = vial("audit", "verify", tmp_path / "e", "--key", daemon.data / "keys/audit.pub", check=False)
    assert done.returncode == 1 and done.stdout == f"NOT GOOD: the body of record {seq} was changed\n"


def test_an_export_that_broke_off_is_an_error_and_leaves_nothing(fake_vial, tmp_path):
    (tmp_path / "there").write_text("before")
    for odd, words in [("HOSTILE-cut", "broke"), ("HOSTILE-headless", "broke off after 1 records")]:
        for target in ("there", "new"):
            done = fake_vial("audit", "export", tmp_path / target, "--project", odd, check=False)
            assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1
        assert fake_vial("audit", "export", "-", "--project", odd, check=False).returncode == 1
    assert (tmp_path / "there").read_text() == "before" and not [n for n in os.listdir(tmp_path) if n not in ("there", "home")]
    fake_vial("audit", "export", tmp_path / "there")
    assert (tmp_path / "there").read_text().startswith('{"vial_audit":1')


@pytest.mark.parametrize("target, words", [("nosuch/e", "cannot be written"), (".", "cannot be written"), ("/proc/e", "cannot be written")])
def test_a_file_that_cannot_be_written_is_one_sentence(vial, tmp_path, target, words):
    done = vial("audit", "export", target, check=False, cwd=tmp_path)
    assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1


def test_a_full_disk_is_an_error(vial):
    with open("/dev/full", "w") as full:
        done = subprocess.run([BINARY, "audit", "export", "-"], stdout=full, stderr=subprocess.PIPE, text=True, env=vial.env)
    assert done.returncode == 1 and "No space left" in done.stderr


def test_verify_asks_viald(vial):
    done = vial("audit", "verify")
    assert re.match(r"good: \d+ records, \d+ with their bodies: nothing was changed", done.stdout)
    assert vial.json("audit", "verify")["finding"] == "good"


def test_a_bad_verdict_ends_with_1(fake_vial, fake_server):
    governance, good = fake_server.fake.governance, fake_server.fake.governance.verdict
    governance.verdict = good | {"ok": False, "finding": "changed", "sentence": "record 4 was changed", "seq": 4, "complaint": "the file was shorter"}
    try:
        done = fake_vial("audit", "verify", check=False)
        assert done.returncode == 1 and done.stdout == "NOT GOOD: record 4 was changed\nwhen viald started: the file was shorter\n"
        assert fake_vial("audit", "verify", "--json", check=False).returncode == 1
    finally:
        governance.verdict = good


def test_records_without_a_body_are_shown_for_what_they_are(fake_vial, fake_server):
    records = fake_server.fake.governance.records
    before = list(records)
    records[0] = before[0] | {"body": None}
    records[1] = {"seq": 2, "damaged": True, "body": None, "hash": ""}
    try:
        text = fake_vial("audit", "-n", "10").stdout
        assert "(removed after its time)" in text and "(damaged)" in text
        assert "removed after its time" in fake_vial("audit", "show", "1").stdout and fake_vial("audit", "show", "2").returncode == 0
        assert len(fake_vial("audit", "tail").stdout.splitlines()) == 7
    finally:
        records[:] = before
