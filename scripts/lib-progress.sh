# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# Shows how a long command is getting on. Relies on lib.sh.
#
#   progress_run LABEL LOG_FILE WATCHER COMMAND...
#
# runs COMMAND with its output going to LOG_FILE, and hands each line to the function WATCHER, which sets `progress_now` to a few
# words ("unpacked 120 of 133 packages"). On a terminal one line is rewritten every second; elsewhere (CI logs) a line is
# printed when the words' first word changes and, as a sign of life, every 15 seconds. Returns the command's status.

progress_now=

progress_ignore() { :; }

progress_draw() {
	local label=$1 start=$2
	printf '\r\033[K%s: %s%s' "$label" "${progress_now:+$progress_now, }" "$(elapsed "$start")" >&2
}

progress_run() {
	local label=$1 log=$2 watcher=$3 start=$SECONDS line status='' fd shown_at=$SECONDS shown_phase='' is_tty=
	shift 3
	[[ -t 2 ]] && is_tty=1
	progress_now=
	[[ $is_tty ]] || say "$label ..."
	exec {fd}< <(
		rc=0
		"$@" 2>&1 < /dev/null || rc=$?
		printf '\n@exit %d\n' "$rc"
	)
	while true; do
		line=
		# A time-out keeps what was read of an unfinished line in `line`; losing a fragment of a log line is harmless here.
		if IFS= read -r -t 1 -u "$fd" line; then
			if [[ $line == '@exit '* ]]; then
				status=${line#@exit }
				break
			fi
			printf '%s\n' "$line" >> "$log"
			"$watcher" "$line"
		elif (($? <= 128)); then
			break # end of file without a status: the runner itself was killed
		fi
		if [[ $is_tty ]]; then
			if ((SECONDS > shown_at)); then
				progress_draw "$label" "$start"
				shown_at=$SECONDS
			fi
		elif [[ ${progress_now%% *} != "$shown_phase" ]] || ((SECONDS >= shown_at + 15)); then
			((SECONDS == start)) || say "$label: ${progress_now:+$progress_now, }$(elapsed "$start")"
			shown_phase=${progress_now%% *} shown_at=$SECONDS
		fi
	done
	exec {fd}<&-
	if [[ $is_tty ]]; then printf '\r\033[K' >&2; fi
	if [[ ${status:=1} -eq 0 ]]; then say "$label: done in $(elapsed "$start")"; fi
	return "$status"
}
