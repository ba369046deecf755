package ui

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gorun/gorun/launcher"
)

// pauseTimeout is how long gorun waits until all hosts have stopped their ranks before it stops itself.
const pauseTimeout = 500 * time.Millisecond

// standStill stops the ranks and then gorun, as the terminal wants it, and lets both go on when the shell
// does (fg, bg).
func (w *Requests) standStill() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	told := make(chan struct{})
	if w.pause(launcher.Pause{Suspend: true, Told: told}) {
		select {
		case <-told:
		case <-time.After(pauseTimeout):
		case <-w.done:
			return
		}
	}
	// Not TSTP, whose handler the runtime keeps, and from which the kernel spares those whom no shell could
	// continue: a batch system that suspends its jobs means them, too.
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	// Ticks come while this process runs, and no more than one when it is continued.
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for range 20 {
		select {
		case <-continued:
			w.pause(launcher.Pause{})
			return
		case <-w.done:
			return
		case <-tick.C:
		}
	}
	w.pause(launcher.Pause{}) // nothing has stopped us
}

// pause tells the launcher, unless there are no ranks yet, or any more.
func (w *Requests) pause(p launcher.Pause) bool {
	select {
	case w.Pauses <- p:
		return true
	case <-time.After(pauseTimeout):
		return false
	case <-w.done:
		return false
	}
}
