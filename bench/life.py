# SPDX-License-Identifier: Apache-2.0
"""The life cycle's promises: pool, burst, blanks, forks, hibernation, density. Floors are bare runsc in the same run."""

import concurrent.futures
import functools
import http.client
import json
import os
import shutil
import socket
import threading
import time

from bare import Bare
from harness import Daemon, percentile, ratio_row, stats, timed

UNDO_LIMIT = 200  # a checkpoint of all of it, beside a run of a few milliseconds
BLANKS = 4  # as many as viald keeps by default


def pooled(n):
    spent = []
    with Daemon(pool_size=2) as daemon:
        for _ in range(n):
            daemon.wait_for_pool(2)
            start = time.perf_counter()
            sandbox = daemon.create()
            daemon.run(sandbox)
            spent.append((time.perf_counter() - start) * 1000)
            daemon.delete(sandbox)
    return [{"case": "create from the pool and first run", **stats(spent), "value": percentile(spent, 0.5), "unit": "ms", "at_most": 15}]


def bare_two_at_a_time(bare, count, is_created=False):
    names = [bare.create() if is_created else bare.prepare() for _ in range(count)]
    start = time.perf_counter()
    waiting, running = list(names), []
    while waiting or running:
        while waiting and len(running) < 2:
            running.append(bare.restore(waiting.pop(), wait=False, is_created=is_created))
        running = [process for process in running if process.poll() is None]
        time.sleep(0.001)
    spent = (time.perf_counter() - start) * 1000
    for name in names:
        bare.end(name)
    return spent


def burst(count):
    with Daemon(pool_size=2) as daemon:
        daemon.wait_for_pool(2, blank=2)
        with Bare(daemon) as bare:
            floor = bare_two_at_a_time(bare, count)
        made, errors = [], []

        def one():
            try:
                made.append(daemon.call("POST", "/sandboxes", {"template": daemon.template}, connection=daemon.connect())["id"])
            except Exception as error:  # counted: none may fail
                errors.append(str(error))

        threads = [threading.Thread(target=one) for _ in range(count)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent = (time.perf_counter() - start) * 1000
        for sandbox in made:
            daemon.delete(sandbox)
    return [{"case": f"burst of {count} creates, pool of 2", "n": count, "value": len(errors), "unit": "failed", "at_most": 0},
            {"case": "the whole burst", "n": 1, "p50_ms": round(spent), "p99_ms": round(spent), "floor": f"{count} bare restores, two at a time",
             "floor_ms": round(floor), "ratio": spent / floor, "limit": 1.3}]


def blanks(n):
    """A restore into a blank; the restored guests of the pool are claimed first so that only blanks are left."""
    ours, floor = [], []
    with Daemon(pool_size=1) as daemon:
        daemon.wait_for_pool(1, blank=1)
        with Bare(daemon) as bare:
            for _ in range(n):
                daemon.wait_for_pool(1, blank=1)
                floor.append(bare.time_restore())
                pooled_one = daemon.create()
                start = time.perf_counter()
                sandbox = daemon.create()
                spent = (time.perf_counter() - start) * 1000
                if daemon.call("GET", f"/sandboxes/{sandbox}")["boot_mode"] == "restore":
                    ours.append(spent)
                daemon.delete(sandbox)
                daemon.delete(pooled_one)
    return [ratio_row("create without pool (into a blank)", ours, floor, "bare runsc restore", 0.8)]


def sizes(n):
    """Other sizes than the template's, without a pool: as fast to make, and to use first, as its own."""
    def first_run(daemon, **size):
        start = time.perf_counter()
        sandbox = daemon.create(**size)
        daemon.run(sandbox)
        spent = (time.perf_counter() - start) * 1000
        daemon.delete(sandbox)
        return spent

    asked = {"2x16": {"tier": "2x16"}, "4x4": {"tier": "4x4"}, "3 processors and 3000 MB": {"cpu": 3, "memory_mb": 3000}}
    own, others = [], {name: [] for name in asked}
    with Daemon(pool_size=0, max_cpu_percent=6400) as daemon:
        for size in asked.values():
            first_run(daemon, **size)  # bakes it
        for _ in range(n):
            own.append(first_run(daemon))
            for name, size in asked.items():
                others[name].append(first_run(daemon, **size))
    return [ratio_row(f"create and first run, {name}", spent, own, "the template's own size", 1.2) for name, spent in others.items()]


class Ticker:
    """A program in the guest that speaks every millisecond or two; the longest silence on this side is how long the guest stood still, and that interval more."""

    LOOP = "import time\nwhile True:\n    print('.', flush=True)\n    time.sleep(0.001)"

    def __init__(self, daemon, sandbox):
        self.connection = daemon.connect()
        self.connection.request("POST", f"/v1/sandboxes/{sandbox}/exec/stream", json.dumps({"argv": ["python3", "-c", self.LOOP]}).encode(),
                                {"Authorization": "Bearer " + daemon.key})
        self.answer = self.connection.getresponse()
        self.longest = 0
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        last = time.perf_counter()
        try:
            while self.answer.read1(65536):
                now = time.perf_counter()
                self.longest = max(self.longest, now - last)
                last = now
        except (OSError, ValueError, http.client.HTTPException):
            pass  # stop() hangs up in the middle

    def pause_ms(self, action):
        time.sleep(0.2)
        self.longest = 0
        action()
        time.sleep(0.1)
        return self.longest * 1000

    def stop(self):
        self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.connection.close()


def parents_pauses(daemon, parent, n):
    ticker, pauses = Ticker(daemon, parent), []
    for _ in range(n):
        daemon.wait_for_pool(1, blank=BLANKS)
        children = []
        pauses.append(ticker.pause_ms(lambda: children.append(daemon.call("POST", f"/sandboxes/{parent}/fork", {})["sandbox"]["id"])))
        daemon.delete(children[0])
    ticker.stop()
    return pauses


def fork_one(daemon, parent, code):
    """(milliseconds to the child's first answer, the child)"""
    start = time.perf_counter()
    child = daemon.call("POST", f"/sandboxes/{parent}/fork", {})["sandbox"]["id"]
    daemon.run(child, code)
    return (time.perf_counter() - start) * 1000, child


def forks(n):
    one, four, checkpoints, restores, loads, four_loads = [], [], [], [], [], []
    with Daemon(pool_size=1) as daemon:
        daemon.wait_for_pool(1, blank=BLANKS)
        parent = daemon.create()
        daemon.run(parent, "data = list(range(100000))")
        with Bare(daemon) as bare:
            name = bare.start()
            for _ in range(n):
                checkpoints.append(bare.time_checkpoint(name))
                restores.append(bare.time_restore())
                loads.append(bare.time_restore_into())
                four_loads.append(bare_two_at_a_time(bare, 4, is_created=True))
                daemon.wait_for_pool(1, blank=BLANKS)
                spent, child = fork_one(daemon, parent, "len(data)")
                one.append(spent)
                daemon.delete(child)
                daemon.wait_for_pool(1, blank=BLANKS)
                start = time.perf_counter()
                tree = daemon.call("POST", f"/sandboxes/{parent}/fork-tree", {"count": 4})["children"]
                four.append((time.perf_counter() - start) * 1000)
                for child in tree:
                    daemon.delete(child["id"])
        pauses = parents_pauses(daemon, parent, n)
    floor = [a + b for a, b in zip(checkpoints, restores)]
    least = [a + b for a, b in zip(checkpoints, loads)]
    four_least = [a + b for a, b in zip(checkpoints, four_loads)]
    return [ratio_row("fork(1) and the child's first answer", one, floor, "bare checkpoint + bare restore", 0.7),
            # Whether the promises above and below can be kept here at all: what runsc's own commands take, in sandboxes created beforehand.
            ratio_row("fork(1), beside runsc alone", one, least, "bare checkpoint + bare restore into a created sandbox", 1.1),
            ratio_row("fork-tree(4)", four, one, "fork(1)", 1.8),
            ratio_row("fork-tree(4), beside runsc alone", four, four_least, "bare checkpoint + four such restores, two at a time", 1.1),
            ratio_row("the parent's pause in a fork", pauses, checkpoints, "bare checkpoint", 1.0)]


def hibernation(n):
    down, up, checkpoints, restores = [], [], [], []
    with Daemon(pool_size=1) as daemon:
        daemon.wait_for_pool(1, blank=1)
        sandbox = daemon.create()
        daemon.run(sandbox, "x = 1")
        with Bare(daemon) as bare:
            name = bare.start()
            for _ in range(n):
                checkpoints.append(bare.time_checkpoint(name))
                restores.append(bare.time_restore())
                daemon.wait_for_pool(1, blank=1)
                down.append(daemon.hibernate(sandbox))
                up.append(timed(lambda: daemon.run(sandbox, "x")))
    return [ratio_row("hibernate", down, checkpoints, "bare checkpoint", 1.1), ratio_row("wake and first answer", up, restores, "bare restore", 1.1)]


def in_place(n):
    """What it costs to be able to go back, and to go."""
    plain, kept, back, undone, woken, merged, checkpoints = [], [], [], [], [], [], []
    with Daemon(pool_size=1) as daemon:
        daemon.wait_for_pool(1, blank=BLANKS)
        sandbox = daemon.create()
        path = f"/sandboxes/{sandbox}"
        daemon.run(sandbox, "x = 1")
        to = daemon.call("POST", f"{path}/snapshots", {})["id"]
        with Bare(daemon) as bare:
            name = bare.start()
            for _ in range(n):
                checkpoints.append(bare.time_checkpoint(name))
                plain.append(timed(lambda: daemon.run(sandbox, "x")))
                kept.append(timed(lambda: daemon.call("POST", f"{path}/run", {"code": "x", "undo": True})))
                daemon.wait_for_pool(1, blank=BLANKS)
                undone.append(timed(lambda: [daemon.call("POST", f"{path}/undo"), daemon.run(sandbox, "x")]))
                daemon.wait_for_pool(1, blank=BLANKS)
                back.append(timed(lambda: [daemon.call("POST", f"{path}/rollback", {"snapshot": to}), daemon.run(sandbox, "x")]))
                daemon.wait_for_pool(1, blank=BLANKS)
                daemon.hibernate(sandbox)
                woken.append(timed(lambda: daemon.run(sandbox, "x")))
                winner = daemon.call("POST", f"{path}/fork", {})["sandbox"]["id"]
                merged.append(timed(lambda: [daemon.call("POST", f"{path}/merge", {"winner": winner}), daemon.run(sandbox, "x")]))
        size = daemon.call("GET", f"/snapshots/{to}")["size_bytes"]
    beyond = [with_it - without for with_it, without in zip(kept, plain)]
    return [ratio_row("a run with undo", kept, plain, "the same run without", UNDO_LIMIT),
            ratio_row("what undo adds to a run", beyond, checkpoints, "bare checkpoint", 1.5),
            {"case": "an undo point of a sandbox in which little ran", "value": round(size / 1e6, 1), "unit": "MB", "at_most": 200},
            ratio_row("rollback and first answer", back, woken, "wake and first answer", 1.3),
            ratio_row("undo and first answer", undone, woken, "wake and first answer", 1.3),
            ratio_row("merge and first answer", merged, woken, "wake and first answer", 0.5)]


# What an interpreter with a large table holds. Every page is touched, and none is only zeros.
HEAVY_MB, HEAVY_ROOM_MB = 1200, 8000
HEAVY = f"block = bytearray({HEAVY_MB} << 20)\nfor i in range(0, len(block), 4096): block[i] = 1 + (i >> 12) % 255"


def memory_available_mb():
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("MemAvailable:"))


def heavy_guest(bare):
    """The same in a bare guest: a process that holds as much. /dev is the one place there that can be written."""
    name = bare.start()
    bare.execute(name, "/bin/sh", "-c", f"python3 -c '{HEAVY}\nopen(\"/dev/held\", \"w\")\nimport time\ntime.sleep(1e6)' > /dev/null 2>&1 < /dev/null & "
                 "while [ ! -e /dev/held ]; do sleep 0.1; done")
    return name


def read_once(image, is_flushed=False):
    chunk = bytearray(256 * 1024)
    for name in os.listdir(image):
        with open(os.path.join(image, name), "rb", buffering=0) as file:
            if is_flushed:
                os.fdatasync(file.fileno())
            while file.readinto(chunk):
                pass


def keep(image):
    """The least that makes a checkpoint one to rely on: its bytes on the disk, and each of them read once, as whoever authenticates them must."""
    read_once(image, is_flushed=True)


def trust(bare, image):
    """The least that a restore takes where what is loaded is authenticated: each byte read once, beside the load."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        reader = pool.submit(timed, lambda: read_once(image))
        return max(bare.time_restore(image), reader.result())


def heavy(n):
    """With 1.2 GB touched: each verb against the bare command on a guest that holds the same."""
    if memory_available_mb() < HEAVY_ROOM_MB:
        raise RuntimeError(f"four guests with {HEAVY_MB} MB each need {HEAVY_ROOM_MB} MB of free memory")
    one, pauses, down, up, checkpoints, kept, restores, trusted = [], [], [], [], [], [], [], []
    with Daemon(pool_size=1) as daemon:
        daemon.wait_for_pool(1, blank=BLANKS)
        parent = daemon.create()
        daemon.run(parent, HEAVY)
        with Bare(daemon) as bare:
            name = heavy_guest(bare)
            for _ in range(n):
                image = []
                checkpoints.append(timed(lambda: image.append(bare.checkpoint_of(name))))
                kept.append(checkpoints[-1] + timed(lambda: keep(image[0])))
                shutil.rmtree(image.pop())
                image.append(bare.checkpoint_of(name))  # what was flushed may have left the memory, and a floor must not pay for that
                restores.append(bare.time_restore(image[0]))
                trusted.append(trust(bare, image[0]))
                shutil.rmtree(image[0])
                daemon.wait_for_pool(1, blank=BLANKS)
                spent, child = fork_one(daemon, parent, "len(block)")
                one.append(spent)
                daemon.delete(child)
                daemon.wait_for_pool(1, blank=BLANKS)
                down.append(daemon.hibernate(parent))
                up.append(timed(lambda: daemon.run(parent, "len(block)")))
                pauses += parents_pauses(daemon, parent, 1)  # last: viald ends its ticker while the bare guest has its turn again
    floor = [a + b for a, b in zip(checkpoints, restores)]
    size = f"{HEAVY_MB / 1000:.1f} GB touched:"
    return [ratio_row(f"{size} the parent's pause in a fork", pauses, checkpoints, "bare checkpoint", 1.0),
            ratio_row(f"{size} fork(1) and the child's first answer", one, floor, "bare checkpoint + bare restore", 1.0),
            ratio_row(f"{size} hibernate", down, checkpoints, "bare checkpoint", 1.0),
            ratio_row(f"{size} hibernate (durable, authenticated)", down, kept, "bare checkpoint, flushed and read once", 1.0),
            ratio_row(f"{size} wake and first answer", up, restores, "bare restore", 1.0),
            ratio_row(f"{size} wake and first answer (authenticated)", up, trusted, "bare restore, its image read once beside it", 1.0)]


def density(hibernated, live):
    rows = []
    with Daemon(pool_size=1) as daemon:
        daemon.wait_for_pool(1)
        empty_ms = daemon.restart()
        daemon.wait_for_pool(1, blank=BLANKS)
        before = daemon.resident_mb()
        sleepers = []
        for _ in range(hibernated):
            sleepers.append(daemon.create())
            daemon.call("POST", f"/sandboxes/{sleepers[-1]}/hibernate")
        rows.append({"case": f"viald's memory with {hibernated} hibernated", "value": round(daemon.resident_mb() - before, 1), "unit": "MB more", "at_most": 20})
        rows.append({"case": "listing them", "value": round(timed(lambda: daemon.call("GET", "/sandboxes")), 1), "unit": "ms", "at_most": 100})
        rows.append({"case": f"starting with {hibernated} hibernated, beyond starting with none", "value": round(daemon.restart() - empty_ms, 1), "unit": "ms", "at_most": 250})
        for sandbox in sleepers:
            daemon.delete(sandbox)
        alive = [daemon.create() for _ in range(live)]
        answers = sum(1 for sandbox in alive if daemon.run(sandbox)["results"])
        rows.append({"case": f"{live} live minimal sandboxes at once that answer", "value": answers, "unit": "", "at_least": live})
        for sandbox in alive:
            daemon.delete(sandbox)
    return rows


def cases(quick):
    n = 3 if quick else 20
    return [functools.partial(pooled, n), functools.partial(burst, 8 if quick else 20), functools.partial(blanks, n), functools.partial(sizes, n), functools.partial(forks, n), functools.partial(hibernation, n),
            functools.partial(in_place, n),
            functools.partial(heavy, 1 if quick else 5), functools.partial(density, 10 if quick else 200, 10 if quick else 40)]
