# SPDX-License-Identifier: Apache-2.0
"""A record of a million operations, as if they had been done: for what is only felt at that size.

    python bench/audit_records.py DATA_DIR COUNT      # a data directory that a viald has made, and has left

Goes on behind the last record of the directory's chain, with its key: what comes out verifies. Records are spread over the days before now, over projects,
keys, agents, sessions, sandboxes and traces, a run with some words of code each. Needs `cryptography`.
"""

import hashlib
import json
import random
import sqlite3
import sys
import time
from pathlib import Path

from cryptography.hazmat.primitives.serialization import load_pem_private_key

BATCH = 20_000
HEAD_EVERY = 1000
ACTIONS = ["run"] * 6 + ["exec"] * 2 + ["file.write", "file.read"]
WORDS = ("import pandas as pd df read_csv groupby mean plot figure numpy array dot linalg solve requests get json loads open write print len range "
         "for in return def class lambda sorted filter map reduce sum max min").split()


def sha(data):
    return hashlib.sha256(data).digest()


class Maker:
    """Headers and bodies as viald writes them: compact, in ASCII. By hand, as it is a million of them."""

    def __init__(self, chain, count, days, seed):
        self.chain, self.random = chain, random.Random(seed)
        self.begin = time.time() - days * 86400
        self.step = days * 86400 / max(count, 1)
        self.sandboxes = [self.id() for _ in range(max(count // 100, 1))]
        self.keys = [self.id() for _ in range(1000)]
        self.second, self.second_text = None, None

    def id(self):
        return f"{self.random.getrandbits(80):020x}"

    def time(self, number):
        moment = self.begin + number * self.step
        if int(moment) != self.second:
            self.second = int(moment)
            self.second_text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.second))
        return f"{self.second_text}.{int(moment % 1 * 1000):03}Z"

    def make(self, seq, number):
        bits = self.random.getrandbits
        sandbox = number // 100 % len(self.sandboxes)
        key = sandbox % len(self.keys)
        first = bits(16)
        code = " ".join(WORDS[(first >> (word % 8)) * 7 % len(WORDS) - word] for word in range(12)) + f" cell{number}"
        body = f'{{"salt":"{bits(128):032x}","code":"{code}","language":"python"}}'
        project = "default" if sandbox % 100 == 0 else f"project-{sandbox % 100}"
        header = (f'{{"ledger":1,"chain":"{self.chain}","seq":{seq},"time":"{self.time(number)}","action":"{ACTIONS[number % len(ACTIONS)]}","project":"{project}",'
                  f'"principal":{{"kind":"key","id":"{self.keys[key]}","name":"key-{key}","role":"runner"}},"surface":"native","peer":"127.0.0.1",'
                  f'"request_id":"{bits(80):020x}","sandbox":"{self.sandboxes[sandbox]}","template":"minimal","image":"{0:016}","engine":"gvisor",'
                  f'"agent":"agent-{sandbox % 50}","session":"session-{sandbox % 5000}","origin":{{"model":"some-model","tool_call_id":"call-{number}",'
                  f'"trace_id":"{bits(128):032x}","span_id":"{bits(64):016x}"}},"operation":"{bits(80):020x}","outcome":"done","exit_code":0,'
                  f'"duration_ms":{first % 2000},"runs":1,"bytes_in":{len(code)},"body_sha256":"{sha(body.encode()).hex()}"}}')
        return header, body, code


def sign(key, chain, seq, link):
    moment = int(time.time() * 1000)
    signature = key.sign(f"vial head 1\n{chain}\n{seq}\n{link.hex()}\n{moment}\n".encode())
    return json.dumps({"chain": chain, "seq": seq, "hash": link.hex(), "time_ms": moment, "signature": signature.hex()}, separators=(",", ":"))


def set_clock_back(db, maker, seq, link):
    """Those that come now are of days before: a clock that is set back is on record."""
    body = '{"salt":"00"}'
    header = (f'{{"ledger":1,"chain":"{maker.chain}","seq":{seq + 1},"time":"{maker.time(0)}","action":"clock.back","outcome":"done","project":"default",'
              f'"principal":{{"kind":"system","id":"system","name":"viald"}},"clock_back_ms":{int((time.time() - maker.begin) * 1000)},'
              f'"body_sha256":"{sha(body.encode()).hex()}"}}')
    link = sha(link + sha(header.encode()))
    db.execute("INSERT INTO records (seq, hash, header, body) VALUES (?, ?, ?, ?)", (seq + 1, link, header, body))
    return seq + 1, link


def add(data_dir, count, days=30, seed=1):
    """Adds so many records; gives the number of the last."""
    data_dir = Path(data_dir)
    key = load_pem_private_key((data_dir / "keys/audit.key").read_bytes(), None)
    db = sqlite3.connect(data_dir / "audit.sqlite")
    db.execute("PRAGMA synchronous=OFF")
    (chain,) = db.execute("SELECT value FROM meta WHERE name = 'chain'").fetchone()
    seq, link = db.execute("SELECT seq, hash FROM records ORDER BY seq DESC LIMIT 1").fetchone() or (0, sha(b"vial ledger 1 " + chain.encode()))
    # Indexes are quicker made at the end than kept.
    indexes = db.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'records' AND sql IS NOT NULL").fetchall()
    for name, _ in indexes:
        db.execute(f"DROP INDEX {name}")
    maker, heads = Maker(chain, count, days, seed), []
    if seq > 0:
        seq, link = set_clock_back(db, maker, seq, link)
    for begin in range(0, count, BATCH):
        records, words = [], []
        for number in range(begin, min(begin + BATCH, count)):
            seq += 1
            header, body, code = maker.make(seq, number)
            link = sha(link + sha(header.encode()))
            records.append((seq, link, header, body))
            words.append((seq, code))
            if seq % HEAD_EVERY == 0:
                heads.append((seq, sign(key, chain, seq, link)))
        db.executemany("INSERT INTO records (seq, hash, header, body) VALUES (?, ?, ?, ?)", records)
        db.executemany("INSERT INTO words (rowid, code) VALUES (?, ?)", words)
        db.commit()
    tip = sign(key, chain, seq, link)
    if not heads or heads[-1][0] != seq:
        heads.append((seq, tip))
    db.executemany("INSERT INTO heads VALUES (?, ?)", heads)
    db.execute("INSERT INTO meta VALUES ('tip', ?) ON CONFLICT DO UPDATE SET value = excluded.value", (tip,))
    for _, sql in indexes:
        db.execute(sql)
    db.commit()
    db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    db.close()
    with open(data_dir / "audit/heads.jsonl", "a") as file:
        file.writelines(head + "\n" for _, head in heads)
    # What it holds is older than what was added now.
    for path in (data_dir / "audit").glob("*.spool"):
        path.unlink()
    return seq


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: audit_records.py DATA_DIR COUNT")
    print(add(sys.argv[1], int(sys.argv[2])))
