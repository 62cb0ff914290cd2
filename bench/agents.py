# SPDX-License-Identifier: Apache-2.0
"""An agent with a thousand sessions, nearly all asleep, beside one with ten: listing a page, calling one that is awake, waking one."""

import functools
import json
import os
import sqlite3
import string

from harness import Daemon, ratio_row, timed

MANY, FEW = 1000, 10
AGENT = "/agents/sleeper"
TURN = 10


def call(daemon, session):
    daemon.call("POST", AGENT + "/exec", {"argv": ["true"], "session": session})


def number_id(number):
    """An id that no sandbox was given."""
    digits = string.ascii_lowercase + string.digits
    return "z" * 16 + "".join(digits[number // 36 ** place % 36] for place in range(4))


def add_sleepers(daemon, count):
    """Copies of the record of a session that sleeps: what a list shows and a call has to find its own among. They are never woken, so they need no image."""
    db = sqlite3.connect(os.path.join(daemon.data, "db.sqlite"))
    names = [row[1] for row in db.execute("PRAGMA table_info(sandboxes)")]
    model = dict(zip(names, db.execute("SELECT * FROM sandboxes WHERE status = 'hibernated'").fetchone()))
    for number in range(count):
        document = {**json.loads(model["document"]), "session": f"copy-{number}", "host_id": number_id(number)}
        row = {**model, "id": number_id(number), "document": json.dumps(document), "created_at": model["created_at"] - 1000 - number}
        db.execute(f"INSERT INTO sandboxes ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})", [row[name] for name in names])
    db.commit()
    db.close()


def prepare(daemon, count):
    daemon.call("POST", "/agents", {"name": "sleeper"})
    daemon.call("POST", AGENT + "/versions", {"template": "minimal", "never_expire": True})
    for session in ("asleep", "awake"):
        call(daemon, session)
    sleep(daemon)
    daemon.restart(lambda: add_sleepers(daemon, count - 2))
    page = daemon.call("GET", AGENT + "/sessions?limit=1000")["items"]
    if len(page) != count:
        raise RuntimeError(f"{len(page)} sessions are listed, not {count}")
    call(daemon, "asleep")


def sleep(daemon):
    box = daemon.call("GET", AGENT + "/sessions/asleep")["sandbox_id"]
    daemon.hibernate(box)


def by_turns(daemons, turns, per_turn, act, before=lambda daemon: None):
    times = {daemon: [] for daemon in daemons}
    for turn in range(turns):
        for daemon in daemons if turn % 2 else daemons[::-1]:
            for _ in range(per_turn):
                before(daemon)
                times[daemon].append(timed(lambda: act(daemon)))
    return [times[daemon] for daemon in daemons]


def crowd(turns, wakes):
    with Daemon(pool_size=0, max_sandboxes=2 * MANY) as many, Daemon(pool_size=0, max_sandboxes=2 * MANY) as few:
        prepare(many, MANY)
        prepare(few, FEW)
        daemons, name = [many, few], f"with {FEW} sessions"
        listed = by_turns(daemons, turns, TURN, lambda daemon: daemon.call("GET", AGENT + "/sessions?limit=10"))
        called = by_turns(daemons, turns, TURN, lambda daemon: call(daemon, "awake"))
        woken = by_turns(daemons, wakes, 1, lambda daemon: call(daemon, "asleep"), before=sleep)
    return [ratio_row(f"a page of {MANY} sessions", *listed, name, 1.2), ratio_row(f"a call to one of {MANY} sessions", *called, name, 1.1),
            ratio_row(f"waking one of {MANY} sessions", *woken, name, 1.2)]


def cases(quick):
    return [functools.partial(crowd, 5 if quick else 40, 3 if quick else 15)]
