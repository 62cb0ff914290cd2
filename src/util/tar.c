/* SPDX-License-Identifier: Apache-2.0 */
#include "util/tar.h"

#include <stdio.h>
#include <string.h>

/*
 * 2000-01-01, in UTC. Not 1970, which a tar would take as well: zip files, and so Python's wheels, cannot hold a date before 1980, and whoever packs
 * what was copied would fail.
 */
#define DATE 946684800
/* Eleven octal digits. */
#define SIZE_MAX_IN_HEADER (G_GUINT64_CONSTANT(1) << 33)

/* POSIX.1-2001, pax, "ustar Interchange Format". */
typedef struct {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[12];
	char mtime[12];
	char checksum[8];
	char type;
	char link[100];
	char magic[6];
	char version[2];
	char user[32];
	char group[32];
	char device_major[8];
	char device_minor[8];
	char prefix[155];
	char unused[12];
} Header;

G_STATIC_ASSERT(sizeof(Header) == VIAL_TAR_BLOCK_BYTES);

static void add_zeros(GByteArray *out, gsize size)
{
	static const guint8 zeros[VIAL_TAR_END_BYTES];

	g_byte_array_append(out, zeros, (guint)size);
}

/* Octal digits that fill the field but for its NUL. */
static void set_number(char *field, gsize size, guint64 value)
{
	g_snprintf(field, size, "%0*" G_GINT64_MODIFIER "o", (int)size - 1, value);
}

/* The sum of all bytes, with blanks where it will stand. */
static void set_checksum(Header *header)
{
	const guint8 *bytes = (const guint8 *)header;
	guint sum = 0;

	memset(header->checksum, ' ', sizeof(header->checksum));
	for (gsize i = 0; i < sizeof(*header); i++)
		sum += bytes[i];
	set_number(header->checksum, sizeof(header->checksum) - 1, sum); /* its last byte stays a blank */
}

/* As much of the name as there is room for, in ASCII: what is more is in a record before it. */
static void set_name(Header *header, const char *name)
{
	for (gsize i = 0; i < sizeof(header->name) && name[i]; i++)
		header->name[i] = (guchar)name[i] < 0x80 ? name[i] : '_';
}

static void add_header(GByteArray *out, char type, const char *name, guint mode, guint64 size)
{
	Header header = { .type = type, .magic = "ustar", .version = { '0', '0' } };

	set_name(&header, name);
	set_number(header.mode, sizeof(header.mode), mode);
	set_number(header.uid, sizeof(header.uid), 0);
	set_number(header.gid, sizeof(header.gid), 0);
	set_number(header.size, sizeof(header.size), size < SIZE_MAX_IN_HEADER ? size : 0);
	set_number(header.mtime, sizeof(header.mtime), DATE);
	set_number(header.device_major, sizeof(header.device_major), 0);
	set_number(header.device_minor, sizeof(header.device_minor), 0);
	set_checksum(&header);
	g_byte_array_append(out, (const guint8 *)&header, sizeof(header));
}

static gsize digits_of(gsize number)
{
	gsize count = 1;

	while (number /= 10)
		count++;
	return count;
}

/* "LENGTH keyword=value\n", where LENGTH is of all of it, its own digits too: which may be one more because of them. */
static void append_record(GString *records, const char *keyword, const char *value)
{
	gsize rest = strlen(" =\n") + strlen(keyword) + strlen(value);
	gsize length = rest + digits_of(rest + digits_of(rest));

	g_string_append_printf(records, "%" G_GSIZE_FORMAT " %s=%s\n", length, keyword, value);
}

/* A header of its own with what the next one has no room for. */
static void add_records(GByteArray *out, const char *name, guint64 size)
{
	g_autoptr(GString) records = g_string_new(NULL);

	if (strlen(name) > sizeof(((Header *)NULL)->name) || !g_str_is_ascii(name))
		append_record(records, "path", name);
	if (size >= SIZE_MAX_IN_HEADER) {
		g_autofree char *text = g_strdup_printf("%" G_GUINT64_FORMAT, size);

		append_record(records, "size", text);
	}
	if (records->len == 0)
		return;
	add_header(out, 'x', "PaxHeader", 0644, records->len);
	g_byte_array_append(out, (const guint8 *)records->str, (guint)records->len);
	vial_tar_add_padding(out, records->len);
}

void vial_tar_add_file(GByteArray *out, const char *name, guint mode, guint64 size)
{
	add_records(out, name, size);
	add_header(out, '0', name, mode, size);
}

void vial_tar_add_folder(GByteArray *out, const char *name, guint mode)
{
	add_records(out, name, 0);
	add_header(out, '5', name, mode, 0);
}

void vial_tar_add_padding(GByteArray *out, guint64 size)
{
	gsize over = (gsize)(size % VIAL_TAR_BLOCK_BYTES);

	add_zeros(out, over > 0 ? VIAL_TAR_BLOCK_BYTES - over : 0);
}

void vial_tar_add_end(GByteArray *out)
{
	add_zeros(out, VIAL_TAR_END_BYTES);
}
