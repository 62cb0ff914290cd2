# SPDX-License-Identifier: Apache-2.0
"""What waiting costs: the processor time of sandboxes and blanks that nobody uses, of many of them together, and of viald beside them.

A sandbox's time is that of its shim and of everything below it: the gofer, gVisor's kernel, its stubs. Processor time, so that what else the machine does
meanwhile is not counted, and read from each process's own clock, which knows nanoseconds and remembers threads that have ended.
"""

import functools
import glob
import os
import time

from harness import Daemon

SETTLE_SECONDS = 5  # what was asked last is answered, but not yet cold: kernels tidy up behind a run
POOL, BLANKS = 2, 4  # as many as viald keeps by default


def processes():
    """pid -> parent"""
    parents = {}
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path) as file:
                parents[int(path.split("/")[2])] = int(file.read().rsplit(")", 1)[1].split()[1])
        except OSError:  # gone meanwhile
            pass
    return parents


def below(root, parents):
    """The process and all its descendants."""
    children = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found = [root]
    for pid in found:
        found += children.get(pid, [])
    return found


def cpu_seconds(pids):
    total = 0.0
    for pid in pids:
        try:
            total += time.clock_gettime((~pid << 3) | 2)  # CPUCLOCK_SCHED of the whole process, as clock_getcpuclockid(3) makes it
        except OSError:
            pass
    return total


def resident_pages(pids):
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm") as file:
                total += int(file.read().split()[1])
        except OSError:
            pass
    return total


def shims(daemon):
    """The host name of each guest -> its shim."""
    found = {}
    for path in glob.glob(os.path.join(daemon.data, "sandboxes", "*", "shim.pid")):
        with open(path) as file:
            found[os.path.basename(os.path.dirname(path))] = int(file.read().split()[0])
    return found


def percent_of_a_core(groups, seconds):
    """For each group of processes, what it took of one core meanwhile."""
    before, start = {name: cpu_seconds(pids) for name, pids in groups.items()}, time.monotonic()
    time.sleep(seconds)
    spent = time.monotonic() - start
    return {name: 100 * (cpu_seconds(pids) - before[name]) / spent for name, pids in groups.items()}


def row(case, value, at_most, seconds, **more):
    return {"case": f"{case}, over {seconds} s", "value": round(value, 3), "unit": "% of a core", "at_most": at_most, **more}


def by_size(daemon):
    """The guests' processes by host name, the smallest guest first: blanks, into which nothing was restored yet."""
    parents = processes()
    trees = {host: below(pid, parents) for host, pid in shims(daemon).items()}
    return dict(sorted(trees.items(), key=lambda item: resident_pages(item[1])))


def one_of_each(template, seconds):
    """A sandbox that has answered, and the blanks behind the pool."""
    with Daemon(pool_size=1, template=template) as daemon:
        daemon.wait_for_pool(1, blank=BLANKS, seconds=120)
        used = list(by_size(daemon))[-1]  # the one that is ready, and becomes the sandbox
        daemon.run(daemon.create())
        daemon.wait_for_pool(1, blank=BLANKS, seconds=120)
        time.sleep(SETTLE_SECONDS)
        trees = by_size(daemon)
        blanks = list(trees)[:BLANKS]
        taken = percent_of_a_core(trees, seconds)
    return [row(f"idle sandbox ({template})", taken[used], 0.2, seconds),
            row(f"idle blank ({template}), the busiest of {BLANKS}", max(taken[host] for host in blanks), 0.2, seconds,
                each=[round(taken[host], 3) for host in blanks])]


def crowd(live, seconds):
    """Many that have answered once and wait, with the pool behind them."""
    with Daemon(pool_size=POOL) as daemon:
        for _ in range(live):
            daemon.run(daemon.create())
        daemon.wait_for_pool(POOL, blank=BLANKS, seconds=120)
        time.sleep(SETTLE_SECONDS)
        everything = below(daemon.process.pid, processes())
        taken = percent_of_a_core({"all": everything, "viald": [daemon.process.pid]}, seconds)
    # A hundred and the pool may take a tenth of a core; fewer (--quick) their share of that.
    at_most = round(10 * (live + POOL) / (100 + POOL), 2)
    return [row(f"{live} live idle minimal sandboxes, pool and viald together", taken["all"], at_most, seconds),
            row(f"viald alone, with {live} idle sandboxes", taken["viald"], 0.1, seconds)]


def cases(quick):
    seconds = 10 if quick else 30
    templates = ["minimal"] if quick else ["minimal", "code-interpreter"]
    return [*(functools.partial(one_of_each, template, seconds) for template in templates), functools.partial(crowd, 10 if quick else 100, seconds)]
