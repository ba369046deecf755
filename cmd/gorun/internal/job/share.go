package job

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// shared is a job that the user's other processes can see and direct. A nil shared does nothing.
type shared struct {
	server  *control.Server
	console *ui.UI
	waiting *os.File // see Streams
	opened  chan struct{}
	usable  bool // the server listens; valid when opened is closed
	started time.Duration
}

// share makes the job's socket. A job with a terminal goes on without one; a detached job does not.
func share(o *settings.Options, plan launcher.Plan, programs []launcher.Program, requests *ui.Requests, to talks,
	io Streams, console *ui.UI) (*shared, error) {
	if o.Control.Off {
		return nil, nil
	}
	stop := func(s control.Stop) {
		reasons := map[syscall.Signal]launcher.StopReason{syscall.SIGINT: launcher.Interrupted,
			syscall.SIGHUP: launcher.HungUp}
		reason, known := reasons[syscall.Signal(s.Signal)]
		if !known {
			reason = launcher.Terminated
		}
		requests.Stop(launcher.Stop{Reason: reason, Now: s.Now}, console)
	}
	failed := func(err error) { console.Warningf("keeping the job's output for gorun logs stopped: %v", err) }
	server := control.New(control.Options{
		Place:   control.FindPlace(os.Getenv),
		Job:     describe(o, plan, programs, io),
		Actions: control.Actions{Stop: stop, Talk: to.talk},
		Failed:  failed,
	})
	s := &shared{
		server:  server,
		console: console,
		waiting: io.Waiting,
		opened:  make(chan struct{}),
	}
	if io.Waiting == nil {
		go func() { // beside the connections to hosts, which take longer; ready waits for it
			defer close(s.opened)
			s.listen()
		}()
	} else {
		defer close(s.opened)
		if err := s.listen(); err != nil {
			return nil, usage.Errorf("set XDG_STATE_HOME to a folder of yours on a local disk", "detach the job: %w",
				err)
		}
	}
	console.Copy(func(line string) { server.Add(control.Own, 2, time.Now(), []byte(line)) })
	return s, nil
}

// listen makes the socket.
func (s *shared) listen() error {
	err := s.server.Listen()
	if s.usable = err == nil; s.usable {
		s.console.Tracef("job %s: see gorun ps", s.server.ID())
	} else {
		s.console.Tracef("gorun ps and its like will not find this job: %v", err)
	}
	return err
}

// openTime bounds the wait for the socket: its folder may be on a file system that hangs.
const openTime = time.Second

// ready waits for the socket, and reports whether there is one.
func (s *shared) ready() bool {
	select {
	case <-s.opened:
		return s.usable
	case <-time.After(openTime):
		return false
	}
}

// describe returns what is known before the job starts.
func describe(o *settings.Options, plan launcher.Plan, programs []launcher.Program, io Streams) control.Job {
	j := control.Job{
		Name:     o.Control.Name,
		PID:      os.Getpid(),
		Size:     plan.Size,
		Elastic:  o.Elastic.Given(),
		Detached: io.Waiting != nil,
	}
	j.Dir, _ = os.Getwd()
	j.Program = firstArgv(programs)
	for _, h := range plan.Hosts {
		host := control.Host{Host: h.Name}
		for _, r := range h.Ranks {
			host.Ranks = append(host.Ranks, r.Rank)
		}
		j.Hosts = append(j.Hosts, host)
	}
	return j
}

// firstArgv returns the words of the first program.
func firstArgv(programs []launcher.Program) []string {
	if len(programs) == 0 {
		return nil
	}
	return programs[0].Argv
}

// add takes a piece of a rank's output.
func (s *shared) add(rank, fd int, at time.Time, data []byte) {
	if s != nil {
		s.server.Add(rank, fd, at, data)
	}
}

// id returns the job's id, or "" if it has none.
func (s *shared) id() string {
	if s == nil {
		return ""
	}
	return s.server.Job().ID
}

// follow takes a step of the job.
func (s *shared) follow(event launcher.Event) {
	if s == nil {
		return
	}
	switch e := event.(type) {
	case launcher.Started:
		s.run(e.At)
	case launcher.Membership:
		s.run(e.At)
	case launcher.Spawned:
		s.server.Update(func(j *control.Job) {
			j.Spawned += len(e.Ranks)
			j.Last = max(j.Last, slices.Max(e.Ranks))
		})
	case launcher.Exited:
		s.run(0)
		exit := control.Exit{
			Rank:    e.Exit.Rank,
			Host:    e.Host,
			Code:    e.Exit.Code,
			Signal:  e.Exit.Signal,
			Stopped: e.Exit.Stopped,
			Seconds: max(0, e.Exit.At-s.started).Seconds(),
		}
		s.server.Update(func(j *control.Job) { j.Exits = append(j.Exits, exit) })
	}
}

// run records that ranks run, and tells the gorun that waits for that.
func (s *shared) run(at time.Duration) {
	first := false
	s.server.Update(func(j *control.Job) {
		if first = j.State == control.Starting; first {
			j.State = control.Running
			j.Running = time.Now()
		}
	})
	if !first {
		return
	}
	s.ready() // so that a job whose ranks run is found
	s.started = at
	if s.waiting != nil {
		Leave(s.waiting, s.server.Job().ID)
	}
}

// Leave tells the gorun that waits that a background gorun is found by id, and gives up the
// terminal.
func Leave(waiting *os.File, id string) {
	_ = json.NewEncoder(waiting).Encode(Detached{ID: id}) // that gorun may have been killed
	waiting.Close()
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		_ = replace(2, null)
		null.Close()
	}
}

// finish records the end of the job.
func (s *shared) finish(code int, cause string) {
	if s == nil {
		return
	}
	s.console.Copy(nil)
	if !s.ready() {
		return
	}
	s.server.Finish(code, cause)
}

func (s *shared) close() {
	if s == nil {
		return
	}
	s.console.Copy(nil)
	if !s.ready() {
		return
	}
	if err := s.server.Close(); err != nil {
		s.console.Tracef("ending the job's socket: %v", err) // the next gorun ps removes what is left
	}
}

// Detached is what a detached job's gorun tells the one that started it.
type Detached struct {
	ID string `json:"id"`
}

// DetachedCommand is the hidden command of a detached job's gorun: the words of the job follow.
// File 3 is the pipe on which it sends a Detached when the ranks run.
const DetachedCommand = "__detached"

// Detach starts a gorun of its own session with the words of this one, and waits until its ranks
// run. Signals are passed on to it until then. code is its exit code if it ended before.
func Detach(argv []string, stderr *os.File, caught <-chan os.Signal) (id string, code int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return "", 0, fmt.Errorf("start a detached job: %w", err)
	}
	defer read.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		write.Close()
		return "", 0, fmt.Errorf("start a detached job: %w", err)
	}
	defer null.Close()
	self, err := buildid.Self()
	if err != nil {
		write.Close()
		return "", 0, fmt.Errorf("start a detached job: %w", err)
	}
	child, err := os.StartProcess(self, slices.Concat(argv[:1], []string{DetachedCommand}, argv[1:]), &os.ProcAttr{
		Files: []*os.File{null, null, stderr, write}, Sys: &syscall.SysProcAttr{Setsid: true}})
	write.Close()
	if err != nil {
		return "", 0, fmt.Errorf("start a detached job: %w", err)
	}
	heard := make(chan Detached, 1)
	go func() {
		var d Detached
		_ = json.NewDecoder(read).Decode(&d) // the end of the pipe is an answer too
		heard <- d
	}()
	for {
		select {
		case s := <-caught:
			_ = child.Signal(s)
		case d := <-heard:
			if d.ID != "" {
				return d.ID, 0, child.Release()
			}
			state, err := child.Wait()
			if err != nil {
				return "", 0, fmt.Errorf("wait for the detached job: %w", err)
			}
			if status := state.Sys().(syscall.WaitStatus); status.Signaled() {
				return "", 128 + int(status.Signal()), nil
			}
			return "", state.ExitCode(), nil
		}
	}
}
