# SPDX-License-Identifier: Apache-2.0
"""When viald is not there, or is somebody else: one helpful sentence."""

import json
import pathlib
import socket
import subprocess
import threading
import time

import pytest
from conftest import BINARY


def vial(url, *args, **env):
    return subprocess.run([BINARY, *args], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60,
                          env={"VIAL_URL": url, "VIAL_DATA": "/nonexistent", "PATH": "/usr/bin:/bin", **env})


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def speaker():
    """A server that says the given bytes to whoever connects."""
    stop = []

    def start(answer):
        listener = socket.create_server(("127.0.0.1", 0))
        stop.append(listener)

        def serve():
            while True:
                try:
                    client, _ = listener.accept()
                except OSError:
                    return
                with client:
                    client.recv(65536)
                    client.sendall(answer)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in stop:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@pytest.mark.parametrize("args, status", [(["ls"], 1), (["create"], 1), (["exec", "0" * 20, "true"], 125), (["sh"], 125),
                                          (["sh", "0" * 20], 125), (["cp", "/etc/hostname", "0" * 20 + ":x"], 1)])
def test_no_viald_is_one_sentence_with_advice(args, status):
    url = f"http://127.0.0.1:{free_port()}"
    done = vial(url, *args)
    assert done.returncode == status and done.stdout == ""
    assert done.stderr == f"vial: viald does not answer at {url}: is it running? start it with `make up`\n"


def test_errors_are_json_when_json_is_asked_for():
    done = vial(f"http://127.0.0.1:{free_port()}", "ls", "--json")
    assert "does not answer" in json.loads(done.stderr)["error"]


def test_a_wrong_key_is_named_but_not_shown_whole(fake_server):
    done = vial(fake_server.url, "ls", VIAL_API_KEY="vk_wrong_0123456789")
    assert done.returncode == 1 and 'begins with "vk_w"' in done.stderr and "0123456789" not in done.stderr


def test_no_key_says_where_keys_are(fake_server):
    done = vial(fake_server.url, "ls")
    assert done.returncode == 1 and "VIAL_API_KEY" in done.stderr and "admin.key" in done.stderr


def test_the_key_file_of_the_installation_is_found(fake_server, tmp_path):
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "admin.key").write_text(fake_server.key + "\n")
    assert vial(fake_server.url, "ls", VIAL_DATA=str(tmp_path)).returncode == 0
    assert vial(fake_server.url, "ls", "--key", f"@{tmp_path}/keys/admin.key").returncode == 0
    assert vial(fake_server.url, "--key", fake_server.key, "ls").returncode == 0


def test_a_key_on_the_command_line_is_hidden_from_ps(fake_server):
    process = subprocess.Popen([BINARY, "--key", fake_server.key, "--url", fake_server.url, "logs", "-f", "0" * 20],
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    process.wait()
    hanging = subprocess.Popen([BINARY, "--key=" + fake_server.key, "exec", "--stdin", "0" * 20, "cat"], stdin=subprocess.PIPE,
                               env={"VIAL_URL": fake_server.url})
    try:
        deadline = time.monotonic() + 60
        while fake_server.key.encode() in pathlib.Path(f"/proc/{hanging.pid}/cmdline").read_bytes():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert hanging.poll() is None, "it was there to be looked at"
    finally:
        hanging.kill()
        hanging.wait()


def test_url_forms_are_accepted(fake_server):
    host = fake_server.url.removeprefix("http://")
    for url in [host, fake_server.url + "/", fake_server.url + "/v1", fake_server.url + "/v1/"]:
        assert vial(url, "ls", VIAL_API_KEY=fake_server.key).returncode == 0, url


def test_a_proxy_is_not_used_for_this_machine(fake_server):
    done = vial(fake_server.url, "ls", VIAL_API_KEY=fake_server.key, http_proxy="http://127.0.0.1:1")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("answer, words", [
    (b"SSH-2.0-OpenSSH_9.2\r\n", "is it viald?"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "is it viald?"),
    (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 6\r\n\r\n<html>", "502"),
    (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n[", "broke before the answer was complete"),
    (b"", "broke before the answer was complete"),
    (b'HTTP/1.1 500 Oops\r\nContent-Length: 54\r\n\r\n{"error":"it broke \\u001b[31m","request_id":"r-4711" }', "it broke  (request r-4711)"),
    (b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n", "302"),
])
def test_strange_answers_are_told_apart(speaker, answer, words):
    done = vial(speaker(answer), "ls", VIAL_API_KEY="x")
    assert done.returncode == 1 and words in done.stderr and done.stderr.count("\n") == 1 and "\x1b" not in done.stderr


@pytest.mark.parametrize("answer, words", [
    (b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: bm9wZQ==\r\n\r\n", "not a WebSocket server"),
    (b"HTTP/1.1 404 Not Found\r\nContent-Length: 26\r\n\r\n{\"error\":\"no such sandbox\"}", "no such sandbox"),
    (b"garbage\r\n\r\n", "is it viald?"),
    (b"", "broke before"),
])
def test_a_refused_terminal_says_why(speaker, answer, words):
    done = vial(speaker(answer), "sh", "0" * 20, VIAL_API_KEY="x")
    assert done.returncode == 125 and words in done.stderr, done


def test_a_name_that_does_not_resolve_is_said():
    done = vial("http://no-such-host.invalid:7070", "ls")
    assert done.returncode == 1 and "cannot be resolved" in done.stderr


def test_a_unix_socket_is_an_address(tmp_path):
    import http.server
    import socketserver

    import fakeviald
    fake = fakeviald.FakeViald()

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_UNIX

        def server_bind(self):
            socketserver.TCPServer.server_bind(self)
            self.server_name, self.server_port = "localhost", 0

        def get_request(self):
            return super().get_request()[0], ("local", 0)

    server = Server(str(tmp_path / "s"), fake.server.RequestHandlerClass)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = vial(f"unix:{tmp_path}/s", "sh", "-c", "echo over a socket", VIAL_API_KEY=fake.key)
        assert done.returncode == 0 and "over a socket" in done.stdout, done
        assert vial(f"unix:{tmp_path}/none", "ls").stderr.startswith(f"vial: viald does not answer at unix:{tmp_path}/none")
    finally:
        server.shutdown()
        server.server_close()
        fake.stop()


def test_tls_is_checked(tmp_path):
    """A self-signed certificate is refused, and accepted with --cacert."""
    import http.server
    import ssl
    made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", tmp_path / "key", "-out",
                           tmp_path / "cert", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"],
                          capture_output=True)
    if made.returncode != 0:
        pytest.skip("openssl cannot make a certificate here")
    import fakeviald
    fake = fakeviald.FakeViald()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), fake.server.RequestHandlerClass)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"https://localhost:{server.server_address[1]}"
    try:
        refused = vial(url, "ls", VIAL_API_KEY=fake.key)
        assert refused.returncode == 1 and "--cacert" in refused.stderr
        assert vial(url, "ls", "--cacert", str(tmp_path / "cert"), VIAL_API_KEY=fake.key).returncode == 0
        shell = vial(url, "sh", "-c", "echo over TLS", VIAL_CACERT=str(tmp_path / "cert"), VIAL_API_KEY=fake.key)
        assert shell.returncode == 0 and "over TLS" in shell.stdout, shell
        plain = vial(url.replace("https", "http"), "ls", VIAL_API_KEY=fake.key)
        assert plain.returncode == 1 and plain.stderr.count("\n") == 1
    finally:
        server.shutdown()
        server.server_close()
        fake.stop()
