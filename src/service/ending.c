/* SPDX-License-Identifier: Apache-2.0 */
#include "service/ending.h"

#include "util/error.h"
#include "util/log.h"

/* Between two rounds when something could not be deleted, or is still being made. */
#define ROUND_MS 200
/* A snapshot that is in use, a fork that takes its time; what still stands after so many rounds is for the next start. */
#define MAX_ROUNDS 1500

struct VialEnding {
	VialApp *app;
	const VialEndingKind *kind;
	char *name;
	gpointer owner;
	guint pending;
	guint rounds;
	GHashTable *told; /* ids of sandboxes whose end is on record */
	VialStoreDone done;
	gpointer data;
};

static gboolean next_round(gpointer data);

void vial_ending_over(const GError *error, gpointer data)
{
	VialEnding *ending = data;

	if (ending->done)
		ending->done(error, ending->data);
	if (ending->kind->unref)
		ending->kind->unref(ending->owner);
	g_hash_table_unref(ending->told);
	g_free(ending->name);
	g_free(ending);
}

void vial_ending_await(VialEnding *ending)
{
	ending->pending++;
}

void vial_ending_step(VialEnding *ending)
{
	if (--ending->pending == 0)
		g_timeout_add(ending->rounds > 1 ? ROUND_MS : 0, next_round, ending);
}

static void on_sandbox_gone(VialSandbox *sandbox, const GError *error, gpointer data)
{
	vial_ending_step(data);
}

static guint delete_sandboxes(VialEnding *ending)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(ending->app->sandboxes);
	g_autofree char *why = g_strdup_printf("its %s is deleted", ending->kind->what);
	guint found = 0;

	for (guint i = 0; i < all->len; i++) {
		VialSandbox *sandbox = all->pdata[i];

		if (!ending->kind->owns(ending->owner, sandbox))
			continue;
		found++;
		vial_ending_await(ending);
		if (g_hash_table_add(ending->told, g_strdup(vial_sandbox_id(sandbox))))
			vial_sandbox_record(sandbox, "sandbox.delete", why);
		vial_sandbox_delete(sandbox, on_sandbox_gone, ending);
	}
	return found;
}

static void give_up(VialEnding *ending)
{
	const char *what = ending->kind->what;
	g_autoptr(GError) error = g_error_new(VIAL_ERROR, VIAL_ERROR_TIMEOUT,
	                                      "not everything of the %s could be ended yet; viald tries again when it is started next", what);

	vial_log_error(what, "could not be deleted wholly", what, ending->name);
	vial_ending_over(error, ending);
}

/* Nothing is pending here: whoever is asked for an end may answer only to an ending that is still there. */
static gboolean next_round(gpointer data)
{
	VialEnding *ending = data;
	const VialEndingKind *kind = ending->kind;
	guint left;

	if (kind->still && !kind->still(ending->owner)) {
		vial_ending_over(NULL, ending);
		return G_SOURCE_REMOVE;
	}
	if (ending->rounds == MAX_ROUNDS) {
		give_up(ending);
		return G_SOURCE_REMOVE;
	}
	ending->rounds++;
	ending->pending = 1; /* this round itself */
	left = kind->others(ending, ending->owner);
	left += delete_sandboxes(ending);
	if (left == 0)
		kind->last(ending->owner, vial_ending_over, ending);
	else
		vial_ending_step(ending);
	return G_SOURCE_REMOVE;
}

gpointer vial_ending_owner(const VialEnding *ending)
{
	return ending->owner;
}

void vial_ending_start(VialEnding *ending)
{
	g_timeout_add(0, next_round, ending);
}

VialEnding *vial_ending_new(VialApp *app, const VialEndingKind *kind, const char *name, gpointer owner, VialStoreDone done, gpointer data)
{
	VialEnding *ending = g_new0(VialEnding, 1);

	*ending = (VialEnding){ .app = app, .kind = kind, .name = g_strdup(name), .owner = owner, .done = done, .data = data };
	ending->told = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	vial_log_info(kind->what, "is being deleted", kind->what, name);
	return ending;
}
