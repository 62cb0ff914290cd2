# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# The machine's own package mirrors. No mirror is named anywhere in this project: whatever apt on this machine is set up to use,
# with its keys and options, is used for other suites of the same archive too. Relies on lib.sh.

# os_codename -> "bookworm"
os_codename() {
	local ID='' VERSION_CODENAME='' PRETTY_NAME=''
	# shellcheck source=/dev/null
	. "${VIAL_OS_RELEASE:-/etc/os-release}"
	[[ $ID == debian && $VERSION_CODENAME ]] ||
		die "this set-up knows Debian 12 and newer, but this is ${PRETTY_NAME:-an unknown system}; use a Debian 12 machine or virtual machine"
	printf '%s\n' "$VERSION_CODENAME"
}

# apt_targets -> lines "URI SUITE FILE:INDEX" of the binary package lists of component main. apt lists them even when it has never
# been updated, as in a fresh container. Our own file is not the machine's configuration and is left out.
apt_targets() {
	# shellcheck disable=SC2016 # apt expands these
	apt-get indextargets --no-release-info --format '$(REPO_URI) $(RELEASE) $(SOURCESENTRY)' \
		'Created-By: Packages' 'Component: main' | grep -v '/vial-backports\.sources:' | awk '!seen[$0]++'
}

# apt_source_fields FILE INDEX URI -> the options of that entry (which key signs it, whether it is trusted) as deb822 lines.
# INDEX is the stanza's number in a deb822 file, the line's number in a one-line file.
apt_source_fields() {
	local file=$1 index=$2
	if [[ $file == *.sources ]]; then
		awk -v RS= -v index_wanted="$index" 'NR == index_wanted' "$file" | awk '
			/^#/ { next }
			/^[A-Za-z-]+:/ { keep = tolower($0) ~ /^(signed-by|trusted|allow-insecure|allow-weak|check-valid-until):/ }
			keep'
	else
		sed -n "${index}s/^[^[]*\[\([^]]*\)\].*/\1/p" "$file" | tr ' ' '\n' |
			sed -n -E 's/^(signed-by|trusted|allow-insecure|allow-weak|check-valid-until)=(.*)/\1: \2/p'
	fi
}

# apt_stanza SUITE: a deb822 stanza that offers SUITE from the mirror which this machine uses for its own release; for a suite
# that ends in -security, from the one it uses for its own security updates. Fails if the machine has no such mirror.
apt_stanza() {
	local wanted=$1 codename uri suite entry pattern
	codename=$(os_codename) || exit
	case $wanted in
	*-security) pattern="^($codename|stable|oldstable)(-security|/updates)$" ;;
	*) pattern="^($codename|stable|oldstable)$" ;;
	esac
	while read -r uri suite entry; do
		[[ $suite =~ $pattern ]] || continue
		printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\n' "$uri" "$wanted"
		apt_source_fields "${entry%:*}" "${entry##*:}"
		return 0
	done < <(apt_targets)
	return 1
}

# apt_suite_reachable STANZA: fetches the suite's signed index with apt's own downloader, which knows this machine's proxies.
apt_suite_reachable() {
	local uri suite dir ok=1
	uri=$(sed -n 's/^URIs: //p' <<< "$1") suite=$(sed -n 's/^Suites: //p' <<< "$1")
	dir=$(mktemp -d)
	chmod 755 "$dir"
	/usr/lib/apt/apt-helper -o Acquire::Retries=1 -o Acquire::http::Timeout=15 -o APT::Sandbox::User=root \
		download-file "${uri%/}/dists/$suite/InRelease" "$dir/InRelease" > /dev/null 2>&1 || ok=
	rm -rf -- "$dir"
	[[ $ok ]]
}

# apt_watch LINE: a watcher for progress_run that turns apt's and dpkg's words into how far they are. Each round of apt says
# first how many packages it is about.
apt_total='' apt_fetched=0 apt_unpacked=0 apt_configured=0
# shellcheck disable=SC2034 # progress_now is lib-progress.sh's
apt_watch() {
	case $1 in
	*' newly installed, '*)
		apt_total=${1% newly installed*} apt_total=$((${1%% *} + ${apt_total##* }))
		apt_fetched=0 apt_unpacked=0 apt_configured=0
		;;
	Get:*) progress_now="downloading ($((++apt_fetched))${apt_total:+ of $apt_total})" ;;
	'Unpacking '*) progress_now="installing ($((++apt_unpacked)) of $apt_total unpacked, $apt_configured set up)" ;;
	'Setting up '*) progress_now="installing ($apt_unpacked of $apt_total unpacked, $((++apt_configured)) set up)" ;;
	esac
}
