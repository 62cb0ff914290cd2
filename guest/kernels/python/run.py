# SPDX-License-Identifier: Apache-2.0
"""Starts the Python kernel. The agent runs this file with its pipes on descriptors 3, 4 and 5 (docs/kernels.md).

Started with --warm, it also imports the science libraries and runs one cell of each kind, so that a snapshot taken afterwards
is hot; with --light it leaves the libraries out. User code must not be able to import our modules by accident, so their directory leaves sys.path again.
"""

import os
import sys


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[0] = here
    from vial_kernel import kernel

    # What a notebook has there: the current directory, whatever it is at the time of the import.
    sys.path[0] = ""
    kernel.main(is_warm="--warm" in sys.argv[1:], is_light="--light" in sys.argv[1:])


main()
