# shellcheck shell=sh disable=SC2154,SC2034
# Runs a gorun with the arguments after the second: the one at the path $1, or else the one at $2 in the cache, in any of its places. Either may be
# empty. A gorun runs only if it is safe there, and from the directory that was checked, since the path may lead elsewhere by then. gorun changes to
# GORUN_START_DIR. The line for an agent, with its nonce, shows that the account runs commands.

o=$PWD x=$1 y=$2 e=85
shift 2
if [ "$1" = __agent ]; then
	echo "gorun-start $2"
fi
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
	run "$@"
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
