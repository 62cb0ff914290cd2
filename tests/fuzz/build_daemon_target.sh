#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds a libFuzzer program of the daemon's side: build_daemon_target.sh json|http|reply|channel|dockerfile|multipart|oidc|ledger OUTPUT. Needs clang. Then, for a minute:
#   ./OUTPUT -max_total_time=60 -max_len=4096 tests/fuzz/corpus/json
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
sources="$(find "$root"/src/util "$root"/src/http "$root"/src/auth "$root"/src/store -name '*.c' ! -name '*_test.c') $(find "$root"/src -name proxy_reader.c)
 $root/src/engine/channel.c $root/src/engine/stream.c $root/src/engine/message.c $root/wire/wire.c"
# People's tokens stand alone.
if [ "$1" = oidc ]; then
	sources="$(find "$root"/src/util -name '*.c' ! -name '*_test.c') $(find "$root"/src/auth -name 'oidc*.c' ! -name '*_test.c')
	 $root/src/auth/identity.c $root/src/auth/allow.c $root/src/auth/quotas.c"
fi
if [ "$1" = dockerfile ]; then
	sources="$(find "$root"/src/util -name '*.c' ! -name '*_test.c') $root/src/operations/dockerfile.c $root/src/operations/dockerfile_copy.c"
fi
if [ "$1" = multipart ]; then
	sources="$(find "$root"/src/util -name '*.c' ! -name '*_test.c') $root/src/http/multipart.c $root/src/http/multipart_header.c $root/src/http/inflate.c"
fi
if [ "$1" = ledger ]; then
	sources=$(find "$root"/ledger -name '*.c' ! -name '*_test.c')
fi
# shellcheck disable=SC2046,SC2086 # lists of words
exec clang -g -O1 -std=gnu17 -D_GNU_SOURCE -DVIAL_VERSION='"fuzz"' -fsanitize=fuzzer,address,undefined -I"$root" -I"$root"/src \
	"$root/tests/fuzz/fuzz_$1.c" $sources -o "$2" \
	$(pkg-config --cflags --libs gio-2.0 gio-unix-2.0 jansson libmicrohttpd sqlite3 gnutls zlib libcurl librhonabwy) -lwslay -lm
