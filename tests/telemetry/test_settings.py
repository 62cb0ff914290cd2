# SPDX-License-Identifier: Apache-2.0
"""Settings that are refused, with a sentence that says which and never holds a secret; headers; and TLS. (src/telemetry/otlp_settings_test.c has more.)"""

import ssl
import subprocess

import pytest

from driver import command, environment
from waiting import slow


def refused(*flags, endpoint="http://127.0.0.1:4318", env=None, **options):
    done = subprocess.run(command(endpoint, *flags, **options), env=environment(**(env or {})), capture_output=True, text=True, timeout=slow(10),
                          stdin=subprocess.DEVNULL)
    assert done.returncode == 1, done.stdout
    [sentence] = done.stderr.splitlines()
    assert "hunter2" not in sentence
    return sentence


@pytest.mark.parametrize("header", ["x-token=hunter2\r\nx-evil: 1", "x-token=hunter2\nx-evil: 1", "x-token=hunter2\rx", "x-a=1,x-token=hunter2\n x"])
def test_a_header_with_a_line_break_is_refused_at_start(header):
    sentence = refused(env={"VIAL_OTLP_HEADERS": header})
    assert "otlp_headers" in sentence and "line break" in sentence


def test_a_line_break_that_the_configuration_file_escapes_is_refused_too(tmp_path):
    config = tmp_path / "vial.conf"
    config.write_text("otlp_headers = x-token=hunter2\\r\\nx-evil: 1\n")
    assert "line break" in refused(config=config)


@pytest.mark.parametrize("endpoint", ["127.0.0.1:4318", "ftp://127.0.0.1", "http://", "http://127.0.0.1/?a", "http://127.0.0.1/v1/traces",
                                      "http://me:hunter2@127.0.0.1"])
def test_an_endpoint_that_cannot_be_is_refused(endpoint):
    assert "otlp_endpoint" in refused(endpoint=endpoint)


def test_a_headers_file_that_everybody_may_read_is_refused(tmp_path):
    file = tmp_path / "headers"
    file.write_text("authorization: Bearer hunter2\n")
    file.chmod(0o644)
    assert "chmod" in refused("--otlp-headers-file", file)


def test_a_headers_file_that_is_not_there_is_refused():
    assert "/nonexistent" in refused("--otlp-headers-file", "/nonexistent")


def test_a_service_without_a_name_is_refused():
    assert "otlp_service_name" in refused("--otlp-service-name", "")


def test_headers_are_sent_from_the_list_and_the_file(drive, collector, tmp_path):
    file = tmp_path / "headers"
    file.write_text("# the collector's token\nauthorization: Bearer hunter2\n\nx-list: a, b=c\n")
    file.chmod(0o600)
    drive(collector.url, "--otlp-headers", "x-scope-orgid=blue, x-equals=a=b", "--otlp-headers-file", file).add()
    [request] = collector.await_requests(1)
    sent = {name: request.header(name) for name in ("authorization", "x-list", "x-scope-orgid", "x-equals")}
    assert sent == {"authorization": "Bearer hunter2", "x-list": "a, b=c", "x-scope-orgid": "blue", "x-equals": "a=b"}
    assert request.header("content-type") == "application/json"


def test_a_certificate_that_nobody_vouches_for_is_not_trusted(drive, listen, tmp_path):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1",
                    "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", tmp_path / "key.pem", "-out", tmp_path / "cert.pem"],
                   check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    collector = listen(context=context)
    driver = drive(collector.url, "--otlp-headers", "x-token=hunter2", hurry=1)
    driver.add()
    assert driver.await_failures(2)["exported"] == 0
    assert collector.n_connections >= 1 and not collector.requests
    assert "certificate" in driver.complaints()[0]
