# SPDX-License-Identifier: Apache-2.0
"""E2B's SDKs by host names alone (E2B_DOMAIN), as they will be when their one-address settings are gone: TLS with a wildcard certificate that this file makes. The
names are known to nobody: the clients go through a small proxy here, which leads every name to viald."""

import json
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import npm
import pypi
from vial import slow

DOMAIN = "vial.example.test"

PROGRAM = """
import json, os
from e2b_code_interpreter import Sandbox
box = Sandbox.create("minimal")
box.files.write("ü.txt", "by name")
found = {"command": box.commands.run("echo $E2B_SANDBOX").stdout, "file": box.files.read("ü.txt"), "code": box.run_code("6 * 7").text,
         "contexts": len(box.list_code_contexts()) > 0, "running": box.is_running(), "host": box.get_host(3000) == f"3000-{box.sandbox_id}." + os.environ["E2B_DOMAIN"],
         "url": box.download_url("ü.txt").startswith(f"https://49983-{box.sandbox_id}." + os.environ["E2B_DOMAIN"]), "listed": box.sandbox_id in
         [one.sandbox_id for one in Sandbox.list().next_items()]}
import httpx
found["signed"] = httpx.get(box.download_url("ü.txt"), proxy=os.environ["HTTPS_PROXY"], verify=os.environ["SSL_CERT_FILE"]).text
found["killed"], found["gone"] = box.kill(), box.is_running()
print(json.dumps(found))
"""
EXPECTED = {"command": "true\n", "file": "by name", "code": "42", "contexts": True, "running": True, "host": True, "url": True, "listed": True, "signed": "by name",
            "killed": True, "gone": False}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """(authority, chain, key): what an operator gets for *.DOMAIN, and what its clients trust."""
    folder = tmp_path_factory.mktemp("tls")
    (folder / "extensions").write_text(f"subjectAltName=DNS:{DOMAIN},DNS:*.{DOMAIN}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n")
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for arguments in (["req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority"],
                      ["req", *curve, "-keyout", "key.pem", "-out", "request.pem", "-subj", f"/CN={DOMAIN}"],
                      ["x509", "-req", "-in", "request.pem", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "cert.pem", "-days", "2", "-extfile", "extensions"]):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)
    return folder / "ca.pem", folder / "cert.pem", folder / "key.pem"


def copy(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Proxy:
    """CONNECT, to one place whatever the name; notes the names."""

    def __init__(self, port):
        self.port, self.names = port, set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        head = b""
        while b"\r\n\r\n" not in head:
            piece = client.recv(4096)
            if not piece:
                return
            head += piece
        self.names.add(head.split()[1].decode())
        inside = socket.create_connection(("127.0.0.1", self.port))
        client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        threading.Thread(target=copy, args=(inside, client), daemon=True).start()
        copy(client, inside)


@pytest.fixture(scope="module")
def served(certificate, tmp_path_factory):
    import shutil
    import tempfile
    from vial import Daemon
    authority, chain, key = certificate
    folder = tempfile.mkdtemp(prefix="vial-test-", dir="/tmp")
    daemon = Daemon(folder, "--tls-cert", chain, "--tls-key", key, "--preview-domain", DOMAIN, "--host-names", f"api.{DOMAIN}")
    proxy = Proxy(daemon.port)
    yield daemon, proxy
    proxy.listener.close()
    daemon.stop()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def environment(served, certificate):
    daemon, proxy = served
    return {**os.environ, "E2B_DOMAIN": DOMAIN, "E2B_API_KEY": daemon.key, "HTTPS_PROXY": proxy.url, "https_proxy": proxy.url, "SSL_CERT_FILE": str(certificate[0]),
            "NODE_EXTRA_CA_CERTS": str(certificate[0]), "NO_PROXY": "", "no_proxy": ""}


def check(done, proxy):
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == EXPECTED
    ports = {name.partition("-")[0] for name in proxy.names if "-" in name}
    assert f"api.{DOMAIN}:443" in proxy.names and ports == {"49983", "49999"}, proxy.names


def test_python_finds_everything_by_name(served, environment):
    folder = pypi.install("e2b==2.63.0", "e2b-code-interpreter==2.11.5")
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=slow(60), env={**environment, "PYTHONPATH": str(folder)})
    check(done, served[1])


COPY = """
import os, sys
from e2b import Sandbox, Template
Template.build(Template(file_context_path=sys.argv[1]).from_template("minimal").copy("taken", "/srv/"), "by-name")
with Sandbox.create("by-name") as box:
    print(box.files.read("/srv/taken"))
"""


def test_files_of_a_build_are_sent_by_name_too(served, environment, tmp_path):
    (tmp_path / "taken").write_text("along")
    folder = pypi.install("e2b==2.63.0")
    done = subprocess.run([sys.executable, "-c", COPY, tmp_path], capture_output=True, text=True, timeout=slow(120), env={**environment, "PYTHONPATH": str(folder)})
    assert (done.returncode, done.stdout) == (0, "along\n"), done.stderr


SCRIPT = """
import { createRequire } from "node:module";
const load = createRequire(process.argv[2] + "/");
const { Sandbox } = load("@e2b/code-interpreter"), { ProxyAgent, setGlobalDispatcher } = load("undici");
setGlobalDispatcher(new ProxyAgent(process.env.HTTPS_PROXY));  // code goes by the plain fetch, which knows no proxy
const options = { proxy: process.env.HTTPS_PROXY }, domain = process.env.E2B_DOMAIN;
const box = await Sandbox.create("minimal", options);
await box.files.write("ü.txt", "by name");
const found = { command: (await box.commands.run("echo $E2B_SANDBOX")).stdout, file: await box.files.read("ü.txt"), code: (await box.runCode("6 * 7")).text,
  contexts: (await box.listCodeContexts()).length > 0, running: await box.isRunning(), host: box.getHost(3000) === `3000-${box.sandboxId}.${domain}`,
  url: (await box.downloadUrl("ü.txt")).startsWith(`https://49983-${box.sandboxId}.${domain}`),
  listed: (await Sandbox.list(options).nextItems()).some((one) => one.sandboxId === box.sandboxId), signed: "by name" };
found.killed = await box.kill();
found.gone = await box.isRunning();
console.log(JSON.stringify(found));
process.exit(0);
"""


def test_javascript_finds_everything_by_name(served, environment, npm_package, tmp_path):
    (tmp_path / "by_name.mjs").write_text(SCRIPT)
    served[1].names.clear()
    done = subprocess.run(["node", tmp_path / "by_name.mjs", npm_package("@e2b/code-interpreter", "2.8.0")], capture_output=True, text=True, timeout=slow(60), env=environment)
    check(done, served[1])
