# SPDX-License-Identifier: Apache-2.0
"""What a run of the benchmarks says: the verdict on a row, the machine it was measured on, the result file, and two result files side by side."""

import json
import os
import platform
import subprocess
import time

from harness import RUNSC, ROOT

FORMAT = 2
NOISE = 0.1  # a change below a tenth is no news on a machine that others use too


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


def line(row):
    return f"{'ok  ' if row['kept'] else 'MISS'} {row['case']:<66} {describe(row)}"


def output_of(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout.strip()
    except OSError:
        return ""


def field(path, name):
    """The value behind `name :` in a file of /proc."""
    with open(path) as file:
        return next((text.split(":", 1)[1].strip() for text in file if text.split(":")[0].strip() == name), "")


def machine():
    """What the figures depend on besides Vial."""
    return {"cpu": field("/proc/cpuinfo", "model name"), "cpus": len(os.sched_getaffinity(0)), "memory_mb": int(field("/proc/meminfo", "MemTotal").split()[0]) // 1024,
            "kernel": platform.release(), "runsc": (output_of(RUNSC, "--version").splitlines() or ["unknown"])[0].removeprefix("runsc version "),
            "calibration_ms": float(output_of(os.path.join(ROOT, "scripts", "machine-speed"), "--ms") or 0)}


def vial():
    commit = output_of("git", "-C", ROOT, "rev-parse", "--short=12", "HEAD")
    changed = "+changes" if commit and output_of("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no") else ""
    return {"version": output_of(os.path.join(os.environ.get("VIAL_BUILD", os.path.join(ROOT, "build")), "viald"), "--version"), "commit": commit + changed}


def write(path, rows, failures, quick, about, load_before):
    """`about` is machine(), asked before anything was measured."""
    result = {"format": FORMAT, "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "quick": quick, "machine": about, "vial": vial(),
              "load_before": load_before, "load_after": os.getloadavg(), "failures": failures, "rows": rows}
    with open(path + ".new", "w") as out:
        json.dump(result, out, indent=1)
    os.replace(path + ".new", path)
    return result


def read(path):
    """A result file; ValueError with a sentence if it is none. One of an older Vial has no machine, but its rows are as good."""
    try:
        with open(path) as file:
            result = json.load(file)
        rows = result["rows"]
        assert all("case" in row and ("ratio" in row or "value" in row) for row in rows)
    except OSError as error:
        raise ValueError(f"the result file {path} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AssertionError):
        raise ValueError(f"{path} is no result of make bench") from None
    result.setdefault("machine", {"kernel": result.get("kernel"), "cpus": result.get("cpus")})
    return result


def figure(row):
    """(number, unit, whether less is better): a ratio where there is one, as it is the same on every machine."""
    if "ratio" in row:
        return row["ratio"], "x floor", True
    return row["value"], row["unit"], "at_least" not in row


def change(old, new):
    """How much better or worse, in words."""
    (before, unit, less_is_better), (now, unit_now, _) = figure(old), figure(new)
    if unit != unit_now:
        return "measured otherwise"
    if before == now:
        return "same"
    if not before:
        return "worse" if less_is_better else "better"
    share = now / before - 1
    word = "same" if abs(share) < NOISE else "better" if (share < 0) == less_is_better else "worse"
    return f"{share:+.0%} {word}"


def short(number):
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def shown(row):
    if row is None:
        return "-"
    number, unit, _ = figure(row)
    return f"{short(number)} {unit}" + (f" ({short(row['p50_ms'])} ms)" if "ratio" in row else "")


def by_case(rows):
    """The rows by name; of those with the same name, the first with the first."""
    found = {}
    for row in rows:
        number = sum(1 for case, _ in found if case == row["case"])
        found[row["case"], number] = row
    return found


def compare(old, new):
    """The lines of a table: each row of either, both figures, the change, and whether the promise was and is kept."""
    before, now = by_case(old["rows"]), by_case(new["rows"])
    yield from differences(old, new)
    for key in [*now, *(key for key in before if key not in now)]:
        case, one, other = key[0], before.get(key), now.get(key)
        news = change(one, other) if one and other else "new" if other else "not measured"
        state = ("ok" if verdict(other) else "MISS") if other else ""
        was = ("was kept" if verdict(one) else "was missed") if one and other and verdict(one) != verdict(other) else ""
        yield f"{state:<4} {case:<66} {shown(one):>24} -> {shown(other):<24} {news:<14} {was}".rstrip()


def differences(old, new):
    """What makes the two not quite comparable."""
    for name in sorted({*old["machine"], *new["machine"]}):
        one, other = old["machine"].get(name), new["machine"].get(name)
        if name == "calibration_ms":
            if one and other and abs(other / one - 1) >= NOISE:
                yield f"     this machine does the same work in {other:.0f} ms for {one:.0f} ms then: only ratios can be compared"
        elif one != other:
            yield f"     {name}: {one or 'unknown'} -> {other or 'unknown'}"
    if old.get("quick") != new.get("quick"):
        yield "     one of the two was a quick run: fewer repetitions, more noise"
