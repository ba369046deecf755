package agent

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"syscall"
)

// The kernel's limits on what a program is started with (execve(2)).
const (
	maxString   = 128<<10 - 1 // bytes of one argument or NAME=value
	maxStrings  = 6 << 20     // of all together, where the stack may be large
	leastTotal  = 128 << 10
	pointerSize = 8
	ownStrings  = 16 << 10 // room for the variables that differ by rank
)

// checkSize refuses what the kernel would not start a rank with, and says what is too large. stack is the limit
// on its size. It is pure.
func (p program) checkSize(stack uint64) error {
	for i, a := range p.argv {
		if len(a) > maxString {
			return refuse(codeNotExecutable, "pass it in a file", "argument %d of %s has %d bytes, and the kernel takes %d", i, p.argv[0], len(a), maxString)
		}
	}
	total := len(p.path) + 1 + ownStrings
	for _, a := range p.argv {
		total += len(a) + 1 + pointerSize
	}
	for name, value := range p.env {
		size := len(name) + 1 + len(value)
		if size > maxString {
			return refuse(codeNotExecutable, "pass it in a file, or keep it here: --unset-env "+name,
				"the variable %s has %d bytes, and the kernel takes %d", name, size, maxString)
		}
		total += size + 1 + pointerSize
	}
	most := int(max(min(stack/4, maxStrings), leastTotal))
	if total <= most {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(p.env), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(p.env[b]), len(p.env[a])), cmp.Compare(a, b))
	})
	return refuse(codeNotExecutable, "send fewer variables (--no-env, --unset-env), or raise the limit on the stack there (ulimit -s)",
		"%d arguments and %d variables have %d bytes, and the kernel takes %d with this limit on the stack; the largest variables are %s",
		len(p.argv), len(p.env), total, most, strings.Join(names[:min(3, len(names))], ", "))
}

// stackLimit is the limit on the stack of what this process starts.
func stackLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &limit); err != nil {
		return 8 << 20
	}
	return limit.Cur
}
