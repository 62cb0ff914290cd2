# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# For hooks that fetch something: lends the image this machine's name resolution, certificates and registry settings for the time of the
# hook. They are mounted, in a mount namespace of the hook's own, never copied. Source it with the hook's arguments:
#
#   . "$VIAL_COMMON/lend.sh"; lend "$0" "$@"     the root is in $root, what is lent in $root/run/vial-build ($loan); give_back when done

# copy_first TO FROM...: the first that exists
copy_first() {
	local to=$1 from
	shift
	for from; do
		if [[ -f $from ]]; then
			cp -- "$from" "$to"
			return
		fi
	done
}

lend() {
	local hook=$1 configured_cert
	root=$2
	if [[ ${3-} != mounted ]]; then exec unshare --mount --propagation private "$hook" "$root" mounted; fi
	loan=$root/run/vial-build
	mkdir -p "$loan"
	mount -t tmpfs -o mode=0755 tmpfs "$loan"
	mkdir -p "$loan/home/.config/pip" "$loan/xdg/pip" "$loan/wheels"
	# pip reads $XDG_CONFIG_DIRS/pip/pip.conf as the machine's file and ~/.config/pip/pip.conf as the user's.
	copy_first "$loan/xdg/pip/pip.conf" /etc/pip.conf /etc/xdg/pip/pip.conf
	copy_first "$loan/home/.config/pip/pip.conf" "${PIP_CONFIG_FILE:-}" "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"
	configured_cert=$(find "$loan/xdg" "$loan/home" -name pip.conf -exec sed -n -E 's/^cert[ \t]*=[ \t]*//p' {} + | tail -1)
	copy_first "$loan/ca.pem" "${PIP_CERT:-}" "$configured_cert" "${SSL_CERT_FILE:-}" "${NODE_EXTRA_CA_CERTS:-}" /etc/ssl/certs/ca-certificates.crt
	copy_first "$loan/home/.npmrc" "$HOME/.npmrc"
	copy_first "$loan/npmrc" /etc/npmrc /usr/etc/npmrc /usr/local/etc/npmrc
	copy_first "$loan/resolv.conf" /etc/resolv.conf
	[[ ! -f $loan/resolv.conf ]] || mount --bind "$loan/resolv.conf" "$root/etc/resolv.conf"
}

give_back() {
	umount --recursive "$loan"
	rmdir "$loan"
}
