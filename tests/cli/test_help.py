# SPDX-License-Identifier: Apache-2.0
"""What vial says about itself; needs no server."""

import re
import shutil
import subprocess

import pytest
from conftest import BINARY, ROOT

PROMISED = ("create ls info rm top logs ports exec sh cp ps kill attach run repl pause resume hibernate wake snapshot snapshots fork "
            "promote tree explore templates doctor version completion help").split()


def vial(*args):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)


COMMANDS = re.findall(r"^  ([a-z]+) +\S", vial("help").stdout, re.M)


def test_what_was_promised_is_there():
    assert set(PROMISED) <= set(COMMANDS)


@pytest.mark.parametrize("args", [[], ["help"], ["--help"], ["-h"]])
def test_overview_names_every_command(args):
    done = vial(*args)
    assert done.returncode == 0 and done.stderr == ""
    for command in COMMANDS:
        assert re.search(rf"^  {command} +\S", done.stdout, re.M), command


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command):
    by_help, by_option = vial("help", command), vial(command, "--help")
    assert by_help.returncode == by_option.returncode == 0
    assert by_help.stdout == by_option.stdout
    assert f"Usage: vial {command}" in by_help.stdout and "--json" in by_help.stdout


@pytest.mark.parametrize("typed, meant", [("exce", "exec"), ("creat", "create"), ("snapshto", "snapshot"), ("templ", "templates"),
                                          ("list", "ls"), ("hibernat", "hibernate")])
def test_mistyped_command_suggests_the_nearest(typed, meant):
    done = vial(typed)
    assert done.returncode == 2 and done.stdout == ""
    assert f'there is no command "{typed}"' in done.stderr
    if typed != "list":
        assert f'did you mean "{meant}"' in done.stderr


def test_mistyped_option_suggests_the_nearest():
    done = vial("create", "--templat", "x")
    assert done.returncode == 2 and "did you mean --template?" in done.stderr


@pytest.mark.parametrize("args", [["create", "--ttl", "soon"], ["create", "--memory", "much"], ["create", "--cpu", "-1"],
                                  ["create", "--cpu"], ["create", "extra"], ["info"], ["exec"], ["exec", "abc"], ["cp", "a"],
                                  ["kill", "abc"], ["kill", "abc", "notapid"], ["rm"], ["rm", "--all", "abc"], ["fork", "abc", "-n", "99"],
                                  ["snapshots", "--rm"], ["cp", "a", "b"], ["cp", "a:x", "b:y"], ["completion", "tcsh"],
                                  ["create", "--env", "novalue"], ["create", "--template", "a", "--from", "b"], ["ls", "-Z"],
                                  ["--url", "ftp://x", "ls"], ["--key", "a b", "ls"], ["run", "noext"], ["sh", "--json"]])
def test_wrong_usage_ends_with_2_and_one_sentence(args, tmp_path):
    (tmp_path / "noext").write_text("x")
    done = subprocess.run([BINARY, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20, cwd=tmp_path)
    assert done.returncode == 2, done
    assert done.stdout == "" and done.stderr.count("\n") == 1 and done.stderr.startswith(("vial: ", '{"error"'))


def test_an_argument_that_is_not_utf8_is_refused():
    done = subprocess.run([BINARY.encode(), b"exec", b"abc", b"echo", b"\xff"], capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and b"UTF-8" in done.stderr


def test_man_page_in_the_tree_is_the_one_that_vial_prints():
    assert (ROOT / "docs" / "vial.1").read_text() == vial("help", "--man").stdout, "run: build/vial help --man > docs/vial.1"


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
def test_man_page_is_valid_roff():
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", str(ROOT / "docs" / "vial.1")], capture_output=True, text=True)
    assert done.returncode == 0 and done.stderr == ""


def test_reference_page_mentions_every_command():
    page = (ROOT / "docs" / "cli.md").read_text()
    for command in COMMANDS:
        assert f"vial {command}" in page, command


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_valid_shell(shell, tmp_path):
    script = vial("completion", shell).stdout
    for command in COMMANDS:
        assert command in script
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed: the script was only searched for the commands")
    path = tmp_path / "script"
    path.write_text(script)
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def bash_complete(line, tmp_path):
    """What bash would offer for `line`, whose last word is being typed."""
    words = line.split(" ")
    script = f'source <("{BINARY}" completion bash); COMP_WORDS=({" ".join(map(repr, words))}); COMP_CWORD={len(words) - 1}; ' \
             f'_vial; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path,
                          env={"PATH": "/usr/bin:/bin", "VIAL_URL": "http://127.0.0.1:1"})
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path):
    assert bash_complete("vial hib", tmp_path) == ["hibernate"]
    assert bash_complete("vial --url http://x cre", tmp_path) == ["create"]
    assert set(bash_complete("vial create --t", tmp_path)) == {"--template", "--ttl"}
    assert bash_complete("vial create --on-idle h", tmp_path) == ["hibernate"]
    assert bash_complete("vial completion z", tmp_path) == ["zsh"]
    assert bash_complete("vial exec abc -- l", tmp_path) == []


def test_version_needs_no_server():
    done = subprocess.run([BINARY, "--version"], capture_output=True, text=True, env={"VIAL_URL": "http://127.0.0.1:1"})
    assert done.returncode == 0 and re.match(r"vial \d+\.\d+\.\d+\n", done.stdout)
