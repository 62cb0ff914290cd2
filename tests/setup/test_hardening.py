# SPDX-License-Identifier: Apache-2.0
"""What the linker was told about the programs, read back out of them: nothing here trusts a build file."""

import os
import struct
from pathlib import Path

import pytest

PROGRAMS = ["viald", "vial", "vial-shim", "vial-vmm", "vial-agent", "vial-guest-init"]
STATIC = {"vial-shim", "vial-vmm", "vial-agent", "vial-guest-init"}

ET_DYN = 3
PT_LOAD, PT_DYNAMIC, PT_INTERP, PT_GNU_STACK, PT_GNU_RELRO = 1, 2, 3, 0x6474E551, 0x6474E552
PF_X, PF_W = 1, 2
DT_TEXTREL, DT_FLAGS, DT_FLAGS_1 = 22, 30, 0x6FFFFFFB
DF_TEXTREL, DF_BIND_NOW, DF_1_NOW, DF_1_PIE = 4, 8, 1, 0x08000000


class Elf:
    """The headers of a 64-bit little-endian program."""

    def __init__(self, path):
        self.bytes = path.read_bytes()
        assert self.bytes[:6] == b"\x7fELF\x02\x01", f"{path} is not such a program"
        self.type, = struct.unpack_from("<H", self.bytes, 16)
        offset, = struct.unpack_from("<Q", self.bytes, 32)
        size, count = struct.unpack_from("<HH", self.bytes, 54)
        self.segments = [struct.unpack_from("<IIQQQQQQ", self.bytes, offset + i * size) for i in range(count)]

    def of(self, kind):
        return [segment for segment in self.segments if segment[0] == kind]

    def dynamic(self):
        (_, _, offset, _, _, size, _, _), = self.of(PT_DYNAMIC)
        return dict(struct.unpack_from("<QQ", self.bytes, at) for at in range(offset, offset + size, 16))


@pytest.fixture(params=PROGRAMS)
def program(request):
    path = Path(os.environ.get("VIAL_BUILD", Path(__file__).resolve().parents[2] / "build")) / request.param
    return request.param, Elf(path)


def test_a_program_is_loaded_anywhere(program):
    name, elf = program
    assert elf.type == ET_DYN and elf.dynamic()[DT_FLAGS_1] & DF_1_PIE
    assert bool(elf.of(PT_INTERP)) == (name not in STATIC), "static programs are whole in themselves"


def test_its_tables_are_read_only_before_it_begins(program):
    dynamic = program[1].dynamic()
    assert program[1].of(PT_GNU_RELRO)
    assert dynamic.get(DT_FLAGS, 0) & DF_BIND_NOW and dynamic[DT_FLAGS_1] & DF_1_NOW
    assert DT_TEXTREL not in dynamic and not dynamic.get(DT_FLAGS, 0) & DF_TEXTREL


def test_nothing_is_both_written_and_run(program):
    (_, flags, *_), = program[1].of(PT_GNU_STACK)
    assert not flags & PF_X
    assert all(not (segment[1] & PF_W and segment[1] & PF_X) for segment in program[1].of(PT_LOAD))


def test_lengths_are_checked(program):
    """The C library's checked functions: by their names in its table where it is linked later, by their last words where it is linked in."""
    name, elf = program
    assert (b"buffer overflow detected" if name in STATIC else b"_chk\0") in elf.bytes
