# SPDX-License-Identifier: Apache-2.0
"""Kernels that wait for a context: a second one, or one whose kernel has ended, gets a warm kernel that behaves like any other.

Through the HTTP API the sandboxes come from a template with spares; run directly, the agent has none and starts every kernel. What a context can
see must be the same.
"""
import json

import pytest

from runners import wait_until

SPARED = ("python", "javascript")
SET = {"python": "life = 7", "javascript": "var life = 7"}
HAS = {"python": "print('life' in globals())", "javascript": "console.log(typeof life !== 'undefined')"}
EXIT = {"python": "exit()", "javascript": "process.exit(0)"}
DRAW = {"python": "import random; print(random.random())", "javascript": "console.log(Math.random())"}
PID = {"python": "import os; print(os.getpid())", "javascript": "console.log(process.pid)"}
WHERE = {"python": "import os; print(os.getcwd())", "javascript": "console.log(process.cwd())"}
COUNT = "ps -eo args | grep -c '[k]ernels/{}/'"
# How a kernel's process is known, in a shell that must not find itself.
KILL = {"python": "pkill -KILL -f '[k]ernels/python/'", "javascript": "pkill -KILL -f '[k]ernels/javascript/'"}


def text(execution):
    assert not execution.get("error_name"), execution
    return execution["stdout"].strip().lower()


@pytest.mark.parametrize("language", SPARED)
def test_each_context_has_a_state_a_process_and_a_count_of_its_own(fresh, language):
    box = fresh()
    box.run(SET[language], language)
    contexts = [box.create(language) for _ in range(3)]
    assert [text(box.run(HAS[language], context=one)) for one in contexts] == ["false"] * 3
    assert len({text(box.run(PID[language], context=one)) for one in contexts} | {text(box.run(PID[language], language))}) == 4
    listed = {one["id"]: one for one in box.contexts() if one["id"] in contexts}
    assert all(one["pid"] > 0 and one["state"] == "idle" and one["cwd"] == "/workspace" for one in listed.values()), listed
    assert [str(listed[one]["pid"]) for one in contexts] == [text(box.run(PID[language], context=one)) for one in contexts]
    assert text(box.run(HAS[language], language)) == "true"


@pytest.mark.parametrize("language", SPARED)
def test_no_two_kernels_draw_the_same_numbers(fresh, language):
    boxes = [fresh(), fresh()]
    drawn = []
    for box in boxes:
        drawn += [text(box.run(DRAW[language], language)), text(box.run(DRAW[language], context=box.create(language)))]
        box.run(EXIT[language], language)
        drawn.append(text(box.run(DRAW[language], language)))
    assert len(set(drawn)) == len(drawn), drawn


@pytest.mark.parametrize("language", SPARED)
def test_a_kernel_that_exits_again_and_again_is_always_replaced(fresh, language):
    box = fresh()
    for _ in range(4):
        box.run(SET[language], language)
        execution = box.run(EXIT[language], language)
        assert execution["kernel_restarted"] and execution["error_name"] == "SystemExit"
        assert text(box.run(HAS[language], language)) == "false"


@pytest.mark.parametrize("language", SPARED)
def test_a_killed_spare_is_not_missed(fresh, language):
    box = fresh()
    box.run(SET[language], language)
    pid = lambda: next(one["pid"] for one in box.contexts() if one["id"] == f"default-{language}")
    before = pid()
    box.run(KILL[language], "bash")
    wait_until(lambda: pid() not in (0, before))
    execution = box.run(HAS[language], language)
    assert text(execution) == "false" and execution["kernel_restarted"]
    context = box.create(language)
    assert text(box.run(HAS[language], context=context)) == "false"


def test_a_stopped_spare_is_not_missed(fresh):
    box = fresh()
    own = text(box.run(PID["python"]))
    box.run(f"pgrep -f '[k]ernels/python/' | grep -vx {own} | xargs -r kill -STOP", "bash")
    context = box.create("python")
    execution = box.run("1+1", context=context, timeout_ms=20_000)
    # It was taken before anybody knew: then the run ends at its limit and the context goes on with another kernel.
    assert execution.get("error_name") in (None, "KernelNotReady", "KernelDied", "KernelKilled"), execution
    box.restart(context)
    assert box.run("1+1", context=context)["results"][0]["text/plain"] == "2"


@pytest.mark.parametrize("language", SPARED)
def test_a_context_elsewhere_is_there(fresh, language):
    box = fresh()
    assert text(box.run(WHERE[language], context=box.create(language, cwd="/tmp"))) == "/tmp"
    assert text(box.run(WHERE[language], context=box.create(language))) == "/workspace"


@pytest.mark.parametrize("language", SPARED)
def test_another_spare_comes_when_one_was_taken(fresh, language):
    box = fresh()
    if box.name != "http":
        pytest.skip("only a template brings spares")
    count = lambda: int(box.run(COUNT.format(language), "bash")["stdout"])
    assert count() == 2
    box.run(SET[language], context=box.create(language))
    wait_until(lambda: count() == 3)


def test_a_small_sandbox_does_without_and_keeps_its_kernel(fresh):
    box = fresh(memory_mb=256)
    if box.name != "http":
        pytest.skip("only a template brings spares")
    box.run("life = 7")
    wait_until(lambda: box.run(COUNT.format("python"), "bash")["stdout"].strip() == "1")
    execution = box.run("print(life)")
    assert execution["stdout"] == "7\n" and not execution["kernel_restarted"]


def test_a_spare_knows_the_sandboxs_environment(fresh):
    box = fresh()
    code = "import os, json; print(json.dumps({name: os.environ.get(name) for name in ('HOME', 'USER', 'PATH', 'VIAL_SANDBOX_ID')}))"
    first = json.loads(box.run(code)["stdout"])
    assert json.loads(box.run(code, context=box.create("python"))["stdout"]) == first
