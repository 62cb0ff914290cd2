# SPDX-License-Identifier: Apache-2.0
"""What it costs to know who did what: runs with and without a record, requests among many keys and projects, and a record of a million operations
searched and proven."""

import functools
import json
import os
import re
import sqlite3
import subprocess
import tempfile
import urllib.parse

from audit_records import add
from harness import BUILD, Daemon, ratio_row, stats, timed

TURN = 20
KEYS, PROJECTS = 1000, 100
MILLION = 1_000_000
EMPTY = {"by agent and what it never did"}  # all of its records have to be looked at


def recorded(n):
    """The same hot run in two vialds, by turns: one records what is done, the other nothing."""
    ours, floor = [], []
    with Daemon(pool_size=0, template="code-interpreter") as with_audit, Daemon(pool_size=0, template="code-interpreter", audit="false") as without:
        sandboxes = {daemon: daemon.create() for daemon in (with_audit, without)}
        for daemon, sandbox in sandboxes.items():
            for _ in range(TURN):
                daemon.run(sandbox)
        for turn in range(n // TURN):
            order = [(with_audit, ours), (without, floor)]
            for daemon, times in order if turn % 2 else order[::-1]:
                times += [timed(lambda: daemon.run(sandboxes[daemon])) for _ in range(TURN)]
    return [ratio_row("hot run '1+1' with its record", ours, floor, "the same without audit", 1.10)]


def crowd(daemon):
    """Keys and projects that have nothing to do with what is measured."""
    for i in range(PROJECTS):
        daemon.call("POST", "/projects", {"name": f"project-{i}", "quotas": {"max_sandboxes": 10}})
    for i in range(KEYS):
        daemon.call("POST", "/keys", {"name": f"key-{i}", "role": "runner", "project": f"project-{i % PROJECTS}"})


def time_per_request(daemon, sandbox, seconds):
    """In milliseconds, by wrk on one core with viald on the other."""
    url = f"http://127.0.0.1:{daemon.port}/v1/sandboxes/{sandbox}"
    output = subprocess.run(["taskset", "-c", "1", "wrk", "-t1", "-c64", f"-d{seconds}s", "-H", "Authorization: Bearer " + daemon.key, url],
                            capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in output:
        raise RuntimeError("requests failed: " + output)
    return 1000 / float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))


def among_many(turns):
    """Authenticated requests with 1000 keys and 100 projects beside those of a vial with one of each, by turns."""
    ours, floor = [], []
    with Daemon(pool_size=0) as many, Daemon(pool_size=0) as one:
        crowd(many)
        sandboxes = {daemon: daemon.create() for daemon in (many, one)}
        for daemon in sandboxes:
            subprocess.run(["taskset", "-pc", "0", str(daemon.process.pid)], stdout=subprocess.DEVNULL)
            time_per_request(daemon, sandboxes[daemon], 1)
        for turn in range(turns):
            order = [(many, ours), (one, floor)]
            for daemon, times in order if turn % 2 else order[::-1]:
                times.append(time_per_request(daemon, sandboxes[daemon], 1))
    row = ratio_row(f"GET one sandbox among {KEYS} keys and {PROJECTS} projects", ours, floor, "with one key and one project", 1.05)
    # Microseconds: two digits of a millisecond say nothing.
    row.update(p50_ms=round(sorted(ours)[len(ours) // 2], 4), floor_ms=round(sorted(floor)[len(floor) // 2], 4))
    return [row]


def searches(data):
    """Questions that people ask, each with something to find: about a record from the middle."""
    db = sqlite3.connect(f"file:{data}/audit.sqlite?mode=ro", uri=True)
    header, body = db.execute("SELECT header, body FROM records WHERE seq = (SELECT max(seq) / 2 FROM records)").fetchone()
    db.close()
    record, code = json.loads(header), json.loads(body)["code"]
    return {
        "by sandbox": {"sandbox": record["sandbox"]},
        "by trace": {"trace_id": record["origin"]["trace_id"]},
        "by principal and action": {"principal": record["principal"]["id"], "action": record["action"]},
        "by agent and session": {"agent": record["agent"], "session": record["session"]},
        "by agent and what it never did": {"agent": record["agent"], "action": "key.create"},
        "by time, in a project": {"project": record["project"], "to": record["time"]},
        "by time, action and project": {"project": record["project"], "action": record["action"], "from": record["time"]},
        "by a rare word": {"text": code.split()[-1]},
        "by a common word, in a project": {"text": code.split()[0], "project": record["project"]},
    }


def search(daemon, count, n):
    rows = []
    for name, filters in searches(daemon.data).items():
        path = "/audit?" + urllib.parse.urlencode({"project": "*", **filters, "limit": 100})
        found = len(daemon.call("GET", path)["items"])
        if (found == 0) != (name in EMPTY):
            raise RuntimeError(f"{found} records were found {name}: GET {path}")
        times = [timed(lambda: daemon.call("GET", path)) for _ in range(n)]
        rows.append({"case": f"GET /audit {name}, of {count} records, p50", **stats(times), "value": stats(times)["p50_ms"], "unit": "ms", "at_most": 50})
    return rows


def prove(daemon, count):
    """The whole export, offline, with nothing but the public key; and the server's own look."""
    url, key, vial = f"http://127.0.0.1:{daemon.port}/v1/audit/export?project=*", os.path.join(daemon.data, "keys", "audit.pub"), os.path.join(BUILD, "vial")
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as export:
        subprocess.run(["curl", "-s", "-S", "-f", "-H", "Authorization: Bearer " + daemon.key, "-o", export.name, url], check=True)
        offline = timed(lambda: subprocess.run([vial, "audit", "verify", export.name, "--key", key], check=True, stdout=subprocess.DEVNULL))
    verdict = {}
    online = timed(lambda: verdict.update(daemon.call("POST", "/audit/verify", {})))
    if not verdict["ok"]:
        raise RuntimeError(f"the record does not verify: {json.dumps(verdict)}")
    return [{"case": f"{name}, {count} records", "value": round(count / spent * 1000), "unit": "records/s", "at_least": 100_000}
            for name, spent in (("vial audit verify, offline", offline), ("POST /audit/verify", online))]


def million(count, n):
    with Daemon(pool_size=0) as daemon:
        empty_ms = daemon.restart()
        daemon.process.terminate()
        daemon.process.wait(60)
        add(daemon.data, count)
        full_ms = timed(daemon.start)
        rows = [ratio_row(f"viald starts with {count} records", [full_ms], [empty_ms], "with none", 2)]
        return rows + search(daemon, count, n) + prove(daemon, count)


def cases(quick):
    return [functools.partial(recorded, 200 if quick else 1000), functools.partial(among_many, 3 if quick else 10),
            functools.partial(million, MILLION // 10 if quick else MILLION, 10 if quick else 50)]
