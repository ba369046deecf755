package ring

import (
	"math"

	"golang.org/x/sys/unix"
)

// memoryOfMachine is how many bytes there are, free or not. To ask Go for more ends the program.
func memoryOfMachine() int {
	var all unix.Sysinfo_t
	if unix.Sysinfo(&all) != nil {
		return math.MaxInt
	}
	return int(min((uint64(all.Totalram)+uint64(all.Totalswap))*uint64(all.Unit), math.MaxInt))
}
