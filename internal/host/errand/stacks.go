package errand

import (
	"errors"
	"fmt"
	"os"
)

// stacks runs the program that reports the stacks of ranks, or only whether they make progress.
func (e *errand) stacks(pulse bool) error {
	pids := e.pids()
	if len(pids) == 0 {
		return errors.New("the ranks have ended")
	}
	p := Process{ID: e.ask.ID, Dir: "/", Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}}
	p.Path, p.Argv = e.server.host.Inspect(pids, pulse)
	links, err := e.connect()
	if err != nil {
		return err
	}
	p.Files = links.files()
	err = e.server.host.Start(p)
	links.closeTheirs()
	if err != nil {
		links.closeOurs()
		return fmt.Errorf("look at the ranks: %w", err)
	}
	if code := e.attend(p, links); code != 0 {
		return fmt.Errorf("look at the ranks: gorun's own process ended with code %d", code)
	}
	return nil
}
