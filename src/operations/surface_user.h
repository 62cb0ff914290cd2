/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a sandbox's commands, files and contexts belong to where the caller names nobody. Vial's own is `user`; clients of services whose sandboxes
 * have root alone write to /root and /work, and install without sudo.
 */
#pragma once

#include "operations/operation.h"

/* A user of the guest, or NULL: the sandbox's own. */
const char *vial_surface_user(const VialCaller *caller);
