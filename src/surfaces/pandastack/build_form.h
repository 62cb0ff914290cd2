/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For builds.c: the form in the body of a request for a build, multipart with or without files, or urlencoded. Its fields are kept as texts; files
 * are a build's context, and become one archive if they are wanted: else they are read and forgotten, whatever their size.
 */
#pragma once

#include <jansson.h>

#include "http/request.h"

/* Whether files are needed: asked when the first one comes, by the fields before it, and when all is there (`is_whole`). */
typedef gboolean (*VialBuildFormWants)(const json_t *fields, gboolean is_whole);
/* Once, unless the client has left: all fields, and the archive's hash or NULL; or an error, and nothing else. All is borrowed. */
typedef void (*VialBuildFormDone)(VialRequest *request, const json_t *fields, const char *archive, const GError *error);

void vial_build_form_read(VialRequest *request, VialBuildFormWants wants, VialBuildFormDone done);
