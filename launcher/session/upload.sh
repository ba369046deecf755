# shellcheck shell=sh disable=SC2154,SC2034
# Unpacks the executable from stdin into its place, once per home directory: making a directory succeeds for one host
# only. The place is the first that is safe, holds files and runs programs. $1 is the directory in the cache, $2 the mark of
# the launch, $3 the name of the file, $4 how many places to skip, $5 the machines that the executable is for, $6 its SHA-256. The
# script asks for its stdin by printing the mark. The file checked has mark and sum. It is newer than the executable, whose content is
# on the disk by then. Links are removed, not followed. The second round of the inner loop is for a launch that ended after the first.

umask 077
m=$(uname -m 2>/dev/null)
case "${5:+$m}" in
"") ;;
*)
	case " $5 " in
	*" $m "*) ;;
	*)
		echo "uname says $m" >&2
		exit 84
		;;
	esac
	;;
esac
command -v gzip >/dev/null || exit 1
i=$4
while
	i=$((i + 1))
	[ $i -le 3 ]
do
	enter $i make && b=${PWD%/}/$1 && mkdir -p "$1" && cd -P "./$1" || continue
	[ "$PWD" = "$b" ] || {
		echo "$b: a link is in the way" >&2
		continue
	}
	for f in "$3" checked; do
		if [ -h "$f" ]; then
			rm -f "$f"
		elif [ -d "$f" ]; then
			echo "$b/$f: a directory is in the way" >&2
			continue 2
		fi
	done
	mine=
	if mkdir ".$2"; then
		mine=1
	fi 2>/dev/null
	for look in 1 2; do
		if [ -f checked ] && [ "$(cat checked 2>/dev/null)" = "$2 $6" ]; then
			if [ "$mine" ]; then
				rmdir ".$2"
			fi
			exit 81
		fi
		if [ "$mine" ]; then
			break
		elif [ -d ".$2" ]; then
			exit 82
		fi
	done
	[ "$mine" ] || {
		echo "$PWD: cannot be written" >&2
		continue
	}
	if : >".$2/new" && chmod 700 ".$2/new" && ".$2/new"; then
		:
	else
		rm -rf ".$2"
		echo "$PWD: programs cannot run there" >&2
		continue
	fi
	echo "$2:go"
	if plain gzip -dc >".$2/new" && chmod 500 ".$2/new" && echo "$2 $6" >".$2/checked" && mv -f ".$2/new" "$3"; then
		{
			sync -d "$3"
			mv -f ".$2/checked" checked
			rm -rf ".$2"
		} 2>/dev/null
		exit 0
	fi
	rm -rf ".$2"
	exit $((90 + i))
done
exit 83
