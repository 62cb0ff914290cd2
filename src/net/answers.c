/* SPDX-License-Identifier: Apache-2.0 */
#include "net/answers.h"

#include <string.h>

typedef struct {
	char *name;
	VialAddress address;
	gint64 until_ms;
} Answer;

struct VialAnswers {
	GPtrArray *all;      /* Answer */
	GHashTable *by_name; /* name → number of answers */
};

static void answer_free(gpointer data)
{
	Answer *answer = data;

	g_free(answer->name);
	g_free(answer);
}

VialAnswers *vial_answers_new(void)
{
	VialAnswers *answers = g_new0(VialAnswers, 1);

	answers->all = g_ptr_array_new_with_free_func(answer_free);
	answers->by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
	return answers;
}

void vial_answers_free(VialAnswers *answers)
{
	if (!answers)
		return;
	g_ptr_array_unref(answers->all);
	g_hash_table_unref(answers->by_name);
	g_free(answers);
}

static Answer *find(VialAnswers *answers, const char *name, const VialAddress *address)
{
	if (!g_hash_table_contains(answers->by_name, name))
		return NULL;
	for (guint i = 0; i < answers->all->len; i++) {
		Answer *answer = g_ptr_array_index(answers->all, i);

		if (vial_address_equal(&answer->address, address) && strcmp(answer->name, name) == 0)
			return answer;
	}
	return NULL;
}

static void count(VialAnswers *answers, const char *name, int change)
{
	int number = GPOINTER_TO_INT(g_hash_table_lookup(answers->by_name, name)) + change;

	if (number > 0)
		g_hash_table_replace(answers->by_name, g_strdup(name), GINT_TO_POINTER(number));
	else
		g_hash_table_remove(answers->by_name, name);
}

static void evict(VialAnswers *answers)
{
	guint first = 0;

	for (guint i = 1; i < answers->all->len; i++) {
		const Answer *a = g_ptr_array_index(answers->all, i);
		const Answer *b = g_ptr_array_index(answers->all, first);

		if (a->until_ms < b->until_ms)
			first = i;
	}

	const Answer *victim = g_ptr_array_index(answers->all, first);

	count(answers, victim->name, -1);
	g_ptr_array_remove_index_fast(answers->all, first);
}

void vial_answers_add(VialAnswers *answers, const char *name, const VialAddress *address, gint64 until_ms)
{
	Answer *answer = find(answers, name, address);

	if (answer) {
		answer->until_ms = MAX(answer->until_ms, until_ms);
		return;
	}
	if (answers->all->len >= VIAL_ANSWERS_MAX)
		evict(answers);
	answer = g_new0(Answer, 1);
	*answer = (Answer){ .name = g_strdup(name), .address = *address, .until_ms = until_ms };
	g_ptr_array_add(answers->all, answer);
	count(answers, name, 1);
}

gboolean vial_answers_has(VialAnswers *answers, const char *name, const VialAddress *address, gint64 now_ms)
{
	const Answer *answer = find(answers, name, address);

	return answer && answer->until_ms >= now_ms;
}

gboolean vial_answers_knows(VialAnswers *answers, const char *name)
{
	return g_hash_table_contains(answers->by_name, name);
}

gboolean vial_answers_each(VialAnswers *answers, const VialAddress *address, gint64 now_ms, VialAnswerFunc func, gpointer data)
{
	for (guint i = 0; i < answers->all->len; i++) {
		const Answer *answer = g_ptr_array_index(answers->all, i);

		if (answer->until_ms < now_ms || (address && !vial_address_equal(&answer->address, address)))
			continue;
		if (func(answer->name, &answer->address, answer->until_ms, data))
			return TRUE;
	}
	return FALSE;
}
