package faults

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// D11: a host has, or seems to have, another architecture. The error names it with both
// architectures, and nothing is sent to it. f3 sees a gorun for another architecture at the
// launcher's own path.
func TestOtherArchitectureIsRefused(t *testing.T) {
	t.Parallel()
	b := namespaces(t, 3)
	gorun := b.install()
	foreign := must.Get(os.ReadFile(binary("gorun")))(t)
	copy(foreign[18:], []byte{0xf7, 0}) // the machine of its ELF header: one with few friends
	there := filepath.Join(b.c.Host("f3").Home, "bin/gorun")
	b.must(errors.Join(os.Mkdir(filepath.Dir(there), 0o755), os.WriteFile(there, foreign, 0o755)))
	for _, host := range []string{"f2", "f3"} {
		b.on(host,
			`printf '#!/bin/sh\necho s390x\n' >/run/uname && chmod 755 /run/uname && mount --bind /run/uname "$(command -v uname)"`)
		j, w := b.run(gorun, "-F", "{config}", "--wdir", "/", "-H", "f1,"+host, "echo", "ran")
		b.refused(j, w, 20*time.Second, lingering, "(?m)^gorun: error: "+host+": .*this gorun is for linux/"+
			runtime.GOARCH+", and the host is another machine: uname says s390x: there is no gorun for it",
			"hint: hosts may be linux/amd64 or linux/arm64 machines")
		found, _ := filepath.Glob(filepath.Join(b.c.Host(host).Home, ".cache/gorun/*/*"))
		check.That(t, found == nil, "%s got %q", host, found)
	}
}

// armShell is a login shell that makes f2 a machine whose programs are those of aarch64. The kernel
// runs them by qemu-user; in a user namespace it knows that for this host alone. The gorun of amd64
// and the folder work, beside the shell, are not there.
const armShell = `#!/bin/sh
[ "$(hostname)" = f2 ] || exec /bin/sh "$@"
exec unshare --user --map-root-user --mount sh -c '
b=/proc/sys/fs/binfmt_misc
mount -t binfmt_misc binfmt_misc $b &&
printf %s ":aarch64:M::\\x7fELF\\x02\\x01\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\\x00\\xb7\\x00:\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\x00\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xff\\xfe\\xff\\xff\\xff:${0%/*}/qemu:" >$b/register &&
printf "#!/bin/sh\necho aarch64\n" >/run/uname && chmod 755 /run/uname && mount --bind /run/uname "$(command -v uname)" &&
mount -t tmpfs tmpfs "${0%/*}/amd64" && mount -t tmpfs tmpfs "${0%/*}/work" &&
exec /bin/sh "$@"' "$0" "$@"
`

// One job has hosts of both kinds: gorun chooses its own build and the path of the program by the
// host, and the ranks' reductions have the bits that they have on one kind.
func TestJobOfTwoArchitectures(t *testing.T) {
	t.Parallel()
	lab.Need(t, "qemu-aarch64-static", "unshare")
	if runtime.GOARCH != "amd64" {
		lab.Skip(t, "f2 is to be of another architecture")
	}
	dir := t.TempDir()
	shell := filepath.Join(dir, "shell")
	must := func(err error) {
		t.Helper()
		must.OK(t, err)
	}
	must(os.Chmod(dir, 0o755))
	must(os.WriteFile(shell, []byte(armShell), 0o755))
	// qemu-user wants the whole path of a program that executes itself.
	must(os.WriteFile(filepath.Join(dir, "qemu"), []byte("#!/bin/sh\np=$(realpath \"$1\")\nshift\nexec "+
		"qemu-aarch64-static \"$p\" \"$@\"\n"), 0o755))
	for _, arch := range []string{"amd64", "arm64"} {
		for folder, program := range map[string]string{arch: "./cmd/gorun",
			"work/" + arch: "./internal/test/faults/sums"} {
			build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, folder)+"/", program)
			build.Dir = "../../.."
			build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOARCH="+arch)
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
	}
	if out, err := exec.Command("sh", "-c", `gzip -1 <"$1/arm64/gorun" >"$1/amd64/gorun-linux-arm64.gz"`, "sh",
		dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := newHarness(t, lab.MustNamespaces(t, lab.Spec{Shell: shell}, lab.Spec{Shell: shell}))
	sums := func(hosts string, program ...string) (lines []string) {
		t.Helper()
		j, w := b.run(append([]string{filepath.Join(dir, "amd64/gorun"), "-F", "{config}", "-v", "--prefix", "none",
			"--no-control", "-np", "2", "-H", hosts}, program...)...)
		at := time.Now()
		<-j.Ended()
		b.judge(w, j, at, Expect{Codes: []int{0}, End: 5 * time.Minute, Clean: 5 * time.Minute})
		lines = strings.Split(strings.TrimSpace(j.Out.String()), "\n")
		slices.Sort(lines)
		for i := 1; i < len(lines); i += 2 {
			if lines[i] != lines[i-1] {
				t.Errorf("on %s the ranks have unlike results: %q, %q", hosts, lines[i-1], lines[i])
			}
		}
		return lines
	}
	same := sums("f1:2", "--wdir", "/", dir+"/work/%a/sums")
	// f2 does not see the folder, and gets a copy
	for _, staged := range [][2]string{{"work", "%a/sums"}, {"work/%a", "./sums"}} {
		if mixed := sums("f1,f2", "--stage", dir+"/"+staged[0], staged[1]); len(mixed) != 66 ||
			!slices.Equal(mixed, same) {
			t.Errorf("--stage %s: on hosts of both kinds %q, on one %q", staged[0], mixed, same)
		}
	}
	for pattern, want := range map[string]int{"*/gorun": 1, "work/*/arm64/sums": 1, "work/arm64-*/sums": 1,
		"work/amd64-*": 0} {
		found, _ := filepath.Glob(filepath.Join(b.c.Host("f2").Home, ".cache/gorun", pattern))
		check.That(t, len(found) == want, "f2 has %q", found)
	}
}

// D11: a host has a kernel, busybox and nothing else: no glibc, no bash, no GNU tools. gorun is
// sent to it, verified after a change, and its ranks are ended.
func TestHostWithBusyBoxOnly(t *testing.T) {
	t.Parallel()
	lab.Need(t, "busybox")
	if out, err := exec.Command("busybox", "--list").CombinedOutput(); err != nil ||
		!strings.Contains(string(out), "sha256sum") {
		lab.Skip(t, "needs the whole busybox")
	}
	shell := filepath.Join(t.TempDir(), "shell")
	must.OK(t, os.WriteFile(shell, []byte("#!/bin/sh\nexec chroot /run/root /bin/sh \"$@\"\n"), 0o755))
	b := newHarness(t, lab.MustNamespaces(t, lab.Spec{Shell: shell}))
	b.on("f1",
		`set -e; cd /run; mkdir -p root/bin root/proc root/dev "root$HOME" root/tmp; cp "$(command -v busybox)" root/bin/busybox
		mount -t proc proc root/proc; mount --rbind /dev root/dev; mount --bind "$HOME" "root$HOME"; chroot root /bin/busybox --install -s /bin`)
	gorun := b.install()
	job := func(uploads int, script string, e Expect) *Job {
		t.Helper()
		j, w := b.run(gorun, "-F", "{config}", "-v", "--wdir", "/", "--prefix", "none", "--grace", "1", "-np", "2",
			"-H", "f1:2", "sh", "-c", script)
		at := time.Now()
		<-j.Ended()
		b.judge(w, j, at, e)
		n := strings.Count(j.Err.String(), "uploaded gorun to")
		check.That(t, n == uploads, "gorun was sent %d times, want %d: %s", n, uploads, &j.Err)
		return j
	}
	well := Expect{Codes: []int{0}, End: 30 * time.Second, Clean: 30 * time.Second}
	j := job(1, "ls /usr/bin/env 2>/dev/null; readlink /bin/ls", well)
	check.That(t, j.Out.String() == "/bin/busybox\n/bin/busybox\n", "this is another host: %q", &j.Out)
	job(0, "exit 0", well)
	found, _ := filepath.Glob(filepath.Join(b.c.Host("f1").Home, ".cache/gorun/*/gorun"))
	must.That(t, len(found) == 1 && os.WriteFile(found[0], []byte(evil), 0) == nil, "found %q", found)
	fails := Expect{
		Codes: []int{3},
		Cause: "rank 1 on f1 exited with code 3",
		End:   30 * time.Second,
		Clean: 30 * time.Second,
	}
	job(1, `trap '' TERM; setsid sleep 300 & [ $GORUN_RANK = 0 ] || exit 3; while :; do sleep .1; done`, fails)
}

// D11: a kernel lacks features of newer ones, or a sandbox denies them. Ranks are contained and
// ended all the same, also those that ignore SIGTERM, and daemons. The test runs alone, since
// strace is slow.
func TestOldKernelContainsRanks(t *testing.T) {
	lab.Need(t, "strace", "unshare")
	const old = "clone3,pidfd_open,pidfd_send_signal,openat2,close_range,faccessat2,epoll_pwait2,memfd_create,getrandom"
	b := namespaces(t, 1)
	without := []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs tmpfs /sys/fs/cgroup && exec "$@"`, "sh"}
	for _, tc := range []struct {
		name, calls, errno, contained string
		before                        []string
	}{
		{"no pidfds", "pidfd_open,pidfd_send_signal", "ENOSYS", "cgroup v2|cgroup v1 freezer|process tree", nil},
		{"an old kernel", old, "ENOSYS", "cgroup v1 freezer|process tree", nil},
		{"an old kernel without cgroups", old, "ENOSYS", "process tree", without},
		{"a sandbox without cgroups", "pidfd_open,pidfd_send_signal,clone3", "EPERM", "process tree", without},
	} {
		b.row(tc.name, func(t *testing.T, b *harness) {
			argv := append(tc.before, "strace", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e",
				"trace="+tc.calls, "-e", "inject="+tc.calls+":error="+tc.errno,
				binary("gorun"), "-v", "-np", "2", "--prefix", "none", "--grace", "1", binary("rank"), "-ignore-term",
				"-daemon")
			j, w := b.run(argv...)
			b.await(j, "the ranks", func() bool {
				return strings.Count(j.Out.String(), "line") > 20 && len(j.On("f0", "[idle] daemon-2")) == 2
			})
			var ranks []int
			for _, pid := range j.Processes(binary("rank")) {
				if strings.HasPrefix(command(pid), binary("rank")) {
					ranks = append(ranks, pid)
				}
			}
			must.That(t, len(ranks) != 0, "no rank is to be found")
			at := time.Now()
			_ = syscall.Kill(ranks[0], syscall.SIGUSR2)
			b.judge(w, j, at, Expect{
				Codes: []int{3},
				Cause: "rank [01] on (localhost|f0) exited with code 3",
				Also:  "localhost did not confirm that all ranks ended",
				End:   8 * time.Second,
				Clean: 8 * time.Second,
			}) // goal: the grace and 1 s
			var said string
			for line := range strings.Lines(j.Err.String()) {
				if strings.Contains(line, "ranks are contained by") {
					said = line
				}
			}
			check.That(t, containsAny(said, strings.Split(tc.contained, "|")), "%q does not say %q", said, tc.contained)
		})
	}
}

func containsAny(text string, words []string) bool {
	for _, word := range words {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
