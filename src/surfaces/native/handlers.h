/* SPDX-License-Identifier: Apache-2.0 */
/* Every handler, by resource, in the order of routes.c. */
#pragma once

#include "http/request.h"

void vial_api_healthz(VialRequest *request);
void vial_api_me(VialRequest *request);
void vial_api_prometheus(VialRequest *request);

void vial_api_project_list(VialRequest *request);
void vial_api_project_create(VialRequest *request);
void vial_api_project_get(VialRequest *request);
void vial_api_project_change(VialRequest *request);
void vial_api_project_delete(VialRequest *request);
void vial_api_quota_get(VialRequest *request);
void vial_api_quota_put(VialRequest *request);
void vial_api_usage(VialRequest *request);
void vial_api_key_list(VialRequest *request);
void vial_api_key_create(VialRequest *request);
void vial_api_key_get(VialRequest *request);
void vial_api_key_change(VialRequest *request);
void vial_api_key_revoke(VialRequest *request);
void vial_api_key_rotate(VialRequest *request);
void vial_api_audit_list(VialRequest *request);
void vial_api_audit_export(VialRequest *request);
void vial_api_audit_heads(VialRequest *request);
void vial_api_audit_verify(VialRequest *request);
void vial_api_audit_get(VialRequest *request);

void vial_api_tier_list(VialRequest *request);
void vial_api_template_list(VialRequest *request);
void vial_api_template_get(VialRequest *request);
void vial_api_template_build(VialRequest *request);
void vial_api_template_rebuild(VialRequest *request);
void vial_api_template_delete(VialRequest *request);
void vial_api_template_from_sandbox(VialRequest *request);
void vial_api_build_list(VialRequest *request);
void vial_api_build_get(VialRequest *request);
void vial_api_build_logs(VialRequest *request);
void vial_api_build_cancel(VialRequest *request);

void vial_api_agent_list(VialRequest *request);
void vial_api_agent_create(VialRequest *request);
void vial_api_agent_get(VialRequest *request);
void vial_api_agent_delete(VialRequest *request);
void vial_api_version_list(VialRequest *request);
void vial_api_version_create(VialRequest *request);
void vial_api_version_get(VialRequest *request);
void vial_api_version_activate(VialRequest *request);
void vial_api_version_retire(VialRequest *request);
void vial_api_session_list(VialRequest *request);
void vial_api_session_get(VialRequest *request);
void vial_api_session_end(VialRequest *request);
void vial_api_user_forget(VialRequest *request);
void vial_api_agent_run(VialRequest *request);
void vial_api_agent_run_stream(VialRequest *request);
void vial_api_agent_exec(VialRequest *request);
void vial_api_agent_exec_stream(VialRequest *request);
void vial_api_agent_file_read(VialRequest *request);
void vial_api_agent_file_write(VialRequest *request);
void vial_api_agent_file_remove(VialRequest *request);
void vial_api_agent_file_list(VialRequest *request);
void vial_api_agent_file_stat(VialRequest *request);
void vial_api_agent_file_mkdir(VialRequest *request);
void vial_api_agent_file_move(VialRequest *request);
void vial_api_agent_file_watch(VialRequest *request);

void vial_api_sandbox_create(VialRequest *request);
void vial_api_sandbox_list(VialRequest *request);
void vial_api_sandbox_get(VialRequest *request);
void vial_api_sandbox_delete(VialRequest *request);
void vial_api_lifecycle_get(VialRequest *request);
void vial_api_lifecycle_patch(VialRequest *request);

void vial_api_pause(VialRequest *request);
void vial_api_resume(VialRequest *request);
void vial_api_hibernate(VialRequest *request);
void vial_api_wake(VialRequest *request);
void vial_api_snapshot_take(VialRequest *request);
void vial_api_snapshot_list(VialRequest *request);
void vial_api_snapshot_get(VialRequest *request);
void vial_api_snapshot_delete(VialRequest *request);
void vial_api_fork(VialRequest *request);
void vial_api_fork_tree(VialRequest *request);
void vial_api_promote(VialRequest *request);
void vial_api_rollback(VialRequest *request);
void vial_api_merge(VialRequest *request);
void vial_api_undo(VialRequest *request);

void vial_api_network_get(VialRequest *request);
void vial_api_network_put(VialRequest *request);
void vial_api_network_check(VialRequest *request);
void vial_api_network_events(VialRequest *request);

void vial_api_exec(VialRequest *request);
void vial_api_exec_stream(VialRequest *request);
void vial_api_process_list(VialRequest *request);
void vial_api_process_signal(VialRequest *request);
void vial_api_process_stdin(VialRequest *request);
void vial_api_process_stdin_stream(VialRequest *request);
void vial_api_process_attach(VialRequest *request);
void vial_api_port_list(VialRequest *request);
void vial_api_port_proxy(VialRequest *request);
void vial_api_port_preview(VialRequest *request);
void vial_api_preview_create(VialRequest *request);
void vial_api_pty(VialRequest *request);
void vial_api_logs(VialRequest *request);
void vial_api_metrics(VialRequest *request);

void vial_api_file_read(VialRequest *request);
void vial_api_file_write(VialRequest *request);
void vial_api_file_remove(VialRequest *request);
void vial_api_file_list(VialRequest *request);
void vial_api_file_stat(VialRequest *request);
void vial_api_file_mkdir(VialRequest *request);
void vial_api_file_move(VialRequest *request);
void vial_api_file_watch(VialRequest *request);

void vial_api_run(VialRequest *request);
void vial_api_run_stream(VialRequest *request);
void vial_api_context_create(VialRequest *request);
void vial_api_context_list(VialRequest *request);
void vial_api_context_delete(VialRequest *request);
void vial_api_context_interrupt(VialRequest *request);
void vial_api_context_restart(VialRequest *request);
