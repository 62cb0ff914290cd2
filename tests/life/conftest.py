# SPDX-License-Identifier: Apache-2.0
"""The life-cycle suite uses the API suite's viald, client and fixtures."""

import importlib.util
import sys
from pathlib import Path

import pytest

API = Path(__file__).parent.parent / "api"
sys.path.insert(0, str(API))
_spec = importlib.util.spec_from_file_location("api_conftest", API / "conftest.py")
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

pytest_collection_modifyitems = _module.pytest_collection_modifyitems
folder, daemon, client, sandbox, fresh = _module.folder, _module.daemon, _module.client, _module.sandbox, _module.fresh
start_daemon = _module.start_daemon
