/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spans as OTLP writes them in JSON: protobuf's own mapping (64-bit integers as strings), but with ids in hexadecimal and enums as numbers (the OTLP
 * specification, "JSON Protobuf Encoding"). Nothing here blocks; any thread.
 */
#pragma once

#include "telemetry/span_record.h"

/* The beginning of every request, up to its spans: who we are. The texts are borrowed. */
char *vial_span_json_head(const char *service_name, const char *instance_id, const char *host_name);
/* A whole ExportTraceServiceRequest with that head and this list of records. Nothing in it can make it fail. */
GString *vial_span_json_encode(const char *head, const VialSpanRecord *records);
