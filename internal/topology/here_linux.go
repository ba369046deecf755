package topology

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Here is what this process may use of its machine.
func Here() (Machine, error) {
	allowed, err := Affinity()
	if err != nil {
		return nil, err
	}
	if m, err := Read(os.DirFS("/sys")); err == nil {
		if m = m.Only(allowed); len(m) == len(allowed) {
			return m, nil
		}
	}
	return Flat(allowed), nil
}

// Cores is how many cores this process may keep busy: those that it may run on, and no more than
// its control groups leave it time for. It is at least 1. It reads little: every start of a job asks.
func Cores() int {
	allowed, err := Affinity()
	if err != nil {
		return 1
	}
	return room(countCores(os.DirFS("/sys"), allowed), Quota(os.DirFS("/")))
}

// Affinity is the hardware threads that the calling thread may run on, and what it starts. It
// has regard to the cpuset of the control group.
func Affinity() (Set, error) {
	for size := 1024; size <= maxCPU; size *= 2 {
		mask := unix.NewCPUSet(size)
		err := unix.SchedGetaffinityDynamic(0, mask)
		if errors.Is(err, unix.EINVAL) { // the kernel knows more CPUs than fit
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("ask for the CPUs to run on: %w", err)
		}
		var set Set
		for n := range size {
			if mask.IsSet(n) {
				set = append(set, n)
			}
		}
		return set, nil
	}
	return nil, fmt.Errorf("ask for the CPUs to run on: there are more than %d", maxCPU)
}

// SetAffinity lets the calling thread run on cpus only, and what it starts from now on. The goroutine
// must be locked to its thread.
func SetAffinity(cpus Set) error {
	if len(cpus) == 0 {
		return errors.New("no CPU to run on")
	}
	mask := unix.NewCPUSet(cpus[len(cpus)-1] + 1)
	for _, n := range cpus {
		mask.Set(n)
	}
	return unix.SchedSetaffinityDynamic(0, mask)
}
