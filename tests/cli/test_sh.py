# SPDX-License-Identifier: Apache-2.0
"""vial sh and vial exec -t: a real terminal, and the user's own one unharmed afterwards."""

import os
import re
import signal
import subprocess
import time

import pytest
from conftest import BINARY

PROMPT = r"[$#] \x07?$"  # gVisor gives a Ctrl-C to the reader as well, and bash rings the bell


def test_a_shell_answers_and_its_status_is_ours(vial, sandbox):
    terminal = vial.terminal("sh", sandbox)
    terminal.expect(PROMPT)
    assert terminal.is_raw()
    terminal.type("echo $((6*7))\r")
    terminal.expect(r"[\r\n]42\r\n")
    terminal.type("exit 5\r")
    assert terminal.wait() == 5 and not terminal.is_raw()


def test_the_size_arrives_and_follows(vial, sandbox):
    terminal = vial.terminal("sh", sandbox, rows=31, columns=77)
    terminal.expect(PROMPT)
    terminal.type("stty size\r")
    terminal.expect(r"31 77")
    terminal.resize(41, 133)
    terminal.type("until stty size | grep 41; do sleep 0.1; done\r")
    terminal.expect(r"41 133")
    terminal.type("exit\r")
    assert terminal.wait() == 0


def test_ctrl_c_goes_to_the_guest(vial, sandbox):
    terminal = vial.terminal("sh", sandbox)
    terminal.expect(PROMPT)
    terminal.type("echo be''gan; sleep 1000\r")
    terminal.expect("began")
    time.sleep(0.5)
    terminal.type("\x03")
    terminal.expect(PROMPT)
    terminal.type("echo still=$?\r")
    terminal.expect(r"still=130")
    terminal.expect(PROMPT)  # a Ctrl-D before it would be read by nobody
    terminal.type("\x04")
    assert terminal.wait() in (0, 130)


def test_control_keys_go_to_the_guest(vial, sandbox):
    # gVisor's terminal turns Ctrl-Z and Ctrl-\ into signals even with ISIG off, so only the stand-in can show these two.
    keys = b"\x1a\x1c\x13\x11\x7f\x00" if vial.server.fake else b"\x01\x05\x13\x11\x7f\x00"
    terminal = vial.terminal("sh", sandbox, "-c", "stty raw -echo; echo ready; head -c 6 | od -An -tx1")
    terminal.expect("ready")
    terminal.type(keys)
    terminal.expect(keys.hex(" "))
    assert terminal.wait() == 0


def test_without_an_id_a_sandbox_is_made_and_removed(vial):
    before = set(vial.server.sandbox_ids())
    terminal = vial.terminal("sh", "-t", "minimal")
    terminal.expect(PROMPT, 60)
    made = set(vial.server.sandbox_ids()) - before
    assert len(made) == 1
    terminal.type("exit 3\r")
    assert terminal.wait() == 3
    assert not made & set(vial.server.sandbox_ids())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_killed_sh_restores_the_terminal_and_removes_its_sandbox(vial, number):
    before = set(vial.server.sandbox_ids())
    terminal = vial.terminal("sh", "-t", "minimal")
    terminal.expect(PROMPT, 60)
    os.kill(terminal.pid, number)
    assert terminal.wait() == 128 + number
    assert not terminal.is_raw() and set(vial.server.sandbox_ids()) <= before


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGQUIT, signal.SIGABRT])
def test_even_a_crash_restores_the_terminal(vial, sandbox, number):
    terminal = vial.terminal("sh", sandbox)
    terminal.expect(PROMPT)
    os.kill(terminal.pid, number)
    terminal.wait()
    assert not terminal.is_raw()


def test_a_stopped_sh_gives_the_terminal_back_and_takes_it_again(vial, sandbox):
    terminal = vial.terminal("sh", sandbox)
    terminal.expect(PROMPT)
    os.kill(terminal.pid, signal.SIGTSTP)
    os.waitpid(terminal.pid, os.WUNTRACED)
    assert not terminal.is_raw()
    os.kill(terminal.pid, signal.SIGCONT)
    terminal.type("echo b''ack\r")
    terminal.expect(r"back\r\n")
    assert terminal.is_raw()
    terminal.type("exit\r")
    assert terminal.wait() == 0


def test_the_way_out_of_a_terminal_that_hangs(vial, sandbox):
    terminal = vial.terminal("sh", sandbox, "-c", "trap '' INT; stty raw; echo hanging; sleep 1000")
    terminal.expect("hanging")
    terminal.type("\r~.")
    assert terminal.wait() == 130 and not terminal.is_raw()
    assert b"\x1b[?1049l" in terminal.output, "a full-screen program's modes are undone"


def test_a_tilde_that_is_no_way_out_is_typed(vial, sandbox):
    terminal = vial.terminal("sh", sandbox, "-c", "stty -echo; echo ready; read a; read b; echo \"[$a][$b]\"")
    terminal.expect("ready")
    terminal.type("~x\r~~.\r")
    terminal.expect(r"\[~x\]\[~\.\]")
    assert terminal.wait() == 0


def test_input_may_come_from_a_pipe(vial, sandbox):
    done = vial("sh", sandbox, input="echo $((2*21))\nexit 4\n", check=False)
    assert done.returncode == 4 and "42" in done.stdout
    done = vial("sh", sandbox, "-c", "cat", input="until the end\n")
    assert done.stdout.count("until the end") == 2  # its echo, and cat


def test_much_output_arrives_complete(vial, sandbox):
    terminal = vial.terminal("sh", sandbox, "-c", "seq 1 50000; echo DONE")
    terminal.expect(r"50000\r\nDONE", 60)
    assert terminal.wait() == 0
    assert terminal.output.replace(b"\r", b"").startswith(b"".join(b"%d\n" % i for i in range(1, 50001)))


def test_much_input_arrives_complete(vial, sandbox):
    text = "".join(f"{i:07}\n" for i in range(20000))
    done = vial("sh", sandbox, "-c", "stty -echo -icanon; head -c 160000 | md5sum", input=text, timeout=60)
    import hashlib
    assert hashlib.md5(text.encode()).hexdigest() in done.stdout


def test_exec_with_a_terminal(vial, sandbox):
    terminal = vial.terminal("exec", "-it", sandbox, "-e", "A=b c", "--", "sh", "-c", 'test -t 0 && echo "tty $A"; exit 6')
    terminal.expect("tty b c")
    assert terminal.wait() == 6


@pytest.mark.parametrize("args, words", [(["-c", "HOSTILE-error"], b"no terminal today"), (["-c", "HOSTILE-drop"], b"broke before"),
                                         (["-w", "/HOSTILE-refused"], b"not in a state")])
def test_a_terminal_that_fails_says_why(fake_vial, fake_sandbox, args, words):
    terminal = fake_vial.terminal("sh", fake_sandbox, *args)
    assert terminal.wait() == 125 and words in terminal.output and not terminal.is_raw()
    assert b"\x1b[2J" not in terminal.output


def test_in_tmux_as_a_person_would(vial, sandbox, tmp_path):
    """A full-screen session in a real terminal emulator: type, resize, leave."""
    import shutil
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    socket = f"vial-test-{os.getpid()}"

    def tmux(*args):
        return subprocess.run(["tmux", "-L", socket, "-f", "/dev/null", *args], capture_output=True, text=True, env=vial.env).stdout

    def wait_until_shown(is_wanted):
        deadline = time.monotonic() + 60
        while not is_wanted(screen := tmux("capture-pane", "-p")):
            assert time.monotonic() < deadline, screen
            time.sleep(0.1)

    def wait_for(text):
        wait_until_shown(lambda screen: text in screen)

    tmux("new-session", "-d", "-x", "90", "-y", "30", "bash", "--norc")
    try:
        tmux("send-keys", f"PS1='HOST> '; echo host''-begun; {BINARY} sh {sandbox}", "Enter")
        wait_until_shown(lambda screen: re.search(r"\nhost-begun\n.*[$#]$", screen.rstrip(), re.S))  # the guest's prompt
        tmux("send-keys", "echo in$((1+1))side; stty size", "Enter")
        wait_for("in2side")
        wait_for("30 90")
        tmux("send-keys", "echo be''gan; sleep 500", "Enter")
        wait_for("began")
        time.sleep(0.5)
        tmux("send-keys", "C-c")
        tmux("send-keys", "echo after=$?", "Enter")
        wait_for("after=130")
        tmux("send-keys", "exit 7", "Enter")
        wait_for("\nHOST>")
        tmux("send-keys", "echo back=$?", "Enter")
        wait_for("back=7")
    finally:
        tmux("kill-server")
