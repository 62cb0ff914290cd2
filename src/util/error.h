/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The daemon's one error domain. Few codes, each meaning something to a client; vial_error_http_status() is the only
 * place that maps them to HTTP.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#define VIAL_ERROR (vial_error_quark())
GQuark vial_error_quark(void);

typedef enum {
	VIAL_ERROR_INTERNAL,     /* 500: our fault */
	VIAL_ERROR_INVALID,      /* 400: the request is wrong; the message names the field */
	VIAL_ERROR_UNAUTHORIZED, /* 401 */
	VIAL_ERROR_FORBIDDEN,    /* 403: the key may not do this */
	VIAL_ERROR_NOT_FOUND,    /* 404 */
	VIAL_ERROR_METHOD,       /* 405 */
	VIAL_ERROR_CONFLICT,     /* 409: not in this state */
	VIAL_ERROR_TOO_LARGE,    /* 413 */
	VIAL_ERROR_QUOTA,        /* 429: a limit is reached */
	VIAL_ERROR_NO_SPACE,     /* 507: the sandbox's disk or the host's is full */
	VIAL_ERROR_UNAVAILABLE,  /* 503: try again later, or the sandbox is gone */
	VIAL_ERROR_TIMEOUT,      /* 504 */
	VIAL_ERROR_GATEWAY,      /* 502: a program in the sandbox answered with nonsense, or not at all */
} VialErrorCode;

/* Sets *error and returns FALSE, so that failing is one line. */
gboolean vial_fail(GError **error, VialErrorCode code, const char *format, ...) G_GNUC_PRINTF(3, 4);
/*
 * The same with what a program wants to know besides the sentence: an object, shown to clients as "detail". An integer
 * "retry_after" in it says after how many seconds it is worth to ask again, and that nothing was done: clients then do so by themselves. `detail` is
 * taken over, whoever listens.
 */
gboolean vial_fail_with(GError **error, VialErrorCode code, json_t *detail, const char *format, ...) G_GNUC_PRINTF(4, 5);
/* That object, borrowed, or NULL. A copy of the error has it, too. */
const json_t *vial_error_detail(const GError *error);

unsigned vial_error_http_status(const GError *error);
/* invalid|unauthorized|forbidden|not_found|conflict|quota|unavailable|timeout|internal */
const char *vial_error_type(const GError *error);
