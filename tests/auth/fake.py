# SPDX-License-Identifier: Apache-2.0
"""A provider that answers as it is told to: right, wrong, late, or elsewhere."""

import datetime
import http.server
import ipaddress
import json
import ssl
import threading
import time

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

DISCOVERY, JWKS = "/.well-known/openid-configuration", "/jwks"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        fake = self.server.fake
        fake.seen.append(self.path)
        fake.headers.append(dict(self.headers))
        answer = fake.answers.get(self.path)
        if callable(answer):
            answer = answer(self)
        if answer is None:
            return
        status, headers, body = answer
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # they hung up, as they should

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request, address):
        pass  # a client that breaks off a TLS handshake is what some tests want


class Fake:
    """Keys in `answers`: path -> (status, headers, body), or a function of the handler that gives that, or None after having answered itself."""

    def __init__(self, keys=None, certificate=None, path="", host="127.0.0.1"):
        self.seen, self.headers = [], []
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.fake = self
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.origin = f"{'https' if certificate else 'http'}://{host}:{self.server.server_address[1]}"
        self.issuer = self.origin + path
        self.answers = {path.rstrip("/") + DISCOVERY: self.document(), JWKS: ok(keys or {"keys": []})}
        self.discovery = path.rstrip("/") + DISCOVERY
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def document(self, **more):
        return ok({"issuer": self.issuer, "jwks_uri": self.origin + JWKS, **more})

    def publish(self, keys):
        self.answers[JWKS] = ok(keys)

    def count(self, path=JWKS):
        return self.seen.count(path)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def ok(document):
    return 200, {"Content-Type": "application/json"}, document if isinstance(document, bytes) else json.dumps(document).encode()


def late(seconds, answer):
    def wait(handler):
        time.sleep(seconds)
        return answer
    return wait


def when(event, answer):
    """As soon as the test lets it."""
    def wait(handler):
        event.wait()
        return answer
    return wait


def drip(seconds_each):
    """Headers at once, then a byte now and then."""
    def send(handler):
        try:
            handler.send_response(200)
            handler.send_header("Content-Length", "10000")
            handler.end_headers()
            for _ in range(1000):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(seconds_each)
        except OSError:
            pass
    return send


def make_certificate(folder, name="127.0.0.1"):
    """A certificate that signs itself, with its key: (for the server, for who trusts it)."""
    private = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "the tests")])
    now = datetime.datetime.now(datetime.timezone.utc)
    try:
        alternative = x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        alternative = x509.DNSName(name)
    certificate = (x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(private.public_key())
                   .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
                   .add_extension(x509.SubjectAlternativeName([alternative]), False)
                   .add_extension(x509.BasicConstraints(True, None), True).sign(private, hashes.SHA256()))
    public = certificate.public_bytes(serialization.Encoding.PEM)
    both = folder / f"{name}.both.pem"
    both.write_bytes(public + private.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    trusted = folder / f"{name}.pem"
    trusted.write_bytes(public)
    return both, trusted
