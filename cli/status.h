/* SPDX-License-Identifier: Apache-2.0 */
/* A sandbox's status for human eyes. */
#pragma once

const char *vial_status_style(const char *status); /* an SGR code, or NULL for none */
