/* SPDX-License-Identifier: Apache-2.0 */
/* See signals.h. */
#include "signals.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int vial_signal_from_json(json_t *value)
{
	const char *name = json_string_value(value);
	int number;

	if (json_is_integer(value))
		number = json_integer_value(value) > 0 && json_integer_value(value) < NSIG ? (int)json_integer_value(value) : 0;
	else
		number = name ? atoi(name) : 0;
	if (number > 0 && number < NSIG)
		return number;
	if (!name)
		return 0;
	if (strncasecmp(name, "SIG", 3) == 0)
		name += 3;
	for (int signal = 1; signal < NSIG; signal++) {
		const char *candidate = sigabbrev_np(signal);

		if (candidate && strcasecmp(candidate, name) == 0)
			return signal;
	}
	return 0;
}

const char *vial_signal_name(int signal)
{
	const char *name = sigabbrev_np(signal);

	return name ? name : "RT";
}
