# shellcheck shell=sh
# guardian.sh DIR: removes a cluster when the writer of stdin is gone. DIR/init has
# the process id of the cluster's init, whose end ends all processes of the
# cluster, and DIR/cgroups the cgroups of its nodes.
trap '' HUP INT QUIT TERM
dir=$1
cat >/dev/null
if [ -s "$dir/init" ] && grep -qs -- "$dir" "/proc/$(cat "$dir/init")/cmdline"; then
	kill -KILL "$(cat "$dir/init")"
fi
# remove removes what can be removed, and sets left to the rest. What ends holds its cgroup for a moment.
remove() {
	left=
	while read -r group; do
		[ -d "$group" ] || continue
		find "$group" -depth -type d -exec rmdir {} \; 2>/dev/null
		[ ! -d "$group" ] || left="$left $group"
	done
}
groups=$(cat "$dir/cgroups" 2>/dev/null)
rounds=0
remove <<-END
	$groups
END
while [ -n "$left" ] && [ $((rounds += 1)) -lt 200 ]; do
	sleep 0.1
	remove <<-END
		$groups
	END
done
[ -z "$left" ] || echo "cannot remove$left" >&2
rounds=0
until rm -rf --one-file-system "$dir" 2>/dev/null || [ $((rounds += 1)) -ge 50 ]; do
	sleep 0.1
done
[ -z "$left" ] && [ ! -e "$dir" ]
