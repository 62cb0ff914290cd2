# SPDX-License-Identifier: Apache-2.0
"""Policies as JSON: what is taken, how it is shown again, and that a bad entry is named. Verdicts without connecting."""
import pytest

import internet as i
from backend import DriverBackend, Refused
from cases import ALL, OPEN, filtered, opened


@pytest.fixture
def parse(backend):
    if not isinstance(backend, DriverBackend):
        pytest.skip("parsing alone is asked of the driver")
    return lambda network: backend.call("parse", network=network)["network"]


@pytest.mark.parametrize("entry", [
    "1.2.3.4", "1.2.3.0/24", "0.0.0.0/0", "1.2.3.4:80", "1.2.3.0/24:80-90", "2001:4860::1", "2001:4860::/32", "[2001:4860::1]",
    "[2001:4860::1]:443", "[2001:4860::/32]:443", "[2001:4860::]/32:1-2", "example.com", "*.example.com", "example.com:443",
    "*.example.com:8000-8099", "ALL_TRAFFIC", "ALL_TRAFFIC:443", "EXAMPLE.com", "example.com.", "bücher.de", "a_b.example.com",
    "10.0.0.0/8", "registry", "xn--bcher-kva.de", "example.com:1-65535"])
def test_entry_is_taken_and_shown_as_written(parse, entry):
    assert parse(filtered([entry], [entry])) == filtered([entry], [entry])


@pytest.mark.parametrize("entry", [
    "", " ", "*", "*.", "*.*.com", "a.*.com", "exa mple.com", "example..com", ".example.com", "-a.com", "a-.com", "1.2.3", "1.2.3.4.5",
    "256.1.1.1", "01.2.3.4", "1.2.3.4/33", "1.2.3.4/8", "1.2.3.4/", "1.2.3.4/-1", "1.2.3.4/024", "2001:4860::1/64", "::/129", "[::1",
    "[1.2.3.4]:80", "example.com:", "example.com:0", "example.com:65536", "example.com:90-80", "example.com:80-", "example.com:x",
    "example.com:+80", "http://example.com", "example.com/path", "user@example.com", "all_traffic", "1.2.3.4:080", "0x7f000001",
    "2130706433", "a" * 64 + ".com", ".".join(["a" * 50] * 6), "localhost", "foo.localhost", "fe80::1%eth0", "a\tb.com"])
def test_bad_entry_is_named(parse, entry):
    for field in ("allow_out", "deny_out"):
        with pytest.raises(Refused) as refused:
            parse({"mode": "filtered", field: ["example.com", entry]})
        assert f"{field}[1]" in str(refused.value) or (len(entry) > 300)


@pytest.mark.parametrize("entry", ["127.0.0.1", "127.0.0.0/8", "169.254.169.254", "169.254.0.0/16", "fe80::1", "::1", "224.0.0.1", "ff02::1",
                                   "fd00:ec2::254", "198.19.0.1", "192.0.0.1", "0.0.0.0", "255.255.255.255", "::ffff:127.0.0.1",
                                   "::ffff:169.254.169.254"])
def test_what_is_never_reachable_cannot_be_allowed(parse, entry):
    with pytest.raises(Refused, match="never reachable"):
        parse(filtered([entry]))
    parse(filtered([], [entry]))


@pytest.mark.parametrize("network,message", [
    ([], "object"), ("open", "object"), ({"mode": "closed"}, "mode"), ({"mode": 1}, "mode"), ({"mode": "open", "allow_out": "x"}, "allow_out"),
    ({"mode": "open", "deny_out": [1]}, "deny_out"), ({"mode": "disabled", "allow_out": ["1.2.3.4"]}, "disabled"),
    ({"mode": None}, "mode.* null"), ({"mode": "open", "allow_out": None}, "allow_out.* null"), ({"deny_out": None}, "deny_out.* null"),
    (filtered(["1.2.3.4"] * 513), "allow_out"), (filtered([f"example.com:{p}" for p in range(1, 18)]), "port ranges")])
def test_wrong_shape_is_refused(parse, network, message):
    with pytest.raises(Refused, match=message):
        parse(network)


@pytest.mark.parametrize("limits", [{"rate_mbit": 1}, {"max_connections": 65535}, {"rate_mbit": 100, "max_connections": 10}])
def test_limits_are_taken_and_shown(parse, limits):
    assert parse({"mode": "open", "limits": limits}) == {"mode": "open", "allow_out": [], "deny_out": [], "limits": limits}
    assert "limits" not in parse({"mode": "open", "limits": {}})


def test_defaults(parse):
    disabled = {"mode": "disabled", "allow_out": [], "deny_out": []}
    assert parse(None) == disabled and parse({}) == disabled
    assert parse({"allow_out": ["example.com"]})["mode"] == "filtered"


CHECKS = [
    (filtered(["example.com"]), "example.com", 443, "allow", "example.com"),
    (filtered(["example.com"]), "EXAMPLE.com.", 443, "allow", "example.com"),
    (filtered(["example.com"]), "www.example.com", 443, "deny", "default"),
    (filtered(["*.example.com:443"]), "a.b.example.com", 443, "allow", "*.example.com:443"),
    (filtered(["*.example.com:443"]), "a.b.example.com", 80, "deny", "default"),
    (filtered(["1.2.3.0/24"], [ALL]), "1.2.3.4", 1, "allow", "1.2.3.0/24"),
    (filtered(["1.2.3.0/24"], [ALL]), "1.2.4.4", 1, "deny", ALL),
    (filtered([ALL], ["evil.com"]), "evil.com", 80, "deny", "evil.com"),
    (filtered([ALL], ["evil.com"]), "other.com", 80, "allow", ALL),
    (OPEN, "8.8.8.8", 443, "allow", "mode:open"),
    (OPEN, "8.8.8.8", 53, "deny", "resolver"),
    (OPEN, i.TEN, 80, "deny", "closed:10.0.0.0/8 (private)"),
    (OPEN, i.METADATA, 80, "deny", "sealed:169.254.0.0/16 (link-local, metadata)"),
    (OPEN, "::ffff:10.1.2.3", 80, "deny", "closed:10.0.0.0/8 (private)"),
    (OPEN, i.HOST_V4, 80, "deny", "host"),
    (opened(["10.0.0.0/8"]), i.TEN, 80, "allow", "10.0.0.0/8"),
    ({"mode": "disabled"}, "8.8.8.8", 80, "deny", "mode:disabled"),
]


@pytest.mark.parametrize("policy,host,port,verdict,rule", CHECKS, ids=[f"{c[1]}:{c[2]}-{c[3]}" for c in CHECKS])
def test_check_names_the_rule(sandbox, policy, host, port, verdict, rule):
    got = sandbox(policy).check(host, port)
    assert (got["verdict"], got["rule"]) == (verdict, rule) and got["reason"]


def test_check_refuses_nonsense(sandbox):
    with pytest.raises(Refused, match="neither"):
        sandbox(OPEN).check("not a host", 80)
