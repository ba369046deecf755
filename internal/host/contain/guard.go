package contain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// Variable is the environment variable that names a rank's guard.
const Variable = "GORUN_GUARD"

// Guard identifies a guard process. No other process, past or future, has the same identity.
type Guard struct {
	namespace uint64 // pid namespace
	pid       int
	started   uint64 // clock ticks since boot
}

// Self returns the identity of this process.
func Self() (Guard, error) {
	namespace, err := ownNamespace()
	if err != nil {
		return Guard{}, err
	}
	p, err := ReadProcess(os.Getpid())
	return Guard{namespace, p.PID, p.Started}, err
}

// ownNamespace returns the number of this process's pid namespace.
func ownNamespace() (uint64, error) {
	link, err := os.Readlink("/proc/self/ns/pid") // "pid:[4026531836]"
	if err != nil {
		return 0, fmt.Errorf("find the own pid namespace: %w", err)
	}
	text := strings.TrimSuffix(strings.TrimPrefix(link, "pid:["), "]")
	return strconv.ParseUint(text, 10, 64)
}

func (g Guard) String() string { return fmt.Sprintf("%d-%d-%d", g.namespace, g.pid, g.started) }

// ParseGuard is the inverse of String.
func ParseGuard(text string) (Guard, error) {
	fields := strings.Split(text, "-")
	if len(fields) != 3 {
		return Guard{}, fmt.Errorf("%q names no guard", text)
	}
	namespace, err1 := strconv.ParseUint(fields[0], 10, 64)
	pid, err2 := strconv.Atoi(fields[1])
	started, err3 := strconv.ParseUint(fields[2], 10, 64)
	g := Guard{namespace, pid, started}
	if err1 != nil || err2 != nil || err3 != nil || pid <= 0 || g.String() != text {
		return Guard{}, fmt.Errorf("%q names no guard", text)
	}
	return g, nil
}

// dead reports whether the guard was in this namespace and has certainly ended.
func (g Guard) dead(namespace uint64) bool {
	if g.namespace != namespace {
		return false
	}
	p, err := ReadProcess(g.pid)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return p.Started != g.started || !p.alive()
}
