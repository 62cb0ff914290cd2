# SPDX-License-Identifier: Apache-2.0
"""A SystemExit ends the cell, as it would end a script, and not the kernel: scripts that models write end with it."""
import pytest

ARGPARSE = "import argparse\nparser = argparse.ArgumentParser(prog='tool')\nparser.add_argument('--n', type=int)\nparser.parse_args(['--n', 'x'])"
UNITTEST = "import unittest\nclass Sums(unittest.TestCase):\n    def test_sum(self): self.assertEqual(1 + 1, {})\nunittest.main(argv=['x'])"

CASES = [
    ("import sys\nsys.exit()", 0, "0", ""),
    ("import sys\nsys.exit(0)", 0, "0", ""),
    ("import sys\nsys.exit(None)", 0, "0", ""),
    ("import sys\nsys.exit(3)", 3, "3", ""),
    ("import sys\nsys.exit('no such file')", 1, "no such file", "no such file\n"),
    ("raise SystemExit(4)", 4, "4", ""),
    ("import sys\nsys.exit(-1)", 255, "-1", ""),
    ("import sys\ntry: 1/0\nexcept Exception as error: sys.exit(error)", 1, "division by zero", "division by zero\n"),
    ("import sys\nsys.exit([1, 2])", 1, "[1, 2]", "[1, 2]\n"),
    ("open('/workspace/leaves.py', 'w').write('import sys; sys.exit(3)')\n%run leaves.py", 3, "3", ""),
    ("import sys\nawait __import__('asyncio').sleep(0)\nsys.exit(5)", 5, "5", ""),
    (ARGPARSE, 2, "2", "invalid int value: 'x'"),
    (UNITTEST.format(2), 0, "0", "OK"),
    (UNITTEST.format(3), 1, "1", "FAILED"),
]


@pytest.mark.parametrize("code, status, value, said", CASES)
def test_it_ends_the_cell_alone(box, code, status, value, said):
    context = box.create("python")
    box.run("kept = [1, 2]", context=context)
    execution = box.run(code, context=context)
    assert (execution["error_name"], execution["error_value"], execution["exit_code"]) == ("SystemExit", value, status), execution
    assert said in execution["stderr"] and not execution["kernel_restarted"], execution
    after = box.run("kept", context=context)
    assert after["results"][0]["text/plain"] == "[1, 2]" and after["execution_count"] == 3, after
    box.delete(context)


@pytest.mark.parametrize("code, status", [("exit()", 0), ("exit(3)", 3), ("quit", 0), ("quit(2)", 2)])
def test_leaving_by_hand_ends_the_kernel(box, code, status):
    context = box.create("python")
    box.run("kept = 1", context=context)
    execution = box.run(code, context=context)
    assert (execution["error_name"], execution["exit_code"], execution["kernel_restarted"]) == ("SystemExit", status, True), execution
    assert box.run("kept", context=context)["error_name"] == "NameError"
    box.delete(context)


FORKS = [
    ("print('child'); sys.exit(3)", 3, ""),
    ("print('child')", 0, ""),
    ("print('child'); sys.exit('oops')", 1, "oops\n"),
    ("print('child'); 1/0", 1, "ZeroDivisionError: division by zero"),
    ("print('child'); os._exit(7)", 7, ""),
    ("display('shown by nobody'); print('child'); 42", 0, ""),
]


@pytest.mark.parametrize("child, status, said", FORKS)
def test_a_copy_ends_with_the_cell_that_forked_it(box, child, status, said):
    context = box.create("python")
    pid = box.run("import os, sys\nos.getpid()", context=context)["results"][0]["text/plain"]
    execution = box.run(f"copy = os.fork()\nif copy == 0:\n    {child}\nelse:\n    print('parent', os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]))", context=context)
    assert execution["stdout"] == f"child\nparent {status}\n" and "error_name" not in execution, execution
    assert said in execution["stderr"] and execution["results"] == [], execution
    assert box.run("os.getpid()", context=context)["results"][0]["text/plain"] == pid
    box.delete(context)
