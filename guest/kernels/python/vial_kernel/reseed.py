# SPDX-License-Identifier: Apache-2.0
"""New numbers after a resume: two sandboxes restored from one snapshot must not draw the same ones.

Everything in the process that was seeded before is seeded again, also what the user seeded by hand: a generator that two
forks share is worse than one that cannot be replayed across a fork. os.urandom, secrets and uuid4 ask the operating system and need
nothing.
"""

import gc
import hashlib
import random
import sys


# Generators among the objects that freeze() has put aside.
_frozen = ([], [])


def freeze():
    """Puts what the warm-up made aside, so that finding generators later means looking at the user's objects only.

    Everything so far goes into the collector's permanent generation, which gc.get_objects() does not show: with the science
    libraries loaded that turns a scan of fifty milliseconds into one of a few. Collections get as much cheaper.
    """
    global _frozen
    gc.collect()
    _frozen = _find_generators(sys.modules.get("numpy.random"))
    gc.freeze()


def reseed(seed):
    """`seed` is at least 32 fresh bytes. Runs in the service thread, possibly in the middle of a cell."""
    source = _Source(seed)
    numpy_random = sys.modules.get("numpy.random")
    generators, bit_generators = (old + new for old, new in zip(_frozen, _find_generators(numpy_random)))
    random.seed(source.integer())
    for generator in generators:
        generator.seed(source.integer())
    if numpy_random is not None:
        _reseed_numpy(numpy_random, bit_generators, source)
    torch = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "manual_seed"):
        torch.manual_seed(source.integer() & (2**63 - 1))
    ssl = sys.modules.get("ssl")
    if ssl is not None:
        # OpenSSL's generator notices a fork by the process id, which a restored sandbox has kept.
        ssl.RAND_add(source.bytes(), 32.0)


class _Source:
    """Any number of independent seeds out of one."""

    def __init__(self, seed):
        self._seed = seed
        self._count = 0

    def bytes(self):
        self._count += 1
        return hashlib.sha256(self._seed + self._count.to_bytes(8, "little")).digest()

    def integer(self):
        return int.from_bytes(self.bytes(), "little")


def _find_generators(numpy_random):
    """Every random.Random and every numpy bit generator there is."""
    bit_generator_type = getattr(numpy_random, "BitGenerator", ())
    generators, bit_generators = [], []
    for thing in gc.get_objects():
        kind = type(thing)
        if issubclass(kind, random.Random):
            if not issubclass(kind, random.SystemRandom):
                generators.append(thing)
        elif bit_generator_type and issubclass(kind, bit_generator_type):
            bit_generators.append(thing)
        elif bit_generator_type and issubclass(kind, (numpy_random.Generator, numpy_random.RandomState)):
            # Reached through its holder too, should the bit generator itself not be tracked by the collector.
            bit_generators.append(getattr(thing, "bit_generator", None) or thing._bit_generator)
    return generators, bit_generators


def _reseed_numpy(numpy_random, bit_generators, source):
    unique = {id(one): one for one in bit_generators}
    legacy = numpy_random.mtrand._rand._bit_generator
    unique[id(legacy)] = legacy
    for one in unique.values():
        fresh = type(one)(numpy_random.SeedSequence(source.integer()))
        # The generator's own lock: a draw that is under way in another thread ends first.
        with one.lock:
            one.state = fresh.state
    # The legacy generator keeps half of the last pair of normal deviates outside its bit generator.
    numpy_random.seed(source.integer() & 0xFFFFFFFF)
