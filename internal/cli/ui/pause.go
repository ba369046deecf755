package ui

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gorun/gorun/launcher"
)

// pauseTimeout is how long gorun waits for hosts to stop their ranks before it stops itself.
const pauseTimeout = 500 * time.Millisecond

// standStill stops the ranks and then gorun itself, and resumes the ranks when the shell resumes gorun.
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
	// STOP instead of TSTP: the Go runtime keeps its TSTP handler, and the kernel ignores TSTP in orphaned
	// process groups, which batch systems suspend, too.
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGSTOP)
	// The ticker counts running time only: a stopped process gets at most one tick when it resumes.
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
	w.pause(launcher.Pause{}) // the signal did not stop gorun
}

// pause sends a pause request; false if the launcher does not take it in time.
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
