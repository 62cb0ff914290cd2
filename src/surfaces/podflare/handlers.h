/* SPDX-License-Identifier: Apache-2.0 */
/* Every handler, in the order of routes.c. */
#pragma once

#include "http/request.h"

void vial_podflare_healthz(VialRequest *request);
void vial_podflare_create(VialRequest *request);
void vial_podflare_destroy(VialRequest *request);
void vial_podflare_fork(VialRequest *request);
void vial_podflare_exec(VialRequest *request);
void vial_podflare_merge_into(VialRequest *request);
void vial_podflare_replay(VialRequest *request);
void vial_podflare_space_resume(VialRequest *request);
void vial_podflare_space_delete(VialRequest *request);
void vial_podflare_pty_create(VialRequest *request);
void vial_podflare_pty_list(VialRequest *request);
void vial_podflare_pty_attach(VialRequest *request);
void vial_podflare_pty_input(VialRequest *request);
void vial_podflare_pty_read(VialRequest *request);
void vial_podflare_pty_resize(VialRequest *request);
void vial_podflare_pty_kill(VialRequest *request);
