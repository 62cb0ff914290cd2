# SPDX-License-Identifier: Apache-2.0
"""vial exec: output as it comes, input, status, interruption, safety of the terminal."""

import json
import os
import random
import signal
import subprocess
import time

import pytest


def test_output_and_status_are_those_of_the_command(vial, sandbox):
    done = vial("exec", sandbox, "--", "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)


@pytest.mark.parametrize("args, expected", [
    (["--", "echo", "a  b", "$HOME"], "a  b $HOME\n"),
    (["echo", "-n", "--json"], "--json"),
    (["-c", "echo $((6*7)) | cat"], "42\n"),
    (["echo $((6*7)) | cat"], "42\n"),
    (["-e", "A=1 2", "-e", "B=", "--", "sh", "-c", 'echo "$A|$B"'], "1 2|\n"),
    (["--", "printf", "%s", "häßlich ☃ 日本"], "häßlich ☃ 日本"),
])
def test_arguments_arrive_as_given(vial, sandbox, args, expected):
    assert vial("exec", sandbox, *args).stdout == expected


def test_options_may_stand_before_the_id(vial, sandbox):
    assert vial("exec", "-c", "echo x", sandbox).stdout == "x\n"


def test_cwd_is_respected(vial, sandbox):
    vial("exec", sandbox, "mkdir", "sub")
    assert vial("exec", "--cwd", "/workspace/sub", sandbox, "pwd").stdout.endswith("/sub\n")


def test_command_that_does_not_exist_ends_with_127(vial, sandbox):
    done = vial("exec", sandbox, "no-such-command-here", check=False)
    assert done.returncode == 127 and done.stderr


def test_output_comes_while_the_command_runs(vial, sandbox):
    process = vial.popen("exec", sandbox, "--", "sh", "-c", "echo first; until [ -e seen ]; do sleep 0.1; done; echo second", stdout=subprocess.PIPE,
                         stdin=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "first\n"
    vial("exec", sandbox, "touch", "seen")
    assert process.stdout.read() == "second\n" and process.wait() == 0


def test_large_output_is_complete(vial, sandbox):
    done = vial("exec", sandbox, "--", "sh", "-c", "seq 1 300000", timeout=120)
    assert done.stdout == "".join(f"{i}\n" for i in range(1, 300001))


def test_bytes_that_are_no_text_come_out_unchanged_in_a_pipe(vial, sandbox, exact_bytes):
    done = vial("exec", sandbox, "--", "printf", r"\000\377\376a\r\n\033[31mred", binary=True)
    assert done.stdout == b"\x00\xff\xfea\r\n\x1b[31mred"


def test_standard_input_is_passed_on(vial, sandbox):
    assert vial("exec", sandbox, "cat", input="hello\nworld").stdout == "hello\nworld"
    assert vial("exec", sandbox, "--no-stdin", "--", "cat", input="hello").stdout == ""


@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_binary_and_large_standard_input_is_passed_on(vial, sandbox, size):
    import hashlib
    data = random.Random(size).randbytes(size)
    assert vial("exec", sandbox, "md5sum", input=data, binary=True).stdout.split()[0].decode() == hashlib.md5(data).hexdigest()
    assert vial("exec", sandbox, "-c", "wc -c", input=data, binary=True).stdout.strip() == str(size).encode()


def test_status_of_a_command_with_uploaded_input_is_kept(vial, sandbox):
    assert vial("exec", sandbox, "--", "sh", "-c", "cat >/dev/null; exit 9", input=b"\xff" * 10, binary=True, check=False).returncode == 9
    left = vial("exec", sandbox, "-c", "ls -A /tmp | grep -c vial-stdin", check=False).stdout.strip()
    assert left == "0"


def test_timeout_ends_with_124(vial, sandbox):
    started = time.monotonic()
    done = vial("exec", "--timeout", "1s", sandbox, "--", "sleep", "60", check=False)
    assert done.returncode == 124 and "time limit" in done.stderr and time.monotonic() - started < 50


def test_ctrl_c_ends_the_remote_command(vial, sandbox):
    mark = f"{random.randrange(10**9)}"
    process = vial.popen("exec", sandbox, "--", "sh", "-c", f"echo ready; exec sleep 1{mark}", stdout=subprocess.PIPE,
                         stdin=subprocess.DEVNULL, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    for _ in range(100):
        if vial("exec", sandbox, "-c", f"pgrep -fx 'sleep 1{mark}' || echo none").stdout == "none\n":
            return
        time.sleep(0.1)
    pytest.fail("the command lives on")


def test_a_reader_that_leaves_ends_the_command_quietly(vial, sandbox):
    process = vial.popen("exec", sandbox, "--", "sh", "-c", "while :; do echo y; done", stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(60) == 141 and process.stderr.read() == b""


def test_json_is_the_collected_answer(vial, sandbox):
    done = vial("exec", "--json", sandbox, "--", "sh", "-c", "echo out; exit 3", check=False)
    answer = json.loads(done.stdout)
    assert done.returncode == 3 and answer["stdout"] == "out\n" and answer["exit_code"] == 3


def test_escape_sequences_do_not_reach_a_terminal(vial, sandbox):
    evil = r"\033]0;title\007\033[2Jx\033]52;c;aGk=\007\033[8mhidden\033[0m\033[31mred\033[0m\302\2332Jy\n"
    terminal = vial.terminal("exec", sandbox, "--", "printf", evil)
    assert terminal.wait() == 0
    assert b"x" in terminal.output and b"\x1b[31mred\x1b[0m" in terminal.output and b"hidden" in terminal.output
    for bad in [b"\x1b]", b"\x1b[2J", b"title", b"aGk=", b"\x1b[8m", b"\xc2\x9b", b"\x9b"]:
        assert bad not in terminal.output
    raw = vial.terminal("exec", "--raw", sandbox, "--", "printf", evil)
    assert raw.wait() == 0 and b"\x1b]0;title\x07\x1b[2Jx" in raw.output
    plain = vial.terminal("exec", "--no-color", sandbox, "--", "printf", evil)
    assert plain.wait() == 0 and b"\x1b" not in plain.output


def test_waiting_for_input_is_said_after_a_while(fake_vial, fake_sandbox):
    read, write = os.pipe()
    process = fake_vial.popen("exec", fake_sandbox, "cat", stdin=read, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    os.close(read)
    assert "--no-stdin" in process.stderr.readline()
    os.write(write, b"late")
    os.close(write)
    assert process.communicate()[0] == "late"


@pytest.mark.parametrize("command, sentence", [("HOSTILE-cut", "ended before the command did"), ("HOSTILE-error", "the sandbox died"),
                                               ("HOSTILE-nonsense", "not JSON")])
def test_a_broken_stream_is_an_error_of_its_own_status(fake_vial, fake_sandbox, command, sentence):
    done = fake_vial("exec", fake_sandbox, command, check=False)
    assert done.returncode == 125 and sentence in done.stderr and "\x1b" not in done.stderr


def test_an_unknown_sandbox_is_125_not_1(vial):
    done = vial("exec", "0" * 20, "true", check=False)
    assert done.returncode == 125 and done.stderr.startswith("vial: ")
