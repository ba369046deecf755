# shellcheck shell=sh
# guardian.sh MARK DIR: ends a lab when the writer of our stdin is gone.
# stdin says what belongs to the lab, one a line:
#   pid N      a process; its descendants belong too
#   net INODE  a network namespace; every process in it belongs
# So does every process with MARK in its environment, and the directory DIR.
trap '' HUP INT QUIT TERM
mark=$1 dir=$2 pids= nets=
while read -r what arg; do
  case $what in
  pid) pids="$pids $arg" ;;
  net) nets="$nets $arg" ;;
  esac
done

# family: the living processes of the lab, on one line between blanks.
family() {
  found="$pids "
  for file in $(grep -lsazxF -e "$mark" /proc/[0-9]*/environ) \
    $(for n in $nets; do find /proc/[0-9]*/ns/net -maxdepth 0 -lname "net:\[$n\]" 2>/dev/null; done); do
    pid=${file#/proc/}
    found="$found${pid%%/*} "
  done
  table= living=
  for p in /proc/[0-9]*; do
    { IFS= read -r stat <"$p/stat"; } 2>/dev/null || continue
    rest=${stat##*) } # the name before it may hold anything
    case $rest in [ZX]*) continue ;; esac
    rest=${rest#? }
    table="$table${p#/proc/}:${rest%% *} "
  done
  size=0
  while [ ${#found} -ne $size ]; do
    size=${#found}
    for row in $table; do
      case $found in *" ${row%:*} "*) continue ;; esac
      case $found in *" ${row#*:} "*) found="$found${row%:*} " ;; esac
    done
  done
  for row in $table; do
    case $found in *" ${row%:*} "*) living="$living ${row%:*}" ;; esac
  done
  echo "$living"
}

# A stopped process cannot start another one, so stop all before the first is
# killed: an orphan would be lost from the family.
before=
while all=$(family); [ "$all" != "$before" ]; do
  kill -s STOP $all 2>/dev/null
  before=$all
done
rounds=0
while [ -n "$all" ]; do
  [ $((rounds += 1)) -gt 200 ] && { echo "cannot kill$all" >&2; break; }
  kill -s KILL $all 2>/dev/null
  all=$(family)
done
chmod -R u+rwX "$dir" 2>/dev/null
rm -rf "$dir" && [ -z "$all" ]
