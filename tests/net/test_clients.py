# SPDX-License-Identifier: Apache-2.0
"""Ordinary programs behind the filter: curl, dig, Node's fetch, Python's urllib. (pip: test_registry.py.)"""
import json
import shutil

import pytest

from backend import DriverBackend
from cases import filtered

NAME = filtered(["example.com"])


@pytest.fixture(autouse=True)
def only_driver(backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("uses the programs and the CA file of this machine")


def need(program):
    if not shutil.which(program):
        pytest.skip(f"{program} is not installed here")
    return program


@pytest.mark.parametrize("url,works", [("http://example.com/", True), ("https://example.com/", True), ("https://evil.com/", False),
                                       ("https://93.184.216.34/", False), ("http://10.1.2.3/", False), ("https://[2606:2800:220:1::34]/", False)])
def test_curl(sandbox, net, url, works):
    done = sandbox(NAME).run([need("curl"), "-sS", "-m", "30", "--cacert", net.dir + "/ca.pem", url])
    assert (done.returncode == 0) == works, done
    if works:
        assert json.loads(done.stdout)["host"] == "example.com"


def test_curl_that_pins_or_spoofs(sandbox, net):
    box = sandbox(NAME)
    curl = [need("curl"), "-sSk", "-m", "30"]
    assert box.run(curl + ["https://example.com/"]).returncode == 0
    assert box.run(curl + ["--resolve", "evil.com:443:93.184.216.34", "https://evil.com/"]).returncode
    assert box.run(curl + ["--resolve", "example.com:443:104.18.0.66", "https://example.com/"]).returncode
    assert box.run(curl + ["--connect-to", "evil.com:443:example.com:443", "https://evil.com/"]).returncode
    assert box.run(curl + ["-H", "Host: evil.com", "http://example.com/"]).returncode
    assert box.run(curl + ["--doh-url", "https://1.1.1.1/dns-query", "https://evil.com/"]).returncode
    assert box.run(curl + ["-x", "http://example.com:80", "http://evil.com/"]).returncode


def test_curl_downloads_with_http_1_0_and_upload(sandbox, net):
    box = sandbox(NAME)
    assert box.run([need("curl"), "-sS", "-0", "-m", "30", "http://example.com/"]).returncode == 0
    assert box.run(["curl", "-sS", "-m", "30", "-H", "Transfer-Encoding: chunked", "-d", "x" * 100000, "http://example.com/"]).returncode == 0


def test_dig(sandbox):
    box = sandbox(NAME)
    dig = [need("dig"), "+time=20", "+tries=1"]
    assert box.run(dig + ["+short", "example.com"]).stdout.strip() == "93.184.216.34"
    assert box.run(dig + ["+short", "+tcp", "example.com", "AAAA"]).stdout.strip() == "2606:2800:220:1::34"
    assert "hello" in box.run(dig + ["+short", "example.com", "TXT"]).stdout
    assert "mail.example.com" in box.run(dig + ["+short", "example.com", "MX"]).stdout
    refused = box.run(dig + ["evil.com"]).stdout
    assert "NXDOMAIN" in refused
    assert box.run(dig + ["@8.8.8.8", "example.com"]).returncode
    assert "NOTIMP" in box.run(dig + ["example.com", "ANY"]).stdout


def test_node_fetch(sandbox, net):
    box = sandbox(NAME)
    script = ("fetch(process.argv[1]).then(r => r.json()).then(j => console.log(j.host), e => { console.log('failed', e.cause?.code); process.exit(1) })")
    env = {"NODE_EXTRA_CA_CERTS": net.dir + "/ca.pem", "PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}
    good = box.run([need("node"), "-e", script, "https://example.com/"], env=env)
    assert good.stdout.strip() == "example.com", good
    bad = box.run(["node", "-e", script, "https://evil.com/"], env=env)
    assert bad.returncode and "failed" in bad.stdout


def test_python_urllib(sandbox, net):
    box = sandbox(NAME)
    script = ("import json, ssl, sys, urllib.request as u; c = ssl.create_default_context(cafile=sys.argv[2]); "
              "print(json.load(u.urlopen(sys.argv[1], context=c, timeout=30))['sni'])")
    assert box.run(["python3", "-c", script, "https://example.com/", net.dir + "/ca.pem"]).stdout.strip() == "example.com"
    assert box.run(["python3", "-c", script, "https://other.org/", net.dir + "/ca.pem"]).returncode


def test_a_websocket_upgrade_passes(sandbox):
    """After an upgrade the bytes are the protocol's own; the test server just goes on with HTTP."""
    script = """
import socket
s = socket.create_connection(("example.com", 80), 30); s.settimeout(30)
s.sendall(b"GET /chat HTTP/1.1\\r\\nHost: example.com\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n\\r\\n")
assert s.recv(4096).startswith(b"HTTP/1.1 200")
"""
    assert sandbox(NAME).run(["python3", "-c", script]).returncode == 0

