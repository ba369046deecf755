# shellcheck shell=sh disable=SC2154,SC2034
# Runs the gorun at $1 with the other arguments, if it is safe there. A relative path is one in the cache, in any of its places. It is run from
# the directory that was checked, since the path may lead elsewhere by then, and changes to GORUN_START_DIR.

o=$PWD x=$1
shift
run() {
	cd -P "$d" 2>/dev/null || return 127
	p=${x##*/}
	[ -f "./$p" ] && [ -x "./$p" ] || return 127
	mine && trusted "${PWD%/}/$p" . "./$p" || return 83
	$w "$p" || return 127
	GORUN_START_DIR=$o
	export GORUN_START_DIR
	shift
	exec "./$p" "$@"
}
case $x in
/*)
	d=${x%/*}/ w=:
	run - "$@"
	e=$?
	;;
*)
	d=${x#.cache/gorun/}
	d=${d%/*} w=whole
	e=127
	for i in 1 2 3; do
		if enter $i 2>/dev/null; then
			run - "$@"
			c=$?
			[ $c = 127 ] || e=$c
		fi
	done
	;;
esac
[ $e = 83 ] || echo "$x: not found" >&2
exit $e
