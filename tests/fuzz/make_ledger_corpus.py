#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seed inputs of fuzz_ledger: a whole export, and each kind of line, good and odd. Run after the form of an export changes."""
import hashlib
import os

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus", "ledger")
CHAIN = "c0ffee"


def digest(data):
    return hashlib.sha256(data)


def export(n, hidden=(), bodyless=()):
    previous = digest(f"vial ledger 1 {CHAIN}".encode())
    lines = [f'{{"vial_audit":1,"chain":"{CHAIN}","first":1,"previous":"{previous.hexdigest()}","public_key":"{"ab" * 32}"}}']
    for seq in range(1, n + 1):
        body = f'{{"salt":"{seq:032x}","code":"print(\\"{{\\\\\\")"}}'
        header = f'{{"ledger":1,"chain":"{CHAIN}","seq":{seq},"action":"run","body_sha256":"{digest(body.encode()).hexdigest()}"}}'
        previous = digest(previous.digest() + digest(header.encode()).digest())
        if seq in hidden:
            lines.append(f'{{"seq":{seq},"record_sha256":"{digest(header.encode()).hexdigest()}","hash":"{previous.hexdigest()}"}}')
        else:
            lines.append(f'{{"record":{header},"body":{"null" if seq in bodyless else body},"hash":"{previous.hexdigest()}"}}')
    lines.append(f'{{"head":{{"chain":"{CHAIN}","seq":{n},"hash":"{previous.hexdigest()}","time_ms":1700000000000,"signature":"{"cd" * 64}"}}}}')
    return lines


def main():
    whole = export(4, hidden=(2,), bodyless=(3,))
    seeds = {
        "whole": whole, "unsigned": whole[:-1], "title": whole[:1], "record": whole[1:2], "hidden": whole[2:3], "bodyless": whole[3:4], "head": whole[-1:],
        "swapped": [whole[0], whole[2], whole[1]], "gap": [whole[0], whole[1], whole[4]], "twice": [whole[0], whole[1], whole[1]],
        "no-title": whole[1:], "two-titles": whole[:1] + whole,
    }
    os.makedirs(HERE, exist_ok=True)
    for name, lines in seeds.items():
        with open(os.path.join(HERE, name), "w") as file:
            file.write("\n".join(lines) + "\n")
    for name, data in {"empty": b"", "escape-at-the-end": whole[1][:-80].encode() + b'"\\', "brackets": b'{"record":{{{{{{', "nul": b'{"record":{"\0'}.items():
        with open(os.path.join(HERE, name), "wb") as file:
            file.write(data)


if __name__ == "__main__":
    main()
