# SPDX-License-Identifier: Apache-2.0
"""viald and vial-shim with AddressSanitizer and UndefinedBehaviorSanitizer, for suites that want to see what those find.

    programs = Sanitized(folder)
    daemon = Daemon(..., programs=programs.path, env=programs.env)
    ...
    programs.check()    # nothing was found

The agent stays the ordinary one: the suite `agent` runs the sanitized one, all of it.
"""

import shutil
import subprocess
from pathlib import Path

from vial import ROOT, build_dir


class Sanitized:
    def __init__(self, folder):
        done = subprocess.run([ROOT / "scripts/build-sanitized"], check=True, stdout=subprocess.PIPE, text=True, timeout=900)
        build = Path(done.stdout.splitlines()[-1])
        self.path = Path(folder) / "programs"
        self.reports = Path(folder) / "reports"
        self.path.mkdir()
        self.reports.mkdir()
        for source in (build / "viald", build / "vial-shim", build_dir() / "vial-agent"):
            shutil.copy(source, self.path / source.name)
        (self.path / "kernels").symlink_to(ROOT / "guest/kernels")
        # Faults of the host's doing would only be noise: a guest that is killed is none.
        options = f"log_path={self.reports}/report:exitcode=99:print_stacktrace=1:detect_leaks=1:handle_abort=1"
        self.env = {"ASAN_OPTIONS": options, "UBSAN_OPTIONS": options,
                    "LSAN_OPTIONS": f"suppressions={Path(__file__).with_name('lsan.supp')}:print_suppressions=0"}

    def clear(self):
        for path in self.reports.iterdir():
            path.unlink()

    def found(self):
        return "\n".join(path.read_text(errors="replace")[:6000] for path in sorted(self.reports.iterdir())[:5])

    def check(self):
        assert not self.found(), self.found()
