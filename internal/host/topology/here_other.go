//go:build !linux

package topology

import "runtime"

// Here returns this machine as hardware threads of which nothing more is known.
func Here() (Machine, error) {
	all := make(Set, runtime.NumCPU())
	for i := range all {
		all[i] = i
	}
	return Flat(all), nil
}

// Cores returns how many hardware threads this machine has.
func Cores() int { return runtime.NumCPU() }
