# shellcheck shell=sh disable=SC2154,SC2034
# Runs a gorun with the arguments after the second: the one at the path $1, or else the one at $2 in the cache, in any of its places. Either may be
# empty. A gorun runs only if it is safe there, and from the directory that was checked, since the path may lead elsewhere by then. gorun changes to
# GORUN_START_DIR. The line for an agent, with its nonce, shows that the account runs commands.
#
# On a host, others may be able to make what is on the way to $1. So apart succeeds when no file system of another user (FUSE) is there, whose process
# may never answer. If there are any, links are not followed either, which may lead to one. The list of mounts has octal numbers in the place of blanks.

o=$PWD x=$1 y=$2 e=85
shift 2
if [ "$1" = __agent ]; then
	echo "gorun-start $2"
fi
apart() {
	plain grep " - fuse" /proc/self/mountinfo 2>/dev/null | (
		q= r=
		while read -r a a a a v k; do
			case ,${k##* }, in
			*,user_id=0,* | *,user_id=$u,*) continue ;;
			*,user_id=*) ;;
			*) continue ;;
			esac
			v=$(printf %b. "$v") v=${v%.}
			case $x/ in
			"${v%/}"/*) exit 1 ;;
			esac
			r=${x#/}/
		done
		while [ "$r" ]; do
			q=$q/${r%%/*} r=${r#*/}
			if [ -h "$q" ]; then
				exit 1
			fi
		done
		:
	) || {
		echo "not safe, others can change $x (a file system of another user)" >&2
		return 83
	}
}
run() {
	cd -P "$d" 2>/dev/null || return 85
	[ -f "./$p" ] && [ -x "./$p" ] || return 85
	mine && trusted "${PWD%/}/$p" . "./$p" && mine "$p" || return 83
	$w "$p" || return 85
	PATH=$h GORUN_START_DIR=$o
	export GORUN_START_DIR
	for a in "$l" "$j" "$g"; do
		if [ "$a" ]; then
			export "${a?}"
		fi
	done
	exec "./$p" "$@"
}
if [ "$x" ]; then
	d=${x%/*}/ p=${x##*/} w=:
	apart && run "$@"
	e=$?
fi
if [ "$y" ]; then
	d=${y#.cache/gorun/}
	d=./${d%/*} p=${y##*/} w=whole
	for i in 1 2 3; do
		if enter $i 2>/dev/null; then
			run "$@"
			c=$?
			[ $c = 85 ] || e=$c
		fi
	done
fi
[ $e = 83 ] || echo "${y:-$x}: not found" >&2
exit $e
