package control

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/files/trust"
)

// NameTakenError reports that a running job answers to a name.
type NameTakenError struct{ Name, ID string }

func (e *NameTakenError) Error() string {
	if e.ID == e.Name {
		return fmt.Sprintf("%s is the id of a job that runs", e.ID)
	}
	return fmt.Sprintf("job %s, which runs, has the name %q", e.ID, e.Name)
}

// Hint returns the next command to type.
func (e *NameTakenError) Hint() string {
	return "choose another name, or end that job first: gorun kill " + e.ID
}

// checkName returns a *NameTakenError if a running job on this machine answers to a name.
func (p Place) checkName(ctx context.Context, name string) error {
	running, err := p.List(ctx, false)
	if err != nil {
		return err
	}
	for _, f := range running {
		if f.Client != nil && (f.Name == name || f.ID == name) {
			return &NameTakenError{name, f.ID}
		}
	}
	return nil
}

// namesLock is the file whose lock a job holds from the check of its name until other jobs find it.
const namesLock = "names.lock"

// lockNames waits for the lock of names, for a second at most.
func (p Place) lockNames() (unlock func(), err error) {
	errs := []error{errNoFolder}
	for _, path := range slices.Backward(p.folders()) { // all jobs have the last folder in common
		dir, err := trust.OpenDir(path, true)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		file, err := lock(dir, namesLock, unix.LOCK_EX)
		dir.Close()
		if err == nil {
			return func() { file.Close() }, nil
		}
		errs = append(errs, err)
	}
	return nil, errs[len(errs)-1]
}
