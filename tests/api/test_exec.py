# SPDX-License-Identifier: Apache-2.0
"""Commands: every field, the order of their output, time limits, input, clients that leave."""

import json
import re
import time

import pytest

from tools import SLOWNESS, all_events, check_refusal, chunks, exec_argv, follow, out, slow, wait_until


def alive(sandbox, mark):
    """Whether a process with this word in its command line lives; the brackets keep grep from finding itself."""
    return sandbox.exec(f"grep -lsz '^[{mark[0]}]{mark[1:]}' /proc/[0-9]*/cmdline || true")["stdout"] != ""


def test_the_answer_has_all_that_a_command_said_and_how_it_ended(sandbox):
    result = sandbox.exec("echo out; echo err >&2; exit 3")
    assert result.pop("duration_ms") >= 0
    assert result == {"stdout": "out\n", "stderr": "err\n", "exit_code": 3, "timed_out": False, "truncated": False}


def test_cmd_is_a_shell_line_and_argv_are_words(sandbox):
    assert out(sandbox, "echo a b | tr a-z A-Z; [[ 1 -lt 2 ]] && echo bash") == "A B\nbash\n"
    assert exec_argv(sandbox, "printf", "%s|", "a b", "$HOME", "*", "")["stdout"] == "a b|$HOME|*||"


def test_a_command_starts_in_the_workspace_as_the_user(sandbox):
    assert out(sandbox, "pwd; id -un; id -u; echo $HOME") == "/workspace\nuser\n1000\n/home/user\n"


def test_cwd_env_and_user_are_obeyed(sandbox):
    assert out(sandbox, "pwd", cwd="/usr") == "/usr\n"
    assert out(sandbox, "echo $A-$B", env={"A": "1 2", "B": "ü"}) == "1 2-ü\n"
    assert out(sandbox, "id -un; echo $HOME", user="root") == "root\n/root\n"
    assert out(sandbox, "id -u", user="1000") == "1000\n"


def test_the_user_may_become_root_by_sudo(sandbox):
    assert out(sandbox, "sudo id -u").strip() == "0"


@pytest.mark.parametrize("fields,statuses", [
    ({"cwd": "/nowhere"}, (400, 404)), ({"user": "nobody-knows"}, (400, 404)), ({"user": "4294967296"}, (400, 404)), ({"user": "-1"}, (400, 404)),
])
def test_a_place_or_user_that_does_not_exist_is_told(sandbox, fields, statuses):
    check_refusal(sandbox.ask("POST", "/exec", {"cmd": "true", **fields}), *statuses)


def test_a_program_that_does_not_exist_is_told(sandbox):
    assert sandbox.exec("no-such-program")["exit_code"] == 127
    answer = sandbox.ask("POST", "/exec", {"argv": ["/no/such/program"]})
    assert answer.status == 404 or answer.json()["exit_code"] == 127
    answer = sandbox.ask("POST", "/exec", {"argv": ["/etc/passwd"]})
    assert answer.status in (400, 403) or answer.json()["exit_code"] == 126


@pytest.mark.parametrize("body", [
    {}, {"cmd": ""}, {"cmd": 1}, {"cmd": ["true"]}, {"cmd": "true", "argv": ["true"]}, {"argv": []}, {"argv": "true"}, {"argv": [1]}, {"argv": [None]},
    {"cmd": "true", "cwd": 1}, {"cmd": "true", "cwd": "x" * 5000}, {"cmd": "true", "env": []}, {"cmd": "true", "env": {"A": 1}},
    {"cmd": "true", "env": {"A=B": "1"}}, {"cmd": "true", "env": {"": "1"}},
    {"cmd": "true", "user": 0}, {"cmd": "true", "user": ""}, {"cmd": "true", "stdin": 1}, {"cmd": "true", "stdin": {}},
    {"cmd": "true", "timeout_seconds": -1}, {"cmd": "true", "timeout_seconds": "1"}, {"cmd": "true", "timeout_seconds": 1e12},
    {"cmd": "true", "background": "yes"}, {"cmd": "x" * 200_000}, {"argv": ["a"] * 2000},
], ids=lambda body: json.dumps(body)[:40])
def test_a_wrong_request_is_refused(sandbox, body):
    check_refusal(sandbox.ask("POST", "/exec", body), 400)
    check_refusal(sandbox.ask("POST", "/exec/stream", body), 400)


def test_input_is_read_by_the_command(sandbox):
    assert out(sandbox, "cat", stdin="hällo\n") == "hällo\n"
    assert out(sandbox, "wc -c", stdin="x" * 900_000).strip() == "900000"
    assert out(sandbox, "cat; echo end", stdin="") == "end\n"
    assert out(sandbox, "cat; echo end") == "end\n", "without stdin there is nothing to wait for"
    assert sandbox.exec("exit 5", stdin="x" * 500_000)["exit_code"] == 5, "nobody read it, nobody minds"


def test_a_time_limit_ends_the_command_and_all_it_started(sandbox):
    started = time.monotonic()
    result = sandbox.exec("echo before; (exec -a tardy-child sleep 300) & exec -a tardy sleep 300", timeout_seconds=12)
    assert time.monotonic() - started < slow(30)
    assert result["timed_out"] is True and result["stdout"] == "before\n" and result["exit_code"] != 0
    assert result["stderr"].endswith("timed out after 12 s\n"), result
    wait_until(lambda: not alive(sandbox, "tardy"))


def test_a_command_that_ignores_polite_signals_ends_at_its_time_limit_too(sandbox):
    started = time.monotonic()
    result = sandbox.exec("trap '' TERM INT HUP; while :; do sleep 0.1; done", timeout_seconds=0.5)
    assert result["timed_out"] is True
    assert time.monotonic() - started < slow(20)


def test_a_command_killed_by_a_signal_says_so(sandbox):
    result = sandbox.exec("kill -SEGV $$")
    assert result["exit_code"] == 139
    assert result.get("signal") in ("SEGV", "SIGSEGV")


def test_what_is_not_utf8_becomes_replacement_characters(sandbox):
    assert out(sandbox, r"printf 'a\xff\xfeb'") == "a��b"
    assert out(sandbox, r"printf '\xc3'; sleep 0.2; printf '\xa4'") == "ä", "split between two reads"
    assert out(sandbox, r"printf 'a\0b'") == "a\0b"


def test_collected_output_has_a_limit_and_says_when_it_was_cut(sandbox):
    result = sandbox.exec("head -c 6000000 /dev/zero | tr '\\0' x")
    assert result["truncated"] is True and result["exit_code"] == 0
    assert 1_000_000 < len(result["stdout"]) <= 4 * 1024 * 1024 + 200


@pytest.mark.parametrize("user", ["user", "root"])
def test_what_an_answer_has_no_room_for_is_in_a_file_of_the_one_who_ran_it(sandbox, user):
    result = sandbox.exec("head -c 5000000 /dev/zero | tr '\\0' a; head -c 4500000 /dev/zero >&2; echo end", user=user)
    assert result["truncated"] is True and result["exit_code"] == 0
    assert result["stdout"] == "a" * (4 << 20) and result["stderr"] == "\0" * (4 << 20)
    whole = sandbox.exec(f"wc -c < {result['full_output']}; stat -c %U {result['full_output']}; tr -dc 'a-z' < {result['full_output']} | tail -c 4", user=user)
    assert whole["stdout"].split() == [str(5_000_000 + 4_500_000 + 4), user, "aend"], whole
    assert "full_output" not in whole and whole["truncated"] is False


def test_output_that_is_no_text_is_whole_although_it_grows_on_the_way(sandbox):
    result = sandbox.exec("head -c 4000000 /dev/zero | tr '\\0' '\\377'")
    assert result["truncated"] is False and result["stdout"] == "\ufffd" * 4_000_000 and "full_output" not in result


def test_only_what_was_cut_leaves_a_file_and_only_the_latest_do(sandbox):
    sandbox.exec("rm -rf /tmp/.vial-output-*", user="root")
    sandbox.exec("head -c 3000000 /dev/zero")
    assert out(sandbox, "find /tmp/.vial-output-* -type f") == ""
    paths = [sandbox.exec("head -c 4200000 /dev/zero")["full_output"] for _ in range(10)]
    assert set(out(sandbox, "find /tmp/.vial-output-* -type f").split()) == set(paths[-8:])


def test_the_oldest_file_goes_whoever_has_made_it(sandbox):
    root = sandbox.exec("head -c 4200000 /dev/zero", user="root")["full_output"]
    paths = [sandbox.exec("head -c 4200000 /dev/zero")["full_output"] for _ in range(8)]
    assert root and set(out(sandbox, "find /tmp/.vial-output-* -type f", user="root").split()) == set(paths)


def test_events_arrive_while_the_command_runs_and_in_order(client, sandbox):
    """The next line is only printed when the one before has arrived: nothing here depends on who is slow."""
    seen = "until [ -e seen-%d ]; do sleep 0.1; done"
    cmd = f"sleep 1; echo one; {seen % 1}; echo two >&2; {seen % 2}; echo three; exit 4"
    arrived = []
    for name, data in follow(client, "POST", sandbox.path + "/exec/stream", {"cmd": cmd, "timeout_seconds": slow(60)}):
        arrived.append((name, data))
        sandbox.write(f"seen-{len(arrived)}", b"")
    assert [(name, data.get("chunk")) for name, data in arrived[:-1]] == [("stdout", "one\n"), ("stderr", "two\n"), ("stdout", "three\n")]
    name, last = arrived[-1]
    assert name == "exit" and last["exit_code"] == 4 and last["duration_ms"] >= 1000


def test_a_long_stream_is_whole(client, sandbox):
    events = all_events(client, "POST", sandbox.path + "/exec/stream", {"cmd": "seq 1 400000"})
    assert chunks(events, "stdout") == "".join(f"{n}\n" for n in range(1, 400_001))
    assert events[-1][0] == "exit" and events[-1][1]["exit_code"] == 0


def test_a_stream_tells_a_time_limit(client, sandbox):
    events = all_events(client, "POST", sandbox.path + "/exec/stream", {"cmd": "echo a; sleep 100", "timeout_seconds": 0.5})
    assert events[-1][0] == "exit" and events[-1][1]["timed_out"] is True


def test_a_slow_reader_gets_everything_and_viald_keeps_its_size(client, daemon, sandbox):
    before = daemon.rss_kb()
    response = client.open("POST", sandbox.path + "/exec/stream", {"cmd": "head -c 60000000 /dev/zero | tr '\\0' y"})
    time.sleep(2)
    assert daemon.rss_kb() - before < 32 * 1024
    total = 0
    while piece := response.read(1 << 20):
        total += piece.count(b"y")
    response.connection.close()
    assert 60_000_000 <= total < 60_000_100


def test_a_client_that_leaves_takes_its_command_along(client, sandbox):
    for route in ("/exec", "/exec/stream"):
        connection = client.connection()
        body = json.dumps({"cmd": "exec -a orphan sleep 300"})
        connection.request("POST", sandbox.path + route, body, {"Authorization": f"Bearer {client.key}", "Content-Type": "application/json"})
        wait_until(lambda: alive(sandbox, "orphan"))
        connection.close()
        wait_until(lambda: not alive(sandbox, "orphan"))


def test_many_commands_run_at_once(client, sandbox):
    """None of them ends before all of them have begun."""
    responses = [client.connection() for _ in range(20)]
    all_began = "until [ $(ls began-* | wc -l) = 20 ]; do sleep 0.2; done"
    for number, connection in enumerate(responses):
        connection.request("POST", sandbox.path + "/exec", json.dumps({"cmd": f"touch began-{number}; {all_began}; echo {number}"}),
                           {"Authorization": f"Bearer {client.key}", "Content-Type": "application/json"})
    assert [json.loads(connection.getresponse().read())["stdout"] for connection in responses] == [f"{n}\n" for n in range(20)]
    for connection in responses:
        connection.close()


def test_an_exec_to_a_sleeping_sandbox_wakes_it(fresh):
    fresh.exec("echo remembered > /workspace/note")
    fresh.call("POST", "/hibernate")
    assert fresh.refresh()["status"] == "hibernated"
    assert out(fresh, "cat /workspace/note") == "remembered\n"
    assert fresh.refresh()["status"] == "running"


def test_hot_commands_are_quick(sandbox):
    """No benchmark: only that nothing between client and program waits for a timer."""
    times = []
    for _ in range(20):
        started = time.monotonic()
        exec_argv(sandbox, "true")
        times.append(time.monotonic() - started)
    assert min(times) < 0.08 * SLOWNESS, times


def test_the_environment_is_that_of_a_login(sandbox):
    lines = dict(line.split("=", 1) for line in out(sandbox, "env").splitlines() if "=" in line)
    assert lines["HOME"] == "/home/user" and lines["USER"] == "user"
    assert re.search(r"(^|:)/usr/bin(:|$)", lines["PATH"])
    assert [name for name in lines if name.startswith("VIAL_")] in ([], ["VIAL_SANDBOX_ID"]), "nothing else of the daemon's own"
