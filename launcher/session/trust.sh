# shellcheck shell=sh disable=SC2034
# Defines trusted, which succeeds when only the user u and root can change the file or directory at $1, a path
# without links, and mine. Each component belongs to one of them and is not writable by others. A sticky directory
# may be, as /tmp is. A group may write whose number equals the owner's: it is the owner's private group. Components are checked from the
# top down, so that a checked one cannot be exchanged later. More arguments are files in the current directory, and . itself, which may not be sticky.
#
# A file system in user space (FUSE) may show any owner, and another user may mount one at a directory of theirs between any two
# commands. So mine succeeds when no other user serves the current directory, which stays the same whatever is mounted. The kernel tells by a
# descriptor of it which mount that is. One may be on a single file, too, for which mine is asked behind the directory. Its server chooses the name
# in that list, which may be - or any bytes but blanks, and the end of the type: only the last word, a, is the kernel's. In a chroot the mount of
# its root is not in the list; then the type of the file system counts.
#
# The scripts are in folders that are not judged yet, so they take commands only from the absolute folders of PATH. gorun gets PATH as it was, h.
# plain runs a command without the account's variables: TIME_STYLE, QUOTING_STYLE and others change what ls says. The dynamic linker of a
# command takes libraries from the current directory where one of its own variables has an empty or relative entry. They are kept for gorun in l, j and g.

l=${LD_LIBRARY_PATH+LD_LIBRARY_PATH=$LD_LIBRARY_PATH}
j=${LD_PRELOAD+LD_PRELOAD=$LD_PRELOAD}
g=${LD_AUDIT+LD_AUDIT=$LD_AUDIT}
unset LD_LIBRARY_PATH LD_PRELOAD LD_AUDIT
h=$PATH a=$PATH: p=
while [ "$a" ]; do
	case $a in
	/*) p=$p${p:+:}${a%%:*} ;;
	esac
	a=${a#*:}
done
PATH=${p:-/usr/bin:/bin}
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
plain() (
	exec env -i PATH="$PATH" LC_ALL=C "$@"
)
mine() {
	n=$m m=
	while read -r k v; do
		case $k in
		mnt_id:) m=$v ;;
		esac
	done 2>/dev/null 3<"${1:-.}" </proc/self/fdinfo/3
	if [ "${1:+$m}" ] && [ "$m" = "$n" ]; then
		return
	fi
	t= a=
	if [ "$m" ]; then
		t=$(plain grep "^$m " /proc/self/mountinfo)
		case $t in
		"" | "$m "*) ;;
		*) t=" - fuse" ;;
		esac
		a=${t##* } t=${t#* - }
	fi
	if [ -z "$t" ] && [ -e /proc/self/mountinfo ]; then
		case $(plain stat -f -c %t "${1:-.}" 2>/dev/null) in
		"" | 65735546) t=fuse ;;
		esac
	fi
	case $t in
	fuse*)
		case ,$a, in
		*,user_id=0,* | *,user_id=$u,*) ;;
		*)
			echo "not safe, others can change $PWD${1:+/$1} (a file system of another user)" >&2
			return 1
			;;
		esac
		;;
	esac
}
trusted() {
	q=$1
	shift
	while [ "$q" ]; do
		set -- "$q" "$@"
		q=${q%/*}
	done
	plain ls -ldn / "$@" | (
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
			d????????[tT]*)
				case $f$m in
				.d????w* | .d???????w*) ok= ;;
				esac
				;;
			????????w* | ?????w*+*) ok= ;;
			?????w*) [ "$o" = "$g" ] || ok= ;;
			esac
			case $f in
			.) f=$PWD ;;
			./*) f=$PWD${f#.} ;;
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
