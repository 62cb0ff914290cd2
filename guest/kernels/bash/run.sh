#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Starts the bash kernel. The loop is a -c string of one line: then a cell's messages begin with "bash: line N", where N counts the
# cell's own lines, and `declare` in a cell makes a global variable. functions.sh explains the rest.
exec /bin/bash --noprofile --norc -c '. "$1/functions.sh"; shift; eval "$__vial_loop"' bash "${0%/*}"
