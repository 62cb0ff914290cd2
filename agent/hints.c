/* SPDX-License-Identifier: Apache-2.0 */
/* See hints.h. */
#include "hints.h"

#include <stdio.h>
#include <string.h>

/* Also how to change it: who came with another service's SDK expects one, and has read none of our pages. */
#define NO_NETWORK                                                                                        \
	"this sandbox has no network (policy: disabled). It can be opened: "                              \
	"\"network\": {\"mode\": \"open\"} when it is made, `vial net set ID open` now, or for all that " \
	"an SDK makes a setting of the server such as e2b_network=open\n"
/* Whoever fails for want of a network says so early. */
#define MAX_LOOKED_BYTES (64u * 1024u)

/* What curl, git, glibc (so Python, ssh, wget), apt, Node and npm, Go, pip and uv say when a name has no address. A refused connection is not among
 * them: it may be one to the sandbox itself. apt says so only to root; others hear of its locks, and everybody of packages that it has no list of. */
static const char *const complaints[] = {
	"Could not resolve host",
	"ame resolution",
	"emporary failure resolving",
	"EAI_AGAIN",
	"unable to resolve host",
	"no such host",
	"No matching distribution",
	"ENOTFOUND",
	"Name or service not known",
	"ENETUNREACH",
	"etwork is unreachable",
	"ailed to lookup address",
	"fetch failed",
	"ar/lib/apt/lists/lock",
	"ar/lib/dpkg/lock",
	"Unable to locate package",
};

static bool is_offline;

void vial_hints_set_offline(bool is_so)
{
	is_offline = is_so;
}

bool vial_hints_is_offline(void)
{
	return is_offline;
}

static bool is_complaint(const char *text, size_t size_bytes)
{
	for (size_t i = 0; i < sizeof(complaints) / sizeof(*complaints); i++) {
		if (memmem(text, size_bytes, complaints[i], strlen(complaints[i])))
			return true;
	}
	return false;
}

/* The end of what came before with the beginning of what comes now. */
static bool is_complaint_across(struct vial_hints *hints, bool is_stderr, const char *text, size_t size_bytes)
{
	char joined[2 * VIAL_HINTS_TAIL_BYTES];
	size_t before = hints->tail_bytes[is_stderr], taken = size_bytes < VIAL_HINTS_TAIL_BYTES ? size_bytes : VIAL_HINTS_TAIL_BYTES, kept;
	bool is_found;

	memcpy(joined, hints->tail[is_stderr], before);
	memcpy(joined + before, text, taken);
	is_found = is_complaint(joined, before + taken);
	kept = size_bytes > taken || before + taken > VIAL_HINTS_TAIL_BYTES ? VIAL_HINTS_TAIL_BYTES : before + taken;
	memcpy(hints->tail[is_stderr], size_bytes > taken ? text + size_bytes - kept : joined + before + taken - kept, kept);
	hints->tail_bytes[is_stderr] = kept;
	return is_found;
}

void vial_hints_look(struct vial_hints *hints, bool is_stderr, const void *bytes, size_t size_bytes)
{
	size_t left = MAX_LOOKED_BYTES - hints->looked_bytes;

	if (size_bytes == 0)
		return;
	if (is_stderr)
		hints->is_within_line = ((const char *)bytes)[size_bytes - 1] != '\n';
	if (!is_offline || hints->has_missed_network || left == 0)
		return;
	if (size_bytes > left)
		size_bytes = left;
	hints->looked_bytes += size_bytes;
	hints->has_missed_network = is_complaint_across(hints, is_stderr, bytes, size_bytes) || is_complaint(bytes, size_bytes);
}

void vial_hints_timeout(int64_t timeout_ms, char out_text[VIAL_HINTS_TIMEOUT_BYTES])
{
	snprintf(out_text, VIAL_HINTS_TIMEOUT_BYTES, "timed out after %.7g s", (double)timeout_ms / 1000);
}

size_t vial_hints_end(const struct vial_hints *hints, int64_t timed_out_ms, char out_text[VIAL_HINTS_BYTES])
{
	char timeout[VIAL_HINTS_TIMEOUT_BYTES] = "";
	int size;

	if (!hints->has_missed_network && timed_out_ms == 0)
		return 0;
	if (timed_out_ms > 0)
		vial_hints_timeout(timed_out_ms, timeout);
	size = snprintf(out_text, VIAL_HINTS_BYTES, "%s%s%s%s", hints->is_within_line ? "\n" : "", hints->has_missed_network ? NO_NETWORK : "",
	                timeout, *timeout ? "\n" : "");
	return (size_t)size;
}
