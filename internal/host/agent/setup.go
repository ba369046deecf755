package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/gorun/gorun/internal/files/pyenv"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/host/memexec"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/host/tool"
	"github.com/gorun/gorun/internal/net/wire"
)

// setUp answers the launcher until the job is ready to start. It refuses what this host cannot do.
func (a *agent) setUp(ctx context.Context, frames *wire.Reader, build string) error {
	f, err := a.next(frames, helloTime)
	if err != nil {
		return fmt.Errorf("wait for the launcher's %s: %w", wire.TypeHello, err)
	}
	var hello wire.Hello
	if err := f.Expect(wire.TypeHello, &hello); err != nil {
		return err
	}
	if hello.Protocol != wire.Protocol || hello.Build != build {
		return errors.New("the launcher is another build")
	}
	if err := a.readJob(ctx, frames); err != nil {
		return err
	}
	if err := a.prepareJob(ctx, frames); err != nil {
		return a.refuse(err)
	}
	a.master = seat.HoldPort()
	a.openLine()
	return a.out.SendMessage(wire.TypeReady, wire.Ready{
		FreePort:  a.master.Number,
		Places:    a.locations(),
		Contained: a.cage.String(),
		Note:      a.needs.Note,
		PMIx:      a.needs.PMIx,
		GPUs:      a.host.GPUs,
		Line:      a.line != nil,
	})
}

// readJob reads frames up to the job and handles those before it: gorun-gpu, GPU listings, counts,
// a work folder and files.
func (a *agent) readJob(ctx context.Context, frames *wire.Reader) error {
	for {
		f, err := a.next(frames, helloTime)
		if err != nil {
			return fmt.Errorf("wait for the launcher's %s: %w", wire.TypeJob, err)
		}
		switch f.Type {
		case wire.TypeProgram:
			if err := a.addProgram(f.Payload); err != nil {
				return err
			}
		case wire.TypeListGPUs:
			inventory, err := a.host.Inventory(ctx, a.sent)
			if err != nil {
				return a.refuse(err)
			}
			if err := a.out.SendMessage(wire.TypeGPUs, inventory); err != nil {
				return err
			}
		case wire.TypeCount:
			units, err := a.host.Units()
			if err != nil {
				return a.refuse(err)
			}
			if err := a.out.SendMessage(wire.TypeUnits, units); err != nil {
				return err
			}
		case wire.TypeFolder, wire.TypeOffer:
			if err := a.receive(ctx, f, frames); err != nil {
				return a.refuse(err)
			}
		default:
			return f.Expect(wire.TypeJob, &a.job)
		}
	}
}

// addProgram appends a piece of gorun-gpu, compressed.
func (a *agent) addProgram(piece []byte) error {
	if !a.host.LacksGPUProgram || len(piece) == 0 || len(a.sent)+len(piece) >= memexec.MaxSize {
		return &wire.FormatError{Reason: fmt.Sprintf("unexpected piece of %d bytes after %d of a program", len(piece),
			len(a.sent))}
	}
	a.sent = append(a.sent, piece...)
	return nil
}

// receive updates this host's copy of the work folder, or takes a file that hosts pass on. first is
// the first frame about it.
func (a *agent) receive(ctx context.Context, first wire.Frame, frames *wire.Reader) error {
	home, err := os.UserHomeDir()
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { a.exit("was told to end: " + context.Cause(ctx).Error()) })
	defer stop()
	defer debug.FreeOSMemory() // the list of a large folder takes memory that ranks need
	next := func() (wire.Frame, error) { return a.next(frames, Lease) }
	if first.Type == wire.TypeOffer {
		return relay.Receive(ctx, first.Payload, next, a.out, func(o wire.Offer) (relay.Target, error) {
			if o.Use == wire.UseEnvironment {
				return pyenv.Open(o, home)
			}
			return relay.Keep(o, home)
		})
	}
	return workdir.Receive(ctx, first.Payload, next, a.out, home)
}

// prepareJob validates the job and reserves what its ranks need.
func (a *agent) prepareJob(ctx context.Context, frames *wire.Reader) (err error) {
	if err := checkRanks(a.job); err != nil {
		return err
	}
	if a.job.NoNewPrivileges {
		if err := dropPrivileges(); err != nil {
			return err
		}
	}
	if a.progs, err = prepare(a.job, os.Environ()); err != nil {
		return err
	}
	var need wire.Need
	for i, p := range a.progs {
		a.progs[i].mpi = services.FindMPI(ctx, a.job, p.path, p.argv, p.dir, p.env)
		a.progs[i].mpi.AddTo(&need, p.apart)
	}
	if err := a.askMPI(frames, need); err != nil {
		return err
	}
	for i, p := range a.progs {
		a.needs.Add(a.job, p.argv[0], a.progs[i].mpi, p.apart, p.env)
	}
	if a.tools, err = tool.Prepare(a.job, func(r wire.Rank, argv []string) (string, error) {
		return a.progs[r.Program].find(argv)
	}); err != nil {
		return err
	}
	if err := a.sit(); err != nil {
		return err
	}
	return a.openServices()
}

// askMPI requests what programs of Open MPI need.
func (a *agent) askMPI(frames *wire.Reader, need wire.Need) error {
	if need == (wire.Need{}) {
		return nil
	}
	if err := a.out.SendMessage(wire.TypeNeed, need); err != nil {
		return err
	}
	f, err := a.next(frames, helloTime)
	if err != nil {
		return fmt.Errorf("wait for the launcher's %s: %w", wire.TypeMPI, err)
	}
	var got wire.MPI
	if err := f.Expect(wire.TypeMPI, &got); err != nil {
		return err
	}
	a.job.MPI.OpenMPI4 = got.OpenMPI4
	a.job.MPI.PMIx = got.PMIx
	return nil
}

// refuse reports err to the launcher and returns it.
func (a *agent) refuse(err error) error {
	refusal := &wire.Refuse{Code: wire.CodeHostFailed, What: err.Error()}
	errors.As(err, &refusal)
	return errors.Join(err, a.out.SendMessage(wire.TypeRefuse, refusal))
}

// next returns the launcher's next frame but heartbeats. The process exits if no frame comes within
// limit.
func (a *agent) next(frames *wire.Reader, limit time.Duration) (wire.Frame, error) {
	for {
		watchdog := time.AfterFunc(limit, func() { a.exit(fmt.Sprintf("ended: no word from gorun for %v", limit)) })
		f, err := frames.Next()
		watchdog.Stop()
		if err != nil || f.Type != wire.TypeHeartbeat {
			return f, err
		}
	}
}

// exit ends the process with a reason for the launcher.
func (a *agent) exit(reason string) {
	a.removeCage()
	fmt.Fprintln(os.Stderr, "gorun agent:", reason)
	os.Exit(wire.CodeHostFailed)
}
