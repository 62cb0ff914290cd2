# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The user's traps beside ours. functions.sh relies on the traps EXIT, INT and URG of the shell that serves: EXIT is kept here until that shell ends,
# and taking one back brings ours back. A subshell's traps are its own.

trap() {
	{ local -; builtin set +exvu; } 2>&203
	case $#,${1-} in
		0,* | *,-p) __vial_list_traps "${@:2}" ;;
		*,-[!-]*) builtin trap "$@" ;;
		*) if [[ $BASHPID == "$__vial_shell" ]]; then __vial_change_traps "$@"; else builtin trap "$@"; fi ;;
	esac
}

__vial_change_traps() {
	local status=0 action=- signal
	if [[ $1 == -- ]]; then shift; fi
	# One argument, or a number where an action would be: signals to take back.
	if [[ $# -gt 1 && ! $1 =~ ^[0-9]+$ ]]; then
		action=$1
		shift
	fi
	for signal in "$@"; do
		case $action,${signal^^} in
			-,EXIT | -,SIGEXIT | -,0) __vial_user_exit='' ;;
			*,EXIT | *,SIGEXIT | *,0) __vial_user_exit=$action ;;
			-,INT | -,SIGINT | -,2) builtin trap __vial_on_interrupt INT ;;
			-,URG | -,SIGURG | -,23) builtin trap __vial_on_resume URG ;;
			# Taken back in a function, these come back when it ends.
			-,DEBUG | -,ERR | -,RETURN) builtin trap : "$signal" ;;
			*) builtin trap -- "$action" "$signal" || status=$? ;;
		esac
	done
	return "$status"
}

# Ours are each a line of their own, and none of the user's business.
__vial_list_traps() {
	local line signal has_exit='' all
	if (($# == 0)); then has_exit=1; fi
	for signal in "$@"; do
		case ${signal^^} in EXIT | SIGEXIT | 0) has_exit=1 ;; esac
	done
	if [[ $has_exit && $__vial_user_exit ]]; then builtin printf "trap -- '%s' EXIT\n" "${__vial_user_exit//\'/\'\\\'\'}"; fi
	# Of all subshells only this one still knows the traps of its parent.
	all=$(builtin trap -p "$@")
	while [[ $all ]] && IFS= builtin read -r line; do
		case $line in "trap -- '__vial_"*) continue ;; esac
		builtin printf '%s\n' "$line"
	done <<< "$all"
}
