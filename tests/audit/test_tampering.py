# SPDX-License-Identifier: Apache-2.0
"""Whoever has the disk, but not the key, and changes the record while viald is down is found out: by viald when it starts and when it is asked, and by
anybody with an export and the public key. The first record that is wrong is named."""

import json
import os
import re
import shutil
import tempfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from record import bare_options, change, database, export, found, keys, prove, verdict, work
from tools import wait_until
from vial import Daemon
from verifier import sha, verify

RECORDS = 12


@pytest.fixture(scope="module")
def original():
    """A data directory with some records, signed, and viald stopped."""
    place = Path(tempfile.mkdtemp(prefix="vial-test-", dir="/tmp"))
    daemon = start(place)
    work(daemon.client(), RECORDS - 2, "a-key")
    prove(daemon.client())  # which is on record, too
    work(daemon.client(), 1, "last")
    daemon.stop()
    yield place
    shutil.rmtree(place)


def start(place, *options):
    return Daemon(place, *bare_options(place), *options)


@pytest.fixture
def whole(original, place):
    """A copy whose owner may do with it what he likes, and a way to start viald on it."""
    shutil.copytree(original, place, dirs_exist_ok=True)
    copy = Copy(place)
    yield copy
    for daemon in copy.daemons:
        daemon.stop()


@pytest.fixture
def copy(whole):
    """The same without the spool, which holds the newest records a second time: of an installation with many records it knows but few."""
    for path in whole.spool():
        path.unlink()
    return whole


class Copy:
    def __init__(self, place):
        self.place, self.data, self.daemons = place, place / "data", []

    def spool(self):
        return sorted((self.data / "audit").glob("*.spool"))

    def start(self, *options):
        self.daemons.append(start(self.place, *options))
        return self.daemons[-1].client()

    def restart(self):
        self.daemons[-1].stop()
        self.daemons[-1].start()
        return self.daemons[-1].client()

    def log(self):
        return self.daemons[-1].log_text()


def rewrite(db, first, edit):
    """The chain, computed anew from that record on, as anybody can who has no key."""
    (last,) = db.execute("SELECT hash FROM records WHERE seq = ?", (first - 1,)).fetchone()
    for seq, header, body in db.execute("SELECT seq, header, body FROM records WHERE seq >= ? ORDER BY seq", (first,)).fetchall():
        header, body = edit(seq, header, body)
        last = sha(last + sha(header.encode()))
        db.execute("UPDATE records SET hash = ?, header = ?, body = ? WHERE seq = ?", (last, header, body, seq))


def recompute(first):
    """Somebody else's name in a record, and a chain that fits."""
    def act(copy):
        db = database(copy)
        rewrite(db, first, lambda seq, header, body: (header.replace('"name":"admin"', '"name":"nobody"'), body))
        db.commit()
        db.close()
    return act


def sql(*statements):
    return lambda copy: change(copy, *statements)


def remove_heads_file(copy):
    (copy.data / "audit/heads.jsonl").unlink()


def remove_database(copy):
    for path in copy.data.glob("audit.sqlite*"):
        path.unlink()


def append_record(copy):
    """One more at the end, which fits to the last."""
    db = database(copy)
    seq, last, header, body = db.execute("SELECT seq, hash, header, body FROM records ORDER BY seq DESC LIMIT 1").fetchone()
    header = header.replace(f'"seq":{seq}', f'"seq":{seq + 1}')
    db.execute("INSERT INTO records (seq, hash, header, body) VALUES (?, ?, ?, ?)", (seq + 1, sha(last + sha(header.encode())), header, body))
    db.commit()
    db.close()


REMOVE_HEADS = "DELETE FROM heads"
REMOVE_TIP = "DELETE FROM meta WHERE name = 'tip'"
RENUMBER_UP = ["UPDATE records SET seq = -(seq + 1) WHERE seq >= 5", "UPDATE records SET seq = -seq WHERE seq < 0"]
RENUMBER_DOWN = ["UPDATE records SET seq = -(seq - 1) WHERE seq > 5", "UPDATE records SET seq = -seq WHERE seq < 0"]
SWAP = ["UPDATE records SET seq = -5 WHERE seq = 5", "UPDATE records SET seq = 5 WHERE seq = 6", "UPDATE records SET seq = 6 WHERE seq = -5"]

# What is done, what is found, and at which record.
CASES = {
    "a byte of a header": ([sql("UPDATE records SET header = replace(header, 'key.create', 'key.creatE') WHERE seq = 5")], "changed", 5),
    "a byte of the last header": ([sql(f"UPDATE records SET header = replace(header, 'key.create', 'key.creatE') WHERE seq = {RECORDS}")], "changed", RECORDS),
    "a byte of a body": ([sql("UPDATE records SET body = replace(body, 'a-key', 'b-key') WHERE seq = 5")], "body_changed", 5),
    "a byte of a hash": ([sql("UPDATE records SET hash = zeroblob(32) WHERE seq = 5")], "changed", 5),
    "a row deleted": ([sql("DELETE FROM records WHERE seq = 5")], "removed", 5),
    "the first row deleted": ([sql("DELETE FROM records WHERE seq = 1")], "removed", 1),
    "a row deleted and the others numbered anew": ([sql("DELETE FROM records WHERE seq = 5", *RENUMBER_DOWN)], "removed", 5),
    "a row inserted": ([sql(*RENUMBER_UP, "INSERT INTO records (seq, hash, header, body) SELECT 5, zeroblob(32), replace(header, '\"seq\":3', '\"seq\":5'), body FROM records WHERE seq = 3")], "inserted", 5),
    "a row of elsewhere inserted": ([sql(*RENUMBER_UP, "INSERT INTO records (seq, hash, header, body) SELECT 5, hash, header, body FROM records WHERE seq = 3")], "reordered", 5),
    "a row added at the end": ([append_record], "good", None),
    "the tail cut": ([sql("DELETE FROM records WHERE seq > 8")], "removed", 9),
    "all rows deleted": ([sql("DELETE FROM records")], "removed", 1),
    "two rows swapped": ([sql(*SWAP)], "reordered", 5),
    "the chain recomputed": ([recompute(5)], "rewritten", 1),
    "the last record recomputed": ([recompute(RECORDS)], "rewritten", RECORDS - 1),
    "the chain recomputed and the heads of the database removed": ([recompute(5), sql(REMOVE_HEADS, REMOVE_TIP)], "rewritten", 1),
    "the heads removed from the database and the file": ([sql(REMOVE_HEADS, REMOVE_TIP), remove_heads_file], "good", None),
    "the chain recomputed and all heads removed": ([recompute(5), sql(REMOVE_HEADS, REMOVE_TIP), remove_heads_file], "good", None),
    "the whole database removed": ([remove_database], "good", None),
}


@pytest.mark.parametrize("case", CASES)
def test_whoever_changes_the_record_while_viald_is_down_is_found_out(copy, case):
    steps, finding, seq = CASES[case]
    for step in steps:
        step(copy)
    client = copy.start()
    said = verdict(client)
    assert said["ok"] is False
    if finding == "good":  # it fits together, and viald was away: but it was not there, or not signed, when viald left
        assert said["complaint"]
    else:
        assert (said["finding"], said["seq"]) == (finding, seq), said
        assert f"record{'s' if said['until'] > seq else ''} {seq}" in said["sentence"]
    # Told without being asked: in the log, in the metrics, and in the record itself, from where it does not go away.
    told = wait_until(lambda: found(client, action="audit.tampered"))
    assert "tampered" in copy.log()
    assert "vial_audit_tampered 1" in client.ask("GET", "/metrics").text
    assert len(told) == 1 and told[0]["detail"] and told[0]["principal"]["kind"] == "system"
    client = copy.restart()
    again = verdict(client)
    assert again["ok"] is False and again["complaint"] == told[0]["detail"]
    wait_until(lambda: len(found(client, action="audit.tampered")) == 1)


def test_what_was_not_touched_is_good(copy):
    client = copy.start()
    said = verdict(client)
    assert said["ok"] and said["records"] == RECORDS and "tampered" not in copy.log()
    assert "vial_audit_tampered 0" in client.ask("GET", "/metrics").text


def test_viald_goes_on_behind_what_was_signed_so_that_the_gap_stays_a_gap(copy):
    change(copy, "DELETE FROM records WHERE seq > 8")
    client = copy.start()
    work(client, 2)
    seqs = [record["seq"] for record in found(client)]
    assert seqs[:8] == list(range(1, 9)) and min(seqs[8:]) == RECORDS + 1
    said = verdict(client)
    assert (said["finding"], said["seq"], said["until"]) == ("removed", 9, RECORDS)
    assert verify(export(client), keys(client))[:2] == ("removed", 9)


def test_rows_that_the_spool_still_has_come_back(whole):
    change(whole, "DELETE FROM records WHERE seq IN (5, 12)")
    client = whole.start()
    assert [record["seq"] for record in found(client)] == list(range(1, RECORDS + 1)) and prove(client) == RECORDS


def test_a_damaged_spool_is_told_and_gone_on_with(whole):
    content = bytearray(whole.spool()[0].read_bytes())
    content[2000] ^= 1
    whole.spool()[0].write_bytes(content)
    client = whole.start()
    said = verdict(client)
    assert not said["ok"] and "spool" in said["complaint"] and said["finding"] == "good"
    work(client, 1)


@pytest.mark.parametrize("size", [0, 1, 19, 20, 500, 3000, 5000])
def test_a_spool_that_is_cut_anywhere_costs_nothing_that_the_database_has(whole, size):
    os.truncate(whole.spool()[0], size)
    client = whole.start()
    assert prove(client) == RECORDS


# Of an export

@pytest.fixture(scope="module")
def exported(original):
    daemon = start(original)
    client = daemon.client()
    lines, public = export(client), keys(client)
    daemon.stop()
    return lines, public


def record_lines(lines):
    return [number for number, line in enumerate(lines) if line.startswith('{"record"')]


def edit(lines, seq, change):
    place = record_lines(lines)[seq - 1]
    return lines[:place] + change(lines[place]) + lines[place + 1:]


def swap(lines):
    fifth, sixth = record_lines(lines)[4:6]
    lines = list(lines)
    lines[fifth], lines[sixth] = lines[sixth], lines[fifth]
    return lines


def recomputed(lines, first):
    """From that record on: other headers, and hashes that fit."""
    result, last = [], None
    for line in lines:
        if line.startswith('{"record"'):
            told = json.loads(line)
            if told["record"]["seq"] >= first:
                header = json.dumps({**told["record"], "peer": "somewhere"}, separators=(",", ":"))
                now = sha(last + sha(header.encode()))
                line = '{"record":' + header + ',"body":' + json.dumps(told["body"], separators=(",", ":")) + ',"hash":"' + now.hex() + '"}'
            last = bytes.fromhex(json.loads(line)["hash"])
        result.append(line)
    return result


EXPORTS = {
    "a byte of a header": (lambda lines: edit(lines, 5, lambda line: [line.replace("key.create", "key.creatE")]), "changed", 5),
    "a byte of a body": (lambda lines: edit(lines, 5, lambda line: [line.replace("a-key", "b-key")]), "body_changed", 5),
    "a line removed": (lambda lines: edit(lines, 5, lambda line: []), "removed", 5),
    "a line told twice": (lambda lines: edit(lines, 5, lambda line: [line, line]), "inserted", 5),
    "two lines swapped": (swap, "reordered", 5),
    "the end cut": (lambda lines: lines[:-1], "cut", RECORDS + 1),
    "records at the end cut, and their head left": (lambda lines: [line for line in lines if f'"record":{{"ledger":1,"chain":"{json.loads(lines[0])["chain"]}","seq":{RECORDS},' not in line], "cut", RECORDS),
    "all recomputed without the key": (lambda lines: recomputed(lines, 2), "rewritten", 1),
    "a head's signature": (lambda lines: [re.sub('"signature":"..', '"signature":"00', line) for line in lines], "forged", None),
    "a head of another number": (lambda lines: [line.replace('"time_ms":1', '"time_ms":2') if line.startswith('{"head"') else line for line in lines], "forged", None),
}


@pytest.mark.parametrize("case", EXPORTS)
def test_an_export_that_was_changed_is_found_out_with_the_public_key_alone(exported, case):
    lines, public = exported
    assert verify(lines, public) == ("good", RECORDS)
    change_lines, finding, seq = EXPORTS[case]
    changed = change_lines(list(lines))
    assert changed != lines
    assert verify(changed, public)[0] == finding and (seq is None or verify(changed, public)[1] == seq)


def test_an_export_verifies_with_its_own_key_only(exported):
    lines, _ = exported
    assert verify(lines, [Ed25519PrivateKey.generate().public_key().public_bytes_raw().hex()])[0] == "forged"


def test_a_history_that_was_signed_anew_does_not_fit_to_heads_in_another_place(exported):
    lines, public = exported
    kept = [json.loads(line)["head"] for line in lines if line.startswith('{"head"')]
    key = Ed25519PrivateKey.generate()
    forged, last = [], None
    for line in recomputed(lines, 2):
        if line.startswith('{"head"'):
            head = json.loads(line)["head"]
            head["hash"] = last
            text = f"vial head 1\n{head['chain']}\n{head['seq']}\n{head['hash']}\n{head['time_ms']}\n"
            head["signature"] = key.sign(text.encode()).hex()
            line = json.dumps({"head": head})
        elif line.startswith('{"record"'):
            last = json.loads(line)["hash"]
        forged.append(line)
    stolen = [*public, key.public_key().public_bytes_raw().hex()]  # whoever has the disk has the key that lies on it
    assert verify(forged, stolen)[0] == "good"
    assert verify(forged, stolen, outside=kept)[0] == "rewritten"
