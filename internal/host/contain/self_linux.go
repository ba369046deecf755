package contain

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// BecomeSubreaper makes orphans below this process its children. Emulators of other architectures
// (qemu-user) cannot do that, and say EINVAL, which no kernel says: there, orphans are found by
// their cgroup or their environment alone.
func BecomeSubreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); !errors.Is(err, unix.EINVAL) {
		return err
	}
	return nil
}

// ParentEnded reports whether the parent has ended. This process's death signal comes a little
// earlier, when the thread that started it ends.
func ParentEnded(parent int) bool {
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if os.Getppid() != parent || Ending(parent) {
			return true
		}
	}
	return false
}

// scoreFile has this process's share in the choice of what the kernel kills when memory runs out.
const scoreFile = "/proc/self/oom_score_adj"

// OwnScore returns the content of scoreFile, which children inherit.
func OwnScore() string {
	text, _ := os.ReadFile(scoreFile)
	return strings.TrimSpace(string(text))
}

// RaiseScore makes the kernel kill processes that start before restore is called rather than the
// agent when memory runs out, if it can. They inherit the score from the agent: one that is set
// after a rank's start misses children that the rank has started.
func RaiseScore() (restore func()) {
	text := OwnScore()
	if own, err := strconv.Atoi(text); err != nil || own >= Score {
		return func() {}
	}
	_ = os.WriteFile(scoreFile, []byte(strconv.Itoa(Score)), 0)
	return func() { _ = os.WriteFile(scoreFile, []byte(text), 0) }
}
