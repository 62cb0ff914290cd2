# SPDX-License-Identifier: Apache-2.0
"""What vial says about itself; needs no server."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import BINARY, ROOT

PROMISED = ("create ls info rm top logs ports exec sh cp ps kill attach run repl pause resume hibernate wake snapshot snapshots fork "
            "promote rollback merge undo tree explore project key quota usage audit templates template tiers doctor version completion help").split()


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


@pytest.mark.parametrize("command", ["project", "key", "quota", "audit"])
def test_every_verb_explains_itself(command):
    page = vial("help", command).stdout
    for verb in re.findall(rf"^  vial {command} ([a-z]+)", page, re.M):
        by_help, by_option, by_letter = vial("help", command, verb), vial(command, verb, "--help"), vial(command, verb, "-h")
        assert by_help.returncode == 0 and by_help.stdout == by_option.stdout == by_letter.stdout
        assert f"Usage: vial {command} {verb}" in by_help.stdout and "--json" in by_help.stdout
    assert vial("help", command, "nosuch").returncode == 2


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


def bash_complete(line, tmp_path, env=None):
    """What bash would offer for `line`, whose last word is being typed."""
    words = line.split(" ")
    script = f'source <("{BINARY}" completion bash); COMP_WORDS=({" ".join(map(repr, words))}); COMP_CWORD={len(words) - 1}; ' \
             f'_vial; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path,
                          env={"PATH": "/usr/bin:/bin", "VIAL_URL": "http://127.0.0.1:1", **(env or {})})
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_options_and_values(tmp_path):
    assert bash_complete("vial hib", tmp_path) == ["hibernate"]
    assert bash_complete("vial --url http://x cre", tmp_path) == ["create"]
    assert set(bash_complete("vial create --t", tmp_path)) == {"--template", "--tier", "--ttl"}
    assert bash_complete("vial create --on-idle h", tmp_path) == ["hibernate"]
    assert bash_complete("vial completion z", tmp_path) == ["zsh"]
    assert bash_complete("vial exec abc -- l", tmp_path) == []


def test_bash_completes_verbs_and_what_follows_them(tmp_path):
    assert set(bash_complete("vial key ro", tmp_path)) == {"rotate"}
    assert set(bash_complete("vial audit ", tmp_path)) == {"tail", "show", "export", "verify"}
    assert bash_complete("vial key create x --role vi", tmp_path) == ["viewer"]
    assert bash_complete("vial key create x --form e", tmp_path) == ["e2b"]
    assert bash_complete("vial key rotate --ov", tmp_path) == ["--overlap"]
    assert "--overlap" not in bash_complete("vial key ls --", tmp_path) and "--json" in bash_complete("vial key ls --", tmp_path)
    assert bash_complete("vial quota set p max_sand", tmp_path) == ["max_sandboxes="]
    assert bash_complete("vial audit --sandbox abc ta", tmp_path) == ["tail"]
    assert bash_complete("vial --url http://x audit tail --fo", tmp_path) == ["--follow"]
    assert bash_complete("vial audit --t", tmp_path) == ["--trace", "--to", "--text"]
    assert bash_complete("vial usage --by te", tmp_path) == ["template"]
    (tmp_path / "day.jsonl").touch()
    assert bash_complete("vial audit verify da", tmp_path) == bash_complete("vial audit verify x --key da", tmp_path) == ["day.jsonl"]


def test_bash_completes_names_of_projects_and_keys_from_viald(fake_server, tmp_path):
    server = {"VIAL_URL": fake_server.url, "VIAL_API_KEY": fake_server.key, "PATH": f"{os.path.dirname(BINARY)}:/usr/bin:/bin"}
    assert bash_complete("vial project show de", tmp_path, server) == ["default"]
    assert set(bash_complete("vial quota ", tmp_path, server)) >= {"show", "set", "default"}
    assert bash_complete("vial quota set d", tmp_path, server) == ["default"]
    assert bash_complete("vial key show key-3", tmp_path, server) == ["key-3"]
    assert bash_complete("vial key create x --project d", tmp_path, server) == ["default"]
    # One that is not alone with its name, or has blanks in it, is offered by its id.
    assert "two" not in bash_complete("vial key rm ", tmp_path, server) and f"{9:020d}" in bash_complete("vial key rm ", tmp_path, server)


def test_version_needs_no_server():
    done = subprocess.run([BINARY, "--version"], capture_output=True, text=True, env={"VIAL_URL": "http://127.0.0.1:1"})
    assert done.returncode == 0 and re.match(r"vial \d+\.\d+\.\d+\n", done.stdout)
