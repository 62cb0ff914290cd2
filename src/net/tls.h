/* SPDX-License-Identifier: Apache-2.0 */
/* The name in a TLS ClientHello, read without I/O from a stranger's first bytes. Any thread. */
#pragma once

#include <glib.h>

#include "net/name.h"

/* A hello larger than this is refused; post-quantum key shares make ordinary ones about 2 KiB. */
#define VIAL_TLS_MAX_HELLO 16384

typedef enum {
	VIAL_SNIFF_MORE,    /* not yet whole */
	VIAL_SNIFF_NAME,    /* it names a host */
	VIAL_SNIFF_NO_NAME, /* well-formed, names none */
	VIAL_SNIFF_OTHER,   /* not this protocol, or malformed */
} VialSniff;

/* `out_name` is normalised. A name that is no host name (an address, odd bytes) counts as NO_NAME. */
VialSniff vial_tls_sniff(const guint8 *bytes, gsize size, char out_name[VIAL_NAME_MAX + 1]);
