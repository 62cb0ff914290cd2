# SPDX-License-Identifier: Apache-2.0
"""pip behind the filter, on the machine's own network: the one place where these tests talk to somebody else.

Whom to allow is taken from pip's configuration at run time. Skipped where no registry answers.
"""
import os
import socket
import subprocess
import sys
from urllib.parse import urlsplit

import pytest

from backend import DriverBackend
from cases import filtered

PACKAGE = "six"  # small, pure Python, everywhere
ENV = {k: v for k, v in os.environ.items() if k != "PIP_FIND_LINKS"}


def pip(target, *more):
    return [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--no-deps", "--retries", "0", "--timeout", "60", "--target", str(target),
            *more, PACKAGE]


def registry_hosts():
    """The index's host; pip's own default has a second one for the files."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], text=True, capture_output=True, env=ENV)
    urls = [line.split("=", 1)[1].strip("'\"") for line in done.stdout.splitlines() if line.split("=")[0].endswith("index-url")]
    if urls:
        return sorted({urlsplit(u).hostname for u in urls})
    from pip._internal.models.index import PyPI
    return sorted({urlsplit(PyPI.simple_url).hostname, PyPI.file_storage_domain})


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    if os.geteuid() != 0 or os.environ.get("VIAL_NET_BACKEND") == "viald":
        pytest.skip("needs root and the driver")
    if subprocess.run(pip(tmp_path_factory.mktemp("host")), capture_output=True, env=ENV).returncode:
        pytest.skip("no package registry is reachable from here")
    return registry_hosts()


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    backend = DriverBackend(None, str(tmp_path_factory.mktemp("data")), prepared=1)
    yield backend
    backend.close()


def addresses(hosts):
    """A mirror inside a private or documentation range needs its address named as well."""
    return sorted({i[4][0] for h in hosts for i in socket.getaddrinfo(h, 443, socket.AF_INET, socket.SOCK_STREAM)})


def closed(real, address):
    box = real.create({"mode": "open"})
    verdict = box.check(address, 443)
    box.close()
    return verdict["rule"].startswith("closed")


def test_pip_install_with_exactly_the_registrys_hosts(hosts, real, tmp_path):
    named = [a for a in addresses(hosts) if closed(real, a)]
    box = real.create(filtered(hosts + named, ["ALL_TRAFFIC"]))
    done = box.run(pip(tmp_path), env=ENV, timeout=120)
    events = box.events()
    box.close()
    assert done.returncode == 0, (done.stdout[-500:], done.stderr[-1500:])
    assert os.path.exists(tmp_path / "six.py")
    assert any(e["kind"] == "dns" and e["name"] == hosts[0] and e["verdict"] == "allow" for e in events)


@pytest.mark.parametrize("policy", [{"mode": "disabled"}, filtered(["example.com"], ["ALL_TRAFFIC"]), filtered()], ids=["disabled", "another name", "nothing"])
def test_pip_install_fails_without(hosts, real, tmp_path, policy):
    box = real.create(policy)
    done = box.run(pip(tmp_path), env=ENV, timeout=120)
    box.close()
    assert done.returncode != 0 and not os.path.exists(tmp_path / "six.py")
