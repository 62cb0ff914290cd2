# SPDX-License-Identifier: Apache-2.0
"""The microVM engine's promises. Each figure says where it was taken: a payload of five instructions on this machine's own /dev/kvm (vmm-bench), or a
stock kernel with the real agent on an emulated processor (the lab), whose times mean something only beside each other.
"""
import json
import os
import platform
import subprocess

from harness import BUILD, ROOT

MIB = 1 << 20


def row(case, value, unit, at_most, where):
    return {"case": f"{case} [{where}]", "value": value, "unit": unit, "at_most": at_most}


def native():
    """On this machine's /dev/kvm, whatever that is."""
    result = subprocess.run([os.path.join(BUILD, "tests/vmm/vmm-bench")], capture_output=True, text=True, env={**os.environ, "VIAL_VMM": os.path.join(BUILD, "vial-vmm")})
    report = json.loads(result.stdout or "{}")
    if result.returncode == 77 or "environment" not in report:
        print(f"     microvm, native figures: skipped: {report.get('skipped') or result.stderr.strip() or 'vmm-bench gave no result'}")
        return
    where = "native /dev/kvm"
    print(f"     {where}: {report['environment']}")
    for case, name, limit in (("fork(2), 512 MiB resident: child's first instruction", "fork_512mib_child_first_instruction_ms", 20),
                              ("fork(2), 512 MiB resident: parent runs again", "fork_512mib_parent_resumed_ms", 3),
                              ("restore of 64 MiB: first instruction", "restore_64mib_to_first_instruction_ms", 15)):
        yield row(case, report[name]["median"], "ms", limit, where)
    print(f"     measured: {report['build_to_first_instruction_ms']['median']:.1f} ms from start to first KVM_RUN and instruction [{where}]")


def size():
    """The same everywhere."""
    yield row("vial-vmm's size", os.path.getsize(os.path.join(BUILD, "vial-vmm")) / MIB, "MiB", 1, "x86-64, static")
    files = subprocess.run(["find", os.path.join(ROOT, "vmm"), "-name", "*.[ch]", "-not", "-path", "*/guest/*"], capture_output=True, text=True, check=True).stdout.split()
    lines = sum(len(open(file, encoding="utf-8").readlines()) for file in files)
    yield row("vial-vmm's lines of C, headers included", lines, "lines", 7999, "the tree")


def lab():
    """In the lab: ratios."""
    environment = {**os.environ, "VIAL_DATA": os.environ.get("VIAL_DATA_TEST", "/var/lib/vial-test"), "VIAL_BUILD": BUILD, "VIAL_LAB_PART": "figures"}
    result = subprocess.run([os.path.join(ROOT, "scripts/lab")], env=environment, capture_output=True, text=True)
    figures = [json.loads(line.split(" ", 1)[1]) for line in result.stdout.splitlines() if line.startswith("figures ")]
    if not figures:
        print(f"     microvm, lab figures: skipped: {(result.stderr.strip().splitlines() or ['the lab gave no result'])[-1]}")
        return
    values, where = figures[-1], "lab"
    print(f"     {where}: {values['environment']}; host {platform.release()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}")
    print(f"     measured: cold boot {values['cold_boot_to_hello_s']:.2f} s, restore {values['restore_to_hello_s']:.2f} s, fork {values['fork_to_hello_s']:.2f} s, "
          f"each to the agent's hello [{where}]")
    yield row("restore -> hello, in cold boots -> hello", values["restore_to_hello_s"] / values["cold_boot_to_hello_s"], "x", 0.1, where)
    yield row("fork -> hello, in restores -> hello", values["fork_to_hello_s"] / values["restore_to_hello_s"], "x", 1, where)
    yield row("resident beyond guest memory", values["monitor_rss_beyond_guest_mib"], "MiB", 5, where)
    print(f"     measured: {values['process_to_first_run_ms']:.1f} ms from the process's start to the first KVM_RUN of a stock kernel [{where}]")


def cases(quick):
    return [native, size] if quick else [native, size, lab]
