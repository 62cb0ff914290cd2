/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HELLO, as docs/wire.md has it. Order: check everything that can be wrong, forget the life before (a new generation), take over env and
 * limits, start the resume hooks, and answer when the last one is done. A failed or late hook answers with an error and the agent stays
 * unconfirmed: it refuses every OPEN, so no program runs with a stale identity (fail closed). A newer HELLO supersedes one under way.
 */
#include "hello.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "connection.h"
#include "env.h"
#include "fspath.h"
#include "identity.h"
#include "inherited.h"
#include "log.h"
#include "loop.h"
#include "memguard.h"
#include "ops.h"
#include "streams.h"
#include "zone.h"

#define ENTROPY_BYTES 64u
#define MAX_GENERATION 128u
#define DEFAULT_PROCESS_LIMIT 512

struct vial_resume {
	unsigned unfinished;
	bool is_answered; /* or superseded: late hooks only count down */
	uint16_t epoch;
	uint8_t entropy[ENTROPY_BYTES];
	json_t *confirmed;
	struct vial_timer timer;
};

static char current_generation[MAX_GENERATION + 1];
static bool is_confirmed;
static struct vial_resume *current;

bool vial_hello_is_confirmed(void)
{
	return is_confirmed;
}

const uint8_t *vial_resume_entropy(const struct vial_resume *resume)
{
	return resume->entropy;
}

static void send_answer(uint16_t epoch, json_t *answer)
{
	char *text = answer ? json_dumps(answer, JSON_COMPACT) : NULL;

	json_decref(answer);
	vial_connection_thaw();
	if (text)
		vial_connection_send(VIAL_WIRE_STREAM_CONNECTION, epoch, VIAL_WIRE_HELLO, 0, text, strlen(text));
	free(text);
}

void vial_hello_withdraw(void)
{
	is_confirmed = false;
}

static void refuse(uint16_t epoch, const char *error)
{
	is_confirmed = false;
	vial_log("error", "hello refused: %s", error);
	send_answer(epoch, json_pack("{s:i,s:s}", "version", VIAL_WIRE_VERSION, "error", error));
}

static void retire(struct vial_resume *resume)
{
	resume->is_answered = true;
	vial_timer_clear(&resume->timer);
	if (current == resume)
		current = NULL;
}

static void free_when_finished(struct vial_resume *resume)
{
	if (resume->unfinished > 0 || !resume->is_answered)
		return;
	json_decref(resume->confirmed);
	free(resume);
}

static void confirm(struct vial_resume *resume)
{
	char clock[32];

	retire(resume);
	is_confirmed = true;
	snprintf(clock, sizeof(clock), "%" PRId64, vial_identity_now_ns());
	send_answer(resume->epoch, json_pack("{s:i,s:s,s:s,s:s,s:O}", "version", VIAL_WIRE_VERSION, "generation", current_generation, "agent",
	                                     VIAL_VERSION, "wall_clock_ns", clock, "confirmed", resume->confirmed));
}

void vial_resume_done(struct vial_resume *resume, const char *error)
{
	resume->unfinished--;
	if (!resume->is_answered && error) {
		retire(resume);
		refuse(resume->epoch, error);
	} else if (!resume->is_answered && resume->unfinished == 0) {
		confirm(resume);
	}
	free_when_finished(resume);
}

static void on_timeout(struct vial_timer *timer, void *data)
{
	struct vial_resume *resume = data;

	retire(resume);
	refuse(resume->epoch, "a module did not finish its resume in time");
	free_when_finished(resume);
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

static bool parse_entropy(const char *hex, uint8_t out_bytes[ENTROPY_BYTES])
{
	if (!hex || strlen(hex) != 2 * ENTROPY_BYTES)
		return false;
	for (size_t i = 0; i < ENTROPY_BYTES; i++) {
		int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out_bytes[i] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/* NULL, or what is wrong with it. The environment is taken over on the way, last, because only building it tells. */
static const char *check(json_t *hello, uint8_t out_entropy[ENTROPY_BYTES])
{
	const char *generation = json_string_value(json_object_get(hello, "generation"));

	if (!json_is_object(hello))
		return "HELLO must carry a JSON object";
	if (json_integer_value(json_object_get(hello, "version")) != VIAL_WIRE_VERSION)
		return "this agent speaks version 1 of the wire";
	if (!generation || !*generation || strlen(generation) > MAX_GENERATION)
		return "\"generation\" must be a string of 1 to 128 characters";
	if (!parse_entropy(json_string_value(json_object_get(hello, "entropy")), out_entropy))
		return "\"entropy\" must be 64 bytes in hex";
	if (vial_env_set_sandbox(hello) < 0)
		return "\"env\" must be an object of names and strings";
	return NULL;
}

static void apply_limits(json_t *hello)
{
	json_int_t memory_mb = json_integer_value(json_object_get(hello, "memory_limit_mb"));
	json_int_t processes = json_integer_value(json_object_get(hello, "process_limit"));

	vial_memguard_set_limit(memory_mb > 0 ? (uint64_t)memory_mb * 1024 : 0);
	vial_zone_set_process_limit(processes > 0 ? (unsigned)processes : DEFAULT_PROCESS_LIMIT);
}

/* A host that knows its machine to be slow (an emulated processor) grants more time. */
int64_t vial_resume_timeout_ms(json_t *hello)
{
	json_int_t granted = json_integer_value(json_object_get(hello, "resume_timeout_ms"));

	return granted > VIAL_RESUME_TIMEOUT_MS && granted <= VIAL_RESUME_TIMEOUT_MAX_MS ? granted : VIAL_RESUME_TIMEOUT_MS;
}

static void start_hooks(struct vial_resume *resume, json_t *hello, bool is_new_generation)
{
	const struct vial_resume_hook *hook;

	for (hook = vial_resume_hooks; hook->name; hook++) {
		resume->unfinished++;
		json_array_append_new(resume->confirmed, json_string(hook->name));
	}
	resume->unfinished++; /* ours, so that it cannot be over before the last hook has been started */
	vial_timer_set(&resume->timer, vial_resume_timeout_ms(hello), on_timeout, resume);
	for (hook = vial_resume_hooks; hook->name; hook++)
		hook->fn(resume, hello, is_new_generation);
	vial_resume_done(resume, NULL);
}

static void begin(struct vial_resume *resume, json_t *hello)
{
	const char *generation = json_string_value(json_object_get(hello, "generation"));
	bool is_new_generation = strcmp(generation, current_generation) != 0;

	if (current) {
		struct vial_resume *superseded = current;

		retire(superseded);
		free_when_finished(superseded);
	}
	current = resume;
	is_confirmed = false;
	if (is_new_generation) {
		/* Whoever opened these streams is talking to another sandbox now. */
		vial_streams_drop_all();
		vial_connection_discard_output();
	}
	if (is_new_generation && json_is_true(json_object_get(hello, "end_connections")))
		vial_inherited_end();
	strcpy(current_generation, generation);
	apply_limits(hello);
	vial_workdir_set(hello);
	start_hooks(resume, hello, is_new_generation);
}

void vial_hello_receive(const struct vial_wire_frame *frame)
{
	json_t *hello = json_loadb((const char *)frame->payload, frame->length, JSON_REJECT_DUPLICATES, NULL);
	struct vial_resume *resume = calloc(1, sizeof(*resume));
	const char *problem = resume ? check(hello, resume->entropy) : "out of memory";

	if (problem) {
		refuse(frame->epoch, problem);
		free(resume);
	} else {
		resume->epoch = frame->epoch;
		resume->confirmed = json_array();
		begin(resume, hello);
	}
	json_decref(hello);
}
