/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's parts, made once by main.c and handed to everything above. Main thread only. */
#pragma once

#include <glib.h>

#include "auth/keys.h"
#include "engine/engine.h"
#include "store/store.h"
#include "util/config.h"

typedef struct VialTemplates VialTemplates;
typedef struct VialSandboxes VialSandboxes;
typedef struct VialSnapshots VialSnapshots;
typedef struct VialManifests VialManifests;
typedef struct VialPool VialPool;
typedef struct VialCustomTemplates VialCustomTemplates;
typedef struct VialBuilds VialBuilds;
typedef struct VialBuildFiles VialBuildFiles;
typedef struct VialSlots VialSlots;
typedef struct VialProjects VialProjects;
typedef struct VialAgents VialAgents;
typedef struct VialQuotaBook VialQuotaBook;
typedef struct VialMeter VialMeter;
typedef struct VialAudit VialAudit;
typedef struct VialOtlp VialOtlp;
typedef struct VialStrangers VialStrangers;
typedef struct VialWatchers VialWatchers;
typedef struct VialAnnounced VialAnnounced;
typedef struct VialUploads VialUploads;
typedef struct VialOidc VialOidc;
typedef struct VialWebhook VialWebhook;

typedef struct VialApp {
	const VialConfig *config;
	VialStore *store;
	VialKeys *keys;
	VialEngine *engine;
	VialTemplates *templates;
	VialCustomTemplates *custom_templates;
	VialBuilds *builds;
	VialBuildFiles *build_files;
	VialSandboxes *sandboxes;
	VialSnapshots *snapshots;
	VialManifests *manifests;
	VialPool *pool;
	VialSlots *slots;
	VialAudit *audit;
	VialProjects *projects;
	VialAgents *agents;
	VialQuotaBook *quota_book;
	VialMeter *meter;
	VialStrangers *strangers;
	VialWatchers *watchers;
	VialAnnounced *announced;
	VialUploads *uploads;
	VialOidc *oidc;             /* NULL: only keys */
	VialWebhook *webhook;       /* NULL: nobody is told */
	VialOtlp *otlp;             /* NULL: no spans are exported */
	const char *engine_reason;  /* why `auto` chose it */
	const char *engine_warning; /* the engine's; NULL, or what an operator should know of it */
	gint64 started_ms;
	gboolean is_draining;
} VialApp;
