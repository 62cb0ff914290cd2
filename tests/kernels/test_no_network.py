# SPDX-License-Identifier: Apache-2.0
"""A sandbox whose policy is `disabled` says so in one sentence, at once; one whose policy is opened does not."""
import time

import pytest

from waiting import slow

SENTENCE = ('this sandbox has no network (policy: disabled). It can be opened: "network": {"mode": "open"} when it is made, `vial net set ID open` now, or for all '
            'that an SDK makes a setting of the server such as e2b_network=open\n')
# npm's own start under gVisor, stretched for a busy machine; trying again would take it minutes. pip says so when it tries again.
AT_ONCE_SECONDS = slow(8)


@pytest.mark.parametrize("language, code, needs_name", [
    ("python", "import requests; requests.get('https://example.com')", "requests"),
    ("python", "import urllib.request; urllib.request.urlopen('https://example.com')", None),
    ("python", "!pip install left-pad", "pip"),
    ("javascript", "await fetch('https://example.com')", None),
    ("javascript", "await fetch('https://example.com').catch(error => console.error('Error:', error.message))", None),
    ("javascript", "require('https').get('https://example.com')", None),
    ("bash", "curl -sS https://example.com", "curl"),
    ("bash", "pip install left-pad", "pip"),
    ("bash", "npm install left-pad", "npm"),
    ("bash", "sudo apt-get update", "sudo"),
    ("bash", "apt-get update", "apt-get"),
    ("bash", "apt-get install -y cowsay", "apt-get"),
    ("bash", "sudo apt-get install -y cowsay", "sudo"),
    ("bash", "git clone https://example.com/a/b.git", "git"),
])
def test_whoever_misses_the_network_reads_why(box, needs, language, code, needs_name):
    if box.name == "agent":
        pytest.skip("without viald nobody has said that there is no network")
    if needs_name:
        needs(needs_name)
    began = time.monotonic()
    execution = box.run(code, language)
    while "https').get" in code and not execution["stderr"] and time.monotonic() - began < AT_ONCE_SECONDS:
        execution = box.run("await new Promise(r => setTimeout(r, 300))", language)  # its error is late
    assert execution["stderr"].endswith(SENTENCE), execution
    assert execution["stderr"].count(SENTENCE) == 1
    assert "Retrying" not in execution["stderr"] and time.monotonic() - began < AT_ONCE_SECONDS


def test_code_that_misses_nothing_reads_nothing(box):
    assert SENTENCE not in box.run("print('no network needed')")["stderr"]
    assert SENTENCE not in box.run("import socket; socket.create_connection(('127.0.0.1', 9))")["stderr"]


def test_a_policy_that_is_opened_leaves_nothing_of_it(fresh):
    box = fresh()
    if box.name == "agent":
        pytest.skip("policies are viald's")
    look = "env | grep -ci 'PIP_RETRIES\\|fetch_retries'; ls /etc/apt/apt.conf.d | grep -c no-network; echo Could not resolve host >&2; true"
    before = box.run(look, "bash")
    assert before["stdout"].split() == ["2", "1"] and SENTENCE in before["stderr"], before
    assert box.run("import os; 'PIP_RETRIES' in os.environ")["results"][0]["text/plain"] == "True"
    box._json("PUT", f"/v1/sandboxes/{box.id}/network", {"mode": "open"})
    after = box.run(look, "bash")
    assert after["stdout"].split() == ["0", "0"] and SENTENCE not in after["stderr"], after
    assert box.run("import os; 'PIP_RETRIES' in os.environ")["results"][0]["text/plain"] == "False"
    box._json("PUT", f"/v1/sandboxes/{box.id}/network", {"mode": "disabled"})
    assert SENTENCE in box.run(look, "bash")["stderr"]
