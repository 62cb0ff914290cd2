/* SPDX-License-Identifier: Apache-2.0 */
#include "net/tls.h"

#include <string.h>

#define RECORD_HANDSHAKE 22
#define RECORD_MAX 16384
#define HELLO_CLIENT 1
#define EXTENSION_SERVER_NAME 0
#define NAME_HOST 0

/* A reader that can only fail, never overrun: after a failure everything reads as zero and `is_bad` stays. */
typedef struct {
	const guint8 *at;
	gsize left;
	gboolean is_bad;
} Reader;

static const guint8 *take(Reader *reader, gsize count)
{
	const guint8 *at = reader->at;

	if (reader->is_bad || count > reader->left) {
		reader->is_bad = TRUE;
		return NULL;
	}
	reader->at += count;
	reader->left -= count;
	return at;
}

static guint take_number(Reader *reader, guint bytes)
{
	const guint8 *at = take(reader, bytes);
	guint value = 0;

	for (guint i = 0; at && i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

/* A vector with a length in front of it. */
static Reader take_vector(Reader *reader, guint length_bytes)
{
	gsize length = take_number(reader, length_bytes);
	const guint8 *at = take(reader, length);

	return (Reader){ .at = at, .left = at ? length : 0, .is_bad = reader->is_bad };
}

static VialSniff read_server_name(Reader extension, char out_name[VIAL_NAME_MAX + 1])
{
	Reader list = take_vector(&extension, 2);
	VialSniff result = VIAL_SNIFF_NO_NAME;

	while (!list.is_bad && list.left) {
		guint type = take_number(&list, 1);
		Reader name = take_vector(&list, 2);
		g_autofree char *text = NULL;
		g_autofree char *normal = NULL;

		if (name.is_bad)
			return VIAL_SNIFF_OTHER;
		if (type != NAME_HOST)
			continue;
		/* Two host names: a server may take either. */
		if (result == VIAL_SNIFF_NAME)
			return VIAL_SNIFF_OTHER;
		if (name.left == 0 || memchr(name.at, 0, name.left))
			return VIAL_SNIFF_OTHER;
		text = g_strndup((const char *)name.at, name.left);
		normal = g_str_is_ascii(text) ? vial_name_normalize(text) : NULL;
		if (!normal)
			return VIAL_SNIFF_NO_NAME;
		g_strlcpy(out_name, normal, VIAL_NAME_MAX + 1);
		result = VIAL_SNIFF_NAME;
	}
	return list.is_bad ? VIAL_SNIFF_OTHER : result;
}

static VialSniff read_hello(Reader hello, char out_name[VIAL_NAME_MAX + 1])
{
	VialSniff result = VIAL_SNIFF_NO_NAME;
	gboolean has_names = FALSE;
	Reader extensions;

	take(&hello, 2 + 32);   /* version, random */
	take_vector(&hello, 1); /* session id */
	take_vector(&hello, 2); /* cipher suites */
	take_vector(&hello, 1); /* compression methods */
	if (hello.is_bad)
		return VIAL_SNIFF_OTHER;
	if (hello.left == 0)
		return VIAL_SNIFF_NO_NAME;
	extensions = take_vector(&hello, 2);
	while (!extensions.is_bad && extensions.left) {
		guint type = take_number(&extensions, 2);
		Reader extension = take_vector(&extensions, 2);

		if (extension.is_bad)
			return VIAL_SNIFF_OTHER;
		if (type != EXTENSION_SERVER_NAME)
			continue;
		if (has_names)
			return VIAL_SNIFF_OTHER;
		has_names = TRUE;
		result = read_server_name(extension, out_name);
	}
	return extensions.is_bad ? VIAL_SNIFF_OTHER : result;
}

/* The hello may be cut into any number of records; their contents are put together first. */
VialSniff vial_tls_sniff(const guint8 *bytes, gsize size, char out_name[VIAL_NAME_MAX + 1])
{
	g_autoptr(GByteArray) handshake = g_byte_array_new();
	gsize at = 0;

	while (at < size) {
		gsize length;

		if (bytes[at] != RECORD_HANDSHAKE || (size > at + 1 && bytes[at + 1] != 3))
			return VIAL_SNIFF_OTHER;
		if (size < at + 5)
			return VIAL_SNIFF_MORE;
		length = (gsize)bytes[at + 3] << 8 | bytes[at + 4];
		if (length == 0 || length > RECORD_MAX)
			return VIAL_SNIFF_OTHER;
		g_byte_array_append(handshake, bytes + at + 5, (guint)MIN(length, size - at - 5));
		if (handshake->len >= 1 && handshake->data[0] != HELLO_CLIENT)
			return VIAL_SNIFF_OTHER;
		if (handshake->len >= 4) {
			gsize hello = (gsize)handshake->data[1] << 16 | (gsize)handshake->data[2] << 8 | handshake->data[3];

			if (hello > VIAL_TLS_MAX_HELLO)
				return VIAL_SNIFF_OTHER;
			if (handshake->len >= 4 + hello)
				return read_hello((Reader){ .at = handshake->data + 4, .left = hello }, out_name);
		}
		at += 5 + length;
	}
	return size > VIAL_TLS_MAX_HELLO * 2 ? VIAL_SNIFF_OTHER : VIAL_SNIFF_MORE;
}
