# SPDX-License-Identifier: Apache-2.0
"""Removes the network slots of daemons whose data directory is gone: what killed test runs leave. Prints what it removes.

A viald sweeps its own leftovers when it starts; a directory that no longer exists has no viald to do so.
"""
import json
import os
import subprocess


def links():
    shown = subprocess.run(["ip", "-j", "-d", "link", "show", "type", "veth"], text=True, capture_output=True, check=True).stdout
    return [link for link in json.loads(shown or "[]") if link.get("ifalias", "").startswith("vial:")]


def main():
    for link in links():
        tag, _, directory = link["ifalias"][5:].partition(" ")
        if not directory or len(directory) >= 200 or os.path.exists(directory):
            continue
        name = f"vial-{tag}-{int(link['ifname'][2:], 16)}"
        print(f"removing {name} of {directory}")
        subprocess.run(["ip", "link", "del", link["ifname"]])
        for namespace in (name, name + "-gate"):
            subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
