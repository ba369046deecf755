# shellcheck shell=sh disable=SC2154,SC2034
# Defines enter, which goes to the cache in the $1-th of its possible places, if that is safe. With a second argument
# it creates the cache, and makes sure of the current directory. In folders that others may share a file system in user
# space (FUSE) is not looked at, nor a link, which may lead to one: its process may never answer. Names that begin with ./ are
# not looked for in CDPATH. A command that fails may load what converts its message, from the current directory where GCONV_PATH has an empty entry.

enter() {
	case $1 in
	1) r=$HOME s=.cache/gorun ;;
	2) r=$XDG_RUNTIME_DIR s=gorun ;;
	*) r=/var/tmp s=gorun-$u ;;
	esac
	case $r in
	/*) ;;
	*) return 1 ;;
	esac
	cd -P "$r" && trusted "${PWD%/}" || return 1
	if [ "$1" -gt 1 ]; then
		if plain grep -q " ${PWD%/}/$s .* - fuse" /proc/self/mountinfo 2>/dev/null; then
			echo "not safe, others can change ${PWD%/}/$s (a file system of another user)" >&2
			return 1
		elif [ -h "$s" ]; then
			echo "${PWD%/}/$s: a link is in the way" >&2
			return 1
		fi
	fi
	if [ "$2" ]; then
		plain mkdir -p "$s" || return 1
	else
		[ -d "$s" ] || return 1
	fi
	cd -P "./$s" && case $1$PWD in
	[12]* | 3*/gorun-$u) ;;
	*) false ;;
	esac || return 1
	if [ "$2" ]; then
		mine && trusted "$PWD" .
	else
		trusted "$PWD"
	fi
}
