package job

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// controlServer lets the user's other processes see and direct the job.
type controlServer struct {
	server  *control.Server
	console *ui.UI
	waiting *os.File // gorun that waits for the id, as in [Streams]
	opened  chan struct{}
	usable  bool // the server listens; valid when opened is closed
	started time.Duration
}

// openControl makes the job's socket, without which a detached job does not start. Other jobs do,
// unless a running job has their name.
func openControl(r *run, hosts hostRequests, requests *ui.Requests) (*controlServer, error) {
	console := r.console
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
		Job:     describeJob(r),
		Actions: control.Actions{Stop: stop, Stream: hosts.serve},
		Failed:  failed,
	})
	s := &controlServer{
		server:  server,
		console: console,
		waiting: r.io.Waiting,
		opened:  make(chan struct{}),
	}
	if r.io.Waiting == nil && r.o.Control.Name == "" {
		go func() { // meanwhile gorun connects to hosts, which takes longer; ready waits for it
			defer close(s.opened)
			s.listen()
		}()
	} else {
		defer close(s.opened)
		err := s.listen()
		if taken := new(control.NameTakenError); errors.As(err, &taken) {
			return nil, usage.Errorf(taken.Hint(), "--name: %w", taken)
		}
		if err != nil && r.io.Waiting != nil {
			return nil, usage.Errorf("set XDG_STATE_HOME to a folder of yours on a local disk", "detach the job: %w",
				err)
		}
	}
	console.Copy(func(line string) { server.Add(control.Own, 2, time.Now(), []byte(line)) })
	return s, nil
}

func (s *controlServer) listen() error {
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
func (s *controlServer) ready() bool {
	select {
	case <-s.opened:
		return s.usable
	case <-time.After(openTime):
		return false
	}
}

func describeJob(r *run) control.Job {
	j := control.Job{
		Name:     r.o.Control.Name,
		PID:      os.Getpid(),
		Size:     r.plan.Size,
		Elastic:  r.o.Elastic.Given(),
		Detached: r.io.Waiting != nil,
		Program:  firstArgv(r.opts.Programs),
	}
	j.Dir, _ = os.Getwd()
	for _, h := range r.plan.Hosts {
		j.Hosts = append(j.Hosts, control.Host{Host: h.Name, Ranks: h.Numbers()})
	}
	return j
}

// firstArgv returns the words of the first program, or those of this gorun if it is the program.
func firstArgv(programs []launcher.Program) []string {
	if len(programs) == 0 {
		return nil
	}
	if programs[0].Argv[0] == "/proc/self/exe" {
		return slices.Concat([]string{"gorun"}, os.Args[1:])
	}
	return programs[0].Argv
}

// add records a piece of a rank's output. A nil server drops it.
func (s *controlServer) add(rank, fd int, at time.Time, data []byte) {
	if s != nil {
		s.server.Add(rank, fd, at, data)
	}
}

// id returns the job's id, or "" if it has none.
func (s *controlServer) id() string {
	if s == nil || !s.ready() {
		return ""
	}
	return s.server.ID()
}

// folder returns the job's folder for what is kept after its end, or "" if it has none.
func (s *controlServer) folder() string {
	if s.id() == "" {
		return ""
	}
	dir, err := s.server.Folder()
	if err != nil {
		s.console.Tracef("making the job's folder: %v", err)
	}
	return dir
}

// Event updates the description of the job.
func (s *controlServer) Event(event launcher.Event) {
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

// run records that ranks run, and tells the gorun that waits for them.
func (s *controlServer) run(at time.Duration) {
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
	id := s.id() // waits until other processes can find the job
	s.started = at
	if s.waiting != nil {
		Leave(s.waiting, id)
	}
}

// End records the end of the job.
func (s *controlServer) End(end ui.Outcome) {
	s.console.Copy(nil)
	if s.ready() {
		s.server.Finish(end.Code(), end.Reason())
	}
}

// Close removes the socket.
func (s *controlServer) Close() {
	s.console.Copy(nil)
	if !s.ready() {
		return
	}
	if err := s.server.Close(); err != nil {
		s.console.Tracef("ending the job's socket: %v", err) // the next gorun ps removes what is left
	}
}
