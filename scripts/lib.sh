# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What every script here shares: where things are, how they speak to the person at the keyboard, how they fail.
# Source it first, after `set -euo pipefail`. Sourcing has no effect besides setting variables and must stay quick:
# `make up` on a ready machine passes through here several times.

VIAL_ROOT=$(cd -- "${BASH_SOURCE[0]%/*}/.." && pwd)
VIAL_DATA=${VIAL_DATA:-/var/lib/vial}
VIAL_DATA_TEST=${VIAL_DATA_TEST:-/var/lib/vial-test}
# Whoever runs a script for another data directory leaves word of the first one: what is big is shared between them. The tests' is never the server's.
if [[ $VIAL_DATA == "$VIAL_DATA_TEST" ]]; then VIAL_DATA_SERVER=${VIAL_DATA_SERVER:-/var/lib/vial}; else VIAL_DATA_SERVER=${VIAL_DATA_SERVER:-$VIAL_DATA}; fi
VIAL_BUILD=${VIAL_BUILD:-$VIAL_ROOT/build}
export VIAL_DATA VIAL_DATA_TEST VIAL_DATA_SERVER

# Programs are looked for where root's are, even when su(1) or a sudo rule kept a user's PATH.
case ":$PATH:" in *:/usr/sbin:*) ;; *) PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin ;; esac

say() { printf '%s\n' "$*" >&2; }

# A failure is one sentence that says what to do about it.
die() {
	printf 'vial: %s\n' "$*" >&2
	exit 1
}

need_root() {
	[[ ${EUID} -eq 0 ]] || die "this needs root (packages, guest images and sandboxes do); run it again as root, for example with: sudo $1"
}

# need_disk DIRECTORY MEGABYTES WHAT: DIRECTORY need not exist yet; its nearest existing parent counts.
need_disk() {
	local dir=$1 need_mb=$2 what=$3 free_mb
	while [[ ! -d $dir ]]; do dir=${dir%/*} dir=${dir:-/}; done
	free_mb=$(df -Pm -- "$dir" | awk 'NR == 2 { print $4 }')
	((free_mb >= need_mb)) || die "$what needs ${need_mb} MB of free disk space under $dir, but only ${free_mb} MB are free; free some, or set VIAL_DATA to a directory on a larger disk"
}

# elapsed START_SECONDS -> "12 s" or "3 min 4 s"
elapsed() {
	local seconds=$((SECONDS - $1))
	if ((seconds < 60)); then printf '%d s' "$seconds"; else printf '%d min %d s' $((seconds / 60)) $((seconds % 60)); fi
}
