# SPDX-License-Identifier: Apache-2.0
"""A kernel that was told to exit, and something of the user's keeps it: the next cell is answered all the same, by a new kernel."""
import time

import pytest

from waiting import slow

# The agent ends the old one within two seconds; the rest is a new kernel's start on a busy machine.
PATIENCE_SECONDS = slow(10)

KEEPERS = [
    ("python", ["import time; from multiprocessing import Process\nProcess(target=time.sleep, args=(1000,)).start()", "exit()"]),
    ("python", ["import atexit, time\nkept = atexit.register(time.sleep, 1000)", "exit()"]),
    ("python", ["import signal, time, atexit\nsignal.signal(15, signal.SIG_IGN)\nkept = atexit.register(lambda: [time.sleep(1) for _ in range(1000)])", "exit()"]),
    ("python", ["import threading, time\nthreading.Thread(target=time.sleep, args=(1000,)).start()", "exit()"]),
    ("python", ["import subprocess, os\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nos._exit(3)"]),
    ("javascript", ["process.on('exit', () => { while (1) {} }); process.exit(0)"]),
    ("javascript", ["process.on('SIGTERM', () => {}); process.on('exit', () => { while (1) {} }); process.exit(0)"]),
    ("bash", ["sleep 1000 & exit 3"]),
    ("bash", ["trap '' TERM; trap 'sleep 1000' EXIT; exit 3"]),
]
NAMES = ("a child process", "an atexit function", "one that ignores SIGTERM too", "a thread", "a child in a session of its own", "an exit listener",
         "one that handles SIGTERM too", "a background job", "an EXIT trap")
ANSWER = {"python": "print(6 * 7)", "javascript": "console.log(6 * 7)", "bash": "echo $((6 * 7))"}


@pytest.mark.parametrize("language, cells", KEEPERS, ids=NAMES)
def test_the_next_cell_is_answered_whatever_keeps_the_last_kernel(box, language, cells):
    context = box.create(language)
    for cell in cells:
        execution = box.run(cell, context=context, timeout_ms=int(slow(4000)))
    assert execution["kernel_restarted"], execution
    began = time.monotonic()
    after = box.run(ANSWER[language], context=context, timeout_ms=int(PATIENCE_SECONDS * 1000))
    assert after["stdout"] == "42\n" and not after["timed_out"], after
    assert time.monotonic() - began < PATIENCE_SECONDS
    assert next(one for one in box.contexts() if one["id"] == context)["state"] == "idle"
    box.delete(context)


def test_worker_processes_of_a_library_do_not_keep_the_kernel(box, needs):
    needs("sklearn")
    context = box.create("python")
    work = """from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_score
from sklearn.datasets import load_iris
X, y = load_iris(return_X_y=True)
cross_val_score(RandomForestClassifier(n_estimators=3), X, y, n_jobs=2).shape"""
    assert box.run(work, context=context)["results"][0]["text/plain"] == "(5,)"
    assert box.run("exit()", context=context)["kernel_restarted"]
    assert box.run("print(6 * 7)", context=context, timeout_ms=int(PATIENCE_SECONDS * 1000))["stdout"] == "42\n"
    box.delete(context)


@pytest.mark.parametrize("cell, output, status", [
    ("trap 'echo bye $?' EXIT; exit 4", "bye 4\n", "4"),
    ("trap 'echo cleaned; exit 9' EXIT; exit 1", "cleaned\n", "9"),
    ("trap 'echo bye' EXIT; trap - EXIT; exit 4", "", "4"),
])
def test_an_exit_trap_of_bash_runs_when_the_shell_really_ends(box, cell, output, status):
    context = box.create("bash")
    execution = box.run(cell, context=context)
    assert execution["stdout"] == output and execution["error_name"] == "SystemExit" and execution["error_value"] == status, execution
    assert execution["kernel_restarted"]
    assert box.run("echo alive", context=context)["stdout"] == "alive\n"
    box.delete(context)
