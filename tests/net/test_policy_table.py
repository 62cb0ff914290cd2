# SPDX-License-Identifier: Apache-2.0
"""Every row of cases.py, from inside a sandbox of its own; and the verdicts without connecting agree with the kernel."""
import pytest

from backend import patience
from cases import CASES


@pytest.mark.parametrize("policy,attempts", [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_policy(sandbox, policy, attempts):
    box = sandbox(policy)
    results = box.try_all([a for a, _ in attempts])
    # A guest without the right to raw sockets cannot ping; that says nothing about the rules.
    tried = [(a, expected, r) for (a, expected), r in zip(attempts, results) if r.get("code") not in ("EPERM", "EACCES")]
    wrong = [(a, "should succeed" if expected else "should fail", r) for a, expected, r in tried if r["ok"] != expected]
    assert not wrong, wrong
    # A refusal is an answer, not a silence: programs fail at once. (Linux over a veth hears the ICMPv6 answer while connect()
    # still holds the socket and looks again a second later; gVisor and virtual machines do not share a CPU with the gate.)
    def slow(results):
        refused = [(a, r) for (a, _), r in zip(attempts, results) if not r["ok"] and a["do"] in ("tcp", "http", "https")]
        return [(a, r) for a, r in refused if r["ms"] / patience() > (900 if a["to"][0].isdigit() and "." in a["to"] else 1900)]

    if slow(results):
        # The whole row again: a refusal may go unanswered for the one before it.
        results = box.try_until([a for a, _ in attempts], lambda results: not slow(results))
    assert not slow(results), slow(results)
