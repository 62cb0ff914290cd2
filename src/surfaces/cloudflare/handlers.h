/* SPDX-License-Identifier: Apache-2.0 */
/* Every handler, in the order of routes.c. */
#pragma once

#include "http/request.h"

void vial_cloudflare_create(VialRequest *request);
void vial_cloudflare_delete(VialRequest *request);
void vial_cloudflare_running(VialRequest *request);
void vial_cloudflare_exec(VialRequest *request);
void vial_cloudflare_file_read(VialRequest *request);
void vial_cloudflare_file_write(VialRequest *request);
void vial_cloudflare_persist(VialRequest *request);
void vial_cloudflare_hydrate(VialRequest *request);
void vial_cloudflare_pty(VialRequest *request);
void vial_cloudflare_mount(VialRequest *request);

/* Its `code` is a word: the clients show "code: error", and no code that is a number. */
json_t *vial_cloudflare_error_body(const VialRequest *request, unsigned status, const GError *error);
