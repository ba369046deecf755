package probe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/rankenv"
)

// Command is gorun's hidden command that runs a probe. Its argument is a doctor.Plan as JSON.
const Command = "__doctor"

// Line is one result of a probe; one of its fields is set.
type Line struct {
	Facts    *doctor.Facts `json:"facts,omitempty"`
	Speed    *doctor.Speed `json:"speed,omitempty"`
	Link     *doctor.Link  `json:"link,omitempty"`
	Waited   *Waited       `json:"waited,omitempty"`
	Alone    bool          `json:"alone,omitempty"` // other probes did not come to meet this one in time
	Finished bool          `json:"finished,omitempty"`
}

// Waited is the share of a turn for which this probe waited for a core when another one dialed.
type Waited struct {
	From  int     `json:"from"`
	Share float64 `json:"share"`
}

// Surroundings is the environment of a probe; tests replace it.
type Surroundings struct {
	Lookup  func(string) (string, bool) // lookup of environment variables
	Now     func() time.Time            // clock that other hosts compare with theirs
	Facts   func(ctx context.Context, plan doctor.Plan, machines []doctor.Machine) doctor.Facts
	Machine func() doctor.Machine
	Listen  func(ctx context.Context, addr string) (net.Listener, error)
	// Patience is how long the other hosts are waited for, all waits together.
	Patience time.Duration
}

// Main examines this host and writes the results to out, whatever is wrong with the host.
func Main(ctx context.Context, args []string, out io.Writer) error {
	return Run(ctx, args, out, Surroundings{
		Lookup:  os.LookupEnv,
		Now:     time.Now,
		Facts:   facts,
		Machine: machine,
		Listen: func(ctx context.Context, addr string) (net.Listener, error) {
			return (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
		},
		Patience: patience,
	})
}

// Run is Main in given surroundings. An error means that no examination was possible.
func Run(ctx context.Context, args []string, out io.Writer, in Surroundings) error {
	var plan doctor.Plan
	if len(args) != 1 || json.Unmarshal([]byte(args[0]), &plan) != nil {
		return errors.New("this command is internal to gorun")
	}
	self, launched, err := rankenv.FromEnviron(in.Lookup)
	if err == nil && !launched {
		err = errors.New("gorun has not started this process")
	}
	if err != nil {
		return err
	}
	lines := &lines{out: json.NewEncoder(out)}
	var p *party
	if plan.Speed > 0 || plan.Pairs == nil || len(plan.Pairs) > 0 {
		if p, err = gather(ctx, plan, self, in); err == nil {
			defer p.listener.Close()
			plan.Version = plan.Versions(p.machines, self.Rank)
		}
	}
	var machines []doctor.Machine
	if p != nil {
		machines = p.machines
	}
	found := in.Facts(ctx, plan, machines)
	lines.write(Line{Facts: &found})
	if err == nil && p != nil {
		err = p.measureAll(ctx, plan, lines)
	}
	alone := errors.Is(err, errAlone) && ctx.Err() == nil
	switch {
	case alone: // another host's fault, and no reason for this host's probe to fail
		lines.write(Line{Alone: true})
	case err != nil:
		return errors.Join(err, lines.err)
	}
	lines.write(Line{Finished: true})
	if alone && errors.Is(err, context.DeadlineExceeded) {
		<-ctx.Done() // the end of this probe would fail the fences of those that go on
	}
	return lines.err
}

// measureAll measures the speed of this host, and its links.
func (p *party) measureAll(ctx context.Context, plan doctor.Plan, lines *lines) error {
	if plan.Speed > 0 {
		if err := p.wait(ctx, "speeds", plan.Version); err != nil {
			return err
		}
		began := time.Now()
		start, kernel, end := plan.SpeedTurn(p.machines, p.self.Rank)
		if !sleepUntil(ctx, began.Add(start)) {
			return ctx.Err()
		}
		fast := speed(ctx, kernel)
		lines.write(Line{Speed: &fast})
		sleepUntil(ctx, began.Add(end))
	}
	if len(p.timetable.Turns) == 0 {
		return nil
	}
	if err := p.wait(ctx, "turns", plan.Version); err != nil {
		return err
	}
	return p.meet(ctx, lines.write)
}

// lines writes results. It is safe for concurrent use.
type lines struct {
	mu  sync.Mutex
	out *json.Encoder
	err error
}

func (l *lines) write(line Line) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = errors.Join(l.err, l.out.Encode(line))
}
