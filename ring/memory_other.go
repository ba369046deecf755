//go:build !linux

package ring

import "math"

// memoryOfMachine is not known.
func memoryOfMachine() int { return math.MaxInt }
