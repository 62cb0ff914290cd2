/* SPDX-License-Identifier: Apache-2.0 */
#include "auth/signing.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "util/error.h"
#include "util/fd.h"
#include "util/log.h"

#define SECRET_FILE "signing.key"
#define SECRET_BYTES 32
#define MAX_FILE_BYTES 256

struct VialSigning {
	guint8 secret[SECRET_BYTES];
};

static gboolean read_secret(VialSigning *signing, int dir_fd, char *text, GError **error)
{
	struct stat status;

	if (!vial_hex_decode(g_strstrip(text), signing->secret, SECRET_BYTES))
		return vial_fail(error, VIAL_ERROR_INVALID,
		                 "keys/" SECRET_FILE " does not hold a secret: delete it, and the next start makes a new one");
	if (fstatat(dir_fd, SECRET_FILE, &status, AT_SYMLINK_NOFOLLOW) == 0 && (status.st_mode & 077)) {
		vial_log_warning("auth", "others could read the signing secret; its mode is now 0600");
		fchmodat(dir_fd, SECRET_FILE, 0600, 0);
	}
	return TRUE;
}

static gboolean make_secret(VialSigning *signing, int dir_fd, GError **error)
{
	g_autofree char *hex = NULL;
	g_autofree char *line = NULL;
	gboolean is_written;

	if (getrandom(signing->secret, SECRET_BYTES, 0) != SECRET_BYTES)
		return vial_fail(error, VIAL_ERROR_INTERNAL, "getrandom: %s", g_strerror(errno));
	hex = vial_hex_encode(signing->secret, SECRET_BYTES);
	line = g_strconcat(hex, "\n", NULL);
	is_written = vial_file_write_at(dir_fd, SECRET_FILE, line, strlen(line), 0600, error);
	explicit_bzero(hex, strlen(hex));
	explicit_bzero(line, strlen(line));
	return is_written;
}

VialSigning *vial_signing_open(int dir_fd, GError **error)
{
	g_autoptr(GError) problem = NULL;
	g_autofree char *text = vial_file_read_at(dir_fd, SECRET_FILE, MAX_FILE_BYTES, NULL, &problem);
	VialSigning *signing = g_new0(VialSigning, 1);
	gboolean is_open = FALSE;

	if (text)
		is_open = read_secret(signing, dir_fd, text, error);
	else if (g_error_matches(problem, VIAL_ERROR, VIAL_ERROR_NOT_FOUND))
		is_open = make_secret(signing, dir_fd, error);
	else
		g_propagate_error(error, g_steal_pointer(&problem));
	if (text)
		explicit_bzero(text, strlen(text));
	if (!is_open)
		g_clear_pointer(&signing, vial_signing_free);
	return signing;
}

void vial_signing_free(VialSigning *signing)
{
	if (!signing)
		return;
	explicit_bzero(signing->secret, SECRET_BYTES);
	g_free(signing);
}

void vial_signing_sign(const VialSigning *signing, const char *purpose, const char *text, guint8 out[VIAL_SHA256_BYTES])
{
	g_autoptr(GString) message = g_string_new(purpose);

	/* The NUL between the two is part of what is signed. */
	g_string_append_c(message, '\0');
	g_string_append(message, text);
	vial_hmac_sha256(signing->secret, SECRET_BYTES, message->str, message->len, out);
}

gboolean vial_signing_check(const VialSigning *signing, const char *purpose, const char *text, const char *signature)
{
	guint8 given[VIAL_SHA256_BYTES], right[VIAL_SHA256_BYTES];

	if (!vial_hex_decode(signature, given, sizeof(given)))
		return FALSE;
	vial_signing_sign(signing, purpose, text, right);
	return vial_constant_time_equal(given, right, sizeof(right));
}
