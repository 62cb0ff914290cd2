# SPDX-License-Identifier: Apache-2.0
"""What the specifications of the record share: asking for it, proving it, and looking behind viald's back."""

import json
import sqlite3

from tools import with_query
from verifier import verify


def verdict(client):
    return client.call("POST", "/v1/audit/verify")


def heads(client, **query):
    return client.call("GET", with_query("/v1/audit/heads", **query))


def export(client, **filters):
    """The lines of an export."""
    answer = client.ask("GET", with_query("/v1/audit/export", **filters))
    assert answer.status == 200, answer.body
    return answer.text.splitlines()


def keys(client):
    told = heads(client)
    return [told["public_key"], *told["former_keys"]]


def prove(client):
    """The whole record holds, by viald's word and by that of a program that shares nothing with it. Gives how many records there are."""
    said = verdict(client)
    assert said["ok"] and said["finding"] == "good" and "complaint" not in said, said
    lines = export(client)
    finding, last = verify(lines, keys(client))
    assert finding == "good" and last >= said["records"] == said["signed_through"], (finding, last, said)
    return said["records"]


def shown(lines):
    """The records of an export that are shown, as (header, body)."""
    return [(line["record"], line["body"]) for line in map(json.loads, lines) if "record" in line]


def database(daemon):
    return sqlite3.connect(daemon.data / "audit.sqlite", timeout=20)


def change(daemon, *statements):
    """Writes to the database of a viald that is stopped, as its disk's owner could."""
    db = database(daemon)
    try:
        for statement in statements:
            db.execute(*((statement,) if isinstance(statement, str) else statement))
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        db.close()


def found(client, **filters):
    """All records that fit, oldest first, by as many pages as it takes."""
    items, query = [], dict(filters)
    while True:
        page = client.call("GET", with_query("/v1/audit", **query))
        items += page["items"]
        if page["next"] is None:
            return items[::-1]
        query["cursor"] = page["next"]


def work(client, count, name="key"):
    """So many records, without a sandbox."""
    return [client.call("POST", "/v1/keys", {"name": f"{name}-{number}", "role": "viewer"})["id"] for number in range(count)]


# A viald without sandboxes

def make_empty_image(folder):
    """viald does not start without an image: this one has nothing in it, so nothing is baked from it."""
    (folder / "none/rootfs").mkdir(parents=True, exist_ok=True)
    (folder / "none.json").write_text(json.dumps({
        "name": "none", "hash": "0" * 12, "summary": "", "aliases": [], "rootfs": str(folder / "none/rootfs"),
        "created_at": "2026-01-01T00:00:00Z", "size_bytes": 1, "packages": 0, "missing": []}))


def make_idle_runsc(path):
    """Says its version, which takes the real one a tenth of a second, and starts nothing."""
    path.write_text("""#!/bin/sh
[ "$1" != --version ] || printf 'runsc version release-20260905.0\\nspec: 1.2.1\\n'
[ "$1" != help ] || echo "-background"
[ "$1" = --version ] || [ "$1" = help ]
""")
    path.chmod(0o755)


def bare_options(place):
    """For a viald that starts at once and has no sandboxes."""
    make_empty_image(place / "images")
    make_idle_runsc(place / "runsc")
    return "--images-dir", place / "images", "--engine", "gvisor", "--runsc", place / "runsc"
