# SPDX-License-Identifier: Apache-2.0
"""Limits of the suites: they end what hangs and not what is slow, and what was found out until then counts."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT, SCRIPTS, run

sys.path.insert(0, str(ROOT / "tests"))
import checks  # noqa: E402

LIMIT = 2  # seconds of silence: short beside what hangs,
LONG_LIMIT = 12  # and long beside a machine that stalls


def shell(path, script, limit=LIMIT):
    """Runs a shell script under the limit; FILE is what it writes to."""
    return run(SCRIPTS / "end-silent", limit, path, "sh", "-c", script, env={"FILE": path}, timeout=120)


def test_what_is_slow_but_goes_on_is_not_ended(tmp_path):
    """Longer in all than the limit, and never that long without a check."""
    done = shell(tmp_path / "f", f'for i in {" ".join(map(str, range(LONG_LIMIT + 2)))}; do sleep 1; echo $i >> "$FILE"; done; exit 7', LONG_LIMIT)
    assert (done.returncode, done.stderr) == (7, "")


def test_what_finishes_nothing_is_ended_and_said(tmp_path):
    done = shell(tmp_path / "f", 'echo 1 >> "$FILE"; sleep 1000')
    assert done.returncode == 124
    assert "hangs" in done.stderr and len(done.stderr.splitlines()) == 1


def test_what_is_ended_may_tidy_up_first(tmp_path):
    done = shell(tmp_path / "f", """trap 'echo tidied >> "$FILE"; exit 0' INT; sleep 1000 & wait""", LONG_LIMIT)
    assert done.returncode == 124
    assert (tmp_path / "f").read_text() == "tidied\n"


def test_an_interrupt_is_passed_on(tmp_path):
    path = tmp_path / "f"
    # Not a shell: a signal just before its `wait` waits with it.
    script = f"""
import signal, sys, time
def tell(text):
    with open({str(path)!r}, "a") as out: out.write(text)
def stop(*unused):
    tell("interrupted")
    sys.exit(0)
signal.signal(signal.SIGINT, stop)
tell("started")
while True: time.sleep(1)
"""
    process = subprocess.Popen([SCRIPTS / "end-silent", "600", path, sys.executable, "-c", script])
    while not path.exists() or not path.read_text():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 128 + signal.SIGINT
    assert "interrupted" in path.read_text()


SUITE = """
import time
import pytest

def test_good(): pass
def test_bad(): assert 1 == 2
@pytest.mark.skip(reason="no")
def test_skipped(): pass
@pytest.fixture
def broken():
    yield
    raise RuntimeError("in its tear-down")
def test_untidy(broken): pass
def test_that_hangs(): time.sleep(1000)
def test_never_reached(): pass
"""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What a suite told that was ended in the middle, as the file it wrote."""
    tmp_path = tmp_path_factory.mktemp("told")
    (tmp_path / "test_it.py").write_text(SUITE)
    path = tmp_path / "it.checks"
    run(SCRIPTS / "end-silent", 20, path, sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "checks", "-q", tmp_path / "test_it.py",
        env={"VIAL_CHECKS": path, "PYTHONPATH": ROOT / "tests"}, timeout=120)
    return path


def test_every_check_is_told_when_it_is_done(told):
    outcomes = {one["check"].split("::")[1]: one["outcome"] for one in checks.read(told) if "check" in one}
    assert {name: outcomes[name] for name in ("test_good", "test_bad", "test_skipped", "test_untidy")} == \
        {"test_good": "passed", "test_bad": "failed", "test_skipped": "skipped", "test_untidy": "failed"}
    assert "test_never_reached" not in outcomes
    assert str(checks.Count(checks.read(told))).endswith(" of 6")


def test_a_suite_that_did_not_reach_its_end_counts_what_it_found_and_its_missing_end(told):
    done = run(SCRIPTS / "sum-results", told)
    assert done.returncode == 1
    assert "the suite runs to its end" in done.stdout and "::test_bad" in done.stdout
    assert done.stdout.splitlines()[-1].startswith("1 passed, ")


def write(path, *told):
    path.write_text("".join(f"{checks.MARK}{json.dumps(one)}\n" for one in told))
    return path


CHECK = {"check": "a", "outcome": "passed", "seconds": 1}


def test_a_suite_that_is_whole_passes(tmp_path):
    done = run(SCRIPTS / "sum-results", write(tmp_path / "x.checks", {"then": "b"}, {"plan": 1, "of": "b"}, CHECK))
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed, 0 failed")


@pytest.mark.parametrize("told", [[], [CHECK], [{"plan": 2, "of": "b"}, CHECK], [{"plan": 1, "of": "b"}, {"then": "the rest"}, CHECK]],
                         ids=["nothing", "no plan", "fewer than planned", "a plan that never came"])
def test_a_suite_that_is_not_whole_fails(tmp_path, told):
    done = run(SCRIPTS / "sum-results", write(tmp_path / "x.checks", *told))
    assert done.returncode == 1 and done.stdout.splitlines()[-1].endswith(" 1 failed")


def test_of_a_suite_with_both_files_the_junit_file_counts(tmp_path):
    write(tmp_path / "x.checks", {"plan": 5, "of": "b"}, CHECK)
    (tmp_path / "x.xml").write_text('<testsuite><testcase name="a"/><testcase name="b"/></testsuite>')
    done = run(SCRIPTS / "sum-results", tmp_path)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "2 passed, 0 failed")


class Machine:
    """The lab's machine as watch.py sees it: a process and its console."""

    def __init__(self, folder):
        self.console, self.kept = folder / "console", folder / "kept"
        self.console.touch()
        self.process = subprocess.Popen(["sleep", "1000"])

    def follow(self, limit):
        return subprocess.Popen([sys.executable, ROOT / "tests/lab/watch.py", "follow", str(self.process.pid), self.console, self.kept, str(limit)],
                                stdout=subprocess.PIPE, text=True)

    def tell(self, *told, before=""):
        with open(self.console, "a") as file:
            file.write("".join(f"{before}{checks.MARK}{json.dumps(one)}\r\n" for one in told))


@pytest.fixture
def machine(tmp_path):
    machine = Machine(tmp_path)
    yield machine
    machine.process.kill()
    machine.process.wait()


def test_a_silent_lab_is_ended_and_its_checks_are_kept(machine):
    machine.tell({"plan": 3, "of": "b"}, CHECK, before="..")
    output, _ = machine.follow(1).communicate(timeout=60)
    assert machine.process.wait(10) == -signal.SIGKILL
    assert "it hangs" in output and ".." not in output
    assert str(checks.Count(checks.read(machine.kept))) == "1 of 3"


def test_a_slow_lab_has_more_time(machine):
    machine.tell({"slowness": 1000})
    follower = machine.follow(0.5)
    while not machine.kept.exists():
        time.sleep(0.05)
    time.sleep(2)  # four times what ends one that is not slow
    assert machine.process.poll() is None
    with open(machine.console, "a") as file:
        file.write("kernel: something\nlast words")
    machine.process.kill()
    machine.process.wait()
    assert follower.communicate(timeout=60)[0] == "kernel: something\nlast words\n"


ALARM = """
import sys, time
sys.path.insert(0, sys.argv[1])
import harness, patience
harness.TEST_SECONDS, harness.show_failure = 1, lambda *_: None
def test_slow(lab, state): time.sleep(2)
def test_hanging(lab, state): time.sleep(1000)
patience.USUAL_MS = 1  # a processor that has become slower than it was at the start: hundreds of times
harness.run(None, [test_slow], {})
patience.slowness, patience.USUAL_MS = 1, 1e9
harness.run(None, [test_hanging], {})
"""


def test_a_check_of_the_lab_is_ended_only_when_the_processor_is_as_fast_as_was_thought():
    done = run(sys.executable, "-B", "-c", ALARM, ROOT / "tests/lab")
    results = [line.split("(")[0].strip() for line in done.stdout.splitlines() if not line.startswith(" ")]
    assert results == ["ok   slow", "FAIL hanging: TimeoutError"], done.stdout + done.stderr


def test_the_machines_speed_is_a_number_that_never_shortens_a_limit():
    assert float(run(SCRIPTS / "machine-speed").stdout) >= 1
    assert float(run(SCRIPTS / "machine-speed", "--ms").stdout) > 0
