# SPDX-License-Identifier: Apache-2.0
"""sudo in a guest whose kernel knows no setuid programs. Needs a rootfs of ours, where /usr/bin/sudo is the agent."""
import pytest

from wireclient import wait_until


@pytest.fixture(scope="module", autouse=True)
def images_sudo(box):
    if "vial-agent" not in box.run("readlink /usr/bin/sudo || true").stdout:
        pytest.skip("the root file system is not one of guest/images: its sudo is not ours")


@pytest.mark.parametrize("command, stdout", [
    ("sudo id -un", "root\n"),
    ("sudo sh -c 'echo $HOME $USER $SUDO_USER $SUDO_UID; pwd'", "/root root user 1000\n/workspace\n"),
    ("sudo -u user id -u", "1000\n"),
    ("sudo -u '#65534' id -u", "65534\n"),
    ("sudo -g daemon id -gn", "daemon\n"),
    ("sudo -n true && echo $?", "0\n"),
    ("sudo A=1 B='x /y' sh -c 'echo $A $B'", "1 x /y\n"),
    ("KEPT=1 sudo -E sh -c 'echo $KEPT'", "1\n"),
    ("LOST=1 sudo sh -c 'echo [$LOST]'", "[]\n"),
    ("KEPT=1 LOST=2 sudo --preserve-env=KEPT sh -c 'echo $KEPT [$LOST]'", "1 []\n"),
    ("sudo -s echo 'a  b' '*'", "a  b *\n"),
    ("sudo -i pwd", "/root\n"),
    ("sudo -D /tmp pwd", "/tmp\n"),
    ("echo through | sudo cat", "through\n"),
    ("sudo sudo -u user sudo id -u", "0\n"),
    ("umask 027; sudo sh -c umask", "0027\n"),
    ("sudo -- printf '%s|' '' 'a b' -n", "|a b|-n|"),
    ("sudo sh -c 'echo out; echo err >&2' 2>&1 | sort", "err\nout\n"),
])
def test_it_does_what_sudo_does(box, command, stdout):
    answer = box.run(command)
    assert (answer.stdout, answer.result["exit_code"]) == (stdout, 0), answer.stderr


@pytest.mark.parametrize("command, status", [
    ("sudo sh -c 'exit 7'", 7), ("sudo no-such-program", 1), ("sudo -u nobody-knows true", 1), ("sudo", 1), ("sudo sh -c 'kill -TERM $$'", 143),
])
def test_the_status_is_the_commands(box, command, status):
    assert box.run(command).result["exit_code"] == status


def test_root_can_do_what_the_user_cannot(box):
    box.run("touch /etc/x-user 2>/dev/null && exit 1; sudo touch /etc/x-root && sudo chown user /etc/x-root && echo mine > /etc/x-root")
    assert box.run("cat /etc/x-root").stdout == "mine\n"


def test_other_users_are_refused(box):
    answer = box.run("sudo id", user="nobody")
    assert answer.result["exit_code"] == 1 and "not permitted" in answer.stderr


def test_a_timeout_ends_the_command_too(box):
    answer = box.run("sudo sleep 4242", timeout_ms=500)
    assert answer.result["timed_out"]
    assert wait_until(lambda: box.run("pgrep -f '^sleep 4242' || true").stdout == "")


def test_signals_are_passed_on(box):
    script = ("sudo sh -c 'trap \"echo got; exit 5\" TERM; echo ready; touch /tmp/trapped; while :; do sleep 0.1; done' & "
              "until [ -e /tmp/trapped ]; do sleep 0.05; done; kill -TERM $!; wait $!; echo $?")
    assert box.run(script).stdout == "ready\ngot\n5\n"


def test_the_service_comes_back_when_it_is_killed(box):
    box.run("sudo pkill -KILL -x vial-sudo; true")
    assert wait_until(lambda: box.run("sudo id -u").stdout == "0\n")


def test_many_at_once(box):
    answer = box.run("for i in $(seq 20); do sudo id -u & done | sort | uniq -c")
    assert answer.stdout.split() == ["20", "0"]
