# SPDX-License-Identifier: Apache-2.0
"""make bench: every promised speed beside the floor measured in the same run. Prints a table, writes bench.json.

    run.py [--quick] [--only GROUP[,GROUP...]] [--json FILE] [--compare OLD [--with NEW]]

A ratio is ours over the floor; a promise is kept when it is at or below its limit. --compare shows an older result file beside this run's, row by row;
--with takes a second file for this run's and measures nothing. A case that cannot be measured says so in a sentence and the others go on. The exit status
says whether all was measured and all was kept.
"""

import argparse
import importlib
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import report  # noqa: E402

GROUPS = ["foundation", "interpreter", "governance", "agents", "life", "templates", "surfaces", "idle", "net_bench", "microvm"]


def sentence(error):
    """An error as one line, without its traceback."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words[:600]}" if words else type(error).__name__


def measure(groups, quick):
    """(rows, failures), printed as they come."""
    rows, failures = [], []

    def fail(group, name, error):
        failures.append({"group": group, "case": name, "error": sentence(error)})
        print(f"FAIL {group}: {name} could not be measured: {sentence(error)}", flush=True)

    for group in groups:
        start = time.monotonic()
        try:
            cases = importlib.import_module(group).cases(quick)
        except Exception as error:  # what it imports may be missing
            fail(group, "all of it", error)
            continue
        for case in cases:
            name = getattr(case, "func", case).__name__
            try:
                for row in case():
                    row["group"], row["kept"] = group, report.verdict(row)
                    rows.append(row)
                    print(report.line(row), flush=True)
            except Exception as error:
                fail(group, name, error)
        print(f"     {group} took {time.monotonic() - start:.0f} s", flush=True)
    return rows, failures


def groups_of(text):
    groups = text.split(",")
    for group in groups:
        if group not in GROUPS:
            raise argparse.ArgumentTypeError(f"there is no group {group!r}; choose among {', '.join(GROUPS)}")
    return groups


def parse():
    parser = argparse.ArgumentParser(prog="make bench ARGS=")
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, in about three minutes: a smoke test, not a measurement")
    parser.add_argument("--only", type=groups_of, default=GROUPS, metavar="GROUP,...", help=", ".join(GROUPS))
    parser.add_argument("--json", default="bench.json", metavar="FILE", help="where the result goes (bench.json)")
    parser.add_argument("--compare", metavar="OLD", help="an older result file, shown beside this run's")
    parser.add_argument("--with", dest="other", metavar="NEW", help="with --compare: this result file instead of a run")
    options = parser.parse_args()
    if options.other and not options.compare:
        parser.error("--with needs --compare")
    return options


def main():
    options = parse()
    try:
        # Read before anything is measured: it may be the file that is written over in the end, and a wrong name is told at once.
        old = report.read(options.compare) if options.compare else None
        new = report.read(options.other) if options.other else None
    except ValueError as error:
        print(f"vial: {error}", file=sys.stderr)
        return 2
    failures = []
    if not new:
        about, load = report.machine(), os.getloadavg()
        print(f"     {about['cpu']}, {about['cpus']} processors, {about['memory_mb']} MB, Linux {about['kernel']}, runsc {about['runsc']}, load {load[0]:.1f}", flush=True)
        rows, failures = measure(options.only, options.quick)
        new = report.write(options.json, rows, failures, options.quick, about, load)
    if old:
        print(f"\n     {options.compare} of {old['time']}, and {options.other or 'this run'}:")
        print("\n".join(report.compare(old, new)))
    missed = [row["case"] for row in new["rows"] if not report.verdict(row)]
    print(f"\n{len(new['rows']) - len(missed)} of {len(new['rows'])} promises kept" + (f", {len(failures)} cases not measured" if failures else "")
          + f"; details in {options.other or options.json}")
    return 1 if missed or failures else 0


if __name__ == "__main__":
    sys.exit(main())
