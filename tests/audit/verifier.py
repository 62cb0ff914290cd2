# SPDX-License-Identifier: Apache-2.0
"""A verifier of exports that shares nothing with Vial's own: what docs/audit.md says, in Python.

    finding, seq = verify(lines, [public_key])     # "good", the last record; or what is wrong, and with which record
"""

import hashlib
import json

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def sha(data):
    return hashlib.sha256(data).digest()


def take(line, at):
    """The bytes of the JSON value at `at`, as they stand, and where they end."""
    _, end = json.JSONDecoder().raw_decode(line, at)
    return line[at:end], end


def parse(line):
    """(seq, SHA-256 of the header, hash, body fits) of a record's line."""
    if not line.startswith('{"record":'):
        told = json.loads(line)
        return told["seq"], bytes.fromhex(told["record_sha256"]), bytes.fromhex(told["hash"]), True
    header, end = take(line, len('{"record":'))
    body, end = take(line, end + len(',"body":'))
    fields = json.loads(header)
    body_fits = body == "null" or sha(body.encode()).hex() == fields["body_sha256"]
    return fields["seq"], sha(header.encode()), bytes.fromhex(json.loads(line)["hash"]), body_fits


def is_signed(head, keys):
    text = f"vial head 1\n{head['chain']}\n{head['seq']}\n{head['hash']}\n{head['time_ms']}\n".encode()
    for key in keys:
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(head["signature"]), text)
            return True
        except InvalidSignature:
            pass
    return False


def verify(lines, keys, outside=()):
    """`outside` are heads that were kept in another place."""
    title = json.loads(lines[0])
    expected, last, signed = title["first"], bytes.fromhex(title["previous"]), title["first"] - 1
    if expected == 1 and last != sha(b"vial ledger 1 " + title["chain"].encode()):
        return "changed", 1
    heads = {head["seq"]: head for head in outside}
    records = [parse(line) for line in lines[1:] if not line.startswith('{"head":')]
    order = [record[0] for record in records]
    for line in [line for line in lines[1:] if line.startswith('{"head":')] + [json.dumps({"head": head}) for head in outside]:
        head = json.loads(line)["head"]
        if head["chain"] != title["chain"] or not is_signed(head, keys):
            return "forged", head["seq"]
        if heads.setdefault(head["seq"], head)["hash"] != head["hash"]:
            return "rewritten", head["seq"]
    for seq, header_hash, told, body_fits in records:
        if seq != expected:
            return ("reordered" if expected in order else "removed", expected) if seq > expected else ("inserted", seq)
        if sha(last + header_hash) != told:
            return "changed", seq
        if not body_fits:
            return "body_changed", seq
        last, expected = told, seq + 1
        if seq in heads:
            if heads.pop(seq)["hash"] != told.hex():
                return "rewritten", signed + 1
            signed = seq
    if heads and max(heads) >= expected or signed < expected - 1:
        return "cut", expected  # more was signed than there is, or it does not end with a head
    return "good", expected - 1
