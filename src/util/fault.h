/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures on demand, for the tests that prove that a failed step loses nothing. Off unless viald is started with
 * VIAL_FAULTS naming a file; each line of it is "point" (that point fails, with EIO), or "point crash" (viald dies there as
 * by kill -9), or "point crash N" / "point N": only from the N-th passing on. The file is read again at every point.
 * Where a point is a measurement, "point N" is what it measures.
 */
#pragma once

#include <glib.h>

/* TRUE: behave as if this step had failed; errno is set. Does not return when it is to crash. */
gboolean vial_fault(const char *point);
/* What that point measures: `real` unless the file says otherwise. */
gint64 vial_fault_measure(const char *point, gint64 real);
