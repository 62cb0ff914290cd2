# SPDX-License-Identifier: Apache-2.0
"""What is forgotten, and what never gets into the record: retention, legal hold, secrets."""

import json

from moved_clock import Clock
from record import export, found, keys, shown, verdict
from tools import add_key, files_with, wait_until
from vial import Daemon
from verifier import verify

DAY = 86400
SECRET, PATTERN, TOKEN = "hunter2-is-a-secret", "tok-[0-9]{6}", "tok-271828"


def holding(folder, text, *passed_over):
    """The files below that have this text in them."""
    return [str(path) for path in files_with(folder, text) if path.relative_to(folder).parts[0] not in passed_over]


def test_bodies_go_after_their_time_and_their_hashes_stay(bare, place):
    clock = Clock(place)
    daemon = bare("--audit-retention-days", 30, "--audit-head-records", 3, env=clock.env)
    client = daemon.client()
    client.call("POST", "/v1/projects", {"name": "held", "legal_hold": True})
    held = daemon.client(add_key(daemon, "held", "admin"))
    for number in range(5):
        client.call("POST", "/v1/keys", {"name": f"forgettable-{number}", "role": "viewer"})
        held.call("POST", "/v1/keys", {"name": f"memorable-{number}", "role": "viewer"})
    before = {record["seq"]: record for record in found(client)}
    assert holding(daemon.data, "forgettable", "db.sqlite", "db.sqlite-wal")
    daemon.stop()
    clock.set(31 * DAY)
    daemon.start()
    client = daemon.client()
    client.call("POST", "/v1/keys", {"name": "new", "role": "viewer"})

    # The first look is some seconds after the start.
    wait_until(lambda: all(record["body"] is None for record in found(client) if record["project"] == "default" and record["seq"] in before), 40)
    records = {record["seq"]: record for record in found(client)}
    for seq, record in before.items():
        assert {**records[seq], "body": None} == {**record, "body": None}
        assert (records[seq]["body"] is not None) == (record["project"] == "held")
    assert records[max(records)]["body"]["name"] == "new"
    said = verdict(client)
    assert said["ok"] and said["records"] == len(records) and said["bodies"] < said["records"]
    assert verify(export(client), keys(client))[0] == "good"
    old = next(seq for seq, record in before.items() if record["project"] == "default")
    assert [body for header, body in shown(export(client)) if header["seq"] == old] == [None]

    # Nor is it anywhere else: not in the pages of the database, its log, the index of words, or the spool.
    wait_until(lambda: not holding(daemon.data, "forgettable", "db.sqlite", "db.sqlite-wal", "db.sqlite-shm"), 40)
    assert holding(daemon.data, "memorable", "db.sqlite", "db.sqlite-wal")
    daemon.kill()
    daemon.start()
    assert verdict(daemon.client())["ok"]


def test_a_hold_that_is_lifted_lets_go(bare, place):
    clock = Clock(place)
    daemon = bare("--audit-retention-days", 30, env=clock.env)
    client = daemon.client()
    client.call("POST", "/v1/projects", {"name": "held", "legal_hold": True})
    held = daemon.client(add_key(daemon, "held", "admin"))
    held.call("POST", "/v1/keys", {"name": "memorable", "role": "viewer"})
    client.call("PATCH", "/v1/projects/held", {"legal_hold": False})
    daemon.stop()
    clock.set(31 * DAY)
    daemon.start()
    wait_until(lambda: all(record["body"] is None for record in found(daemon.client(), project="held")), 40)
    assert verdict(daemon.client())["ok"]


def test_secrets_are_redacted_before_anything_is_written(place):
    secrets = place / "secrets"
    secrets.write_text(f"# what our code must not show\n{SECRET}\n\n/{PATTERN}/\n")
    daemon = Daemon(place, "--audit-secrets-file", secrets)
    try:
        client = daemon.client()
        sandbox = client.create()
        ours = client.call("POST", "/v1/keys", {"name": "ours", "role": "viewer"})["key"]
        said = {"X-Vial-Origin": json.dumps({"model": "m", "user": SECRET})}
        sandbox.call("POST", "/exec", {"cmd": f"true {SECRET} {TOKEN} {ours} é{SECRET}é", "stdin": f"{SECRET}\n"}, headers=said)
        sandbox.call("POST", "/exec", {"argv": ["true", SECRET]})
        sandbox.call("POST", "/run", {"code": f"raise Exception('{TOKEN}')", "language": "python"}, headers=said)
        running = client.open("POST", sandbox.path + "/exec/stream", {"cmd": f"echo {SECRET}; sleep 60"}, headers=said)
        running.read(1)
        assert not holding(daemon.data, SECRET, "sandboxes") and not holding(daemon.data, TOKEN, "sandboxes")
        daemon.kill()
        running.connection.close()
        daemon.start()
        client = daemon.client()
        first, *_ = found(client, action="exec")
        assert first["body"]["cmd"] == "true [redacted] [redacted] [redacted] é[redacted]é"
        assert first["body"]["input"]["text"] == "[redacted]\n" and first["origin"]["user"] == "[redacted]" and first["origin"]["model"] == "m"
        run, = found(client, action="run")
        assert run["body"]["error_value"] == "[redacted]"
        assert {record["outcome"] for record in found(client, action="exec")} == {"done", "interrupted"}
        assert not found(client, text=SECRET) and verdict(client)["ok"]
        for text in (SECRET, TOKEN, ours):
            assert not holding(daemon.data, text, "sandboxes")
    finally:
        daemon.stop()


def test_a_secret_where_a_long_text_is_cut_leaves_no_piece_of_itself(place):
    secrets = place / "secrets"
    secrets.write_text(f"{SECRET}\n")
    daemon = Daemon(place, "--audit-secrets-file", secrets, "--audit-code-max-kb", 16)
    try:
        sandbox = daemon.client().create()
        for shown in range(1, len(SECRET)):  # so much of it stands before the cut
            filling = "#" * (16 * 1024 - shown)
            sandbox.call("POST", "/run", {"code": f"{filling}{SECRET}\n1", "language": "python"})
            sandbox.call("POST", "/exec", {"cmd": "cat >/dev/null", "stdin": f"{filling}{SECRET} and more"})
        runs, execs = found(daemon.client(), action="run"), found(daemon.client(), action="exec")
        assert len(runs) == len(execs) == len(SECRET) - 1
        for text in [record["body"]["code"] for record in runs] + [record["body"]["input"]["text"] for record in execs]:
            assert any(whole.startswith(text.lstrip("#")) for whole in ("[redacted]\n1", "[redacted] and more")), text[-40:]
        assert all(record["body"]["code_bytes"] and record["body"]["code_sha256"] for record in runs)
        assert all(record["body"]["input"]["cut"] for record in execs)
    finally:
        daemon.stop()


def test_a_file_of_secrets_that_makes_no_sense_is_told_in_a_sentence(place):
    for text, problem in (("abc\n", "fewer than"), ("/(/\n", "no regular expression"), ("/x*/\n", "matches everything")):
        (place / "secrets").write_text(text)
        try:
            Daemon(place, "--audit-secrets-file", place / "secrets").stop()
            raise SystemError("it started")
        except AssertionError as error:
            assert problem in str(error) and "line 1" in str(error)
