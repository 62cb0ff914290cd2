/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What happens to sandboxes without anybody asking, told to one address: the operator's, out of the configuration, never a caller's. A thread of its
 * own posts; nobody waits for it. No redirect is followed, an answer's text is thrown away, and what cannot be delivered after some tries is given
 * up.
 */
#pragma once

#include <glib.h>
#include <jansson.h>

#include "util/config.h"

typedef struct VialWebhook VialWebhook;

/* NULL without an error where there is no address. */
VialWebhook *vial_webhook_new(const VialConfig *config, GError **error);
/* Takes `event`; `webhook` may be NULL. */
void vial_webhook_send(VialWebhook *webhook, json_t *event);
/* Delivers what waits until the first that cannot be. Accepts NULL. */
void vial_webhook_free(VialWebhook *webhook);
