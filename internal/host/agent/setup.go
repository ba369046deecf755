package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/files/pyenv"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/memexec"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/net/wire"
)

// setup is the conversation with the launcher until the job is ready to start.
type setup struct {
	opts      Options
	guard     contain.Guard
	out       *wire.Writer
	frames    *wire.Reader
	procs     *processes
	cage      *contain.Cage
	host      *seat.Host
	addresses []wire.Address // addresses of this host
	memory    memoryReading  // memory before the ranks start
	sent      []byte         // gorun-gpu, compressed; nil: it was not sent
	job       wire.Job
	programs  []program
	tools     map[int]toolStart // by rank
	needs     services.MPI
}

func (s *setup) hello() error {
	h := wire.Hello{
		Protocol:        wire.Protocol,
		Build:           s.opts.Build,
		PID:             os.Getpid(),
		Arch:            runtime.GOARCH,
		Addresses:       s.addresses,
		Cores:           s.host.Cores,
		LacksGPUProgram: s.host.LacksGPUProgram,
		Partitioned:     s.host.Partitioned,
	}
	h.Hostname, _ = os.Hostname()
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	h.Boot = strings.TrimSpace(string(boot))
	// "client-ip client-port server-ip server-port", set by sshd.
	if c := strings.Fields(os.Getenv("SSH_CONNECTION")); len(c) == 4 {
		h.Caller = c[0]
		h.Reached = c[2]
	}
	return s.out.SendMessage(wire.TypeHello, h)
}

// agent answers the launcher until the job is ready to start, and returns the agent that runs it.
// It refuses what this host cannot do.
func (s *setup) agent(ctx context.Context) (*agent, error) {
	f, err := s.next(helloTime)
	if err != nil {
		return nil, fmt.Errorf("wait for the launcher's %s: %w", wire.TypeHello, err)
	}
	var hello wire.Hello
	if err := f.Expect(wire.TypeHello, &hello); err != nil {
		return nil, err
	}
	if hello.Protocol != wire.Protocol || hello.Build != s.opts.Build {
		return nil, errors.New("the launcher is another build")
	}
	if err := s.readJob(ctx); err != nil {
		return nil, err
	}
	var a *agent
	if err = s.prepareJob(ctx); err == nil {
		a, err = newAgent(s)
	}
	if err != nil {
		return nil, s.refuse(err)
	}
	a.starter.master = seat.HoldPort()
	a.line = lineOf(s.job)
	a.core = newCore(configOf(s.job, s.memory, a.line != nil), a.now())
	err = s.out.SendMessage(wire.TypeReady, wire.Ready{
		FreePort:  a.starter.master.Number,
		Places:    s.locations(),
		Contained: s.cage.String(),
		Note:      s.needs.Note,
		PMIx:      s.needs.PMIx,
		GPUs:      s.host.GPUs,
		Line:      a.line != nil,
	})
	if err != nil {
		a.services.Remove()
	}
	return a, err
}

// readJob reads frames up to the job and handles those before it: gorun-gpu, GPU listings, counts,
// a work folder and files, both ways.
func (s *setup) readJob(ctx context.Context) error {
	for {
		f, err := s.next(helloTime)
		if err != nil {
			return fmt.Errorf("wait for the launcher's %s: %w", wire.TypeJob, err)
		}
		switch f.Type {
		case wire.TypeProgram:
			if err := s.addProgram(f.Payload); err != nil {
				return err
			}
		case wire.TypeListGPUs:
			inventory, err := s.host.Inventory(ctx, s.sent)
			if err != nil {
				return s.refuse(err)
			}
			if err := s.out.SendMessage(wire.TypeGPUs, inventory); err != nil {
				return err
			}
		case wire.TypeCount:
			units, err := s.host.Units()
			if err != nil {
				return s.refuse(err)
			}
			if err := s.out.SendMessage(wire.TypeUnits, units); err != nil {
				return err
			}
		case wire.TypeFolder, wire.TypeOffer, wire.TypeFetch:
			if err := s.exchange(ctx, f); err != nil {
				return s.refuse(err)
			}
		default:
			return f.Expect(wire.TypeJob, &s.job)
		}
	}
}

// addProgram appends a piece of gorun-gpu, compressed.
func (s *setup) addProgram(piece []byte) error {
	if !s.host.LacksGPUProgram || len(piece) == 0 || len(s.sent)+len(piece) >= memexec.MaxSize {
		return &wire.FormatError{Reason: fmt.Sprintf("unexpected piece of %d bytes after %d of a program", len(piece),
			len(s.sent))}
	}
	s.sent = append(s.sent, piece...)
	return nil
}

// exchange updates this host's copy of the work folder, takes a file that hosts pass on, or sends
// files to the launcher. first is the first frame about it.
func (s *setup) exchange(ctx context.Context, first wire.Frame) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { s.exit("was told to end: " + context.Cause(ctx).Error()) })
	defer stop()
	defer debug.FreeOSMemory() // the list of a large folder takes memory that ranks need
	next := func() (wire.Frame, error) { return s.next(Lease) }
	switch first.Type {
	case wire.TypeFetch:
		var ask wire.Fetch
		if err := first.Decode(&ask); err != nil {
			return err
		}
		return fetch.Send(ctx, ask, next, s.out, home)
	case wire.TypeOffer:
		return relay.Receive(ctx, first.Payload, next, s.out, func(o wire.Offer) (relay.Target, error) {
			if o.Use == wire.UseEnvironment {
				return pyenv.Open(o, home)
			}
			return relay.Keep(o, home)
		})
	}
	return workdir.Receive(ctx, first.Payload, next, s.out, home)
}

// prepareJob validates the job and reserves what its ranks need.
func (s *setup) prepareJob(ctx context.Context) (err error) {
	if err := checkRanks(s.job); err != nil {
		return err
	}
	if s.job.NoNewPrivileges {
		if err := dropPrivileges(); err != nil {
			return err
		}
	}
	if s.programs, err = prepare(s.job, os.Environ()); err != nil {
		return err
	}
	var need wire.Need
	for i, p := range s.programs {
		s.programs[i].mpi = services.FindMPI(ctx, s.job, p.path, p.argv, p.place.Dir, p.env)
		s.programs[i].mpi.AddTo(&need, p.withoutFiles)
	}
	if err := s.askMPI(need); err != nil {
		return err
	}
	for i, p := range s.programs {
		s.needs.Add(s.job, p.argv[0], s.programs[i].mpi, p.withoutFiles, p.env)
	}
	if s.tools, err = prepareTools(s.job, func(r wire.Rank, argv []string) (string, error) {
		return s.programs[r.Program].find(argv)
	}); err != nil {
		return err
	}
	return s.assignSeats()
}

// assignSeats gives the ranks of every program their seats.
func (s *setup) assignSeats() error {
	var visible []seat.Visibility
	for _, p := range s.programs {
		visible = append(visible, seat.VisibleIn(p.env))
	}
	seats, err := s.host.Assign(s.job, visible, s.sent)
	s.sent = nil
	for i := range s.programs {
		s.programs[i].assign(seats)
	}
	return err
}

// locations describes the ranks' seats to the launcher.
func (s *setup) locations() []wire.Placement {
	var all []wire.Placement
	for _, r := range s.job.Ranks {
		all = append(all, s.host.Location(r.Rank, s.programs[r.Program].seatOf(r.LocalRank)))
	}
	return all
}

// askMPI requests what programs of Open MPI need.
func (s *setup) askMPI(need wire.Need) error {
	if need == (wire.Need{}) {
		return nil
	}
	if err := s.out.SendMessage(wire.TypeNeed, need); err != nil {
		return err
	}
	f, err := s.next(helloTime)
	if err != nil {
		return fmt.Errorf("wait for the launcher's %s: %w", wire.TypeMPI, err)
	}
	var got wire.MPI
	if err := f.Expect(wire.TypeMPI, &got); err != nil {
		return err
	}
	s.job.MPI.OpenMPI4 = got.OpenMPI4
	s.job.MPI.PMIx = got.PMIx
	return nil
}

// refuse reports err to the launcher and returns it.
func (s *setup) refuse(err error) error {
	refusal := &wire.Refuse{Code: wire.CodeHostFailed, What: err.Error()}
	errors.As(err, &refusal)
	return errors.Join(err, s.out.SendMessage(wire.TypeRefuse, refusal))
}

// next returns the launcher's next frame but heartbeats. The process exits if no frame comes within
// limit.
func (s *setup) next(limit time.Duration) (wire.Frame, error) {
	for {
		watchdog := time.AfterFunc(limit, func() { s.exit(fmt.Sprintf("ended: no word from gorun for %v", limit)) })
		f, err := s.frames.Next()
		watchdog.Stop()
		if err != nil || f.Type != wire.TypeHeartbeat {
			return f, err
		}
	}
}

// exit ends the process with a reason for the launcher.
func (s *setup) exit(reason string) {
	s.removeCage()
	fmt.Fprintln(os.Stderr, "gorun agent:", reason)
	os.Exit(wire.CodeHostFailed)
}

// removeCage removes the cage before any rank was started. The guard does so too, unless it was
// killed.
func (s *setup) removeCage() {
	s.procs.leave()
	s.cage.Remove()
}
