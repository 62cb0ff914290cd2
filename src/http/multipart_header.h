/* SPDX-License-Identifier: Apache-2.0 */
/* For multipart.c: the texts that it is about. */
#pragma once

#include <glib.h>

/* Of the request's Content-Type. */
char *vial_multipart_boundary(const char *content_type, GError **error);
/* Of a part's header, lines as they came; outputs may become NULL, except the name. */
gboolean vial_multipart_header_parse(const char *text, gsize size, char **out_name, char **out_filename, char **out_content_type, GError **error);
