/* SPDX-License-Identifier: Apache-2.0 */
/* The settings as data, for config.c and its test. */
#pragma once

#include "util/config.h"

typedef enum {
	VIAL_SETTING_TEXT,
	VIAL_SETTING_PATH, /* absolute, or "" */
	VIAL_SETTING_NUMBER,
	VIAL_SETTING_SWITCH,
	VIAL_SETTING_CHOICE,
	VIAL_SETTING_LIST, /* separated by commas */
} VialSettingType;

typedef struct {
	const char *name; /* in the file; the flag has dashes, the variable is VIAL_ in capitals */
	VialSettingType type;
	gsize offset;
	const char *initial;
	const char *help;
	const char *variable; /* when it is not the usual one */
	gint64 min, max;
	const char *const *choices;
} VialSetting;

extern const VialSetting vial_settings[];
extern const gsize vial_n_settings;
