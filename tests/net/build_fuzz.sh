#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds the libFuzzer program of fuzz_net.c: build_fuzz.sh OUTPUT. Needs clang. Then, for a minute:
#   ./OUTPUT -max_total_time=60 -max_len=4096 tests/net/corpus
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
sources=$(find "$root"/src/util "$root"/src/net -name '*.c' ! -name '*_test.c')
# shellcheck disable=SC2046,SC2086 # lists of words
exec clang -g -O1 -std=gnu17 -D_GNU_SOURCE -DVIAL_VERSION='"fuzz"' -fsanitize=fuzzer,address,undefined -I"$root" -I"$root"/src \
	"$root/tests/net/fuzz_net.c" $sources -o "$1" \
	$(pkg-config --cflags --libs gio-2.0 gio-unix-2.0 jansson gnutls libnftables libmnl) -lm
