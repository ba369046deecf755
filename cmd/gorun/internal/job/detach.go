package job

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"syscall"

	"github.com/gorun/gorun/internal/buildid"
)

// Detached is the message of a detached job's gorun to the one that started it.
type Detached struct {
	ID string `json:"id"`
}

// Leave tells the waiting gorun the id of the background gorun, and detaches from the terminal.
func Leave(waiting *os.File, id string) {
	_ = json.NewEncoder(waiting).Encode(Detached{ID: id}) // the waiting gorun may have been killed
	waiting.Close()
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		_ = replace(2, null)
		null.Close()
	}
}

// DetachedCommand is the hidden command of a detached job's gorun: the words of the job follow.
// File 3 is the pipe on which it sends a Detached when the ranks run.
const DetachedCommand = "__detached"

// Detach starts a gorun of its own session with the words of this one, and waits until its ranks
// run. Signals are passed on to it until then. code is its exit code if it ended before.
func Detach(argv []string, stderr *os.File, caught <-chan os.Signal) (id string, code int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", 0, fmt.Errorf("start a detached job: %w", err)
	}
	defer read.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		write.Close()
		return "", 0, fmt.Errorf("start a detached job: %w", err)
	}
	defer null.Close()
	self, err := buildid.Self()
	if err != nil {
		write.Close()
		return "", 0, fmt.Errorf("start a detached job: %w", err)
	}
	child, err := os.StartProcess(self, slices.Concat(argv[:1], []string{DetachedCommand}, argv[1:]), &os.ProcAttr{
		Files: []*os.File{null, null, stderr, write}, Sys: &syscall.SysProcAttr{Setsid: true}})
	write.Close()
	if err != nil {
		return "", 0, fmt.Errorf("start a detached job: %w", err)
	}
	heard := make(chan Detached, 1)
	go func() {
		var d Detached
		_ = json.NewDecoder(read).Decode(&d) // the end of the pipe is an answer too
		heard <- d
	}()
	for {
		select {
		case s := <-caught:
			_ = child.Signal(s)
		case d := <-heard:
			if d.ID != "" {
				return d.ID, 0, child.Release()
			}
			state, err := child.Wait()
			if err != nil {
				return "", 0, fmt.Errorf("wait for the detached job: %w", err)
			}
			if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
				return "", 128 + int(status.Signal()), nil
			}
			return "", state.ExitCode(), nil
		}
	}
}
