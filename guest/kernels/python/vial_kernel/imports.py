# SPDX-License-Identifier: Apache-2.0
"""Calls us back when a module is imported for the first time, without importing anything by itself."""

import sys

_waiting = {}


def after(name, callback):
    """`callback(module)` once `name` has been imported; now if it has been already. What it raises is dropped."""
    module = sys.modules.get(name)
    if module is not None:
        _call(callback, module)
        return
    if not _waiting:
        sys.meta_path.insert(0, _Finder)
    _waiting.setdefault(name, []).append(callback)


def _call(callback, module):
    try:
        callback(module)
    except Exception:
        pass


class _Finder:
    """In front of all finders: lets them find, then stands between the module and its loader."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name not in _waiting:
            return None
        for finder in sys.meta_path:
            if finder is cls or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, _waiting.pop(name))
                return spec
        return None


class _Loader:
    def __init__(self, loader, callbacks):
        self._loader = loader
        self._callbacks = callbacks

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        # From here on the module is what it would be without us.
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        for callback in self._callbacks:
            _call(callback, module)
