package job

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/mpir"
	"github.com/gorun/gorun/cmd/gorun/internal/panes"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/net/retry"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/session"
)

// rankTerminals connects the user's terminal with ranks, and debuggers with those that wait.
type rankTerminals struct {
	*run
	hosts   hostRequests
	control *controlServer // nil: the job has no id
	table   *mpir.Server   // once debuggers of whole jobs can read it
	tmux    *panes.Session // once it is open

	stopped <-chan struct{} // closed at the first request to stop the job
	started chan struct{}
	once    sync.Once // closes started, or cancels
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// open opens the terminals when the ranks run. It stops the job if that fails.
func (t *rankTerminals) open(ctx context.Context, requests *ui.Requests) {
	ctx, t.cancel = context.WithCancel(ctx)
	t.stopped = requests.Stopped
	t.started = make(chan struct{})
	do := func(wanted bool, what string, f func(context.Context) error) {
		if !wanted {
			return
		}
		t.wg.Go(func() {
			select {
			case <-t.started:
			case <-ctx.Done():
				return
			}
			if err := f(ctx); err != nil && ctx.Err() == nil {
				t.console.Errorf("%s: %v", what, err)
				requests.Stop(launcher.Stop{Reason: launcher.Terminated}, t.console)
			}
		})
	}
	do(t.tools.Here >= 0, "connecting this terminal with a rank", t.connect)
	do(len(t.tools.Panes) > 0, "showing ranks in tmux", t.showPanes)
	do(len(t.tools.Halts) > 0, "finding the ranks that wait for a debugger", t.announce)
}

// Event waits for the start of the ranks.
func (t *rankTerminals) Event(event launcher.Event) {
	if _, ok := event.(launcher.Started); ok {
		t.once.Do(func() { close(t.started) })
	}
}

// End waits until the terminal is gorun's again. Panes wait for a reader of what their ranks have
// printed, but not after Ctrl-C in a pane or a request to stop the job.
func (t *rankTerminals) End(end ui.Outcome) {
	left := make(chan struct{})
	go func() {
		defer close(left)
		t.wg.Wait()
	}()
	t.once.Do(t.cancel) // the ranks did not start
	if end.Result.Cause != nil && end.Code() == wire.SignalCode(syscall.SIGINT) {
		t.cancel()
	}
	select {
	case <-left:
	case <-t.stopped:
		t.cancel()
		<-left
	}
	t.cancel()
	if t.tmux != nil {
		t.tmux.Close()
	}
	if t.table != nil {
		t.table.Close()
	}
}

// Close waits for the work begun at the start of the ranks.
func (t *rankTerminals) Close() {
	t.once.Do(t.cancel) // the ranks did not start
	t.wg.Wait()
	t.cancel()
}

// sessionPoll is the interval between searches for the session of a rank that has just started.
const sessionPoll = 5 * time.Millisecond

// session waits for the session of a rank.
func (t *rankTerminals) session(ctx context.Context, rank int) (*session.Session, error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	return retry.Do(ctx, retry.Backoff(sessionPoll, sessionPoll), func(context.Context) (*session.Session, error) {
		if s := t.hosts.sessions.Of(rank); s != nil {
			return s, nil
		}
		return nil, errNotRunning(rank)
	})
}

// connect joins gorun's terminal with that of a rank until the rank ends.
func (t *rankTerminals) connect(ctx context.Context) error {
	from, err := t.session(ctx, t.tools.Here)
	if err != nil {
		return err
	}
	e, err := from.Ask(wire.Ask{
		Kind:     wire.AskTerminal,
		Ranks:    []int{t.tools.Here},
		Terminal: t.screen.Terminal(),
	})
	if err != nil {
		return err
	}
	defer e.Close()
	keys, err := ui.NewInput(t.io.In)
	if err != nil {
		return err
	}
	restore, err := t.screen.Raw(func() { e.Resize(*t.screen.Terminal()) })
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
			if _, err := t.io.Out.Write(data); err != nil {
				return err
			}
		case what == wire.TellEnd:
			end, err := e.End(data)
			if err == nil && end.Error != "" {
				err = fmt.Errorf("%s", end.Error)
			}
			return err
		}
	}
}

// maxAnnounced is the largest number of ranks with a described debugger.
const maxAnnounced = 32

// announce prints how to attach a debugger to the waiting ranks.
func (t *rankTerminals) announce(ctx context.Context) error {
	job := t.control.id()
	t.console.Notef("stopped for a debugger, before the first instruction: %s", prose.Count(len(t.tools.Halts), "rank"))
	for _, rank := range t.tools.Halts[:min(len(t.tools.Halts), maxAnnounced)] {
		pids, err := t.processes(ctx, []int{rank})
		if err != nil {
			return err
		}
		if pids[rank] <= 0 {
			continue // the debugger has released it, and it has ended
		}
		attach := fmt.Sprintf("gdb -ex 'handle SIGCONT nostop noprint' -p %d", pids[rank])
		if job != "" {
			attach = fmt.Sprintf("gorun exec --rank %d %s %s", rank, job, attach)
		}
		t.console.Notef("rank %d on %s, process %d: %s", rank, prose.Printable(t.plan.Host(rank).Name), pids[rank],
			attach)
	}
	if more := len(t.tools.Halts) - maxAnnounced; more > 0 {
		t.console.Notef("and %s more; --debug=RANKS chooses some", prose.Count(more, "rank"))
	}
	table, err := mpir.Show(ctx, t.plan, t.opts.Programs, t.processes)
	switch t.table = table; {
	case err != nil && ctx.Err() == nil:
		t.console.Warningf("there is no MPIR_proctable for debuggers of whole jobs: %v", err)
	case table != nil:
		t.console.Notef("for TotalView, DDT and the like: attach to process %d, gorun-mpir, which has MPIR_proctable",
			table.PID())
	}
	if job != "" {
		t.console.Notef("to let them go on: gorun kill --signal CONT %s", job)
	}
	return nil
}

// processes returns the processes of ranks of one host that run.
func (t *rankTerminals) processes(ctx context.Context, ranks []int) (pids map[int]int, err error) {
	from, err := t.session(ctx, ranks[0])
	if err != nil {
		return nil, err
	}
	ctx, cancel := answering(ctx, from)
	defer cancel()
	const each = 32 // bytes for a rank and its process
	text, err := ask(ctx, from, wire.Ask{Kind: wire.AskProcesses, Ranks: ranks}, 1<<10+each*len(ranks))
	if err != nil {
		return nil, err
	}
	_ = json.Unmarshal(text, &pids) // a rank that is missing has ended
	return pids, nil
}

// showPanes shows ranks in tmux until the user leaves it.
func (t *rankTerminals) showPanes(ctx context.Context) error {
	job := t.control.id()
	if job == "" {
		return fmt.Errorf("the job has no socket")
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	tmux := panes.Session{Gorun: exe, Job: job}
	for _, rank := range t.tools.Panes {
		tmux.Ranks = append(tmux.Ranks, panes.Rank{Rank: rank, Host: t.plan.Host(rank).Name})
	}
	rows, columns := t.screen.Size()
	t.tmux = &tmux
	if err := tmux.Open(ctx, rows, columns); err != nil {
		return err
	}
	return tmux.Show(ctx, t.io.In, t.io.Out)
}
