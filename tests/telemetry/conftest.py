# SPDX-License-Identifier: Apache-2.0
import sys
from pathlib import Path

import pytest

for folder in Path(__file__).resolve().parents[:2]:
    sys.path.insert(0, str(folder))

from collector import Collector, Nobody  # noqa: E402
from driver import Driver  # noqa: E402


@pytest.fixture
def listen():
    """Starts collectors."""
    collectors = []

    def start(*arguments, **options):
        collectors.append(Collector(*arguments, **options))
        return collectors[-1]

    yield start
    for collector in collectors:
        collector.stop()


@pytest.fixture
def collector(listen):
    return listen()


@pytest.fixture
def nobody():
    nobody = Nobody()
    yield nobody
    nobody.close()


@pytest.fixture
def drive(tmp_path, listen, nobody):
    """Starts drivers; all of them are ended, and must end well. (After these, so that collectors outlive them.)"""
    drivers = []

    def start(endpoint, *flags, **options):
        drivers.append(Driver(endpoint, *flags, log=tmp_path / f"driver-{len(drivers)}.log", **options))
        return drivers[-1]

    yield start
    for driver in drivers:
        if driver.process.poll() is None:
            driver.end()


@pytest.fixture
def driver(drive, collector):
    return drive(collector.url)
