/* SPDX-License-Identifier: Apache-2.0 */
/* Keeping one child of a fork: its siblings are deleted, and the answer comes when they are gone. */
#include <string.h>

#include "service/fork.h"
#include "service/sandbox_private.h"

typedef struct {
	VialPromoteDone done;
	gpointer data;
	guint pending;
	json_t *answer;
} Promotion;

static void promotion_step(Promotion *promotion)
{
	if (--promotion->pending > 0)
		return;
	promotion->done(promotion->answer, promotion->data);
	json_decref(promotion->answer);
	g_free(promotion);
}

static void on_sibling_deleted(VialSandbox *sandbox, const GError *error, gpointer data)
{
	Promotion *promotion = data;

	if (error)
		json_object_set_new(json_object_get(promotion->answer, "failures"), sandbox->id, json_string(error->message));
	else
		json_array_append_new(json_object_get(promotion->answer, "deleted"), json_string(sandbox->id));
	promotion_step(promotion);
}

static void on_kept(const GError *error, gpointer data)
{
	promotion_step(data);
}

void vial_promote(VialSandbox *winner, const char *tree_id, gboolean cleanup_siblings, VialPromoteDone done, gpointer data)
{
	g_autoptr(GPtrArray) all = vial_sandboxes_all(winner->app->sandboxes);
	Promotion *promotion = g_new0(Promotion, 1);
	const char *tree = tree_id ? tree_id : winner->tree_id;

	promotion->done = done;
	promotion->data = data;
	promotion->pending = 1;
	promotion->answer = json_pack("{s:s, s:s*, s:[], s:{}}", "winner", winner->id, "tree_id", tree, "deleted", "failures");
	for (guint i = 0; cleanup_siblings && tree && i < all->len; i++) {
		VialSandbox *sibling = all->pdata[i];

		if (sibling == winner || sibling->state == VIAL_STATE_DELETED || g_strcmp0(sibling->tree_id, tree) != 0 ||
		    strcmp(sibling->project, winner->project) != 0)
			continue;
		promotion->pending++;
		vial_sandbox_delete(sibling, on_sibling_deleted, promotion);
	}
	if (winner->is_on_trial) {
		vial_sandbox_end_trial(winner);
		promotion->pending++;
		vial_sandbox_store_then(winner, on_kept, promotion);
	}
	promotion_step(promotion);
}
