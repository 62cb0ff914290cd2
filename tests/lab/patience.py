# SPDX-License-Identifier: Apache-2.0
"""How long the lab's suite waits for anything: a limit ends what hangs, not what is slow, so all of them are stretched by the speed of this processor,
measured when the suite starts (scripts/machine-speed), and again before a test is ended for having taken too long."""
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import checks  # noqa: E402

USUAL_MS = 1500  # of that program, on the emulated processor of the machine on which the limits were chosen
SCRIPT = Path(__file__).resolve().parents[2] / "scripts/machine-speed"

slowness = 1.0


def measure():
    """Never shortens what was already promised: whoever shares this machine may come and go."""
    global slowness
    milliseconds = float(subprocess.run([SCRIPT, "--ms"], capture_output=True, text=True, check=True).stdout)
    slowness = max(slowness, milliseconds / USUAL_MS)
    print(f"  this processor takes {milliseconds:.0f} ms for what usually takes {USUAL_MS}: limits are stretched {slowness:.1f} times", flush=True)
    checks.tell(slowness=slowness)


def stretched(seconds):
    return seconds * slowness
