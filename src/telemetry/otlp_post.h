/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One POST at a time to the collector, over libcurl, and what its answer means. No redirects, no proxy, no cookies, http and https only: the bytes go
 * to the address that the settings name. A connection is kept for the next request.
 *
 * One thread posts, and blocks while it does; vial_otlp_post_end_by() is for another.
 */
#pragma once

#include "telemetry/otlp_settings.h"

typedef enum {
	VIAL_OTLP_TAKEN,   /* 2xx: the collector has it, but for `rejected` */
	VIAL_OTLP_LATER,   /* no answer, or 429, 502, 503, 504: the same once more, later */
	VIAL_OTLP_REFUSED, /* any other answer: the same would be refused again */
} VialOtlpVerdict;

typedef struct {
	VialOtlpVerdict verdict;
	gboolean was_reached; /* the request went out, whatever came back */
	guint64 rejected;     /* of what was taken: partialSuccess.rejectedSpans, as the collector has it */
	guint retry_after_ms; /* 0: it did not say */
	char reason[256];     /* one sentence's part for the log, where it was not taken */
} VialOtlpAnswer;

typedef struct VialOtlpPost VialOtlpPost;

/* Takes what is in `settings` over. */
VialOtlpPost *vial_otlp_post_new(VialOtlpSettings *settings, guint connect_timeout_ms, guint total_timeout_ms);
void vial_otlp_post_free(VialOtlpPost *post); /* accepts NULL; nothing is under way */

void vial_otlp_post_send(VialOtlpPost *post, const GString *body, VialOtlpAnswer *out);
/* From now on no request lasts beyond that moment of the monotonic clock, the one under way included. Any thread. */
void vial_otlp_post_end_by(VialOtlpPost *post, gint64 end_us);
