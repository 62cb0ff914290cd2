# SPDX-License-Identifier: Apache-2.0
"""make bench: every promised speed beside the floor measured in the same run. Prints a table, writes bench.json.

    run.py [--quick] [--only foundation|interpreter|life|net_bench|microvm] [--json FILE]

A ratio is ours over the floor; a promise is kept when it is at or below its limit. The exit status says whether all were.
"""

import argparse
import importlib
import json
import os
import platform
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
GROUPS = ["foundation", "interpreter", "life", "net_bench", "microvm"]


def verdict(row):
    if "limit" in row:
        return row["ratio"] <= row["limit"]
    if "at_least" in row:
        return row["value"] >= row["at_least"]
    return row["value"] <= row["at_most"]


def describe(row):
    if "ratio" in row:
        return f"{row['p50_ms']:>9.1f} ms p50 {row['p99_ms']:>9.1f} p99   {row['ratio']:.2f} x {row['floor']} ({row['floor_ms']:.1f} ms), promised <= {row['limit']}"
    bound = f">= {row['at_least']}" if "at_least" in row else f"<= {row['at_most']}"
    return f"{row['value']:>9.{1 if row['value'] >= 2 else 2}f} {row['unit']}, promised {bound}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer repetitions: a smoke test, not a measurement")
    parser.add_argument("--only", choices=GROUPS)
    parser.add_argument("--json", default="bench.json")
    options = parser.parse_args()
    rows = []
    for group in [options.only] if options.only else GROUPS:
        for case in importlib.import_module(group).cases(options.quick):
            for row in case():
                row["kept"] = verdict(row)
                rows.append(row)
                print(f"{'ok  ' if row['kept'] else 'MISS'} {row['case']:<52} {describe(row)}", flush=True)
    with open(options.json, "w") as out:
        json.dump({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "kernel": platform.release(), "cpus": os.cpu_count(),
                   "load": os.getloadavg(), "rows": rows}, out, indent=1)
    missed = [row["case"] for row in rows if not row["kept"]]
    print(f"\n{len(rows) - len(missed)} of {len(rows)} promises kept; details in {options.json}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
