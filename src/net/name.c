/* SPDX-License-Identifier: Apache-2.0 */
#include "net/name.h"

#include <string.h>

static gboolean is_label(const char *label, gsize length)
{
	if (length == 0 || length > VIAL_NAME_LABEL_MAX || label[0] == '-' || label[length - 1] == '-')
		return FALSE;
	for (gsize i = 0; i < length; i++)
		if (!g_ascii_isalnum(label[i]) && label[i] != '-' && label[i] != '_')
			return FALSE;
	return TRUE;
}

/* "0x7f000001" and "1" are taken as IPv4 addresses by many resolvers' front ends. */
static gboolean looks_numeric(const char *label)
{
	if (label[0] == '0' && (label[1] == 'x' || label[1] == 'X'))
		return TRUE;
	return strspn(label, "0123456789") == strlen(label);
}

static gboolean is_name(const char *name)
{
	const char *label = name;

	if (strlen(name) > VIAL_NAME_MAX)
		return FALSE;
	for (;;) {
		gsize length = strcspn(label, ".");

		if (!is_label(label, length))
			return FALSE;
		if (!label[length])
			break;
		label += length + 1;
	}
	return !looks_numeric(label);
}

char *vial_name_normalize(const char *text)
{
	gsize length = strlen(text);
	g_autofree char *name = NULL;
	g_autofree char *ascii = NULL;

	/* Four bytes of UTF-8 at most become one label character or more; anything longer cannot be a name. */
	if (length == 0 || length > 4 * VIAL_NAME_MAX)
		return NULL;
	if (text[length - 1] == '.')
		length--;
	name = g_ascii_strdown(text, (gssize)length);
	if (g_str_is_ascii(name))
		ascii = g_steal_pointer(&name);
	else if (g_utf8_validate(name, -1, NULL))
		ascii = g_hostname_to_ascii(name);
	if (!ascii || !is_name(ascii))
		return NULL;
	return g_steal_pointer(&ascii);
}

gboolean vial_name_is_below(const char *name, const char *domain)
{
	gsize name_length = strlen(name);
	gsize domain_length = strlen(domain);

	return name_length > domain_length + 1 && name[name_length - domain_length - 1] == '.' &&
	       strcmp(name + name_length - domain_length, domain) == 0;
}
