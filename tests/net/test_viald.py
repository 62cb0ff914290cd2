# SPDX-License-Identifier: Apache-2.0
"""Through a viald with real sandboxes: the caps that an owner asks for, measured from inside and kept through everything that happens
to a sandbox and to viald; and the counters."""
import time

import pytest

import backend as backends
from backend import Refused, wait_until
from cases import filtered, http, resolve, tcp
from internet import EXAMPLE, OTHER
from test_limits import GET, PUT, check_rate, held, mbit

MANY = 30


@pytest.fixture(scope="module")
def viald(net, tmp_path_factory):
    backend = backends.VialdBackend(net, str(tmp_path_factory.mktemp("data")), "--network-rate-mbit=200", "--network-max-connections=100")
    yield backend
    backend.close()


@pytest.fixture
def make(viald):
    made = []

    def create(**network):
        made.append(viald.create({"mode": "open", **network}))
        return made[-1]

    yield create
    for one in made:
        try:
            one.close()
        except Refused:
            pass


def check_caps(box, rate, connections):
    down, count = mbit(box, GET, EXAMPLE, 2_000_000), held(box, MANY)
    print(f"down {down:.0f} Mbit/s, {count} connections")
    assert down < rate * 1.5 and count <= connections + 1
    return down, count


def test_bandwidth_and_connections_are_what_the_owner_asked_for(make):
    free, capped = make(), make(limits={"rate_mbit": 20, "max_connections": 8})
    for script in (GET, PUT):
        check_rate(capped, script, EXAMPLE, 4_000_000, 10, 30)
    assert 6 <= held(capped, MANY) <= 9
    check_rate(free, GET, EXAMPLE, 8_000_000, 40)
    assert held(free, MANY) == MANY


def test_a_change_holds_at_once_for_what_runs(make):
    box = make()
    assert held(box, MANY) == MANY
    assert box.set_policy({"mode": "open", "limits": {"rate_mbit": 10, "max_connections": 5}})["limits"] == {"rate_mbit": 10, "max_connections": 5}

    def are_used():
        down, count = check_caps(box, 10, 5)
        return down > 5 and count >= 3

    assert wait_until(are_used)  # what the last client held is closing, and the machine may be busy
    assert "limits" not in box.set_policy({"mode": "open"})
    check_rate(box, GET, EXAMPLE, 8_000_000, 30)
    assert held(box, MANY) == MANY


def test_they_are_shown_stored_and_survive_restart_sleep_fork_and_snapshot(viald, make):
    limits = {"rate_mbit": 15, "max_connections": 6}
    box = make(limits=limits)

    def shown(one):
        assert viald.request("GET", f"/v1/sandboxes/{one.id}/network") == {"mode": "open", "allow_out": [], "deny_out": [], "limits": limits}
        assert viald.request("GET", f"/v1/sandboxes/{one.id}")["network"]["limits"] == limits
        check_caps(one, 15, 6)

    shown(box)
    viald.kill()
    viald.start()
    shown(box)
    viald.request("POST", f"/v1/sandboxes/{box.id}/hibernate")
    viald.request("POST", f"/v1/sandboxes/{box.id}/wake")
    shown(box)
    child = backends.VialdSandbox(viald, viald.request("POST", f"/v1/sandboxes/{box.id}/fork", {})["sandbox"])
    shown(child)
    child.close()
    snapshot = viald.request("POST", f"/v1/sandboxes/{box.id}/snapshots", {})
    shown(box)
    # The network of a sandbox made from a snapshot is the request's, as with any other.
    made = viald.request("POST", "/v1/sandboxes", {"from_snapshot": snapshot["id"], "network": {"mode": "open", "limits": limits}})
    born = backends.VialdSandbox(viald, made)
    shown(born)
    born.close()
    viald.request("DELETE", f"/v1/snapshots/{snapshot['id']}")


def test_a_lowered_maximum_narrows_what_was_asked_for_before(viald, make):
    box = make(limits={"rate_mbit": 150, "max_connections": 90})
    viald.kill()
    viald.start("--network-rate-mbit=10", "--network-max-connections=5")
    check_caps(box, 10, 5)
    viald.kill()
    viald.start()
    assert held(box, MANY) == MANY


@pytest.mark.parametrize("limits,names", [
    ({"rate_mbit": 201}, "rate_mbit must be between 1 and 200"), ({"max_connections": 101}, "max_connections must be between 1 and 100"),
    ({"rate_mbit": 0}, "rate_mbit"), ({"rate_mbit": -1}, "rate_mbit"), ({"rate_mbit": 1.5}, "rate_mbit"), ({"rate_mbit": "10"}, "rate_mbit"),
    ({"rate_mbit": None}, "rate_mbit"), ({"max_connections": 0}, "max_connections"), ({"max_connections": 10**12}, "max_connections"),
    ({"max_connections": True}, "max_connections"), ([], "limits"), ("fast", "limits"), (None, "limits")])
def test_a_bad_limit_is_named_and_changes_nothing(viald, make, limits, names):
    box = make(limits={"rate_mbit": 50})
    for attempt in (lambda: box.set_policy({"mode": "open", "limits": limits}), lambda: viald.create({"mode": "open", "limits": limits})):
        with pytest.raises(Refused) as refused:
            attempt()
        assert "network: " in str(refused.value) and names in str(refused.value)
    assert viald.request("GET", f"/v1/sandboxes/{box.id}/network")["limits"] == {"rate_mbit": 50}


def test_counters_are_in_the_sandboxs_metrics_and_in_the_daemons(viald, make):
    def numbers(box):
        return viald.request("GET", f"/v1/sandboxes/{box.id}/metrics")["network"]

    def total():
        lines = viald.text("/metrics").splitlines()
        return {name: float(number) for name, number in (line.rsplit(" ", 1) for line in lines if line.startswith("vial_network_"))}

    box, before = make(**filtered(["example.com"])), total()
    assert numbers(box)["connections_allowed"] == numbers(box)["dns_allowed"] == 0
    box.try_all([http("example.com"), http("example.com"), tcp(OTHER), resolve("evil.com")])
    mbit(box, GET, "example.com", 1_000_000)
    # The kernel reports in small batches.
    wait_until(lambda: numbers(box)["connections_denied"] and numbers(box)["bytes_in"] > 1_000_000, 30)
    time.sleep(0.3)  # nor do they go on counting
    one, after = numbers(box), total()
    assert one["connections_allowed"] == 3 and one["connections_denied"] == 1
    assert one["dns_allowed"] >= 1 and one["dns_denied"] >= 1
    assert one["bytes_in"] > 1_000_000 and one["bytes_out"] > 1000
    for name, field in (('connections_total{verdict="allow"}', "connections_allowed"), ('connections_total{verdict="deny"}', "connections_denied"),
                        ('dns_questions_total{verdict="allow"}', "dns_allowed"), ('dns_questions_total{verdict="deny"}', "dns_denied")):
        assert after["vial_network_" + name] - before["vial_network_" + name] == one[field], name
    assert after['vial_network_bytes_total{direction="in"}'] - before['vial_network_bytes_total{direction="in"}'] > 1_000_000
    assert after['vial_network_slots{state="held"}'] >= 1 and after['vial_network_slots{state="prepared"}'] >= 1
    # What is gone has been counted.
    box.close()
    gone = total()
    for name in after:
        assert "_total" not in name or gone[name] >= after[name], name
