# SPDX-License-Identifier: Apache-2.0
"""Tells of every check when it is done, one line of JSON each, in the file that VIAL_CHECKS names (in the lab that is the console):

    {"plan": 49, "of": "engine"}                                     how many there will be
    {"then": "the API suite"}                                        and another plan, of that, is to come
    {"check": "...", "outcome": "passed", "seconds": 1.2}            or failed, with a "reason", or skipped

So what was found out is kept whatever becomes of the suite, and whoever ends what hangs (scripts/end-silent, tests/lab/watch.py) knows how long nothing was
finished. Also a plugin of pytest (-p checks); scripts/sum-results counts.
"""
import json
import os

MARK = "@@"  # in front of each line: consoles are shared


def tell(**fields):
    path = os.environ.get("VIAL_CHECKS")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{MARK}{json.dumps(fields)}\n")


def tell_check(name, outcome, seconds, reason=""):
    tell(check=name, outcome=outcome, seconds=round(seconds, 1), **({"reason": reason[:500]} if reason else {}))


def parse(line):
    """What a line tells, or None. Something else may stand before it, or break it."""
    before, mark, text = line.partition(MARK)
    try:
        return json.loads(text) if mark else None
    except ValueError:
        return None


def read(path):
    """All that was told so far."""
    with open(path, encoding="utf-8", errors="replace") as file:
        return [told for told in map(parse, file) if told]


class Count:
    """What a list of such lines comes to."""

    def __init__(self, told):
        self.planned = sum(one["plan"] for one in told if "plan" in one)
        begun = {one.get("of") for one in told if "plan" in one}
        self.to_come = [one["then"] for one in told if "then" in one and one["then"] not in begun]
        checks = [one for one in told if "check" in one]
        self.finished = len(checks)
        self.passed = [one["check"] for one in checks if one["outcome"] == "passed"]
        self.failed = [one["check"] for one in checks if one["outcome"] == "failed"]
        self.skipped = [one["check"] for one in checks if one["outcome"] == "skipped"]

    def is_whole(self):
        return self.planned > 0 and self.finished >= self.planned and not self.to_come

    def __str__(self):
        return f"{self.finished} of {self.planned}" + "".join(f", and {what}" for what in self.to_come)


# As pytest's plugin.

spent, worst = {}, {}


def pytest_collection_finish(session):
    if not session.config.option.collectonly:
        tell(plan=len(session.items), of=os.environ.get("VIAL_CHECKS_OF", "pytest"))


def pytest_runtest_logreport(report):
    """Three of these make a check: its set-up, itself, and its tear-down."""
    name = report.nodeid
    spent[name] = spent.get(name, 0) + report.duration
    if report.failed:
        worst[name] = ("failed", str(report.longrepr).strip().splitlines()[-1] if report.longrepr else "")
    elif report.skipped and name not in worst:
        worst[name] = ("skipped", str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else "")
    if report.when == "teardown":
        outcome, reason = worst.pop(name, ("passed", ""))
        tell_check(name, outcome, spent.pop(name), reason)
