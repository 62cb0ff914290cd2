# SPDX-License-Identifier: Apache-2.0
"""vial cp: both ways, files and trees, safe against what a sandbox may name."""

import os
import random
import re
import signal
import subprocess
import time

import pytest


def tree(path):
    return {str(p.relative_to(path)): p.read_bytes() if p.is_file() else None for p in path.rglob("*")}


def test_a_file_goes_in_and_comes_out_unchanged(vial, sandbox, tmp_path):
    data = random.Random(1).randbytes(3_000_001)
    (tmp_path / "in").write_bytes(data)
    vial("cp", tmp_path / "in", f"{sandbox}:sub/copy.bin")
    vial("cp", f"{sandbox}:/workspace/sub/copy.bin", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == data


def test_an_empty_file_and_a_strange_name_are_copied(vial, sandbox, tmp_path):
    name = "na me+%41&?#ü☃'\"\n.txt"
    (tmp_path / name).write_bytes(b"")
    vial("cp", tmp_path / name, f"{sandbox}:")
    vial("cp", f"{sandbox}:{name}", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b""


def test_the_executable_bit_is_kept(vial, sandbox, tmp_path):
    (tmp_path / "tool").write_text("#!/bin/sh\necho works\n")
    os.chmod(tmp_path / "tool", 0o755)
    vial("cp", tmp_path / "tool", f"{sandbox}:tool")
    assert vial("exec", sandbox, "./tool").stdout == "works\n"
    vial("cp", f"{sandbox}:tool", tmp_path / "back")
    assert os.access(tmp_path / "back", os.X_OK)


def test_a_directory_lands_in_a_directory_or_becomes_it(vial, sandbox, tmp_path):
    source = tmp_path / "src"
    (source / "deep" / "er").mkdir(parents=True)
    (source / "a.txt").write_text("a")
    (source / "deep" / "er" / "b.txt").write_text("b")
    (source / "empty").mkdir()
    vial("cp", source, f"{sandbox}:new")  # does not exist: becomes it
    vial("cp", source, f"{sandbox}:new")  # exists: lands in it
    vial("cp", f"{source}/.", f"{sandbox}:contents")
    assert vial("exec", sandbox, "-c", "cat new/a.txt new/src/deep/er/b.txt contents/a.txt; ls -d new/empty").stdout == "abanew/empty\n"
    vial("cp", f"{sandbox}:contents", tmp_path / "out")
    assert tree(tmp_path / "out") == tree(source)
    (tmp_path / "existing").mkdir()
    vial("cp", f"{sandbox}:contents", tmp_path / "existing")
    assert tree(tmp_path / "existing" / "contents") == tree(source)


def test_several_sources_go_into_one_directory(vial, sandbox, tmp_path):
    for name in "xy":
        (tmp_path / name).write_text(name)
    vial("cp", tmp_path / "x", tmp_path / "y", f"{sandbox}:both")
    assert vial("exec", sandbox, "-c", "cat both/x both/y").stdout == "xy"
    vial("cp", f"{sandbox}:both/x", f"{sandbox}:both/y", tmp_path / "back")
    assert tree(tmp_path / "back") == {"x": b"x", "y": b"y"}


def test_standard_input_and_output_are_ends_too(vial, sandbox):
    data = random.Random(2).randbytes(200_000)
    vial("cp", "-", f"{sandbox}:piped", input=data, binary=True)
    assert vial("cp", f"{sandbox}:piped", "-", binary=True).stdout == data


def test_links_are_left_out_and_named(vial, sandbox, tmp_path):
    source = tmp_path / "src"
    source.mkdir()
    (source / "file").write_text("f")
    (source / "link").symlink_to("/etc/passwd")
    done = vial("cp", source, f"{sandbox}:linked")
    assert "link is a link" in done.stderr
    vial("exec", sandbox, "ln", "-s", "/etc/passwd", "linked/inside")
    done = vial("cp", f"{sandbox}:linked", tmp_path / "out")
    assert "inside is a link" in done.stderr and tree(tmp_path / "out") == {"file": b"f"}


def test_json_counts_what_was_copied(vial, sandbox, tmp_path):
    (tmp_path / "f").write_bytes(b"12345")
    report = vial.json("cp", tmp_path / "f", f"{sandbox}:f")
    assert report["files"] == 1 and report["bytes"] == 5 and report["skipped"] == 0


@pytest.mark.parametrize("args, words", [(["/nonexistent", "ID:x"], "cannot be read"), (["ID:nonexistent", "x"], "nonexistent"),
                                         (["ID:", "-"], "is a directory"), (["/etc/hostname", "ID:/proc/nope/x"], "")])
def test_what_cannot_be_copied_is_one_sentence(vial, sandbox, tmp_path, args, words):
    if words == "" and vial.server.fake:
        pytest.skip("the stand-in has no /proc of its own")
    done = vial("cp", *[a.replace("ID", sandbox) for a in args], check=False, cwd=tmp_path)
    assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1 and not list(tmp_path.glob("[!h]*"))


def test_a_local_file_that_cannot_be_written_is_said(vial, sandbox, tmp_path):
    vial("exec", sandbox, "-c", "echo x > f")
    done = vial("cp", f"{sandbox}:f", tmp_path / "no" / "such" / "dir", check=False)
    assert done.returncode == 1 and "cannot be opened" in done.stderr


def test_an_upload_that_fails_halfway_is_an_error(fake_vial, tmp_path):
    (tmp_path / "f").write_bytes(b"x" * 2_000_000)
    done = fake_vial("cp", tmp_path / "f", "0" * 20 + ":f", check=False)
    assert done.returncode == 1 and "there is no sandbox" in done.stderr


def test_a_download_that_breaks_leaves_nothing(fake_vial, fake_sandbox, tmp_path):
    (tmp_path / "f").write_bytes(b"y" * 100_000)
    fake_vial("cp", tmp_path / "f", f"{fake_sandbox}:HOSTILE-cut")
    (tmp_path / "old").write_text("old")
    done = fake_vial("cp", f"{fake_sandbox}:HOSTILE-cut", tmp_path / "old", check=False)
    assert done.returncode == 1 and "broke" in done.stderr
    assert sorted(os.listdir(tmp_path)) == ["f", "home", "old"] and (tmp_path / "old").read_text() == "old"


def test_ctrl_c_in_a_download_leaves_nothing(fake_vial, fake_sandbox, tmp_path):
    (tmp_path / "f").write_bytes(b"z" * (4 << 20))
    fake_vial("cp", tmp_path / "f", f"{fake_sandbox}:HOSTILE-stalls")
    (tmp_path / "to").mkdir()
    process = fake_vial.popen("cp", f"{fake_sandbox}:HOSTILE-stalls", tmp_path / "to", stdin=subprocess.DEVNULL)
    while not os.listdir(tmp_path / "to"):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130 and os.listdir(tmp_path / "to") == []


def test_names_that_climb_out_of_the_directory_are_refused(fake_vial, fake_sandbox, tmp_path):
    fake_vial("exec", fake_sandbox, "-c", "mkdir HOSTILE-names; echo 1234 > HOSTILE-names/good")
    done = fake_vial("cp", f"{fake_sandbox}:HOSTILE-names", tmp_path / "out")
    assert done.stderr.count("strangely named") == 3
    assert os.listdir(tmp_path / "out") == ["good"] and not (tmp_path / "escaped").exists()
    assert os.stat(tmp_path / "out" / "good").st_mode & 0o7000 == 0, "no setuid bit from a sandbox"


def test_a_link_planted_locally_is_replaced_not_followed(vial, sandbox, tmp_path):
    vial("exec", sandbox, "-c", "mkdir d; echo new > d/victim")
    (tmp_path / "precious").write_text("old")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "victim").symlink_to(tmp_path / "precious")
    vial("cp", f"{sandbox}:d/.", tmp_path / "d")
    assert (tmp_path / "precious").read_text() == "old" and (tmp_path / "d" / "victim").read_text() == "new\n"


def test_a_terminal_shows_progress_and_a_pipe_does_not(fake_vial, fake_sandbox, tmp_path):
    (tmp_path / "big").write_bytes(b"p" * (8 << 20))
    fake_vial("cp", tmp_path / "big", f"{fake_sandbox}:HOSTILE-slow")
    terminal = fake_vial.terminal("cp", f"{fake_sandbox}:HOSTILE-slow", str(tmp_path / "back"), columns=100)
    terminal.expect(r"HOSTILE-slow .*\d+%  .*MiB  .*/s", 15)
    assert terminal.wait() == 0
    assert re.search(rb"1 file, 8.0 MiB in \d", terminal.output)
    assert fake_vial("cp", f"{fake_sandbox}:HOSTILE-slow", tmp_path / "again").stderr == ""


def test_large_files_are_streamed_not_held(vial, sandbox, tmp_path):
    """A file many times larger than what vial may use of memory."""
    big = tmp_path / "big"
    with open(big, "wb") as file:
        file.truncate(256 << 20)
    limited = ["bash", "-c", 'ulimit -v 400000; exec "$@"', "x", os.environ.get("VIAL_CLI") or __import__("conftest").BINARY]
    if subprocess.run([*limited, "help"], capture_output=True).returncode != 0:
        pytest.skip("this build cannot run in so little address space (sanitizers)")
    started = time.monotonic()
    up = subprocess.run([*limited, "cp", str(big), f"{sandbox}:big"], env=vial.env, capture_output=True, text=True)
    assert up.returncode == 0, up.stderr
    down = subprocess.run([*limited, "cp", f"{sandbox}:big", str(tmp_path / "back")], env=vial.env, capture_output=True, text=True)
    assert down.returncode == 0, down.stderr
    assert os.path.getsize(tmp_path / "back") == 256 << 20 and time.monotonic() - started < 120
