package seat

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
)

// The kernel's limits on what a program is started with (execve(2)).
const (
	maxString   = 128<<10 - 1 // bytes of one argument or NAME=value
	maxStrings  = 6 << 20     // bytes of all together, where the stack may be large
	leastTotal  = 128 << 10
	pointerSize = 8
	ownStrings  = 16 << 10 // room for the variables that differ by rank
)

// CheckSize refuses arguments and variables that are too large for the kernel to start a rank with.
// stack is the limit on the stack's size. It is pure.
func CheckSize(path string, argv []string, env map[string]string, stack uint64) error {
	for i, a := range argv {
		if len(a) > maxString {
			return wire.Refusef(wire.CodeNotExecutable, "pass it in a file",
				"argument %d of %s has %d bytes, and the kernel takes %d", i, argv[0], len(a), maxString)
		}
	}
	total := len(path) + 1 + ownStrings
	for _, a := range argv {
		total += len(a) + 1 + pointerSize
	}
	for name, value := range env {
		size := len(name) + 1 + len(value)
		if size > maxString {
			return wire.Refusef(wire.CodeNotExecutable, "pass it in a file, or keep it here: --unset-env "+name,
				"the variable %s has %d bytes, and the kernel takes %d", name, size, maxString)
		}
		total += size + 1 + pointerSize
	}
	most := int(max(min(stack/4, maxStrings), leastTotal))
	if total <= most {
		return nil
	}
	names := slices.SortedFunc(maps.Keys(env), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(env[b]), len(env[a])), cmp.Compare(a, b))
	})
	return wire.Refusef(wire.CodeNotExecutable,
		"send fewer variables (--no-env, --unset-env), or raise the limit on the stack there (ulimit -s)",
		"%d arguments and %d variables have %d bytes, and the kernel takes %d with this limit on the stack; the "+
			"largest variables are %s",
		len(argv), len(env), total, most, strings.Join(names[:min(3, len(names))], ", "))
}

// StackLimit is the limit on the stack of processes that this one starts.
func StackLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_STACK, &limit); err != nil {
		return 8 << 20
	}
	return limit.Cur
}

// CheckFiles returns an error if an agent with a limit on open files cannot serve ranks with so
// many output streams each.
func CheckFiles(ranks, outputs int, limit uint64) error {
	const own = 17
	const each = 2 // beside its outputs
	need := uint64(own + ranks*(outputs+each))
	if need <= limit {
		return nil
	}
	return wire.Refusef(wire.CodeHostFailed,
		fmt.Sprintf("raise it: ulimit -n %d before gorun is started, on other hosts nofile in "+
			"/etc/security/limits.conf", need),
		"%d ranks need about %d open files, and a process there may have %d", ranks, need, limit)
}

// FilesLimit is how many files this process may have open.
func FilesLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxUint64 // an unknown limit refuses nothing
	}
	return limit.Cur
}

// RaiseDescriptorsOf raises the limit on open files of another process to its maximum.
func RaiseDescriptorsOf(pid int) {
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err == nil {
		limit.Cur = limit.Max
		_ = unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil) // it keeps its limit if this fails
	}
}

// RaiseDescriptors raises the limit on open files of ranks to their maximum. Go raises it for this
// process only, unless it is set explicitly.
func RaiseDescriptors() {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // ranks keep their limit if it fails
	}
}
