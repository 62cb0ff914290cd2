# SPDX-License-Identifier: Apache-2.0
"""exec: starting, streaming, ending."""
import time

import pytest

from wireclient import MAIN, STDERR, STDOUT, wait_until


def code_of(box, **fields):
    return box.open("exec", **fields).collect().result


def test_a_shell_line_runs_as_user_in_the_workspace(box):
    answer = box.run("id -un; pwd; echo $HOME $USER $LANG; tty")
    assert answer.stdout == "user\n/workspace\n/home/user user C.UTF-8\nnot a tty\n"
    assert answer.events[0]["event"] == "started" and answer.events[0]["pid"] > 1


def test_argv_is_not_read_by_a_shell(box):
    assert box.run(argv=["printf", "%s|", "a b", "$HOME", ""]).stdout == "a b|$HOME||"


def test_exit_status_and_signals_are_told_apart(box):
    assert box.run("exit 3").result["exit_code"] == 3
    result = box.run("kill -SEGV $$").result
    assert result["exit_code"] == 139 and result["signal"] == "SEGV"
    assert "signal" not in box.run("true").result


def test_stdout_and_stderr_keep_their_order(box):
    """The next line is only printed when the one before has arrived: what is in two pipes at a time has no order."""
    wait = "n=$((n + 1)); until [ -e /tmp/seen-$n ]; do sleep 0.05; done"
    stream = box.open("exec", cmd=f"for i in 1 2 3; do echo out$i; {wait}; echo err$i >&2; {wait}; done")
    seen = []
    while True:
        kind, channel, value = stream.next()
        if kind == "data":
            seen.append((channel, value))
            box.write(f"/tmp/seen-{len(seen)}", b"")
        if kind == "close":
            break
    assert seen == [(STDOUT, b"out1\n"), (STDERR, b"err1\n"), (STDOUT, b"out2\n"), (STDERR, b"err2\n"), (STDOUT, b"out3\n"),
                    (STDERR, b"err3\n")]


def test_stdin_reaches_the_program_and_ends(box):
    stream = box.open("exec", argv=["sha256sum"], stdin=True)
    data = b"0123456789abcdef" * 400000
    stream.send_data(data)
    stream.send_eof()
    import hashlib
    assert stream.collect().stdout.split()[0] == hashlib.sha256(data).hexdigest()


def test_stdin_to_a_program_that_does_not_read_gives_credit_back(box):
    stream = box.open("exec", argv=["true"], stdin=True)
    stream.send_data(bytes(1000000))
    assert stream.collect().result["exit_code"] == 0
    stream = box.open("exec", argv=["sleep", "1"])
    stream.send_data(bytes(5000000))
    assert stream.collect().result["exit_code"] == 0


def test_without_stdin_it_is_dev_null(box):
    assert box.run(argv=["cat"]).stdout == ""


@pytest.mark.parametrize("fields, code, words", [
    ({"argv": ["no-such-program"]}, "not_found", "command not found"),
    ({"argv": ["/etc/passwd"]}, "denied", "cannot run"),
    ({"argv": ["/tmp"]}, "denied", "cannot run"),
    ({"cmd": "true", "cwd": "/nowhere"}, "not_found", "working directory"),
    ({"cmd": "true", "cwd": "/etc/passwd"}, "conflict", "working directory"),
    ({"cmd": "true", "cwd": "/root"}, "denied", "working directory"),
    ({"cmd": "true", "user": "nobody-here"}, "invalid", "no user"),
    ({"cmd": "true", "user": []}, "invalid", "user"),
    ({"cmd": "true", "env": {"": "x"}}, "invalid", "env"),
    ({"cmd": "true", "env": {"A": ["x"]}}, "invalid", "env"),
    ({"cmd": "true", "timeout_ms": -1}, "invalid", "timeout_ms"),
    ({"cmd": "true", "timeout_ms": "5"}, "invalid", "timeout_ms"),
    ({"cmd": "true", "argv": ["true"]}, "invalid", "either"),
    ({"argv": []}, "invalid", "argv"), ({"argv": [1]}, "invalid", "argv"), ({}, "invalid", "argv"),
    ({"cmd": "true", "pty": 5}, "invalid", "pty"), ({"cmd": "true", "pty": {"rows": 0, "cols": 5}}, "invalid", "rows"),
    ({"cmd": "true", "stdin": 1}, "invalid", "stdin"),
])
def test_what_cannot_run_says_why(box, fields, code, words):
    result = code_of(box, **fields)
    assert not result["ok"] and result["code"] == code and words in result["error"], result


def test_env_is_layered(box):
    assert box.run("echo $A-$HOME", env={"A": "x", "HOME": "/tmp"}).stdout.strip() == "x-/tmp"
    assert box.run(argv=["env"], env={"LANG": None}).stdout.count("LANG=") == 0


def test_a_large_environment_and_command_line_pass(box):
    big = "y" * 100000
    assert box.run(argv=["sh", "-c", "echo ${#BIG} ${#1}", "sh", "z" * 60000], env={"BIG": big}).stdout == "100000 60000\n"


def test_users_by_name_and_number(box):
    assert box.run("id -u", user="root").stdout == "0\n"
    assert box.run("id -u; id -g", user=4242).stdout == "4242\n4242\n"
    assert box.run("id -u", user="4242").stdout == "4242\n"
    box.run("groupadd -f extra; usermod -aG extra user", user="root")
    assert "extra" in box.run("id -Gn").stdout


def test_a_timeout_ends_the_whole_group(box):
    result = box.run("sleep 1000 & sleep 1000", timeout_ms=300).result
    assert result["timed_out"] and result["signal"] == "TERM"
    assert wait_until(lambda: box.run("pgrep -c sleep || true").stdout.strip() == "0")


def test_a_program_that_ignores_term_is_killed_after_the_grace_time(box):
    started = time.monotonic()
    result = box.run("trap '' TERM; while :; do sleep 0.1; done", timeout_ms=12_000).result
    assert result["timed_out"] and result["signal"] == "KILL" and time.monotonic() - started > 13.5


def test_cancel_ends_it_and_close_still_comes(box):
    stream = box.open("exec", cmd="sleep 100")
    stream.next_event()
    stream.cancel()
    assert stream.collect().result["signal"] == "TERM"


def test_cancel_before_it_has_started(box):
    stream = box.open("exec", cmd="sleep 100")
    stream.cancel()
    assert stream.collect().result["cancelled"]


def test_a_background_child_that_holds_the_pipe_does_not_hold_the_answer(box):
    answer = box.run("echo before; sleep 1000 & echo after")
    assert answer.stdout == "before\nafter\n"
    box.run("pkill sleep")


def test_signals_by_event(box):
    stream = box.open("exec", cmd="trap 'echo got; exit 7' USR1; echo ready; while :; do sleep 0.05; done")
    stream.next_event()
    assert stream.next()[2] == b"ready\n"
    stream.send_event({"event": "signal", "signal": "USR1"})
    answer = stream.collect()
    assert answer.stdout == "got\n" and answer.result["exit_code"] == 7


def test_output_arrives_complete(box):
    answer = box.run("head -c 30000000 /dev/zero | tr '\\0' x")
    assert len(answer.stdout) == 30000000


def test_not_utf8_output_passes_untouched(box):
    assert box.run(argv=["printf", "\\377\\000\\376"])._joined(STDOUT) == b"\xff\x00\xfe"


def test_a_pty_is_a_terminal(box):
    stream = box.open("exec", argv=["bash", "--norc", "-i"], pty={"rows": 30, "cols": 100}, env={"PS1": "> "})
    stream.next_event()

    def until(text):
        return stream.read_until(text, MAIN)

    def until_prompt_after(text):
        """As somebody who types does: the shell reads again."""
        if b"> " not in until(text).rpartition(text)[2]:
            until(b"> ")

    until(b"> ")
    stream.send_data(b"tty; stty size\n")
    until_prompt_after(b"30 100")
    stream.send_event({"event": "resize", "rows": 40, "cols": 120})
    stream.send_data(b"stty size\n")
    until_prompt_after(b"40 120")
    stream.send_data(b"trap 'echo RESI''ZED' WINCH\n")
    stream.send_data(b"echo s''et\n")
    until(b"set")
    stream.send_event({"event": "resize", "rows": 41, "cols": 121})
    time.sleep(0.3)
    stream.send_data(b"\n")
    until(b"RESIZED")
    stream.send_data(b"sh -c 'echo rea\"\"dy; exec sleep 100'\n")
    until(b"ready")
    stream.send_data(b"\x03")
    stream.send_data(b"echo do''ne $?\n")
    until(b"done 130")
    stream.send_data(b"exit 5\n")
    assert stream.collect().result["exit_code"] == 5


def test_eof_on_a_pty_is_control_d(box):
    stream = box.open("exec", argv=["cat"], pty={"rows": 5, "cols": 20})
    stream.next_event()
    stream.send_data(b"hello\n")
    stream.send_eof()
    answer = stream.collect()
    assert b"hello" in answer.main and answer.result["exit_code"] == 0


def test_a_program_that_lets_go_of_its_terminal_is_not_hung_up(box):
    """cat does so just before it exits; whoever closed the other end at that moment would end it with SIGHUP."""
    stream = box.open("exec", argv=["sh", "-c", "echo first; exec <&- >&- 2>&-; sleep 0.7; echo second > /dev/tty; exit 7"], pty={"rows": 5, "cols": 20})
    stream.next_event()
    answer = stream.collect()
    assert answer.main == b"first\r\nsecond\r\n" and answer.result["exit_code"] == 7, (answer.main, answer.result)


def test_duration_is_measured(box):
    assert 900 < box.run("sleep 1").result["duration_ms"] < 60_000


def test_a_program_can_open_dev_stdout_and_dev_stderr(box):
    answer = box.run("echo out > /dev/stdout; echo err > /dev/stderr")
    assert answer.stdout == "out\n" and answer.stderr == "err\n"


def test_programs_that_end_before_anybody_looks_are_told_too(box):
    """Many at once: the agent is busy with the next requests while the first programs have come, gone and been reaped."""
    for _ in range(3):
        streams = [box.open("exec", argv=["true"]) for _ in range(200)]
        assert {stream.collect().ok().result["exit_code"] for stream in streams} == {0}
