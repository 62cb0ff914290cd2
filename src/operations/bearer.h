/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who has a token of one sandbox and no key: may do in that sandbox, and nowhere else, what a runner may (operation.c looks that it is this one).
 * What such a token looks like is a surface's affair; it does not end before its sandbox does.
 */
#pragma once

#include "operations/operation.h"

/* The sandbox of that id, whoever's it is: borrowed, NULL when it has ended or is about to, or rests
 * until it is woken. For a surface that has still to see the token. */
VialSandbox *vial_bearer_find(VialApp *app, const char *sandbox_id);
/* Whoever showed the token: a new reference. */
VialIdentity *vial_bearer_identity(const VialSandbox *sandbox);
/* Whether somebody may be shown it: it does what a runner may, and who may do less would do that with it. */
gboolean vial_bearer_is_for(const VialIdentity *identity);
