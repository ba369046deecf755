package ui

import (
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/launcher"
)

// Requests carries the user's signals to the launcher.
type Requests struct {
	Stops   chan launcher.Stop
	Signals chan int
	Pauses  chan launcher.Pause
	Stopped chan struct{} // closed at the first stop
	once    sync.Once     // closes Stopped
	caught  chan os.Signal
	done    chan struct{}
	ended   chan struct{}
}

// Listen catches signals until Close. The first INT, TERM or HUP requests a clean stop, the second
// a kill, and the third exits at once; see [Presses] for what is a second one. USR1 and USR2 go to
// the ranks; TSTP stops job and gorun; QUIT calls look, once at a time. At the time limit a stop is
// requested after overdue has returned.
func Listen(limit TimeLimit, overdue, look func(), console *UI) *Requests {
	w := &Requests{
		Stops:   make(chan launcher.Stop, 4),
		Signals: make(chan int, 16),
		Pauses:  make(chan launcher.Pause),
		Stopped: make(chan struct{}),
		caught:  make(chan os.Signal, 16),
		done:    make(chan struct{}),
		ended:   make(chan struct{}),
	}
	wanted := []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGPIPE,
		syscall.SIGQUIT}
	if !signal.Ignored(syscall.SIGHUP) { // nohup
		wanted = append(wanted, syscall.SIGHUP)
	}
	if !signal.Ignored(syscall.SIGTSTP) { // ignored by a shell without job control
		wanted = append(wanted, syscall.SIGTSTP, syscall.SIGCONT)
	}
	signal.Notify(w.caught, wanted...)
	go w.run(limit, overdue, look, console)
	return w
}

// TimeLimit is when a job is stopped. 0: never.
type TimeLimit struct {
	Timeout time.Duration
	Warning time.Duration // after it the ranks get Signal
	Signal  syscall.Signal
}

// timer returns a channel that is ready after a time, never if it is 0.
func timer(after time.Duration) (ready <-chan time.Time, stop func()) {
	if after == 0 {
		return nil, func() {}
	}
	t := time.NewTimer(after)
	return t.C, func() { t.Stop() }
}

func (w *Requests) Close() {
	signal.Stop(w.caught)
	close(w.done)
	<-w.ended
}

func (w *Requests) run(limit TimeLimit, overdue, look func(), console *UI) {
	defer close(w.ended)
	var looking sync.WaitGroup // signals are handled while look runs
	defer looking.Wait()
	looked := make(chan struct{})
	var busy atomic.Bool // look runs
	expired, stopTimer := timer(limit.Timeout)
	defer stopTimer()
	warned, stopWarning := timer(limit.Warning)
	defer stopWarning()
	var presses Presses
	for {
		select {
		case <-w.done:
			return
		case <-warned:
			console.Notef("the time limit is near: the ranks get %s", unix.SignalName(limit.Signal))
			w.forward(int(limit.Signal))
		case <-expired:
			looking.Go(func() {
				defer close(looked)
				overdue()
			})
		case <-looked:
			looked = nil
			console.Deadline.Start()
			w.stop(launcher.Stop{Reason: launcher.TimedOut})
		case s := <-w.caught:
			switch s {
			case syscall.SIGCONT: // after SIGSTOP, which cannot be caught
			case syscall.SIGTSTP:
				w.suspend()
			case syscall.SIGPIPE: // the failed write returns an error
			case syscall.SIGQUIT:
				if !busy.Swap(true) {
					looking.Go(func() {
						defer busy.Store(false)
						look()
					})
				}
			case syscall.SIGUSR1, syscall.SIGUSR2:
				w.forward(int(s.(syscall.Signal)))
			default:
				console.Deadline.Start()
				w.requestStop(s, presses.At(time.Now()), console)
			}
		}
	}
}

func (w *Requests) requestStop(s os.Signal, times int, console *UI) {
	reasons := map[os.Signal]launcher.StopReason{syscall.SIGINT: launcher.Interrupted,
		syscall.SIGTERM: launcher.Terminated, syscall.SIGHUP: launcher.HungUp}
	switch times {
	case 0: // a copy of the last request
	case 1:
		w.stop(launcher.Stop{Reason: reasons[s]})
		console.Notef("stopping the job (%v); again to kill it now", s)
	case 2:
		w.stop(launcher.Stop{Reason: reasons[s], Now: true})
		console.Notef("killing the job")
	default:
		// Agents finish the kill when they lose the connection.
		os.Exit(wire.SignalCode(s.(syscall.Signal)))
	}
}

// Stop requests the end of the job for another process of the user.
func (w *Requests) Stop(s launcher.Stop, console *UI) {
	console.Deadline.Start()
	if s.Now {
		console.Notef("killing the job, as requested by gorun kill or attach")
	} else {
		console.Notef("stopping the job, as requested by gorun kill or attach")
	}
	w.stop(s)
}

// Hung stops a job that makes no progress.
func (w *Requests) Hung(console *UI) {
	console.Deadline.Start()
	w.stop(launcher.Stop{Reason: launcher.Hung})
}

func (w *Requests) stop(s launcher.Stop) {
	w.once.Do(func() { close(w.Stopped) })
	select {
	case w.Stops <- s:
	default: // earlier stop requests are pending
	}
}

func (w *Requests) forward(n int) {
	select {
	case w.Signals <- n:
	default: // signals may be merged
	}
}

// pauseTimeout is how long gorun waits for hosts to stop their ranks before it stops itself.
const pauseTimeout = 500 * time.Millisecond

// suspend stops the ranks and then gorun itself, and resumes the ranks when the shell resumes
// gorun.
func (w *Requests) suspend() {
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	confirmed := make(chan struct{})
	if w.pause(launcher.Pause{Suspend: true, Suspended: confirmed}) {
		select {
		case <-confirmed:
		case <-time.After(pauseTimeout):
		case <-w.done:
			return
		}
	}
	// STOP instead of TSTP: the Go runtime keeps its TSTP handler, and the kernel ignores TSTP in
	// orphaned process groups, which batch systems suspend, too.
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

// repeatTime is the least time between two requests of a person. A repeat that comes sooner is a
// copy of the same request: timeout signals its child and then its process group, systemd sends
// SIGHUP after SIGTERM, and a parent passes on the SIGINT that the terminal sent to both.
const repeatTime = 300 * time.Millisecond

// Presses counts a person's requests to stop a job. The zero value is ready for use.
type Presses struct {
	count int
	last  time.Time
}

// At returns the number of the request that a signal at this time makes, from 1 on, or 0 if it is a
// copy of the last one.
func (p *Presses) At(now time.Time) int {
	if p.count > 0 && now.Sub(p.last) < repeatTime {
		return 0
	}
	p.count++
	p.last = now
	return p.count
}
