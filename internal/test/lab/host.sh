# shellcheck shell=sh
# host.sh DIR NAME HOME MOUNT [SSHD ARG...]: becomes a host inside new
# namespaces, says "." when it is one, and stays. DIR holds its passwd, group, shadow,
# subuid, subgid and hosts, and may hold boot_id, pam and mounts; HOME is shown as MOUNT.
set -e
dir=$1 name=$2 home=$3 mount=$4
shift 4
for f in passwd group shadow hosts; do mount --bind "$dir/$f" "/etc/$f"; done
for f in subuid subgid; do [ ! -e "/etc/$f" ] || mount --bind "$dir/$f" "/etc/$f"; done
mount --bind "$home" "$mount"
[ ! -e "$dir/boot_id" ] || mount --bind "$dir/boot_id" /proc/sys/kernel/random/boot_id
[ ! -e "$dir/pam" ] || mount --bind "$dir/pam" /etc/pam.d/sshd
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mount -t tmpfs -o mode=755 tmpfs /run
mkdir /run/sshd
if [ -e "$dir/mounts" ]; then
  while read -r folder target; do
    mkdir -p "$target"
    mount --bind "$folder" "$target"
  done <"$dir/mounts"
fi
# All users may open it, as on most machines.
if [ -e /dev/fuse ] && mknod -m 666 /run/fuse c 10 229; then
  mount --bind /run/fuse /dev/fuse
fi
hostname "$name"
ip link set lo up
sleep infinity >/dev/null & # so that wait has something to wait for, whatever becomes of sshd
echo .
exec >/dev/null </dev/null
[ $# -gt 0 ] && "$@" &
set +e
# Stay when sshd ends: a host may live without. wait also reaps orphans.
while :; do
  wait
  sleep 1
done
