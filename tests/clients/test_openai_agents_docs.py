# SPDX-License-Identifier: Apache-2.0
"""The sample of docs/openai-agents.md, as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

from vial import slow


def test_the_sample_does_what_it_says(python_packages, daemon):
    text = (Path(__file__).resolve().parents[2] / "docs/openai-agents.md").read_text(encoding="utf-8")
    sample, = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    path = str(python_packages("openai-agents[cloudflare,e2b]==0.24.0"))
    done = subprocess.run([sys.executable, "-c", sample], capture_output=True, text=True, timeout=slow(60),
                          env={**os.environ, "PYTHONPATH": path, "VIAL_URL": daemon.url, "VIAL_API_KEY": daemon.key})
    assert (done.returncode, done.stdout) == (0, "Three words.\n0 42\n"), done.stderr
