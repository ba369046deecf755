package command

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// BesideOthers names subtests that run in parallel: a gorun process may belong to another one.
const BesideOthers = "beside-others"

// Stop interrupts the run and waits for its end.
func (r *Run) Stop() {
	r.t.Helper()
	must.OK(r.t, r.Cmd.Process.Signal(os.Interrupt))
	r.Wait()
	r.NothingLeft(10 * time.Second)
}

// NothingLeft checks from outside that all processes of the run end within limit.
func (r *Run) NothingLeft(limit time.Duration) {
	r.t.Helper()
	check.OK(r.t, r.Left(limit))
}

// Left waits until all processes of the run have ended. After limit it returns an error that names
// those left.
func (r *Run) Left(limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		left := lab.Processes(r.Mark)
		if !strings.Contains(r.t.Name(), "/"+BesideOthers+"/") {
			left = append(left, Processes()...)
		}
		if len(left) == 0 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("left %v after the end: %d processes, the first is %q", limit, len(left),
				ProcFile(left[0], "cmdline"))
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Processes returns the processes that run the built gorun: launchers, guards and agents.
func Processes() (pids []int) {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, link := range links {
		if exe, err := os.Readlink(link); err == nil && exe == Binary("gorun") {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// ProcFile returns a file of a process in /proc, or "".
func ProcFile(pid int, name string) string {
	text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
	return string(text)
}
