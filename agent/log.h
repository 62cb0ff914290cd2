/* SPDX-License-Identifier: Apache-2.0 */
/* Short lines on stderr for whoever runs the sandbox. Guest data is never printed raw: numbers, errnos and our own words only. */
#pragma once

#include <stdio.h>

#define vial_log(level, format, ...) dprintf(2, "vial-agent " level " " format "\n", ##__VA_ARGS__)
