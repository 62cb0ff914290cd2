# SPDX-License-Identifier: Apache-2.0
"""Waiting, stretched by how slow the machine is (as in tests/api/vial.py)."""

import os
import time

SLOWNESS = float(os.environ.get("VIAL_TEST_SLOWNESS", "3"))


def slow(seconds):
    return seconds * SLOWNESS


def wait_until(is_so, seconds, complaint):
    end = time.monotonic() + slow(seconds)
    while not is_so():
        assert time.monotonic() < end, complaint()
        time.sleep(0.005)
