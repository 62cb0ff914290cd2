# SPDX-License-Identifier: Apache-2.0
"""Background commands: listed, fed, signalled, attached again."""

import time

import pytest

from tools import all_events, check_refusal, chunks, follow, out, processes, wait_until


def test_a_background_command_answers_with_its_pid_at_once(sandbox):
    pid = sandbox.spawn("sleep 1000")
    assert pid > 0
    listed = processes(sandbox)[pid]
    assert listed["state"] == "running" and "sleep 1000" in listed["cmd"] and listed["background"] is True and listed["user"] == "user"
    sandbox.signal(pid)
    wait_until(lambda: processes(sandbox)[pid]["state"] == "exited")


def test_it_goes_on_when_its_starter_has_left_and_its_end_is_kept(sandbox):
    pid = sandbox.spawn("sleep 0.5; echo done > /workspace/background; exit 7")
    wait_until(lambda: processes(sandbox)[pid]["state"] == "exited")
    assert processes(sandbox)[pid]["exit_code"] == 7
    assert sandbox.read("/workspace/background") == b"done\n"


def test_attaching_tells_what_was_and_what_comes_and_the_end(client, sandbox):
    pid = sandbox.spawn("echo early; sleep 1; echo late >&2; exit 3")
    wait_until(lambda: out(sandbox, "true") == "")
    events = all_events(client, "GET", f"{sandbox.path}/processes/{pid}/attach")
    assert chunks(events, "stdout") == "early\n" and chunks(events, "stderr") == "late\n"
    assert events[-1][0] == "exit" and events[-1][1]["exit_code"] == 3
    again = all_events(client, "GET", f"{sandbox.path}/processes/{pid}/attach")
    assert chunks(again, "stdout") == "early\n" and again[-1][1]["exit_code"] == 3


def test_who_missed_the_network_in_the_background_reads_how_to_open_it(client, sandbox):
    pid = sandbox.spawn("sleep 0.5; printf 'Could not resolve host' >&2; exit 6")
    for _ in range(2):  # while it runs, and once it is over
        events = all_events(client, "GET", f"{sandbox.path}/processes/{pid}/attach")
        told = chunks(events, "stderr")
        assert told.startswith("Could not resolve host\nthis sandbox has no network") and told.count("It can be opened") == 1 and events[-1][1]["exit_code"] == 6
    quiet = sandbox.spawn("echo fine >&2")
    assert chunks(all_events(client, "GET", f"{sandbox.path}/processes/{quiet}/attach"), "stderr") == "fine\n"


def test_leaving_an_attachment_only_detaches(client, sandbox):
    pid = sandbox.spawn("while :; do echo tick; sleep 0.1; done")
    for name, _ in follow(client, "GET", f"{sandbox.path}/processes/{pid}/attach"):
        assert name == "stdout"
        break
    time.sleep(0.5)
    assert processes(sandbox)[pid]["state"] == "running"
    sandbox.signal(pid)


def test_two_may_attach_to_the_same_process(client, sandbox):
    pid = sandbox.spawn("sleep 1; echo shared")
    first = follow(client, "GET", f"{sandbox.path}/processes/{pid}/attach")
    second = follow(client, "GET", f"{sandbox.path}/processes/{pid}/attach")
    assert chunks(list(first), "stdout") == "shared\n" and chunks(list(second), "stdout") == "shared\n"


def test_only_the_last_mebibyte_is_kept_and_a_flood_harms_nobody(client, sandbox):
    pid = sandbox.spawn("seq 1 1000000")
    wait_until(lambda: processes(sandbox)[pid]["state"] == "exited")
    text = chunks(all_events(client, "GET", f"{sandbox.path}/processes/{pid}/attach"), "stdout")
    assert 0 < len(text) <= 1 << 20 and text.endswith("1000000\n")


def test_input_reaches_it_in_pieces_until_it_is_closed(client, sandbox):
    pid = sandbox.spawn("cat; echo end", stdin="")
    assert sandbox.call("POST", f"/processes/{pid}/stdin", {"data": "first\n"})["bytes"] == 6
    sandbox.call("POST", f"/processes/{pid}/stdin", {"data": "sëcond\n", "close": True})
    events = all_events(client, "GET", f"{sandbox.path}/processes/{pid}/attach")
    assert chunks(events, "stdout") == "first\nsëcond\nend\n"
    check_refusal(sandbox.ask("POST", f"/processes/{pid}/stdin", {"data": "late"}), 404, 409)


def test_input_given_at_the_start_comes_first_and_more_may_follow(client, sandbox):
    text = "a line\n" * 50_000
    pid = sandbox.spawn("wc -l; echo end", stdin=text)
    assert processes(sandbox)[pid]["state"] == "running"
    sandbox.call("POST", f"/processes/{pid}/stdin", {"data": "one more\n", "close": True})
    assert chunks(all_events(client, "GET", f"{sandbox.path}/processes/{pid}/attach"), "stdout") == "50001\nend\n"


def test_without_stdin_a_background_command_has_nothing_to_read(client, sandbox):
    pid = sandbox.spawn("cat; echo end")
    assert chunks(all_events(client, "GET", f"{sandbox.path}/processes/{pid}/attach"), "stdout") == "end\n"
    check_refusal(sandbox.ask("POST", f"/processes/{pid}/stdin", {"data": "x"}), 404, 409)


@pytest.mark.parametrize("signal,code", [("TERM", 143), ("SIGINT", 130), ("9", 137), ("HUP", 129)])
def test_signals_have_names_and_numbers(sandbox, signal, code):
    pid = sandbox.call("POST", "/exec", {"argv": ["sleep", "100"], "background": True})["pid"]
    assert processes(sandbox)[pid]["cmd"] == "sleep 100"
    assert sandbox.ask("POST", f"/processes/{pid}/signal", {"signal": signal}).status == 204
    wait_until(lambda: processes(sandbox)[pid]["state"] == "exited")
    assert processes(sandbox)[pid]["exit_code"] == code


def test_a_signal_may_be_caught(sandbox):
    pid = sandbox.spawn("trap 'echo caught > /workspace/caught; exit 0' USR1; echo ready > /workspace/ready; while :; do sleep 0.1; done")
    wait_until(lambda: sandbox.exec("test -e /workspace/ready")["exit_code"] == 0)
    sandbox.call("POST", f"/processes/{pid}/signal", {"signal": "USR1"})
    wait_until(lambda: processes(sandbox)[pid]["state"] == "exited")
    assert sandbox.read("/workspace/caught") == b"caught\n"


def test_wrong_pids_and_signals_are_refused(sandbox):
    for pid in ("0", "-1", "x", "999999", "99999999999999999999", "1"):
        check_refusal(sandbox.ask("POST", f"/processes/{pid}/signal", {"signal": "TERM"}), 404, 403)
        check_refusal(sandbox.ask("POST", f"/processes/{pid}/stdin", {"data": ""}), 404, 403)
    pid = sandbox.spawn("sleep 1000")
    for signal in ("NOPE", "", "0", "65", "-9", "9999999999", 9, None, []):
        answer = sandbox.ask("POST", f"/processes/{pid}/signal", {"signal": signal})
        assert answer.status == 400 or (signal is None and answer.status == 204), (signal, answer.body)
    for body in ({"data": 1}, {"data": []}, {"close": "yes"}):
        check_refusal(sandbox.ask("POST", f"/processes/{pid}/stdin", body), 400)
    sandbox.ask("POST", f"/processes/{pid}/signal", {"signal": "KILL"})


def test_attaching_to_what_is_not_there_is_told(client, sandbox):
    answer = client.ask("GET", f"{sandbox.path}/processes/999999/attach")
    if answer.status == 200:
        assert answer.text.startswith("event: error")
    else:
        check_refusal(answer, 404)


def test_a_signal_to_an_exited_process_is_a_conflict_or_not_found(sandbox):
    pid = sandbox.spawn("true")
    wait_until(lambda: processes(sandbox)[pid]["state"] == "exited")
    check_refusal(sandbox.ask("POST", f"/processes/{pid}/signal", {"signal": "TERM"}), 404, 409)
