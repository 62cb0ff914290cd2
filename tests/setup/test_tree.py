# SPDX-License-Identifier: Apache-2.0
"""What must hold for every file of the project."""

import re
import shutil
import urllib.parse

import pytest

from conftest import ROOT, run

LOCAL = {"localhost", "127.0.0.1"}


def tracked_files():
    return [ROOT / name for name in run("git", "-C", ROOT, "ls-files", "-z").stdout.split("\0") if name]


def shell_scripts():
    scripts = []
    for path in tracked_files():
        if path.is_file() and (path.suffix == ".sh" or re.match(rb"#!.*/(ba)?sh\b", path.open("rb").read(40))):
            scripts.append(path)
    return scripts


def registry_hosts():
    """The names of the package registries that this machine's apt, pip and npm are set up to use."""
    addresses = run("apt-get", "indextargets", "--no-release-info", "--format", "$(REPO_URI)").stdout.split()
    for command in (["pip3", "config", "get", "global.index-url"], ["npm", "config", "get", "registry"],
                    ["python3", "-c", "from pip._internal.models.index import PyPI; print(PyPI.url)"]):
        if shutil.which(command[0]):
            addresses += run(*command).stdout.split()
    hosts = {urllib.parse.urlsplit(address).hostname for address in addresses if "://" in address}
    return {host for host in hosts if host and host not in LOCAL and "." in host}


def test_no_file_names_a_package_registry():
    hosts = registry_hosts()
    assert hosts, "this machine's apt knows no mirror"
    for host in hosts:
        found = run("git", "-C", ROOT, "grep", "-I", "-l", "-F", "-e", host)
        assert found.returncode == 1, f"{host} is written in: {found.stdout}"


def test_every_shell_script_is_valid_bash():
    scripts = shell_scripts()
    assert len(scripts) > 10
    for script in scripts:
        checked = run("bash", "-n", script)
        assert checked.returncode == 0, checked.stderr


def test_every_c_file_has_the_one_format():
    checked = run(ROOT / "scripts/format", "--check")
    assert checked.returncode == 0, checked.stderr


@pytest.mark.skipif(not shutil.which("shellcheck"), reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say():
    # The bash kernel plays tricks with the shell that runs it; it is left out.
    scripts = [script for script in shell_scripts() if "guest/kernels" not in str(script)]
    checked = run("shellcheck", "-S", "warning", "-x", "-P", "SCRIPTDIR", *scripts)
    assert checked.returncode == 0, checked.stdout


def test_every_hook_of_a_recipe_is_executable():
    hooks = list(ROOT.glob("guest/images/*/customize.d/*"))
    assert hooks
    assert [str(hook) for hook in hooks if not hook.stat().st_mode & 0o111] == []


def test_the_licence_is_apache_2():
    assert "Apache License" in (ROOT / "LICENSE").read_text()


# Which folders of src/ each may include from: surfaces → operations → service → engine, net, store, audit → util; wire, ledger and util look at nobody.
LOOKS_AT = {
    "util": set(),
    "store": {"util"},
    "auth": {"store", "util"},
    "audit": {"store", "util", "ledger"},
    "net": {"util"},
    "engine": {"util", "wire"},
    "telemetry": {"util"},
    "http": {"auth", "util"},
    "service": {"engine", "net", "store", "audit", "auth", "util", "wire"},
    "operations": {"service", "engine", "net", "store", "audit", "auth", "telemetry", "util", "wire"},
    "surfaces": {"operations", "service", "net", "audit", "auth", "telemetry", "http", "util"},
}


def included_folders(path):
    return {found[1].split("/")[0] for found in re.finditer(r'^#include "([^"]+/[^"]+)"', path.read_text(), re.M)}


def test_dependencies_point_one_way():
    sources = [path for path in (ROOT / "src").rglob("*.[ch]") if path.parent != ROOT / "src" and not path.name.endswith("_test.c")]
    assert {path.relative_to(ROOT / "src").parts[0] for path in sources} == set(LOOKS_AT)
    for path in sources:
        folder = path.relative_to(ROOT / "src").parts[0]
        wrong = included_folders(path) - LOOKS_AT[folder] - {folder}
        assert not wrong, f"{path.relative_to(ROOT)} includes from {wrong}, which {folder} may not look at"
    for folder in ("wire", "ledger"):
        for path in (ROOT / folder).glob("*.[ch]"):
            assert included_folders(path) <= {folder}, path


def test_no_error_says_what_an_sdk_takes_for_a_machine_that_is_still_starting():
    """PandaStack's SDK repeats a command for 20 seconds when the text of a server's error has one of these in it."""
    for path in (ROOT / "src").rglob("*.[ch]"):
        strings = re.findall(r'"(?:[^"\\\n]|\\.)*"', path.read_text())
        wrong = [text for text in strings if re.search("connect: connection refused|no route to host|i/o timeout", text)]
        assert not wrong, f"{path.relative_to(ROOT)}: {wrong}"


def test_a_surface_holds_no_rule():
    """Limits are operations/limits.h's. The ports proxy has some of its own, about the HTTP of a program in a sandbox, which is no rule for clients."""
    for path in (ROOT / "src/surfaces").rglob("*.[ch]"):
        if not path.name.startswith("proxy"):
            found = re.findall(r"^#define \w*(?:MAX|MIN|LIMIT)\w* .*$", path.read_text(), re.M)
            assert not found, f"{path.relative_to(ROOT)} has rules: {found}"
