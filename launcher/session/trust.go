package session

// codeUnsafe is how the scripts below end where somebody else could change what would run.
const codeUnsafe = 83

// The scripts are single lines without ' \ and !, so that every login shell hands them to sh unharmed, and need
// nothing but a POSIX shell and ls besides what they say. What varies comes as arguments.

// trustScript has the function trusted, which succeeds when nobody but the user u and root could change the file or
// directory at $1, a path without links on the way: all on it belongs to one of them, and is not writable by others.
// As in /tmp, a sticky directory may be. A group may write whose number is its owner's: it is the owner's own.
// From the top down, so that what was looked at cannot be exchanged later.
const trustScript = `u=; while read -r k v r; do case $k in Uid:) u=$v; break;; esac; done 2>/dev/null </proc/self/status; : "${u:=$(id -u)}"; ` +
	`trusted() { q=$1; set --; while [ "$q" ]; do set -- "$q" "$@"; q=${q%/*}; done; ` +
	`LC_ALL=C ls -ldn / "$@" | ( n=0; while read -r m l o g s a b c f; do n=$((n+1)); ok=1; ` +
	`case $o in 0|"$u") ;; *) ok=;; esac; ` +
	`case $m in l*) ok=;; d????????[tT]*) ;; ????????w*|?????w*+*) ok=;; ?????w*) [ "$o" = "$g" ] || ok=;; esac; ` +
	`[ "$ok" ] || { echo "not safe, others can change $f ($m, user $o)" >&2; exit 1; }; done; ` +
	`[ "$n" -eq $(($#+1)) ] || { echo "not safe, others can change what has such a name" >&2; exit 1; } ); }; `

// basesScript has the function enter, which goes to the cache in the $1-th place where there may be one, if it
// is safe. With a second argument it is made where it is missing.
const basesScript = `enter() { case $1 in 1) r=$HOME s=.cache/gorun;; 2) r=$XDG_RUNTIME_DIR s=gorun;; *) r=/var/tmp s=gorun-$u;; esac; ` +
	`case $r in /*) ;; *) return 1;; esac; cd -P "$r" && trusted "${PWD%/}" || return 1; ` +
	`if [ "$2" ]; then mkdir -p "$s" || return 1; else [ -d "$s" ] || return 1; fi; ` +
	`cd -P "$s" && case $1$PWD in [12]*|3*/gorun-$u) trusted "$PWD";; *) false;; esac; }; `

// wholeScript has the function whole, which succeeds when the file at $1, in the cache, is what was sent: its folder has the name that
// its SHA-256 begins with. That is looked at only if the file or its mode is newer than the mark that it has been, since it takes
// longer than starting does. At the same time the mark counts as newer: ls puts it first.
const wholeScript = `whole() { if [ -f checked ]; then [ -h checked ] || case $(LC_ALL=C ls -dtc checked "$1" 2>/dev/null) in checked*) return 0;; esac; fi; ` +
	`case $(sha256sum <"$1" 2>/dev/null) in "${PWD##*/}"*) { rm -f checked && echo >checked; } 2>/dev/null;; ` +
	`*) echo "$PWD/$1: it is not what was put there" >&2; return 1;; esac; :; }; `

// startScript runs the gorun at $1 with the other arguments, if it is safe there. A relative path is one in
// the cache, wherever that is.
const startScript = trustScript + basesScript + wholeScript + `o=$PWD x=$1; shift; ` +
	`run() { cd -P "$d" 2>/dev/null || return 127; p=${PWD%/}/${x##*/}; [ -f "$p" ] && [ -x "$p" ] || return 127; trusted "$p" || return 83; ` +
	`$w "${x##*/}" || return 127; cd "$o" 2>/dev/null || cd /; shift; exec "$p" "$@"; }; ` +
	`case $x in /*) d=${x%/*}/ w=:; run - "$@"; e=$?;; ` +
	`*) d=${x#.cache/gorun/}; d=${d%/*} w=whole; e=127; ` +
	`for i in 1 2 3; do if enter $i 2>/dev/null; then run - "$@"; c=$?; [ $c = 127 ] || e=$c; fi; done;; esac; ` +
	`[ $e = 83 ] || echo "$x: not found" >&2; exit $e`

// onHost is the command that runs the gorun at path on conn, if nobody else could have put it there.
func onHost(conn Host, path string, args ...string) []string {
	if _, local := conn.(Local); local {
		return append([]string{path}, args...)
	}
	return append([]string{"/bin/sh", "-c", startScript, "gorun-start", path}, args...)
}
