# SPDX-License-Identifier: Apache-2.0
"""vial template: build, logs, ls, show, rm, rebuild, cancel."""

import pytest


@pytest.fixture
def dockerfile(tmp_path):
    def write(text, name="Dockerfile"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def test_a_build_shows_its_log_and_prints_the_name_of_what_it_made(vial, dockerfile):
    path = dockerfile("ENV A=b\n")
    done = vial("template", "build", "-f", path, "-t", "cli-made:one", "--base", "minimal")
    assert done.stdout == "cli-made:one\n" and "==> step 1 of 1" in done.stderr
    assert "cli-made:one" in vial("template", "ls", "-q").stdout.split()
    assert "minimal" not in vial("template", "ls", "-q").stdout.split() and "minimal" in vial("template", "ls", "-aq").stdout.split()
    assert vial.json("template", "show", "cli-made:one")["tags"] == ["one", "latest"]
    build = vial.json("template", "builds", "cli-made")[0]
    assert build["status"] == "ready"
    assert "step 1 of 1" in vial("template", "logs", build["build_id"]).stdout
    assert vial("template", "logs", "-f", build["build_id"]).returncode == 0
    assert vial("template", "rebuild", "cli-made:one").stdout == "cli-made:one\n"
    assert vial("template", "rm", "cli-made:one").stdout == "cli-made:one\n"
    assert "cli-made:one" not in vial("template", "ls", "-q").stdout.split()


def test_the_exit_status_says_that_a_build_has_failed_and_why(vial, dockerfile):
    done = vial("template", "build", "-f", dockerfile("RUN true\nRUN false\n"), "-t", "cli-broken", "--base", "minimal", check=False)
    assert done.returncode == 1 and done.stdout == "" and "step 2 of 2" in done.stderr.splitlines()[-1]
    build = vial.json("template", "builds", "cli-broken")[0]["build_id"]
    assert vial("template", "logs", "-f", build, check=False).returncode == 1
    assert vial("template", "logs", build).returncode == 0
    assert "over" in vial("template", "cancel", build, check=False).stderr


def test_the_dockerfile_comes_from_standard_input_too_and_detached_only_the_build_is_named(vial, dockerfile):
    done = vial("template", "build", "-f", "-", "-t", "cli-piped", "--base", "minimal", "-d", input="ENV A=b\n")
    assert len(done.stdout.strip()) == 20
    assert vial("template", "logs", "-f", done.stdout.strip()).returncode == 0
    vial("template", "rm", "cli-piped")


def test_all_that_can_be_said_of_a_build_reaches_viald(fake_vial, dockerfile):
    path, warm = dockerfile("ARG V\nENV A=$V\n"), dockerfile("import json\n", "warm.py")
    fake_vial("template", "build", "-f", path, "-t", "full", "--base", "minimal", "--build-arg", "V=1", "--secret", "TOKEN", "--allow", "packages.example.org", "--warm", warm, "--start", "serve --here", "--ready", "ask", "--start-user", "root", "--tier", "2x4",
              "--disk", "1G", "--timeout", "10m", "--no-cache", env={"TOKEN": "from-the-environment"})
    assert fake_vial.server.fake.templates.asked[-1] == {
        "name": "full", "base": "minimal", "dockerfile": "ARG V\nENV A=$V\n", "args": {"V": "1"}, "secrets": {"TOKEN": "from-the-environment"}, "warm": "import json\n",
        "start_command": "serve --here", "ready_command": "ask", "start_user": "root",
        "network": {"mode": "filtered", "allow_out": ["packages.example.org"]}, "tier": "2x4", "disk_mb": 1024, "timeout_seconds": 600, "no_cache": True}


@pytest.mark.parametrize("arguments, said", [
    (["build"], "-t NAME"),
    (["build", "-t", "x", "-f", "/nothing/there"], "/nothing/there"),
    (["build", "-t", "x", "-f", "/dev/null", "--secret", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE"),
    (["build", "-t", "x", "-f", "/dev/null", "--secret", "A=value-on-the-line"], "there is no A"),
    (["build", "-t", "x", "-f", "/dev/null", "--build-arg", "novalue"], "vial: --build-arg wants"),
    (["rm", "nothing-like-it"], "nothing-like-it"),
])
def test_what_cannot_be_done_is_said_in_one_sentence(vial, arguments, said):
    done = vial("template", *arguments, check=False)
    assert done.returncode in (1, 2) and done.stdout == "" and said in done.stderr and "value-on-the-line" not in done.stderr


def test_one_that_is_gone_already_is_no_error_when_forced(vial):
    assert vial("template", "rm", "-f", "nothing-like-it").stdout == ""
