# SPDX-License-Identifier: Apache-2.0
"""make bench's frame: what it says, compares and survives, without measuring anything."""

import json
import sys

import pytest

from conftest import ROOT, run

RUN = ROOT / "bench/run.py"
RATIO = {"case": "fork(1)", "n": 5, "p50_ms": 70.0, "p99_ms": 90.0, "floor": "bare", "floor_ms": 100.0, "ratio": 0.7, "limit": 0.7}
SPEED = {"case": "file up", "value": 200, "unit": "MB/s", "at_least": 150}
IDLE = {"case": "idle", "value": 0.1, "unit": "% of a core", "at_most": 0.2}


def result(path, *rows, **fields):
    machine = {"cpu": "A", "cpus": 2, "calibration_ms": 100}
    path.write_text(json.dumps({"format": 2, "time": "then", "quick": False, "machine": machine, "rows": rows, **fields}))
    return path


def bench(*arguments):
    return run(sys.executable, "-B", RUN, *arguments)


def compare(tmp_path, old, new):
    return bench("--compare", result(tmp_path / "old.json", *old), "--with", result(tmp_path / "new.json", *new))


def line_of(done, case):
    return next(line for line in done.stdout.splitlines() if f" {case} " in line)


@pytest.mark.parametrize("old, change, words", [
    (RATIO, {"ratio": 0.35, "p50_ms": 35.0}, "-50% better"), (RATIO, {"ratio": 1.4, "p50_ms": 140.0}, "+100% worse"), (RATIO, {"ratio": 0.69}, "-1% same"),
    (SPEED, {"value": 400}, "+100% better"), (SPEED, {"value": 100}, "-50% worse"), (IDLE, {"value": 0.05}, "-50% better"), (IDLE, {"value": 0.1}, "same"),
    ({**IDLE, "value": 0}, {"value": 0.1}, "worse"),
])
def test_a_change_is_said_with_its_direction(tmp_path, old, change, words):
    line = line_of(compare(tmp_path, [old], [{**old, **change}]), old["case"])
    assert line.split(" -> ")[1].find(words) > 0, line


def test_ratios_are_compared_and_not_the_times_of_two_machines(tmp_path):
    done = compare(tmp_path, [RATIO], [{**RATIO, "p50_ms": 700.0, "floor_ms": 1000.0}])
    assert "same" in line_of(done, "fork(1)") and "0.7 x floor (70 ms)" in done.stdout and "(700 ms)" in done.stdout


def test_a_promise_that_is_no_longer_kept_is_a_miss_and_the_exit_status(tmp_path):
    kept = compare(tmp_path, [RATIO], [RATIO])
    assert kept.returncode == 0 and line_of(kept, "fork(1)").startswith("ok ") and "1 of 1 promises kept" in kept.stdout
    missed = compare(tmp_path, [RATIO], [{**RATIO, "ratio": 0.71}])
    assert missed.returncode == 1 and line_of(missed, "fork(1)").startswith("MISS ") and line_of(missed, "fork(1)").endswith("was kept")
    assert "0 of 1 promises kept" in missed.stdout


def test_rows_of_one_name_are_compared_in_their_order(tmp_path):
    other = {**IDLE, "value": 0.2}
    done = compare(tmp_path, [IDLE, other], [{**IDLE, "value": 0.05}, other])
    assert [line.split(" -> ")[1].split("core")[1].strip() for line in done.stdout.splitlines() if " idle " in line] == ["-50% better", "same"]


def test_rows_of_one_run_only_are_named(tmp_path):
    done = compare(tmp_path, [RATIO], [IDLE])
    assert line_of(done, "idle").endswith(" new") and line_of(done, "fork(1)").endswith(" not measured")


def test_what_makes_two_runs_differ_is_said(tmp_path):
    old = result(tmp_path / "old.json", RATIO, machine={"cpu": "A", "cpus": 2, "calibration_ms": 100}, quick=True)
    new = result(tmp_path / "new.json", RATIO, machine={"cpu": "B", "cpus": 2, "calibration_ms": 300})
    done = bench("--compare", old, "--with", new)
    assert "cpu: A -> B" in done.stdout and "cpus:" not in done.stdout and "in 300 ms for 100 ms" in done.stdout and "quick" in done.stdout


def test_a_result_of_an_older_vial_can_be_compared(tmp_path):
    old = tmp_path / "old.json"
    old.write_text(json.dumps({"time": "then", "kernel": "6.1", "cpus": 2, "load": [0, 0, 0], "rows": [{**RATIO, "kept": True}]}))
    assert "fork(1)" in bench("--compare", old, "--with", result(tmp_path / "new.json", RATIO)).stdout


@pytest.mark.parametrize("content, words", [(None, "cannot be read"), ("{", "is no result"), ('{"rows": [{}]}', "is no result"), ("[]", "is no result")])
def test_a_wrong_file_is_one_sentence_before_anything_is_measured(tmp_path, content, words):
    path = tmp_path / "old.json"
    if content is not None:
        path.write_text(content)
    done = bench("--compare", path)
    assert done.returncode == 2 and done.stdout == "" and words in done.stderr and len(done.stderr.splitlines()) == 1


MEASURE = """
import json, sys, types
sys.path.insert(0, sys.argv[1])
import run
def good(): return [{"case": "good", "value": 1, "unit": "", "at_most": 1}]
def bad():
    yield {"case": "half", "value": 1, "unit": "", "at_most": 1}
    raise RuntimeError("the driver\\nis not there")
sys.modules["one"] = types.SimpleNamespace(cases=lambda quick: [bad, good])
rows, failures = run.measure(["missing", "one"], True)
json.dump([[row["case"] for row in rows], failures], open(sys.argv[2], "w"))
"""


def test_a_case_that_fails_is_a_sentence_and_the_others_go_on(tmp_path):
    done = run(sys.executable, "-B", "-c", MEASURE, ROOT / "bench", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    rows, failures = json.loads((tmp_path / "out").read_text())
    assert rows == ["half", "good"]
    assert [(one["group"], one["case"]) for one in failures] == [("missing", "all of it"), ("one", "bad")]
    assert "FAIL one: bad could not be measured: RuntimeError: the driver is not there" in done.stdout and "Traceback" not in done.stdout + done.stderr
