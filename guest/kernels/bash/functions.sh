# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The bash kernel: one living shell per context, driven by the agent over pipes (docs/kernels.md).
#
# A request is an empty line on the first pipe (bash reads a pipe byte by byte); the cell itself is in a memory file: assignments, a NUL, the code as it
# is, a NUL. (A large text in quotes would cost bash the square of its quotes.) Assigned are __vial_id, the execution; __vial_environment, variables
# that change for good, names (a minus before the name: unset) and values in turn; __vial_env, the same for this run only; __vial_argv, the name and
# arguments of a program. A `cd` may follow, for a shell that was started elsewhere. The answer is a message on
# the second pipe: its length, a space, JSON. (At a newline bash would write what it has so far, and the agent wake twice.)
#
# Cells end as scripts do: `set -e`, an unset variable under `set -u`, an interrupt make bash leave. Then the EXIT trap forks, and the
# copy, which has every variable, function and directory of the shell, goes on serving. Only `exit` itself ends the context's shell.
#
# A user's EXIT trap must not take that one's place: traps.sh keeps it, and it runs when the shell really ends.

# A stray `break` in a cell leaves the loops: then the shell comes to its end, and begins again as after any other end.
__vial_loop='while :; do while { __vial_next "$?"; } 2>&203; do eval "$__vial_code"; done; done'
# Each copy waits for the next: a context that needs more of them than this is restarted.
__vial_max_copies=64

exec 200<&3 201>&4 202<&5 203> /dev/null 3<&- 4>&- 5<&-

__vial_id=''          # the execution that is open, if any
__vial_code=''
__vial_count=0
__vial_is_interrupted=''
__vial_has_ended=''   # the agent has gone, or `exit` was called
__vial_is_leaving=''  # the user's EXIT trap runs
__vial_user_exit=''   # that trap, if there is one
__vial_shell=''       # the process that serves
__vial_status=0       # that a shell ends with
__vial_options=''     # of a shell that has left, for its copy
__vial_env_names=()
__vial_env_old=()
__vial_argv=()
__vial_old_name=''    # while a program's name and arguments stand in the place of the shell's
__vial_old_arguments=()
__vial_is_program=''  # while one runs
__vial_old_exit=''    # the shell's own __vial_user_exit meanwhile

__vial_send() {
	builtin printf '%d %s' "${#1}" "$1" >&201
}

# Ends the open execution with a status. The second argument names the error when it is not the status itself.
__vial_done() {
	local status=$1 name=${2-} state=ok exit_status=''
	__vial_restore_env
	if [[ $name == SystemExit ]]; then exit_status=",\"exit_status\":$status"; fi
	if [[ -z $name && $status -ne 0 ]]; then name=ExitStatus exit_status=",\"exit_code\":$status"; fi
	if [[ $name ]]; then
		local value=$status text="exit status $status"
		case $name in
			Interrupted) value='the run was interrupted' text='Interrupted: the run was interrupted' ;;
			SystemExit) text="exit $status" ;;
		esac
		state=error
		__vial_send "{\"type\":\"error\",\"id\":\"$__vial_id\",\"name\":\"$name\",\"value\":\"$value\",\"traceback\":\"$text\"}"
	fi
	__vial_send "{\"type\":\"done\",\"id\":\"$__vial_id\",\"status\":\"$state\",\"execution_count\":$__vial_count$exit_status}"
	__vial_id=''
}

# Between two cells: reports how the last one ended, waits for the next, and leaves it in __vial_code. The shell options that the user
# has set are put aside meanwhile; tracing begins again with the cell's own first command.
__vial_next() {
	local status=$1 options=${__vial_options:-$-} line='' index name
	builtin set +exvu
	__vial_options=''
	if [[ $__vial_id ]]; then __vial_done "$status"; fi
	__vial_is_interrupted=''
	until IFS= builtin read -r -u 200 line; do
		# A signal that was trapped, or the end.
		if (($? <= 128)); then
			__vial_has_ended=1
			builtin exit 0
		fi
	done
	builtin mapfile -d '' -t -u 202 __vial_cell
	builtin eval "${__vial_cell[0]}"
	__vial_code=${__vial_cell[1]}
	__vial_cell=()
	for ((index = 0; index < ${#__vial_environment[@]}; index += 2)); do
		name=${__vial_environment[index]}
		case $name in -*) builtin unset "${name#-}" ;; *) builtin export "$name=${__vial_environment[index + 1]}" ;; esac
	done
	for ((index = 0; index < ${#__vial_env[@]}; index += 2)); do
		name=${__vial_env[index]}
		__vial_set_env "${name#-}" "${__vial_env[index + 1]}"
		case $name in -*) builtin unset "${name#-}" ;; esac
	done
	((__vial_count++))
	case $options in *x*) __vial_code="set -x; $__vial_code" ;; esac
	case $options in *v*) __vial_code="set -v; $__vial_code" ;; esac
	__vial_set_arguments
	case $options in *u*) builtin set -u ;; esac
	case $options in *e*) builtin set -e ;; esac
	return 0
}

# `argv` of one run: the name and arguments that the shell had come back with the next one, which has to set them itself: those of a function are its own.
__vial_set_arguments() {
	local set=''
	if [[ $__vial_old_name ]]; then
		BASH_ARGV0=$__vial_old_name
		__vial_old_name=''
		set='set -- "${__vial_old_arguments[@]}"; '
	fi
	if ((${#__vial_argv[@]})); then
		__vial_old_name=$0
		BASH_ARGV0=${__vial_argv[0]}
		set+='__vial_old_arguments=("$@"); set -- "${__vial_argv[@]:1}"; '
		__vial_is_program=1
		__vial_old_exit=$__vial_user_exit
		__vial_user_exit=''
		__vial_code+=$'\n{ __vial_end_program "$?"; } 204>&2 2>&203'
	fi
	__vial_code=$set$__vial_code
}

# A program's EXIT trap runs when it ends, although the shell lives on; unless the trap itself says `exit`.
__vial_end_program() {
	local - status=$1 action=$__vial_user_exit has_ended=$__vial_has_ended
	if [[ -z $__vial_is_program ]]; then return "$status"; fi
	builtin set +e
	__vial_is_program=''
	__vial_user_exit=''
	if [[ $action ]]; then
		__vial_is_leaving=1 __vial_has_ended=1
		builtin eval "(builtin exit $status); $action" 2>&204
		__vial_is_leaving='' __vial_has_ended=$has_ended
	fi
	__vial_user_exit=$__vial_old_exit
	return "$status"
}

# `env` of one run: the old values come back when it is over.
__vial_set_env() {
	__vial_env_names+=("$1")
	if [[ -v $1 ]]; then __vial_env_old+=("${!1@a}=${!1}"); else __vial_env_old+=(''); fi
	builtin export "$1=$2"
}

__vial_restore_env() {
	local index name old
	for index in "${!__vial_env_names[@]}"; do
		name=${__vial_env_names[index]} old=${__vial_env_old[index]}
		if [[ -z $old ]]; then
			builtin unset "$name"
		else
			builtin printf -v "$name" '%s' "${old#*=}"
			case ${old%%=*} in *x*) builtin export "$name" ;; *) builtin export -n "$name" ;; esac
		fi
	done
	__vial_env_names=() __vial_env_old=()
}

__vial_on_interrupt() {
	if [[ $__vial_is_leaving ]]; then __vial_leave 130; fi
	if [[ $__vial_id ]]; then
		__vial_is_interrupted=1
		builtin exit 130
	fi
}

# SRANDOM asks the operating system.
__vial_on_resume() {
	RANDOM=$SRANDOM
	{ builtin read -r HOSTNAME < /proc/sys/kernel/hostname; } 2> /dev/null
}

# In place of the builtin, so that we know that it was meant.
exit() {
	local status=$?
	if [[ $__vial_is_leaving && $BASHPID == "$__vial_shell" ]]; then __vial_leave "${@-$status}"; fi
	if [[ $__vial_id ]]; then __vial_has_ended=1; fi
	builtin exit "${@-$status}"
}

# The traps of every shell that serves: the first one and each copy. One line each, as the loop.
__vial_set_traps() {
	__vial_shell=$BASHPID
	builtin trap __vial_on_interrupt INT
	# The agent sends it after a resume, to the whole group: whoever does not trap it ignores it.
	builtin trap __vial_on_resume URG
	builtin trap '__vial_status=$?; { __vial_end_program "$__vial_status" || :; } 204>&2 2>&203; if { __vial_at_exit "$__vial_status"; } 2>&203; then __vial_end; else builtin trap "" INT; ( __vial_set_traps; eval "$__vial_loop" ); builtin exit; fi' EXIT
}

# Whether the shell may really end. If not, the cell is reported and a copy goes on.
__vial_at_exit() {
	local status=$1
	__vial_options=$-
	builtin set +exvu
	__vial_status=$status
	if [[ $__vial_has_ended || $BASH_SUBSHELL -ge $__vial_max_copies ]]; then return 0; fi
	if [[ $__vial_is_interrupted ]]; then
		__vial_done 130 Interrupted
	elif [[ $__vial_id ]]; then
		__vial_done "$status"
	fi
	return 1
}

# The user's EXIT trap is a part of the last cell. It may say `exit` itself, and it may be interrupted.
__vial_end() {
	local action=$__vial_user_exit
	__vial_user_exit=''
	__vial_is_leaving=1
	if [[ $action ]]; then builtin eval "(builtin exit $__vial_status); $action"; fi
	__vial_leave "$__vial_status"
}

__vial_leave() {
	local status=$1
	__vial_is_leaving=''
	if [[ $__vial_id ]]; then __vial_done "$status" SystemExit; fi
	builtin exit "$status"
}

# For `vial repl`, which asks in a cell of its own: prints the word before the cursor and what it may become, each on a line.
__vial_complete() {
	local word=${1##*[[:space:];|&(<>=]} before kind=file
	before=${1%"$word"}
	before=${before%"${before##*[![:space:]]}"}
	case $before in '' | *[';|&(']) kind=command ;; esac
	builtin printf '%s\n' "$word"
	case $word in
		\$*) builtin compgen -X '__vial_*' -P '$' -A variable -- "${word#\$}" ;;
		*) builtin compgen -X '__vial_*' -A "$kind" -- "$word" || builtin compgen -A file -- "$word" ;;
	esac | head -n 200 | sort -u
}

# shellcheck source=traps.sh
builtin . "$1/traps.sh"
__vial_set_traps
# As at a prompt. Last, because an alias would change what is read after it.
shopt -s expand_aliases
__vial_send "{\"type\":\"ready\",\"pid\":$BASHPID}"
