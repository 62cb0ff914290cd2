# SPDX-License-Identifier: Apache-2.0
"""Exports of the audit, made by the rules of docs/audit.md and by nothing of ours: what `vial audit verify` is tried with.

    python3 ledger_maker.py RECORDS FOLDER     writes FOLDER/export.jsonl and FOLDER/audit.pub, and tells nobody the secret key
"""

import hashlib
import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

CHAIN = "chainofthetests00000"


def sha(data):
    return hashlib.sha256(data).digest()


def compact(value):
    return json.dumps(value, separators=(",", ":"))


class Signer:
    def __init__(self):
        self.secret = Ed25519PrivateKey.generate()
        self.public = self.secret.public_key()
        self.hex = self.public.public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw).hex()

    def pem(self):
        return self.public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)

    def head(self, seq, digest, time_ms=1794991227945, chain=CHAIN):
        text = f"vial head 1\n{chain}\n{seq}\n{digest.hex()}\n{time_ms}\n"
        return {"chain": chain, "seq": seq, "hash": digest.hex(), "time_ms": time_ms, "signature": self.secret.sign(text.encode()).hex()}


def body_of(seq):
    return {"salt": sha(str(seq).encode()).hex()[:32], "code": f"import pandas as pd\nframe = pd.read_csv('part-{seq}.csv')\nframe.describe()\n",
            "language": "python", "cwd": "/workspace"}


def record_of(seq, body, chain=CHAIN, **fields):
    """A header as viald writes one: its place first, the body's hash last."""
    header = {"ledger": 1, "chain": chain, "seq": seq, "time": "2026-11-18T08:40:27.357Z", "action": "run", "project": "default",
              "principal": {"kind": "key", "id": "2faft47gykxxfa8s4wn2", "name": "agents", "role": "runner"}, "surface": "native",
              "peer": "127.0.0.1", "request_id": "yltv2p13wpzi0000000l", "sandbox": "73g8vw6c30b23s25ew3s", "template": "code-interpreter",
              "image": "7edf2799a668728a", "engine": "gvisor", "operation": "f5n17783mzxpdl2qninx", "duration_ms": 15, "exit_code": 0,
              "outcome": "done", "runs": 1, "bytes_in": 80, "bytes_out": 306, **fields}
    header["body_sha256"] = sha(body.encode()).hex()
    return compact(header)


class Export:
    """A whole one: `lines` without their ends, the title first. Signed every `every` records and at the end."""

    def __init__(self, records, every=5, signer=None, first=1, chain=CHAIN, previous=None):
        self.signer = signer or Signer()
        self.chain = chain
        self.digest = previous or sha(b"vial ledger 1 " + chain.encode())
        self.lines = [compact({"vial_audit": 1, "chain": chain, "first": first, "previous": self.digest.hex(), "public_key": self.signer.hex})]
        self.digests = {first - 1: self.digest}
        for seq in range(first, first + records):
            self.add(seq)
            if seq % every == 0 or seq == first + records - 1:
                self.sign(seq)

    def add(self, seq, body=None, **fields):
        body = compact(body or body_of(seq))
        header = record_of(seq, body, self.chain, **fields)
        self.digest = sha(self.digest + sha(header.encode()))
        self.digests[seq] = self.digest
        self.lines.append(f'{{"record":{header},"body":{body},"hash":"{self.digest.hex()}"}}')

    def sign(self, seq, signer=None):
        self.lines.append(compact({"head": (signer or self.signer).head(seq, self.digests[seq], chain=self.chain)}))

    def at(self, seq):
        """Which line has the record."""
        return next(i for i, line in enumerate(self.lines) if f'"seq":{seq},"time"' in line[:120] or line.startswith(f'{{"seq":{seq},'))

    def hide(self, seq):
        """As a record of another project is told: by its hash alone."""
        line = self.lines[self.at(seq)]
        header = line[len('{"record":'):line.index(',"body":{"salt"')]
        self.lines[self.at(seq)] = compact({"seq": seq, "record_sha256": sha(header.encode()).hex(), "hash": self.digests[seq].hex()})

    def without_body(self, seq):
        """As retention leaves it."""
        line = self.lines[self.at(seq)]
        self.lines[self.at(seq)] = line[:line.index(',"body":{"salt"')] + f',"body":null,"hash":"{self.digests[seq].hex()}"}}'

    def text(self):
        return "".join(line + "\n" for line in self.lines)


def main(count, folder):
    export = Export(int(count), every=1000)
    Path(folder, "export.jsonl").write_text(export.text())
    Path(folder, "audit.pub").write_bytes(export.signer.pem())


if __name__ == "__main__":
    main(*sys.argv[1:])
