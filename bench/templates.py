# SPDX-License-Identifier: Apache-2.0
"""Custom templates' promises: one with 800 MB of files more starts as its base does, and ten sandboxes of it share one copy of them."""

import functools
import time

from harness import Daemon, ratio_row, timed

LAYER_MB = 800
SANDBOXES = 10
# Files as packages have them, of content that no compression and no other copy makes smaller.
FILES = f"mkdir /opt/big && for i in $(seq 1 {LAYER_MB // 4}); do head -c 4M /dev/urandom > /opt/big/$i; done"


def build(daemon, name, **fields):
    begun = daemon.call("POST", "/templates", {"name": name, "base": daemon.template, **fields})["build_id"]
    while (state := daemon.call("GET", f"/templates/builds/{begun}"))["status"] in ("pending", "building"):
        time.sleep(0.1)
    if state["status"] != "ready":
        raise RuntimeError(f"{name} was not built: {state['error']}")
    return state


def kilobytes(*names):
    with open("/proc/meminfo") as file:
        values = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return sum(values[name] for name in names)


def unshared_mb():
    """What is nobody's cache of a file: memory of processes, and files in memory, which is where a gVisor guest has its own."""
    return kilobytes("AnonPages", "Shmem") / 1024


def cached_mb():
    return kilobytes("Cached") / 1024 - kilobytes("Shmem") / 1024


def costs(daemon, template):
    """MB of memory and of page cache that ten sandboxes take which have read all of /opt/big, if they have it."""
    memory, cache = unshared_mb(), cached_mb()
    made = [daemon.create(template=template) for _ in range(SANDBOXES)]
    for sandbox in made:
        daemon.call("POST", f"/sandboxes/{sandbox}/exec", {"cmd": "cat /opt/big/* 2>/dev/null | wc -c; true"})
    spent = unshared_mb() - memory, cached_mb() - cache
    for sandbox in made:
        daemon.delete(sandbox)
    return spent


def starts_and_shares(n):
    with Daemon(pool_size=0) as daemon:
        state = build(daemon, "big", steps=[{"run": FILES}])
        ours, floor = [], []
        for _ in range(n):
            for template, spent in ((daemon.template, floor), ("big", ours)):
                made = []
                spent.append(timed(lambda: made.append(daemon.create(template=template))))
                daemon.delete(made[0])
        costs(daemon, "big")  # once, so that what the host caches of the layer is there
        base, _ = costs(daemon, daemon.template)
        memory, cache = costs(daemon, "big")
        layer = state["layer_bytes"] / (1 << 20)
    return [ratio_row(f"create from a template with {LAYER_MB} MB more", ours, floor, "create from its base", 1.2),
            {"case": f"memory of each of {SANDBOXES} that have read these, beyond those of the base", "value": round((memory - base) / SANDBOXES, 1), "unit": "MB", "at_most": 40},
            {"case": f"page cache of all {SANDBOXES}, in copies of the layer", "value": round(max(cache, 0) / layer, 2), "unit": "more than the first one's", "at_most": 0.2}]


def cases(quick):
    return [functools.partial(starts_and_shares, 3 if quick else 20)]
