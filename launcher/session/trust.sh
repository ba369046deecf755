# shellcheck shell=sh disable=SC2154,SC2034
# Defines trusted, which succeeds when only the user u and root can change the file or directory at $1, a path
# without links. Each component belongs to one of them and is not writable by others. A sticky directory may be, as /tmp is.
# A group may write whose number equals the owner's: it is the owner's private group. Components are checked from the
# top down, so that a checked one cannot be exchanged later. A file system in user space (FUSE) may show anything, so it
# must be theirs too.

u=
while read -r k v r; do
	case $k in
	Uid:)
		u=$v
		break
		;;
	esac
done 2>/dev/null </proc/self/status
: "${u:=$(id -u)}"
fuse=$(grep -cs " - fuse" /proc/self/mountinfo)
mounted() {
	while read -r m d n s at v; do
		case ,${v##* }, in
		,, | *,user_id=0,* | *,user_id=$u,*) continue ;;
		esac
		at=$(printf %b "$at")
		case $1/ in
		"$at"/*)
			echo "not safe, others can change $at (a file system of another user)" >&2
			return 0
			;;
		esac
	done
	return 1
}
trusted() {
	case ${fuse:-0} in
	0) ;;
	*) grep -s " - fuse" /proc/self/mountinfo | mounted "$1" && return 1 ;;
	esac
	q=$1
	set --
	while [ "$q" ]; do
		set -- "$q" "$@"
		q=${q%/*}
	done
	LC_ALL=C ls -ldn / "$@" | (
		n=0
		while read -r m l o g s a b c f; do
			n=$((n + 1))
			ok=1
			case $o in
			0 | "$u") ;;
			*) ok= ;;
			esac
			case $m in
			l*) ok= ;;
			d????????[tT]*) ;;
			????????w* | ?????w*+*) ok= ;;
			?????w*) [ "$o" = "$g" ] || ok= ;;
			esac
			[ "$ok" ] || {
				echo "not safe, others can change $f ($m, user $o)" >&2
				exit 1
			}
		done
		[ "$n" -eq $(($# + 1)) ] || {
			echo "not safe, others can change what has such a name" >&2
			exit 1
		}
	)
}
