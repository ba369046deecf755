package job

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/mpir"
	"github.com/gorun/gorun/cmd/gorun/internal/panes"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/tool"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/session"
)

// decideTools decides which ranks start below a tool, in a terminal, or stopped.
func decideTools(o *settings.Options, plan launcher.Plan, programs []launcher.Program,
	screen *ui.Screen) (tool.Decision, error) {
	r := tool.Request{
		Tools:    o.Tools.Tool,
		Debug:    o.Tools.Debug,
		Panes:    o.Tools.Panes,
		Job:      os.Getenv("SLURM_JOB_ID"),
		Plan:     plan,
		Programs: programs,
	}
	if screen != nil {
		r.Terminal = screen.Kind()
	}
	d, err := tool.Decide(r)
	if err != nil || d.Here < 0 && len(d.Panes) == 0 {
		return d, err
	}
	if len(d.Panes) > 0 && screen == nil && !o.DryRun {
		return d, usage.Errorf("leave it out, or start gorun in a terminal",
			"--panes shows ranks on this terminal, and standard input or output is none")
	}
	if len(d.Panes) > 0 && !o.DryRun && !panes.Installed() {
		return d, usage.Errorf("install it (Debian: apt-get install tmux)",
			"--panes shows ranks in tmux, which was not found in PATH")
	}
	if o.Stdin != "" && o.Stdin != "none" {
		return d, usage.Errorf("leave out --stdin", "--stdin %s: the tool of a rank reads this terminal", o.Stdin)
	}
	o.Stdin = "none"
	return d, nil
}

// sides is what gorun does beside the job for debuggers and terminals of ranks.
type sides struct {
	tool.Decision
	screen   *ui.Screen
	io       Streams
	roster   *launcher.Roster
	shared   *shared
	console  *ui.UI
	plan     launcher.Plan
	programs []launcher.Program
	table    *mpir.Server   // once debuggers of whole jobs can read it
	tmux     *panes.Session // once it is open

	stop func() // the job, whose ranks nobody could see

	started chan struct{}
	once    sync.Once
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// begin does what was decided when the ranks run.
func (s *sides) begin(ctx context.Context) {
	ctx, s.cancel = context.WithCancel(ctx)
	s.started = make(chan struct{})
	do := func(wanted bool, what string, f func(context.Context) error) {
		if !wanted {
			return
		}
		s.wg.Go(func() {
			select {
			case <-s.started:
			case <-ctx.Done():
				return
			}
			if err := f(ctx); err != nil && ctx.Err() == nil {
				s.console.Errorf("%s: %v", what, err)
				s.stop()
			}
		})
	}
	do(s.Here >= 0, "connecting this terminal with a rank", s.connect)
	do(len(s.Panes) > 0, "showing ranks in tmux", s.showPanes)
	do(len(s.Halts) > 0, "finding the ranks that wait for a debugger", s.announce)
}

// follow takes a step of the job.
func (s *sides) follow(event launcher.Event) {
	if _, ok := event.(launcher.Started); ok {
		s.once.Do(func() { close(s.started) })
	}
}

// finish waits until the terminal is gorun's again, after the job's end.
func (s *sides) finish() {
	s.once.Do(s.cancel) // the ranks did not start
	s.wg.Wait()
	s.cancel()
	if s.tmux != nil {
		s.tmux.Close()
	}
	if s.table != nil {
		s.table.Close()
	}
}

// sessionPoll is between looks for the session of a rank that has just started.
const sessionPoll = 5 * time.Millisecond

// session waits for the session of a rank.
func (s *sides) session(ctx context.Context, rank int) (*session.Session, error) {
	for deadline := time.Now().Add(openTime); ; {
		if found := s.roster.Of(rank); found != nil {
			return found, nil
		}
		if time.Now().After(deadline) {
			return nil, errNotRunning(rank)
		}
		select {
		case <-time.After(sessionPoll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func sizeOf(screen *ui.Screen) wire.Terminal {
	rows, columns := screen.Size()
	return wire.Terminal{Rows: rows, Columns: columns, Name: screen.Kind()}
}

// connect joins gorun's terminal with that of a rank until the rank ends.
func (s *sides) connect(ctx context.Context) error {
	from, err := s.session(ctx, s.Here)
	if err != nil {
		return err
	}
	size := sizeOf(s.screen)
	e, err := from.Ask(wire.Ask{Kind: wire.AskTerminal, Ranks: []int{s.Here}, Terminal: &size})
	if err != nil {
		return err
	}
	defer e.Close()
	keys, err := ui.NewInput(s.io.In)
	if err != nil {
		return err
	}
	restore, err := s.screen.Raw(func() { e.Resize(sizeOf(s.screen)) })
	if err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	defer restore()
	var input sync.WaitGroup
	defer input.Wait()
	defer keys.Close()
	input.Go(func() {
		buf := make([]byte, 4<<10)
		for {
			n, err := keys.Read(buf)
			if n > 0 {
				err = e.Input(buf[:n])
			}
			if err != nil {
				return
			}
		}
	})
	for {
		what, data, err := e.Next(ctx)
		switch {
		case err != nil:
			return nil // the host was lost, which the job's end says
		case what == wire.TellOut:
			if _, err := s.io.Out.Write(data); err != nil {
				return err
			}
		case what == wire.TellEnd:
			end, err := session.ParseEnd(data)
			if err == nil && end.Error != "" {
				err = fmt.Errorf("%s", end.Error)
			}
			return err
		}
	}
}

// maxAnnounced is the most ranks whose debugger is described.
const maxAnnounced = 32

// announce says how to attach a debugger to the ranks that wait.
func (s *sides) announce(ctx context.Context) error {
	job := ""
	if s.shared != nil && s.shared.ready() {
		job = s.shared.server.ID()
	}
	s.console.Notef("stopped for a debugger, before the first instruction: %s", prose.Count(len(s.Halts), "rank"))
	for _, rank := range s.Halts[:min(len(s.Halts), maxAnnounced)] {
		pids, err := s.processes(ctx, []int{rank})
		if err != nil {
			return err
		}
		if pids[rank] <= 0 {
			continue // it was let go, and has ended
		}
		attach := fmt.Sprintf("gdb -ex 'handle SIGCONT nostop noprint' -p %d", pids[rank])
		if job != "" {
			attach = fmt.Sprintf("gorun exec --rank %d %s %s", rank, job, attach)
		}
		s.console.Notef("rank %d on %s, process %d: %s", rank, prose.Printable(s.plan.Host(rank).Name), pids[rank],
			attach)
	}
	if more := len(s.Halts) - maxAnnounced; more > 0 {
		s.console.Notef("and %s more; --debug=RANKS chooses some", prose.Count(more, "rank"))
	}
	table, err := mpir.Show(ctx, s.plan, s.programs, s.processes)
	switch s.table = table; {
	case err != nil && ctx.Err() == nil:
		s.console.Warningf("there is no MPIR_proctable for debuggers of whole jobs: %v", err)
	case table != nil:
		s.console.Notef("for TotalView, DDT and the like: attach to process %d, gorun-mpir, which has MPIR_proctable",
			table.PID())
	}
	if job != "" {
		s.console.Notef("to let them go on: gorun kill --signal CONT %s", job)
	}
	return nil
}

// processes returns the processes of ranks of one host that run.
func (s *sides) processes(ctx context.Context, ranks []int) (pids map[int]int, err error) {
	from, err := s.session(ctx, ranks[0])
	if err != nil {
		return nil, err
	}
	const each = 32 // bytes for a rank and its process
	text, err := ask(ctx, from, wire.Ask{Kind: wire.AskProcesses, Ranks: ranks}, 1<<10+each*len(ranks))
	if err != nil {
		return nil, err
	}
	_ = json.Unmarshal(text, &pids) // a rank that is missing has ended
	return pids, nil
}

// showPanes shows ranks in tmux until the user leaves it.
func (s *sides) showPanes(ctx context.Context) error {
	if !s.shared.ready() {
		return fmt.Errorf("the job has no socket")
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	t := panes.Session{Gorun: exe, Job: s.shared.server.ID()}
	for _, rank := range s.Panes {
		t.Ranks = append(t.Ranks, panes.Rank{Rank: rank, Host: s.plan.Host(rank).Name})
	}
	rows, columns := s.screen.Size()
	s.tmux = &t
	if err := t.Open(ctx, rows, columns); err != nil {
		return err
	}
	return t.Show(ctx, s.io.In, s.io.Out)
}

// dryTool is a rank that starts otherwise than by its program's words.
type dryTool struct {
	Rank     int      `json:"rank"`
	Program  []string `json:"program,omitempty"`
	Terminal string   `json:"terminal,omitempty"` // "here" or "tmux"
	Stopped  bool     `json:"stopped,omitempty"`
}

func dryTools(d tool.Decision) (all []dryTool) {
	for _, t := range d.Tools {
		dry := dryTool{Rank: t.Rank, Program: t.Argv, Stopped: t.Halt}
		switch {
		case t.Rank == d.Here:
			dry.Terminal = "here"
		case slices.Contains(d.Panes, t.Rank):
			dry.Terminal = "tmux"
		}
		all = append(all, dry)
	}
	return all
}

// text describes a rank in a line.
func (t dryTool) text() string {
	text := fmt.Sprintf("rank %d:", t.Rank)
	if t.Program != nil {
		text += fmt.Sprintf(" %q", t.Program)
	}
	switch t.Terminal {
	case "here":
		text += " on this terminal"
	case "tmux":
		text += " in tmux"
	}
	if t.Stopped {
		text += " stopped for a debugger"
	}
	return text
}
