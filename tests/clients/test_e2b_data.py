# SPDX-License-Identifier: Apache-2.0
"""The PyPI package e2b 2.63.0, unmodified, against viald's data plane: commands and terminals. Files are in test_e2b_data_files.py."""

import threading
import time

import pytest

import e2b_box
from e2b_box import STRANGE
from tools import wait_until
from vial import slow

covers = pytest.mark.method


@pytest.fixture(scope="module")
def e2b():
    return e2b_box.load()


@pytest.fixture(scope="module")
def box(daemon):
    box = e2b_box.create(daemon, timeout=3600, envs={"FROM_SANDBOX": "all", "BOTH": "sandbox"})
    yield box
    box.kill()


def parallel(function):
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


# Commands

@covers("E2B Python 2.63", "commands.run")
def test_a_command_tells_what_it_printed_and_how_it_ended(e2b, box):
    seen = {"out": [], "err": []}
    result = box.commands.run("echo out; echo err >&2", on_stdout=seen["out"].append, on_stderr=seen["err"].append)
    assert (result.stdout, result.stderr, result.exit_code, result.error) == ("out\n", "err\n", 0, None)
    assert seen == {"out": ["out\n"], "err": ["err\n"]}
    with pytest.raises(e2b.CommandExitException) as failed:
        box.commands.run("echo half; exit 7")
    assert (failed.value.exit_code, failed.value.stdout, failed.value.error) == (7, "half\n", "exit status 7")
    with pytest.raises(e2b.CommandExitException) as killed:
        box.commands.run("kill -9 $$")
    assert (killed.value.exit_code, killed.value.error) == (-1, "signal: killed")
    assert box.commands.run("echo dropped", retain_output=False).stdout is None


@covers("E2B Python 2.63", "commands.run")
def test_a_command_has_its_user_folder_and_environment(e2b, box):
    result = box.commands.run("id -un; pwd; echo $HOME $FROM_SANDBOX $BOTH $OWN $E2B_SANDBOX $E2B_SANDBOX_ID $E2B_TEMPLATE_ID", envs={"OWN": "ä", "BOTH": "own"})
    assert result.stdout == f"user\n/home/user\n/home/user all own ä true {box.sandbox_id} minimal\n"
    assert box.commands.run("id -un; pwd; echo $HOME", user="root").stdout == "root\n/root\n/root\n"
    assert box.commands.run("pwd", cwd="/tmp").stdout == "/tmp\n"
    box.commands.run("mkdir -p ~/sub")
    assert box.commands.run("pwd", cwd="sub").stdout == "/home/user/sub\n" and box.commands.run("pwd", cwd="~/sub").stdout == "/home/user/sub\n"
    with pytest.raises(e2b.InvalidArgumentException):
        box.commands.run("pwd", cwd="/nowhere")
    with pytest.raises(e2b.AuthenticationException, match="nobody-there"):
        box.commands.run("id", user="nobody-there")


@covers("E2B Python 2.63", "commands.run")
def test_text_of_any_kind_arrives_as_it_was_printed(box):
    pieces = []
    result = box.commands.run(f"printf '%s' '{STRANGE}'; sleep 0.3; printf '%s' '{STRANGE}' >&2", on_stdout=pieces.append)
    assert (result.stdout, "".join(pieces), result.stderr) == (STRANGE, STRANGE, STRANGE)
    # A character that arrives in two pieces, a half one at the end, and bytes that are none.
    assert box.commands.run(r"printf '\xf0\x9f'; sleep 0.3; printf '\x98\x80 \xc3'").stdout == "\U0001f600 \ufffd"
    assert box.commands.run("cat /dev/zero | head -c 2000000 | tr '\\0' x").stdout == "x" * 2_000_000


@covers("E2B Python 2.63", "commands.run", "CommandHandle.wait", "CommandHandle.kill")
def test_a_command_in_the_background_is_waited_for_or_killed(e2b, box):
    handle = box.commands.run("echo $$; sleep 0.5; echo late; exit 3", background=True)
    seen = []
    with pytest.raises(e2b.CommandExitException) as failed:
        handle.wait(on_stdout=seen.append)
    assert failed.value.exit_code == 3 and "".join(seen) == f"{handle.pid}\nlate\n"
    sleeper = box.commands.run("sleep 1000", background=True)
    assert sleeper.kill() is True
    with pytest.raises(e2b.CommandExitException) as killed:
        sleeper.wait()
    assert killed.value.error == "signal: killed"
    wait_until(lambda: sleeper.kill() is False)


@covers("E2B Python 2.63", "commands.list", differs="What a command was given as its environment is not told: it may have secrets in it.")
@covers("E2B Python 2.63", "commands.kill", "commands.connect", "CommandHandle.disconnect")
def test_a_command_outlives_who_started_it_and_is_found_again(e2b, box):
    handle = box.commands.run("echo begun; read line; echo got $line", background=True, stdin=True, envs={"TOLD": "nobody"}, cwd="/tmp")
    assert next(iter(handle)) == ("begun\n", None, None)
    handle.disconnect()
    listed, = [one for one in box.commands.list() if one.pid == handle.pid]
    assert (listed.cmd, listed.args, listed.cwd) == ("/bin/bash", ["-l", "-c", "echo begun; read line; echo got $line"], "/tmp")
    assert listed.envs == {} and listed.tag is None
    again = box.commands.connect(handle.pid)
    assert again.pid == handle.pid
    box.commands.send_stdin(handle.pid, "back\n")
    result = again.wait()
    assert result.stdout == "got back\n", "what was printed before nobody hears again"
    assert handle.pid not in [one.pid for one in box.commands.list()]
    assert box.commands.connect(handle.pid).wait().exit_code == 0, "the end of one that has ended is told for a while"
    sleeper = box.commands.run("sleep 1000", background=True)
    assert box.commands.kill(sleeper.pid) is True and box.commands.kill(4_000_000) is False
    with pytest.raises(e2b.NotFoundException):
        box.commands.connect(4_000_000)


@covers("E2B Python 2.63", "commands.send_stdin", "commands.close_stdin", "CommandHandle.send_stdin", "CommandHandle.close_stdin")
def test_what_is_sent_is_read(e2b, box):
    handle = box.commands.run("cat", background=True, stdin=True)
    handle.send_stdin(STRANGE)
    box.commands.send_stdin(handle.pid, b"\xff\x00 raw\n")
    box.commands.send_stdin(handle.pid, "x" * 1_500_000)
    handle.close_stdin()
    assert handle.wait().stdout == STRANGE + "\ufffd\x00 raw\n" + "x" * 1_500_000
    other = box.commands.run("wc -c", background=True, stdin=True)
    other.send_stdin("12345")
    box.commands.close_stdin(other.pid)
    assert other.wait().stdout == "5\n"
    # Without stdin there is nothing to read, and nothing to send to.
    assert box.commands.run("wc -c").stdout == "0\n"
    deaf = box.commands.run("sleep 1000", background=True, stdin=False)
    with pytest.raises(e2b.SandboxException):
        deaf.send_stdin("x")
    deaf.kill()
    with pytest.raises(e2b.NotFoundException):
        box.commands.send_stdin(4_000_000, "x")


@covers("E2B Python 2.63", "commands.stream_input")
def test_input_is_streamed_as_it_comes(e2b, box):
    handle = box.commands.run("while read line; do echo [$line]; done", background=True, stdin=True)
    moments = []

    def lines():
        for line in ("one\n", "zwölf\n", b"\xe2\x82\xac\n"):
            yield line
            moments.append(next(events)[0])  # the command has it while the stream is still open

    events = iter(handle)
    box.commands.stream_input(handle.pid, lines())
    assert moments == ["[one]\n", "[zwölf]\n", "[€]\n"]
    handle.close_stdin()
    assert handle.wait().stdout == "".join(moments)
    counting = box.commands.run("wc -c", background=True, stdin=True)
    box.commands.stream_input(counting.pid, ["y" * 70_000] * 30)
    counting.close_stdin()
    assert counting.wait().stdout == "2100000\n"
    with pytest.raises(e2b.NotFoundException):
        box.commands.stream_input(4_000_000, ["x"])
    with pytest.raises(e2b.TimeoutException):
        stuck = box.commands.run("sleep 1000", background=True, stdin=True)
        box.commands.stream_input(stuck.pid, (time.sleep(0.3) or "z" for _ in range(1000)), timeout=1)
    stuck.kill()


@covers("E2B Python 2.63", "commands.run")
def test_a_time_limit_ends_the_command(e2b, box):
    with pytest.raises(e2b.TimeoutException):
        box.commands.run("echo begun; exec sleep 4321", timeout=1)
    wait_until(lambda: "sleep 4321" not in box.commands.run("ps ax -o args").stdout)
    # One that listens only stops to listen.
    handle = box.commands.run("exec sleep 4322", background=True, timeout=0)
    with pytest.raises(e2b.TimeoutException):
        box.commands.connect(handle.pid, timeout=1).wait()
    assert "sleep 4322" in box.commands.run("ps ax -o args").stdout
    handle.kill()


@covers("E2B Python 2.63", "commands.run")
def test_who_reads_slowly_misses_nothing(box):
    """More than is kept of a process that nobody hears: the command waits instead."""
    handle = box.commands.run("seq 1 600000; touch /tmp/all-told", background=True, timeout=0)
    time.sleep(1)
    text = "".join(out for out, _, _ in handle if out)
    assert text == "".join(f"{number}\n" for number in range(1, 600001))


def test_a_silence_is_broken_as_often_as_was_asked(daemon, box):
    send = e2b_box.headers(box, **{"Content-Type": "application/connect+json", "Keepalive-Ping-Interval": "1"})
    message = {"process": {"cmd": "/bin/sleep", "args": ["15"]}}
    begun = time.monotonic()
    answer = e2b_box.ask(daemon, "POST", "/process.Process/Start", send, e2b_box.frame(message))
    events = [list(message["event"])[0] for flags, message in e2b_box.frames(answer.body) if flags == 0]
    assert (events[0], events[-1]) == ("start", "end") and set(events[1:-1]) == {"keepalive"}
    assert 2 <= len(events[1:-1]) <= time.monotonic() - begun, "of fifteen, as many as a machine that stalls may leave out"


# Terminals

def typed(handle, until):
    """What a terminal shows, until it has shown that."""
    text = b""
    for _, _, pty in handle:
        text += pty or b""
        if until in text:
            return text
    raise AssertionError(f"the terminal ended after {text!r}")


@covers("E2B Python 2.63", "pty.create", "pty.send_stdin", "pty.resize", "pty.connect", "pty.kill", "pty.stream_input")
def test_a_terminal_is_typed_at_resized_left_and_found_again(e2b, box):
    size = e2b.sandbox.commands.command_handle.PtySize
    terminal = box.pty.create(size(rows=30, cols=100), envs={"OWN": "ö"}, cwd="/tmp", timeout=0)
    box.pty.send_stdin(terminal.pid, b"stty size; tty; pwd; echo $TERM $OWN; echo fin''ished\n")
    shown = typed(terminal, b"finished").decode()
    assert "30 100" in shown and "/dev/pts/" in shown and "/tmp" in shown and "xterm-256color ö" in shown
    box.pty.resize(terminal.pid, size(rows=50, cols=132))
    box.pty.send_stdin(terminal.pid, b"stty size; echo re''sized\n")
    assert b"50 132" in typed(terminal, b"resized")
    terminal.disconnect()
    box.pty.send_stdin(terminal.pid, b"KEPT=still; echo nobody''-heard\n")
    wait_until(lambda: terminal.pid in [one.pid for one in box.commands.list()])
    again = box.pty.connect(terminal.pid, timeout=0)
    box.pty.stream_input(terminal.pid, ["echo $KEPT", " | cat; ", "echo ag''ain\n"])
    assert b"still\r\n" in typed(again, b"again")
    assert box.pty.kill(terminal.pid) is True
    with pytest.raises(e2b.CommandExitException) as killed:
        again.wait()
    assert killed.value.error == "signal: killed"
    wait_until(lambda: box.pty.kill(terminal.pid) is False)
    with pytest.raises(e2b.NotFoundException):
        box.pty.resize(4_000_000, size(rows=1, cols=1))


@covers("E2B Python 2.63", "pty.resize")
def test_only_a_terminal_has_a_size(e2b, box):
    size = e2b.sandbox.commands.command_handle.PtySize
    plain = box.commands.run("sleep 1000", background=True)
    with pytest.raises(e2b.SandboxException, match="terminal"):
        box.pty.resize(plain.pid, size(rows=10, cols=10))
    plain.kill()
    terminal = box.pty.create(size(rows=30, cols=100), timeout=0)
    for rows, cols in ((0, 10), (10, 100_000)):
        with pytest.raises(e2b.InvalidArgumentException):
            box.pty.resize(terminal.pid, size(rows=rows, cols=cols))
    terminal.kill()


# The sandbox itself

@covers("E2B Python 2.63", "Sandbox.is_running", "Sandbox.get_host")
def test_a_sandbox_that_was_ended_looks_so(e2b, daemon):
    box = e2b_box.create(daemon)
    assert box.is_running() is True and box.get_host(3000) == f"3000-{box.sandbox_id}.e2b.app"
    command, watched = box.commands.run("echo begun; sleep 1000", background=True), []
    assert next(iter(command))[0] == "begun\n"

    def wait():
        try:
            command.wait()
        except Exception as error:
            watched.append(error)

    thread = parallel(wait)
    time.sleep(0.5)
    box.kill()
    thread.join(slow(20))
    assert [type(error).__name__ for error in watched] == ["SandboxNotRunningException"], watched
    assert box.is_running() is False
    for call in (lambda: box.commands.run("id"), lambda: box.files.read("/etc/passwd"), lambda: box.files.write("/tmp/x", "x"), lambda: box.files.list("/"),
                 lambda: box.files.watch_dir("/tmp"), lambda: box.commands.list(), lambda: box.commands.kill(1)):
        with pytest.raises(e2b.exceptions.SandboxNotRunningException):
            call()


def test_a_vial_that_cannot_be_reached_is_told_as_that(e2b, daemon, box):
    away = e2b.Sandbox.connect(box.sandbox_id, **e2b_box.options(daemon, sandbox_url="http://127.0.0.1:1", timeout=3600))
    for call in (lambda: away.commands.run("id"), lambda: away.files.read("/etc/passwd")):
        with pytest.raises(e2b.exceptions.SandboxUnreachableException):
            call()
