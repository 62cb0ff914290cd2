# SPDX-License-Identifier: Apache-2.0
"""Lists the network slots of daemons whose data directory is gone (what killed test runs leave); --remove removes them.

A viald sweeps its own leftovers when it starts; a directory that no longer exists has no viald to do so. Left alone: slots
whose directory is not an absolute path (it cannot be judged from here) and slots that a process still lives in.
"""
import glob
import json
import os
import subprocess
import sys

MAX_DIRECTORY = 200  # src/net/net.c cuts the alias there


def links():
    shown = subprocess.run(["ip", "-j", "-d", "link", "show", "type", "veth"], text=True, capture_output=True, check=True).stdout
    return [link for link in json.loads(shown or "[]") if link.get("ifalias", "").startswith("vial:")]


def inhabited():
    """Inodes of the network namespaces that some process is in."""
    found = set()
    for path in glob.glob("/proc/[0-9]*/ns/net"):
        try:
            found.add(os.stat(path).st_ino)
        except OSError:
            pass
    return found


def is_orphan(directory):
    return os.path.isabs(directory) and len(directory) < MAX_DIRECTORY and not os.path.exists(directory)


def main():
    living = inhabited()
    for link in links():
        tag, _, directory = link["ifalias"][5:].partition(" ")
        name = f"vial-{tag}-{int(link['ifname'][2:], 16)}"
        paths = [p for p in (f"/run/netns/{name}", f"/run/netns/{name}-gate") if os.path.exists(p)]
        if not is_orphan(directory) or any(os.stat(p).st_ino in living for p in paths):
            continue
        print(name, directory)
        if "--remove" in sys.argv[1:]:
            subprocess.run(["ip", "link", "del", link["ifname"]], stderr=subprocess.DEVNULL)
            for path in paths:
                subprocess.run(["ip", "netns", "del", os.path.basename(path)], stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
