# SPDX-License-Identifier: Apache-2.0
"""vial run and vial repl."""

import base64
import json
import os
import signal
import subprocess
import time

import pytest

pytestmark = pytest.mark.usefixtures("kernels")
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


@pytest.fixture
def kernels(request):
    if "fake_vial" not in request.fixturenames:
        request.getfixturevalue("has_kernels") or pytest.skip("this viald has no kernels yet")


def test_a_file_runs_in_a_sandbox_of_its_own(vial, tmp_path):
    (tmp_path / "a.py").write_text("print('hello')\nx = 6\nx * 7\n")
    before = vial.server.sandbox_ids()
    done = vial("run", "-t", "minimal", tmp_path / "a.py")
    assert done.stdout == "hello\n42\n" and vial.server.sandbox_ids() == before


@pytest.mark.parametrize("name, code, output", [("a.sh", "echo $((6*7))", "42\n"), ("a.py", "print(42)", "42\n")])
def test_the_suffix_tells_the_language(vial, sandbox, tmp_path, name, code, output):
    (tmp_path / name).write_text(code)
    assert vial("run", "-s", sandbox, tmp_path / name).stdout == output


def test_code_comes_from_standard_input(vial, sandbox):
    assert vial("run", "-s", sandbox, "-", input="6*7").stdout == "42\n"
    assert vial("run", "-s", sandbox, "-", "--lang", "bash", input="echo hi").stdout == "hi\n"
    assert vial("run", "-s", sandbox, "-", input="#!/bin/bash\necho $BASH | grep -c bash").stdout == "1\n"


def test_state_stays_in_a_sandbox_that_is_kept(vial, sandbox):
    vial("run", "-s", sandbox, "-", input="kept = 'yes'")
    assert vial("run", "-s", sandbox, "-", input="print(kept)").stdout == "yes\n"


def test_an_error_is_status_1_and_its_traceback_on_stderr(vial, sandbox):
    done = vial("run", "-s", sandbox, "-", input="print('before')\n1/0", check=False)
    assert done.returncode == 1 and done.stdout == "before\n" and "ZeroDivisionError" in done.stderr


@pytest.mark.parametrize("name, code, output, status", [
    ("a.py", "import os, sys; print(sys.argv); sys.stdout.flush(); os._exit(3)", "['a.py', 'x', '-y z']\n", 3),
    ("a.sh", 'echo "$0 $# $1 $2"; exit 4', "a.sh 2 x -y z\n", 4),
    ("b.sh", "(exit 7)", "", 7),
    ("a.js", "console.log(process.argv.slice(1).join()); process.exit(5)", "a.js,x,-y z\n", 5),
    ("b.js", "setTimeout(() => console.log('later'), 300)", "later\n", 0),
    ("c.js", "setTimeout(() => { throw new Error('late') }, 100)", "", 1),
])
def test_a_file_is_a_program_with_arguments_and_a_status(vial, tmp_path, name, code, output, status):
    if vial.server.fake:
        pytest.skip("the stand-in has no kernels of ours")
    (tmp_path / name).write_text(code)
    done = vial("run", "-t", "code-interpreter", tmp_path / name, "x", "--", "-y z", check=False)
    assert done.stdout == output and done.returncode == status, done.stderr
    assert "restarted" not in done.stderr
    collected = vial("run", "--json", "-t", "code-interpreter", tmp_path / name, "x", "--", "-y z", check=False)
    assert json.loads(collected.stdout)["stdout"] == output and collected.returncode == status


def test_json_is_the_execution(vial, sandbox):
    execution = vial.json("run", "-s", sandbox, "-", input="print('o'); 6*7")
    assert execution["stdout"] == "o\n" and execution["results"][-1]["text/plain"] == "42"
    done = vial("run", "--json", "-s", sandbox, "-", input="1/0", check=False)
    assert done.returncode == 1 and "ZeroDivisionError" in json.loads(done.stdout)["error"]


def test_changed_files_are_saved_and_named(vial, sandbox, tmp_path):
    out = tmp_path / "out"
    done = vial("run", "-s", sandbox, "-o", out, "-", input="import os; os.makedirs('d', exist_ok=True); open('d/f.txt','w').write('data')")
    assert (out / "d" / "f.txt").read_text() == "data" and f"saved {out}/d/f.txt" in done.stderr


def test_figures_are_saved_in_every_form_they_have(fake_vial, fake_sandbox, tmp_path):
    code = "display({'text/plain':'<Figure>','image/png':%r,'image/svg+xml':'<svg/>'}); display({'image/png':%r});" \
           "display({'text/html':'<div/>','application/vnd.plotly.v1+json':{}})" % ((base64.b64encode(PNG).decode(),) * 2)
    done = fake_vial("run", "-s", fake_sandbox, "--out", tmp_path / "o", "-", input=code)
    assert sorted(os.listdir(tmp_path / "o")) == ["figure-1.png", "figure-1.svg", "figure-2.png", "result-1.html"]
    assert (tmp_path / "o" / "figure-1.png").read_bytes() == PNG and done.stdout == ""
    fake_vial.json("run", "-s", fake_sandbox, "--out", tmp_path / "j", "-", input=code)
    assert sorted(os.listdir(tmp_path / "j")) == sorted(os.listdir(tmp_path / "o"))
    mentioned = fake_vial("run", "-s", fake_sandbox, "-", input=code)
    assert "figure 1: image/png, 70 B" in mentioned.stderr and "--out" in mentioned.stderr


def test_ctrl_c_removes_the_sandbox(vial, tmp_path):
    (tmp_path / "a.py").write_text("import time\nprint('started', flush=True)\ntime.sleep(1000)")
    before = set(vial.server.sandbox_ids())
    process = vial.popen("run", "-t", "minimal", tmp_path / "a.py", stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130 and set(vial.server.sandbox_ids()) <= before


@pytest.mark.parametrize("code, words", [(None, "cannot be read"), (b"\xff\xfe", "not UTF-8")])
def test_a_file_that_cannot_be_run_is_said_before_anything_is_made(vial, tmp_path, code, words):
    if code is not None:
        (tmp_path / "a.py").write_bytes(code)
    done = vial("run", tmp_path / "a.py", check=False)
    assert done.returncode == 125 and words in done.stderr


# --- repl ---


def test_repl_keeps_state_between_cells(vial, sandbox):
    done = vial("repl", "-s", sandbox, input="x = 6\nx * 7\nprint('end')\n")
    assert done.stdout == "42\nend\n"


def test_repl_gathers_blocks_from_a_pipe(vial, sandbox):
    done = vial("repl", "-s", sandbox, input="def f(n):\n    return n * 2\n\nf(21)\nprint('''a\nb''')\n1/0\n'alive'\n")
    assert done.stdout == "42\na\nb\n'alive'\n" and "ZeroDivisionError" in done.stderr


def prompt(terminal, number):
    terminal.expect(rf"py\[{number}\]> ")


def test_repl_edits_several_lines_and_remembers_them(vial, sandbox):
    terminal = vial.terminal("repl", "-s", sandbox, columns=100)
    prompt(terminal, 1)
    terminal.type("for i in range(3):\r")
    terminal.type("print(i*11)\r\r")
    terminal.expect(r"0\r\n11\r\n22\r\n")
    prompt(terminal, 2)
    terminal.type("\x1b[A")  # the whole cell comes back
    terminal.expect(r"for i in range\(3\):")
    terminal.expect(r"print\(i\*11\)")
    terminal.type("\r")  # complete as it is? its last line is code, so one more Enter ends the block
    terminal.type("\r")
    terminal.expect(r"0\r\n11\r\n22\r\n")
    prompt(terminal, 3)
    terminal.type("\x04")
    assert terminal.wait() == 0 and not terminal.is_raw()
    history = os.path.join(vial.env["XDG_STATE_HOME"], "vial", "history-python")
    assert os.stat(history).st_mode & 0o777 == 0o600 and "range" in open(history).read()
    terminal = vial.terminal("repl", "-s", sandbox)
    prompt(terminal, 1)
    terminal.type("\x1b[A")
    terminal.expect("range")
    terminal.type("\x03")
    prompt(terminal, 1)
    terminal.type("\x04")
    assert terminal.wait() == 0


@pytest.mark.parametrize("language, cell, typed, completed", [
    ("python", "lengthy_name = [6 * 7]", "lengthy_n\t.po\t()", r"[\r\n]42\r\n"),
    ("python", "import math", "math.isq\t(49)", r"\b7\b"),
    ("javascript", "const lengthyName = {inner: {deep: 42}}", "lengthyN\t.inn\t.de\t", r"[\r\n]42\r\n"),
    ("bash", "lengthy_name() { echo 4''2; }", "lengthy_n\t", r"[\r\n]42\r\n"),
])
def test_tab_completes_what_the_kernel_knows(vial, language, cell, typed, completed):
    if vial.server.fake:
        pytest.skip("the stand-in has no kernels of ours")
    sign = {"python": "py", "javascript": "js", "bash": "sh"}[language]
    terminal = vial.terminal("repl", "-t", "code-interpreter", "--lang", language)
    terminal.expect(rf"{sign}\[1\]> ")
    terminal.type(cell + "\r")
    terminal.expect(rf"{sign}\[2\]> ")
    for part in typed.split("\t"):
        terminal.type(part + "\t")
        time.sleep(0.5)
    terminal.type("\r")
    terminal.expect(completed)
    terminal.expect(rf"{sign}\[3\]> ")
    if language == "python":
        terminal.type("print(len(In), In[2])\r")
        terminal.expect(r"[\r\n]4 (lengthy_name\.pop\(\)|math\.isqrt\(49\))")
    terminal.type("\x04")
    assert terminal.wait() == 0


def test_tab_shows_what_a_word_may_become(vial):
    if vial.server.fake:
        pytest.skip("the stand-in has no kernels of ours")
    terminal = vial.terminal("repl", "-t", "code-interpreter")
    prompt(terminal, 1)
    terminal.type("first_of_two = 1; first_or_not = 2\r")
    prompt(terminal, 2)
    terminal.type("first_o\t")
    terminal.expect(r"first_of_two  first_or_not")
    terminal.expect(r"py\[2\]> first_o")
    terminal.type("r\t + 40\r")
    terminal.expect(r"[\r\n]42\r\n")
    terminal.type("\x04")
    assert terminal.wait() == 0


def test_repl_moves_and_edits_within_a_cell(vial, sandbox):
    terminal = vial.terminal("repl", "-s", sandbox)
    prompt(terminal, 1)
    terminal.type("def f():\rreturn 'ü'\r")
    terminal.type("\x1b[A\x1b[A\x01\x1b[C\x1b[C\x1b[C\x1b[C")  # two lines up, to its start, behind "def "
    terminal.type("g\x05 # ok\x1b[B\x1b[B\r")  # the name becomes gf; a comment at the line's end; back down and send
    prompt(terminal, 2)
    terminal.type("gf() + '!'\r")
    terminal.expect("'ü!'")
    prompt(terminal, 3)
    terminal.type("\x04")
    assert terminal.wait() == 0


def test_what_is_typed_while_a_cell_runs_is_kept(vial, sandbox):
    terminal = vial.terminal("repl", "-s", sandbox)
    prompt(terminal, 1)
    terminal.type("import time; print('runs', flush=True); time.sleep(1)\r")
    terminal.expect(r"runs\r\n")
    terminal.type("6*7\r\x04")
    terminal.expect(r"[\r\n]42\r\n")
    assert terminal.wait() == 0


def test_repl_ctrl_c_interrupts_the_cell_and_keeps_the_state(vial, sandbox):
    terminal = vial.terminal("repl", "-s", sandbox)
    prompt(terminal, 1)
    terminal.type("kept = 42; import time\r")
    prompt(terminal, 2)
    terminal.type("print('sleeping', flush=True); time.sleep(1000)\r")
    terminal.expect(r"sleeping\r\n")
    terminal.type("\x03")
    terminal.expect("KeyboardInterrupt")
    prompt(terminal, 3)
    terminal.type("kept\r")
    terminal.expect(r"[\r\n]42\r\n")
    prompt(terminal, 4)
    terminal.type("\x04")
    assert terminal.wait() == 0


def test_repl_changes_language_and_restarts(vial, sandbox):
    terminal = vial.terminal("repl", "-s", sandbox)
    prompt(terminal, 1)
    terminal.type("y = 1\r")
    prompt(terminal, 2)
    terminal.type(":restart\r")
    terminal.expect("fresh python kernel")
    prompt(terminal, 2)
    terminal.type("'y' in globals()\r")
    terminal.expect("False")
    terminal.type(":lang bash\r")
    terminal.expect(r"sh\[3\]> ")
    terminal.type("echo $((6*7))\r")
    terminal.expect(r"[\r\n]42\r\n")
    terminal.type(":quit\r")
    assert terminal.wait() == 0


def test_repl_removes_the_sandbox_it_made(vial):
    before = set(vial.server.sandbox_ids())
    terminal = vial.terminal("repl", "-t", "minimal")
    terminal.expect(r"py\[1\]> ", 60)
    assert len(set(vial.server.sandbox_ids()) - before) == 1
    os.kill(terminal.pid, signal.SIGTERM)
    terminal.wait()
    assert set(vial.server.sandbox_ids()) <= before and not terminal.is_raw()
