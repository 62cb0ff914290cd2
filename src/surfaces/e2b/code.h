/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the code interpreter. */
#pragma once

#include "surfaces/shared/surface.h"

/* A result as this dialect has it: a field for each kind it knows, the others in "extra". */
json_t *vial_e2b_result_json(const json_t *bundle, gboolean is_main_result);
/* Its short names as ours; what it has and we do not stays, and is refused where languages are. */
const char *vial_e2b_language(const char *language);
/* Errors of this server are plain text. */
void vial_e2b_code_reply_error(VialRequest *request, const GError *error);
void vial_e2b_code_fail(VialExchange *exchange, const GError *error);
