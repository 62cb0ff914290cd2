# SPDX-License-Identifier: Apache-2.0
"""The integrations that the package podflare 0.0.22 brings, with the real frameworks and a scripted model (podflare_agents.py), configured as their
users would: by the two variables and the key."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from vial import slow

SCRIPT = Path(__file__).with_name("podflare_agents.py")
KEPT = "Gr\u00fc\u00dfe \u2028 \U0001f600"
# One folder for all: they agree about what they share, and pip takes its time for each.
PACKAGES = ("podflare==0.0.22", "openai-agents==0.24.0", "anthropic==2.10.0", "langchain-core==1.7.2", "langgraph==1.2.22", "google-genai==3.3.0")


@pytest.fixture
def agent(python_packages, daemon, tmp_path):
    def run(name):
        here = daemon.url + "/podflare"
        done = subprocess.run([sys.executable, SCRIPT, name], capture_output=True, text=True, timeout=slow(120),
                              env={"PATH": os.environ["PATH"], "PYTHONPATH": str(python_packages(*PACKAGES)), "HOME": str(tmp_path),
                                   "PODFLARE_API_URL": here, "PODFLARE_HOSTD_URL": here, "PODFLARE_API_KEY": daemon.key, "PYTHONDONTWRITEBYTECODE": "1"})
        assert done.returncode == 0, done.stderr[-4000:]
        told = json.loads(done.stdout)
        assert told["answer"] == "that is all"
        return told["outputs"]

    yield run
    left = daemon.client().call("GET", "/v1/sandboxes")
    assert left == [], "the integration ends what it made"


def text(stdout, code, stderr=""):
    return f"stdout:\n{stdout}\nstderr:\n{stderr}\nexit_code: {code}"


def test_openai_agents_runs_code(agent):
    assert agent("openai_agents") == [{"stdout": out, "stderr": "", "exit_code": code} for out, code in (("9", 0), (KEPT, 0), ("", 3))]


def test_anthropic_blocks_are_answered(agent):
    first, second, third, failed = agent("anthropic")
    assert first == {"type": "tool_result", "tool_use_id": "t0", "content": [{"type": "text", "text": text("9", 0)}], "is_error": False}
    assert second["content"][0]["text"] == text(KEPT, 0) and second["tool_use_id"] == "t1"
    assert "ZeroDivisionError" in failed["content"][0]["text"] and failed["is_error"] is True and third["tool_use_id"] == "t2"


def test_a_langchain_tool_works_in_a_graph(agent):
    first, second, third, fresh = agent("langchain")
    assert (first, second, third) == (text("9", 0), text(KEPT, 0), text("", 3))
    assert "NameError" in fresh, "each call of that one has a sandbox of its own"


def test_gemini_calls_are_answered(agent):
    *results, other = agent("gemini")
    assert results == [{"stdout": out, "stderr": "", "exit_code": code} for out, code in (("9", 0), (KEPT, 0), ("", 3))]
    assert "unexpected function name" in other["error"]
