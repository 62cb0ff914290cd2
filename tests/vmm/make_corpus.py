# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of the fuzz corpora in this folder: inputs that get past the first checks. What fuzzing finds is added beside them."""
import os
import struct

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")


def put(target, name, content):
    os.makedirs(os.path.join(HERE, target), exist_ok=True)
    with open(os.path.join(HERE, target, "seed-" + name), "wb") as file:
        file.write(content)


def elf(paddr=0x1000000, entry=0x1000000, filesz=64, memsz=8192):
    header = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, entry, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    return header + struct.pack("<IIQQQQQQ", 1, 5, 120, 0, paddr, filesz, memsz, 4096) + bytes(range(64))


def bzimage(version=0x20f, flags=1):
    image = bytearray(2048)
    image[0x1f1] = 1
    image[0x1fe:0x200] = b"\x55\xaa"
    image[0x201] = 0x6a
    image[0x202:0x206] = b"HdrS"
    struct.pack_into("<H", image, 0x206, version)
    struct.pack_into("<I", image, 0x22c, 0x7fffffff)
    image[0x234] = 1
    struct.pack_into("<H", image, 0x236, flags)
    struct.pack_into("<I", image, 0x238, 2047)
    struct.pack_into("<I", image, 0x260, 1 << 20)
    return bytes(image)


def write_memory(address, content):
    assert address % 64 == 0
    return bytes([2]) + struct.pack("<HB", address // 64, len(content)) + content


def descriptor(address, length, flags=0, following=0):
    return struct.pack("<QIHH", address, length, flags, following)


def virtio(kind, queue, *chain):
    ring = 0x1000 + queue * 0x1000
    return (bytes([kind, 5]) + write_memory(ring, b"".join(chain)) + write_memory(ring + 0x400, struct.pack("<HHH", 0, 1, 0)) + b"\x03\x04")


put("loader", "elf", b"\x00" + elf())
put("loader", "elf-low", b"\x01" + elf(paddr=0x1000))
put("loader", "bzimage", b"\x00" + bzimage())
put("loader", "bzimage-initrd", b"\x02" + bzimage())
put("loader", "bzimage-old", b"\x00" + bzimage(version=0x206))
put("virtio", "console-out", virtio(0, 1, descriptor(0x8000, 100)))
put("virtio", "console-control", virtio(0, 3, descriptor(0x8000, 8)))
put("virtio", "console-in", virtio(0, 0, descriptor(0x8000, 100, 2)))
put("virtio", "blk-read", virtio(1, 0, descriptor(0x8000, 16, 1, 1), descriptor(0x9000, 512, 3, 2), descriptor(0xa000, 1, 2)))
put("virtio", "blk-write", virtio(1, 0, descriptor(0x8000, 16, 1, 1), descriptor(0x9000, 512, 1, 2), descriptor(0xa000, 1, 2))
    + write_memory(0x8000, struct.pack("<IIQ", 1, 0, 3)) + b"\x03")
put("virtio", "blk-read-only", virtio(2, 0, descriptor(0x8000, 16, 1, 1), descriptor(0xa000, 1, 2)))
put("virtio", "rng", virtio(3, 0, descriptor(0x8000, 5000, 2)))
put("virtio", "balloon", virtio(4, 2, descriptor(0x200000, 0x100000, 2)))
put("virtio", "net-out", virtio(5, 1, descriptor(0x8000, 100)))
put("virtio", "loop", virtio(3, 0, descriptor(0x8000, 16, 3, 0)))
put("state", "empty", b"\x00" + struct.pack("<QII", 0x31534d564c414956, 1, 0))
put("state", "console", b"\x01" + b"VIOD\x00\xa0" + struct.pack("<II", 3, 15) + bytes(152) + b"DEV \x00\x48" + bytes(72))
put("state", "hot", b"\x00" + struct.pack("<QQII", 0x31544f484c414956, 4 << 20, 1, 3))
put("bus", "status", b"".join(bytes([1, 2]) + struct.pack("<QQ", 0x70, value) for value in (0, 1, 3, 11)) + bytes([0, 2]) + bytes(16))
put("bus", "ports", b"".join(bytes([2 | write, 0]) + struct.pack("<QQ", port, 0xfe) for port in (0x3f8, 0x64, 0x600, 0xcf8) for write in (0, 1)))
