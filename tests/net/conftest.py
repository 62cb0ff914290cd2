# SPDX-License-Identifier: Apache-2.0
"""One internet and one driver for all tests; a sandbox per test that is released after it."""
import os
import sys

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)

import backend as backends  # noqa: E402
import internet  # noqa: E402


@pytest.fixture(scope="session")
def net():
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    net = internet.Internet()
    yield net
    net.close()


@pytest.fixture(scope="session")
def backend(net, tmp_path_factory):
    if os.environ.get("VIAL_NET_BACKEND") == "viald":
        backend = backends.VialdBackend(net, str(tmp_path_factory.mktemp("data")))
    else:
        backend = backends.DriverBackend(net, str(tmp_path_factory.mktemp("data")))
    yield backend
    backend.close()


@pytest.fixture
def sandbox(backend):
    """sandbox(policy) → a Sandbox; all of them are released when the test ends."""
    made = []

    def make(network=None, limits=None):
        made.append(backend.create(network, limits))
        return made[-1]

    yield make
    for one in made:
        try:
            one.close()
        except backends.Refused:
            pass  # the test released it itself


@pytest.fixture
def own(net, tmp_path):
    """A driver of the test's own, which it may kill."""
    made = []

    def make(**kw):
        made.append(backends.DriverBackend(net, str(tmp_path), **kw))
        return made[-1]

    yield make
    for backend in made:
        if backend.process.poll() is None:
            backend.close()
    # What a killed driver left is swept by the next with the same directory.
    last = backends.DriverBackend(net, str(tmp_path), prepared=1)
    last.settle(removing=0)
    last.close()
