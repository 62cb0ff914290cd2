# SPDX-License-Identifier: Apache-2.0
"""embed.py FILE OUT NAME: writes a C file with FILE's bytes as the array NAME and their number as NAME_size."""
import sys

source, target, name = sys.argv[1:]
data = open(source, "rb").read()
rows = [", ".join(str(byte) for byte in data[at : at + 24]) for at in range(0, len(data), 24)]
with open(target, "w", encoding="ascii") as out:
    out.write(f'#include "agent/native/native.h"\n\nconst unsigned char {name}[] = {{\n\t' + ",\n\t".join(rows) + "\n};\n")
    out.write(f"const size_t {name}_size = sizeof({name});\n")
