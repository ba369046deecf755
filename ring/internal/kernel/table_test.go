//go:build amd64 || arm64

package kernel

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// lacking reports whether a tier leaves an operation to plain Go.
func lacking(t tier, dtype Type, op Op) bool {
	narrow := dtype == I8 || dtype == U8
	wide := dtype == I64 || dtype == U64
	switch t {
	case neon:
		return wide && op == Prod
	case avx2:
		return narrow && op == Prod || wide && op != Sum && !op.bitwise()
	}
	return narrow && op == Prod
}

// A missing kernel would only cost speed, because the Go tier completes the work.
func TestEveryKernelIsInTheTable(t *testing.T) {
	for _, set := range sets(t)[1:] {
		dst, srcs := benchArrays(2, 1<<10)
		reached := func(what string, dtype Type, done int) {
			want := 1 << 10
			check.That(t, done == want, "%v: %s of %v reached %d of %d", set, what, dtype, done, want)
		}
		for _, dtype := range types() {
			for _, op := range ops() {
				if Valid(dtype, op) && canonical(dtype, op) == op && !lacking(set.tier, dtype, op) {
					reached(op.String(), dtype, set.tier.reduce(dtype, op, dst, srcs, 0, 1<<10))
				}
			}
			if dtype.Float() {
				reached("scale", dtype, set.tier.scale(dtype, dst, srcs[0], 2, 0, 1<<10))
				reached("divide", dtype, set.tier.divide(dtype, dst, srcs[0], 2, 0, 1<<10))
			}
		}
		if set.tier != neon { // whose copies are plain Go's
			reached("copy", 0, set.tier.copyNT(dst, srcs[0], 0, 1<<10))
		}
	}
}
