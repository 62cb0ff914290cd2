/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* A file's MIME type by its name; never NULL. */
const char *vial_mime_of(const char *path);
