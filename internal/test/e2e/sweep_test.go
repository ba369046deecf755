package e2e

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// failing is one system call that fails: the nth in every thread of launcher, guard, agent and
// ranks.
type failing struct {
	call, errno string
	nth         int
}

func (f failing) String() string {
	return fmt.Sprintf("inject=%s:error=%s:when=%d", f.call, f.errno, f.nth)
}

// sweepScript is the ranks' program: several writes, all of which must arrive.
const sweepScript = `echo "one $GORUN_RANK" && echo "two $GORUN_RANK"`

func sweptCommand(strace []string) []string {
	return slices.Concat([]string{"strace", "-f", "-qq"}, strace,
		[]string{command.Binary("gorun"), "-np", "2", "sh", "-c", sweepScript})
}

// TestEveryCallMayFail fails single system calls of a small job. Every time the job ends, nothing
// of it is left, and 0 means success. CI draws some of the points (another draw: SWEEP=SEED); make
// sweep takes all.
func TestEveryCallMayFail(t *testing.T) {
	lab.Need(t, "strace")
	points := sweepPoints(t)
	draw := os.Getenv("SWEEP")
	if draw != "all" {
		seed, _ := strconv.ParseUint(draw, 10, 64)
		rnd := rand.New(rand.NewPCG(seed, 4))
		rnd.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		points = points[:min(len(points), 60)]
	}
	codes := map[int]int{}
	calls := map[string]int{}
	var mu sync.Mutex
	t.Run(command.BesideOthers, func(t *testing.T) {
		for _, f := range points {
			t.Run(f.String(), func(t *testing.T) {
				t.Parallel()
				code := sweepOne(t, f)
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
				calls[fmt.Sprintf("%s %d", f.call, code)]++
			})
		}
	})
	t.Logf("%d points, by exit code: %v, by call and exit code: %v", len(points), codes, calls)
	check.That(t, codes[0] != 0 && len(codes) >= 2, "codes %v: nothing failed, or all did", codes)
}

// sweepPoints returns all calls that can fail, as an undisturbed run shows.
func sweepPoints(t *testing.T) (points []failing) {
	calls := strings.Fields("openat openat2 write rename renameat fsync socket connect accept4 clone clone3 execve " +
		"mmap epoll_ctl futex pidfd_open")
	dir := t.TempDir()
	cmd := exec.Command("strace", sweptCommand([]string{"-ff", "-o", filepath.Join(dir, "trace")})[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		lab.Skip(t, fmt.Sprintf("strace does not run here: %v: %s", err, out))
	}
	most := map[string]int{} // by call: the most that one thread does
	files, _ := filepath.Glob(filepath.Join(dir, "trace.*"))
	name := regexp.MustCompile(`^([a-z0-9_]+)\(`)
	for _, file := range files {
		here := map[string]int{}
		f := must.Get(os.Open(file))(t)
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if m := name.FindStringSubmatch(lines.Text()); m != nil {
				here[m[1]]++
				most[m[1]] = max(most[m[1]], here[m[1]])
			}
		}
		f.Close()
	}
	for _, call := range calls {
		for _, errno := range strings.Fields("EIO ENOSPC EMFILE ENOMEM EINTR ENOSYS") {
			for n := 1; n <= most[call]; n++ {
				points = append(points, failing{call, errno, n})
			}
		}
	}
	must.That(t, len(points) >= 100, "only %d points in %d traces: %v", len(points), len(files), most)
	return points
}

// sweepOne runs the job with one failure, judges it, and returns its exit code.
func sweepOne(t *testing.T, f failing) (code int) {
	const bound = 40 * time.Second // goal: an agent gets 10 s to say hello, and 8 s to end
	dir := t.TempDir()
	argv := sweptCommand([]string{"-o", filepath.Join(dir, "trace"), "-e", "trace=" + f.call, "-e", f.String()})
	r := command.New(t, nil, 2*bound, command.NewMark(t), argv...)
	r.Cmd.Env = append(r.Cmd.Env, "HOME="+dir)
	must.OK(t, r.Start())
	timer := time.AfterFunc(bound, func() {
		for _, pid := range lab.Processes(r.Mark) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may be over
		}
	})
	_ = r.Cmd.Wait()
	code = r.Cmd.ProcessState.ExitCode()
	check.That(t, timer.Stop(), "not over after %v\n%s%s", bound, golden.Clip(r.Out.String()),
		golden.Clip(r.Err.String()))
	check.OK(t, r.Left(10*time.Second))
	sweepVerdict(t, f, code, r)
	if t.Failed() {
		t.Logf("See it: %q", sweptCommand([]string{"-e", "trace=" + f.call, "-e", f.String()}))
	}
	return code
}

// sweepVerdict compares the exit code with the output.
func sweepVerdict(t *testing.T, f failing, code int, r *command.Run) {
	t.Helper()
	said := golden.Clip(r.Err.String())
	if code == 0 {
		r.WantLines("localhost:0: one 0", "localhost:0: two 0", "localhost:1: one 1", "localhost:1: two 1")
	}
	if f.call != "write" && f.call != "execve" { // without which it cannot say why
		check.That(t, code <= 0 || said != "", "exit code %d without a word", code)
	}
	if t.Failed() {
		t.Log(said)
	}
}
