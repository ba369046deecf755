package e2e

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	var wg sync.WaitGroup
	next := make(chan failing)
	for range 2 * runtime.NumCPU() {
		wg.Go(func() {
			for f := range next {
				code, err := sweepOne(t, f)
				mu.Lock()
				codes[code]++
				calls[fmt.Sprintf("%s %d", f.call, code)]++
				mu.Unlock()
				check.That(t, err == nil,
					"%v\nSee it: %q", err, sweptCommand([]string{"-e", "trace=" + f.call, "-e", f.String()}))
			}
		})
	}
	for _, f := range points {
		next <- f
	}
	close(next)
	wg.Wait()
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

// sweepOne runs the job with one failure and returns its exit code and the problems found.
func sweepOne(t *testing.T, f failing) (code int, err error) {
	const bound = 40 * time.Second // goal: an agent gets 10 s to say hello, and 8 s to end
	dir, err := os.MkdirTemp("", "gorun-sweep-")
	if err != nil {
		return -1, err
	}
	defer os.RemoveAll(dir)
	mark := fmt.Sprintf("E2E_MARK=%s-%d-%v-%d", t.Name(), os.Getpid(), f, time.Now().UnixNano())
	argv := sweptCommand([]string{"-o", filepath.Join(dir, "trace"), "-e", "trace=" + f.call, "-e", f.String()})
	var out, stderr command.Output
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), mark, "HOME="+dir)
	cmd.Stdout = &out
	cmd.Stderr = &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		return -1, err
	}
	hung := make(chan bool, 1)
	timer := time.AfterFunc(bound, func() {
		hung <- true
		for _, pid := range lab.Processes(mark) {
			if p, err := os.FindProcess(pid); err == nil {
				_ = p.Kill()
			}
		}
	})
	_ = cmd.Wait()
	code = cmd.ProcessState.ExitCode()
	if !timer.Stop() && len(hung) > 0 {
		return code, fmt.Errorf("%v: not over after %v\n%s%s", f, bound, golden.Clip(out.String()),
			golden.Clip(stderr.String()))
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		left := lab.Processes(mark)
		if len(left) == 0 {
			break
		}
		if time.Now().After(deadline) {
			return code, fmt.Errorf("%v: process %d is left: %q", f, left[0], command.ProcFile(left[0], "cmdline"))
		}
	}
	return code, sweepVerdict(f, code, out.String(), stderr.String())
}

// sweepVerdict compares the exit code with the output.
func sweepVerdict(f failing, code int, out, stderr string) error {
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	slices.Sort(lines)
	all := slices.Equal(lines, []string{"localhost:0: one 0", "localhost:0: two 0", "localhost:1: one 1",
		"localhost:1: two 1"})
	switch {
	case code == 0 && !all:
		return fmt.Errorf("%v: exit code 0 with the output %q\n%s", f, out, golden.Clip(stderr))
	case code > 0 && stderr == "" && f.call != "write" && f.call != "execve": // without which it cannot say why
		return fmt.Errorf("%v: exit code %d without a word", f, code)
	}
	return nil
}
