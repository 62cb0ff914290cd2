/* SPDX-License-Identifier: Apache-2.0 */
/* What of a record can be searched by words. The same text must come out of the same body whenever it is asked for: FTS5 is told it again to forget
 * it. */
#pragma once

#include <glib.h>

/* Of a body: code, command, words of a command, input, paths. NULL when there are none. Free it. */
char *vial_audit_words(const char *body, gsize size);
/* What somebody looks for as a question to FTS5: every word of it, as it stands. NULL when there is no word in it. */
char *vial_audit_words_query(const char *text);
