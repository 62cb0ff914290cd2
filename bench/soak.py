# SPDX-License-Identifier: Apache-2.0
"""make soak: create and delete many sandboxes; nothing may leak. soak.py [CYCLES], 1000 by default."""

import glob
import hashlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from harness import Daemon  # noqa: E402

WARM_UP = 20


def count_processes(daemon):
    """Shims and engines of this viald; others on the machine come and go."""
    return sum(1 for path in glob.glob("/proc/[0-9]*/cmdline") if daemon.data in read(path) and ("runsc" in read(path) or "vial-shim" in read(path)))


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


def picture(daemon):
    pid = daemon.process.pid
    tag = hashlib.sha256(daemon.data.encode()).hexdigest()[:8]
    return {"file descriptors": len(os.listdir(f"/proc/{pid}/fd")), "memory in MB": round(daemon.resident_mb(), 1),
            "processes": count_processes(daemon), "files": sum(len(files) for _, _, files in os.walk(daemon.data)),
            "cgroups": len(glob.glob(f"/sys/fs/cgroup/*/vial-{tag}/*/")), "network namespaces": len(glob.glob(f"/run/netns/vial-{tag}-*")),
            "threads": len(os.listdir(f"/proc/{pid}/task"))}


def main():
    cycles = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    allowed = {"memory in MB": 16, "network namespaces": 16, "threads": 4, "file descriptors": 24}
    with Daemon(pool_size=0) as daemon:
        for _ in range(WARM_UP):
            daemon.delete(daemon.create())
        before = picture(daemon)
        print("before:", before, flush=True)
        for i in range(cycles):
            sandbox = daemon.create()
            if i % 10 == 0:
                daemon.run(sandbox)
            daemon.delete(sandbox)
            if (i + 1) % 100 == 0:
                print(i + 1, picture(daemon), flush=True)
        after = picture(daemon)
    leaks = [f"{name}: {before[name]} -> {after[name]}" for name in before if after[name] > before[name] + allowed.get(name, 0)]
    print("leaked: " + "; ".join(leaks) if leaks else f"{cycles} cycles, nothing leaked")
    return 1 if leaks else 0


if __name__ == "__main__":
    sys.exit(main())
