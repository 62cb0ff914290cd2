# SPDX-License-Identifier: Apache-2.0
"""The scripts that set Vial up, run as a newcomer would run them. None of these tests changes the machine."""

import os
import pathlib
import resource
import subprocess

import pytest

ROOT = pathlib.Path(__file__).parent.parent.parent
SCRIPTS = ROOT / "scripts"


def run(*command, env=None, timeout=60):
    """Runs a command without a terminal; gives the finished process with stdout and stderr as text. With a data directory of its own it finds
    nothing in others."""
    env = {k: str(v) for k, v in (env or {}).items()}
    if "VIAL_DATA" in env:
        env = {"VIAL_DATA_SERVER": env["VIAL_DATA"], "VIAL_DATA_TEST": env["VIAL_DATA"], **env}
    return subprocess.run([str(part) for part in command], env={**os.environ, **env},
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)


def cpu_seconds(*command, **options):
    """The work a command takes when it has nothing to do, and the finished process. Not the time, and the least of five: the
    machine may be busy, and even work takes longer then."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        finished = run(*command, **options)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert finished.returncode == 0, finished.stderr
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken), finished


def complaint(finished):
    """The one sentence of a script that gave up; fails if it said anything else as its last word or did not give up."""
    assert finished.returncode != 0, finished.stderr
    lines = [line for line in finished.stderr.splitlines() if line.strip()]
    assert lines and lines[-1].startswith("vial: "), finished.stderr
    assert "line " not in finished.stderr and "Traceback" not in finished.stderr
    return lines[-1]


def make_program(directory, name, text):
    """An executable stand-in called NAME; gives its directory, to be put in front of PATH."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    path.write_text(text)
    path.chmod(0o755)
    return directory


@pytest.fixture
def fake_apt_config(tmp_path):
    """apt as on a machine whose mirror nobody answers."""
    etc = tmp_path / "apt"
    for folder in ("sources.list.d", "apt.conf.d", "preferences.d", "trusted.gpg.d"):
        (etc / folder).mkdir(parents=True)
    codename = next(line.split("=")[1].strip().strip('"') for line in open("/etc/os-release") if line.startswith("VERSION_CODENAME="))
    (etc / "sources.list").write_text(f"deb [trusted=yes] http://127.0.0.1:9/debian {codename} main\n")
    config = tmp_path / "apt.conf"
    config.write_text(f'Dir::Etc "{etc}/";\nDir::State::lists "{tmp_path}/lists/";\nDir::Cache "{tmp_path}/cache/";\n')
    (tmp_path / "lists/partial").mkdir(parents=True)
    (tmp_path / "cache/archives/partial").mkdir(parents=True)
    return {"APT_CONFIG": config}
