# SPDX-License-Identifier: Apache-2.0
"""Looks after the lab from outside.

    watch.py follow PID CONSOLE CHECKS SECONDS    shows what comes over the machine's console, keeps what it tells of its checks (tests/checks.py) in CHECKS
                                                  as it comes, and ends the machine when no check was finished for SECONDS, stretched by the
                                                  slowness that the suite measured in there
    watch.py progress CHECKS                      says "lab: 212 of 504" now and then, until it is ended
"""
import os
import re
import signal
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import checks  # noqa: E402

PROGRESS_SECONDS = 15
ONLY_DOTS = re.compile(r"^[.sFExX]*(\s*\[ *\d+%\])?$")  # pytest's own progress


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except OSError:
        return False


class Follower:
    def __init__(self, console, kept, limit):
        self.console, self.kept, self.limit = open(console, "rb"), kept, limit
        self.rest, self.slowness, self.last = b"", 1.0, time.monotonic()

    def take(self):
        """What has come since."""
        *lines, self.rest = (self.rest + self.console.read().replace(b"\r", b"")).split(b"\n")
        for line in lines:
            self.take_line(line.decode(errors="replace"))

    def take_line(self, line):
        told = checks.parse(line)
        if told is None:
            print(line, flush=True)
            return
        words = line.partition(checks.MARK)[0]
        if not ONLY_DOTS.match(words):
            print(words, flush=True)
        self.last = time.monotonic()
        if "slowness" in told:
            self.slowness = told["slowness"]
        self.keep(**told)

    def keep(self, **told):
        os.environ["VIAL_CHECKS"] = str(self.kept)
        checks.tell(**told)

    def is_silent(self):
        return time.monotonic() - self.last > self.limit * self.slowness


def follow(pid, console, kept, limit):
    follower = Follower(console, kept, float(limit))
    while is_alive(pid):
        follower.take()
        if follower.is_silent():
            print(f"lab: no check was finished for {follower.limit * follower.slowness / 60:.1f} minutes: it hangs, and its machine is ended", flush=True)
            os.kill(int(pid), signal.SIGKILL)
            break
        time.sleep(0.2)
    follower.take()
    follower.take_line(follower.rest.decode(errors="replace"))


def progress(kept):
    shown = None
    while True:
        time.sleep(PROGRESS_SECONDS)
        count = checks.Count(checks.read(kept))
        if count.planned and str(count) != shown:
            shown = str(count)
            print(f"lab: {shown}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    {"follow": follow, "progress": progress}[sys.argv[1]](*sys.argv[2:])
