package topology

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Here returns the part of this machine that the process may use.
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

// Cores returns how many cores this process may keep busy, by its affinity and the CPU quota of its
// cgroups; at least 1. It reads few files, because every job start calls it.
func Cores() int {
	allowed, err := Affinity()
	if err != nil {
		return 1
	}
	return room(countCores(os.DirFS("/sys"), allowed), Quota(os.DirFS("/")))
}

// Affinity returns the hardware threads that the calling thread and its children may run on, within
// the cpuset of the cgroup.
func Affinity() (Set, error) {
	for size := 1024; size <= maxCPU; size *= 2 {
		mask := unix.NewCPUSet(size)
		err := unix.SchedGetaffinityDynamic(0, mask)
		if errors.Is(err, unix.EINVAL) { // the kernel has more CPUs than the mask holds
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

// SetAffinity restricts the calling thread, and the processes it starts, to cpus. The goroutine
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
