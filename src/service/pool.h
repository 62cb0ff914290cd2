/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The warm pool: per template, and per size that is asked for, a few sandboxes restored and waiting for an owner, and behind them blanks, host
 * processes whose start-up is already paid and into which any checkpoint of the template can be loaded. A claim is exclusive by construction: taking
 * an entry removes it from the list, on the one thread that has the list.
 */
#pragma once

#include "service/boot.h"
#include "service/template.h"

VialPool *vial_pool_new(VialApp *app);
/* Ends every entry; `done` when they are gone. The pool fills no more. */
void vial_pool_drain(VialPool *pool, void (*done)(gpointer data), gpointer data);
void vial_pool_free(VialPool *pool);

/*
 * A restored guest for exactly these limits, or NULL. The caller introduces it to its owner with vial_boot_hello(). `edition`: what such a sandbox is
 * restored from (edition.h). Asking is what makes the pool have some of that size ready.
 */
VialInstance *vial_pool_claim(VialPool *pool, const VialTemplate *edition, const VialLimits *limits, char **out_host_id);

/* Completes a boot's spec with a blank where one fits, else with a new host id. Sets spec->host_id and spec->blank. */
void vial_pool_fill_spec(VialApp *app, VialBootSpec *spec, char **out_host_id);

/* Something was taken, or a boot is over: fill up when there is time. */
void vial_pool_kick(VialPool *pool);

/* Gives back what nobody should get any more, because its template was replaced, then fills up. */
void vial_pool_refresh(VialPool *pool);

/*
 * Somebody is at work: puts off the pool's sleep, or ends it. Called for every operation that was admitted and is not one of a monitor's
 * (operations/verbs.c); accepts NULL, before there is a pool.
 */
void vial_pool_rouse(VialPool *pool);

gboolean vial_pool_owns(VialPool *pool, const char *host_id);
json_t *vial_pool_json(VialPool *pool);
/* awake, asleep, short_of_memory (it gives back, or makes none), or off. */
const char *vial_pool_state(VialPool *pool);
/* Available now, of the machine's or our control group's. */
guint vial_pool_memory_percent(void);
