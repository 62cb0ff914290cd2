# SPDX-License-Identifier: Apache-2.0
"""Settings that cannot be stop the start, with a sentence that says which."""

import subprocess

import pytest

from conftest import DRIVERS, PATIENCE, clean_environment

GOOD = {"oidc_issuer": "https://login.example.com", "oidc_audience": "vial", "oidc_rules": "sub=* -> default:viewer"}


def test_without_an_issuer_there_is_nothing():
    done = subprocess.run([DRIVERS / "oidc-driver", "--config=/dev/null", "--oidc-rules=garbage"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=PATIENCE, env=clean_environment())
    assert (done.returncode, done.stderr) == (2, "no issuer\n")


@pytest.mark.parametrize("issuer", ["login.example.com", "x", "ftp://login.example.com", "https://", "https://user@login.example.com", "https://u:p@login.example.com",
                                    "https://login.example.com/#x", "https://login.example.com/?x=1", "https://login example.com", "javascript:alert(1)"])
def test_issuers_that_are_no_address(refused_start, issuer):
    sentence = refused_start(**{**GOOD, "oidc_issuer": issuer})
    assert sentence.startswith("oidc_issuer: ") and issuer in sentence


@pytest.mark.parametrize("issuer", ["http://login.example.com", "http://10.0.0.1", "http://127.0.0.1.example.com", "http://localhost.example.com", "http://[::2]",
                                    "http://128.0.0.1", "http://0.0.0.0"])
def test_http_needs_permission(refused_start, driver, issuer):
    assert "oidc_allow_http" in refused_start(**{**GOOD, "oidc_issuer": issuer})


@pytest.mark.parametrize("issuer", ["http://localhost:1", "http://127.0.0.1:1", "http://127.1.2.3:1", "http://[::1]:1", "https://localhost:1"])
def test_http_of_this_machine_needs_none(driver, issuer):
    driver(oidc_issuer=issuer)


def test_what_else_an_issuer_needs(refused_start, tmp_path):
    assert "oidc_audience must be set too" in refused_start(**{**GOOD, "oidc_audience": ""})
    assert "nobody can sign in" in refused_start(**{**GOOD, "oidc_rules": ""})
    assert 'the rule "groups=a -> b" in oidc_rules' in refused_start(**{**GOOD, "oidc_rules": "sub=* -> default:viewer, groups=a -> b"})
    assert "default:operator" in refused_start(**{**GOOD, "oidc_rules": "sub=* -> lab:operator"})
    assert "oidc_ca_file" in refused_start(**{**GOOD, "oidc_ca_file": tmp_path / "none.pem"})
    assert "oidc_jwks_file" in refused_start(**{**GOOD, "oidc_jwks_file": tmp_path / "none.json"})
    assert "between 0 and 600" in refused_start(**{**GOOD, "oidc_clock_skew_seconds": 601})
