/* SPDX-License-Identifier: Apache-2.0 */
/* An exporter with other times than the usual ones, for the tests: those are seconds and minutes. */
#pragma once

#include "telemetry/otlp.h"

typedef struct {
	guint gather_ms;          /* how long the first span of a batch waits for others */
	guint first_retry_ms;     /* doubled from one attempt to the next, */
	guint last_retry_ms;      /* up to this; also the longest Retry-After that is honoured */
	guint connect_timeout_ms; /* the collector's address, TCP and TLS */
	guint total_timeout_ms;   /* a whole request */
	guint farewell_ms;        /* what vial_otlp_free() waits for */
	guint complaint_ms;       /* between two lines in the log */
} VialOtlpTimes;

extern const VialOtlpTimes vial_otlp_usual_times;

VialOtlp *vial_otlp_new_timed(const VialConfig *config, const VialOtlpTimes *times, GError **error);
