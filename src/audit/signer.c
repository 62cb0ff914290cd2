/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key that heads are signed with: keys/audit.key in the data directory, made at the first start, or the operator's own (audit_key_file). What
 * verifies them lies beside it in keys/audit.pub, for everybody; public keys of earlier ones in keys/audit.former, a line each.
 */
#include <fcntl.h>
#include <string.h>

#include "audit/audit_private.h"
#include "util/error.h"
#include "util/fd.h"
#include "util/log.h"

#define SECRET_FILE "audit.key"
#define PUBLIC_FILE "audit.pub"
#define FORMER_FILE "audit.former"
#define MAX_FILE_BYTES (64 * 1024)

static VialLedgerSigner *make_signer(int dir_fd, GError **error)
{
	VialLedgerSigner *signer = vial_ledger_signer_new(error);
	g_autofree char *pem = signer ? vial_ledger_signer_pem(signer, error) : NULL;
	gboolean is_written = pem && vial_file_write_at(dir_fd, SECRET_FILE, pem, strlen(pem), 0600, error);

	if (pem)
		explicit_bzero(pem, strlen(pem));
	if (!is_written)
		g_clear_pointer(&signer, vial_ledger_signer_free);
	return signer;
}

static VialLedgerSigner *read_signer(VialAudit *audit, int dir_fd, GError **error)
{
	const char *own = audit->config->audit_key_file;
	g_autoptr(GError) problem = NULL;
	gsize size;
	g_autofree char *pem = *own ? vial_file_read_at(AT_FDCWD, own, MAX_FILE_BYTES, &size, &problem)
	                            : vial_file_read_at(dir_fd, SECRET_FILE, MAX_FILE_BYTES, &size, &problem);
	VialLedgerSigner *signer;

	if (!pem && !*own && g_error_matches(problem, VIAL_ERROR, VIAL_ERROR_NOT_FOUND))
		return make_signer(dir_fd, error);
	signer = pem ? vial_ledger_signer_read(pem, size, &problem) : NULL;
	if (pem)
		explicit_bzero(pem, size);
	if (!signer)
		vial_fail(error, VIAL_ERROR_INVALID, "the key that signs the audit, %s: %s", *own ? own : "keys/" SECRET_FILE, problem->message);
	return signer;
}

static void read_former(VialAudit *audit, int dir_fd)
{
	g_autofree char *text = vial_file_read_at(dir_fd, FORMER_FILE, MAX_FILE_BYTES, NULL, NULL);
	g_auto(GStrv) lines = g_strsplit(text ? text : "", "\n", -1);
	VialLedgerKey key;

	for (char **line = lines; *line; line++)
		if (vial_ledger_key_read(*line, strlen(*line), &key, NULL))
			g_array_append_val(audit->keys, key);
}

/* Another key than last time: what the last one signed is still to be verified. */
static gboolean note_former(int dir_fd, const VialLedgerKey *former, GError **error)
{
	g_autofree char *text = vial_file_read_at(dir_fd, FORMER_FILE, MAX_FILE_BYTES, NULL, NULL);
	char hex[2 * VIAL_LEDGER_KEY_BYTES + 1];
	g_autofree char *longer = NULL;

	vial_ledger_key_write(former, hex);
	longer = g_strconcat(text ? text : "", hex, "\n", NULL);
	vial_log_warning("audit", "heads are signed with another key from now on; the former one still verifies what it signed", "former", hex);
	return vial_file_write_at(dir_fd, FORMER_FILE, longer, strlen(longer), 0644, error);
}

static gboolean see_to_public(VialAudit *audit, int dir_fd, const VialLedgerKey *key, GError **error)
{
	gsize size = 0;
	g_autofree char *old = vial_file_read_at(dir_fd, PUBLIC_FILE, MAX_FILE_BYTES, &size, NULL);
	g_autofree char *pem = vial_ledger_key_pem(key);
	VialLedgerKey former;

	if (old && vial_ledger_key_read(old, size, &former, NULL)) {
		if (memcmp(&former, key, sizeof(former)) == 0)
			return TRUE;
		if (!note_former(dir_fd, &former, error))
			return FALSE;
	}
	if (!pem)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "the public key of the audit cannot be written");
	return vial_file_write_at(dir_fd, PUBLIC_FILE, pem, strlen(pem), 0644, error);
}

gboolean vial_audit_open_signer(VialAudit *audit, GError **error)
{
	g_autofree char *dir = g_build_filename(audit->config->data_dir, "keys", NULL);
	vial_autofd int dir_fd = vial_dir_open(dir, 0700, error);
	VialLedgerKey key;

	audit->keys = g_array_new(FALSE, FALSE, sizeof(VialLedgerKey));
	if (dir_fd < 0 || !(audit->signer = read_signer(audit, dir_fd, error)))
		return FALSE;
	vial_ledger_signer_key(audit->signer, &key);
	g_array_append_val(audit->keys, key);
	if (!see_to_public(audit, dir_fd, &key, error))
		return FALSE;
	read_former(audit, dir_fd);
	return TRUE;
}
