package job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/publish"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/session"
)

// observer writes down what ranks do when the job hangs, when ranks wait long for others, or when
// it has run too long.
type observer struct {
	talks     talks
	o         *settings.Options
	size      int
	console   *ui.UI
	shared    atomic.Pointer[shared]
	published atomic.Pointer[publish.Publishing]
	printed   atomic.Int64 // when a rank printed last, in Unix nanoseconds; only kept while the job is watched
	stalls    stacks.Stalls
	wg        sync.WaitGroup
	life      context.Context // ends with close
	stop      context.CancelFunc
}

// newObserver returns an observer of the job with a roster.
func newObserver(o *settings.Options, plan launcher.Plan, roster *launcher.Roster, console *ui.UI) *observer {
	b := &observer{
		talks:   talks{roster: roster},
		o:       o,
		size:    plan.Size,
		console: console,
	}
	b.life, b.stop = context.WithCancel(context.Background())
	return b
}

// stalled takes the stacks when ranks have not come to a collective.
func (b *observer) stalled(report string) {
	if b.stalls.Due(time.Now()) {
		b.wg.Go(func() { _ = b.report(b.life, report) })
	}
}

// share names reports by the id of the job.
func (b *observer) share(s *shared) { b.shared.Store(s) }

// id is the job's, or else gorun's own number.
func (b *observer) id() string {
	if s := b.shared.Load(); s != nil && s.ready() {
		return s.server.ID()
	}
	return fmt.Sprint(os.Getpid())
}

// Lines of a report at the terminal, and in a record of the run. The file has all.
const reportLines = 24
const recordLines = 120

// report takes the stacks of all ranks, writes them to a file, and returns the most important
// lines.
func (b *observer) report(ctx context.Context, why string) string {
	all, err := b.talks.look(ctx, nil)
	if err != nil {
		return "" // no ranks run
	}
	full := fmt.Sprintf("%s: %s\n\n%s", time.Now().Format(time.DateTime), why,
		stacks.View{Size: b.size, All: true}.Text(all))
	path, err := b.save(full)
	if err != nil {
		b.console.Warningf("the stacks of the ranks could not be saved: %v", err)
	} else {
		b.console.Notef("the stacks of the ranks are in %s", path)
	}
	if p := b.published.Load(); p != nil {
		p.Stacks(why, stacks.View{Size: b.size, Lines: recordLines}.Text(all))
	}
	return stacks.View{Size: b.size, Lines: reportLines}.Text(all)
}

// save writes a new file: beside the ranks' output if that is saved, else in the current folder.
func (b *observer) save(text string) (path string, err error) {
	dir := b.o.OutputFilename
	name := "stacks"
	if dir == "" {
		name = "gorun-stacks-" + b.id()
	}
	for n := 1; n < 100; n++ {
		path = filepath.Join(dir, name+".txt")
		if n > 1 {
			path = filepath.Join(dir, fmt.Sprintf("%s-%d.txt", name, n))
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue // of an earlier report
		}
		file, err := trust.Create(path)
		if err != nil {
			return "", err
		}
		_, err = file.WriteString(text)
		return path, errors.Join(err, file.Close())
	}
	return "", fmt.Errorf("%s: there are 99 such files", path)
}

// overdue reports on a job that has run longer than --timeout.
func (b *observer) overdue() {
	_ = b.report(context.Background(), "the job has run longer than --timeout")
}

// requested reports because the user wants to know.
func (b *observer) requested() {
	if b.report(b.life, "requested by SIGQUIT") == "" {
		b.console.Notef("no rank runs, so there are no stacks")
	}
}

// Bounds on the time between two looks at a job that is watched.
const minLook = 250 * time.Millisecond
const maxLook = 30 * time.Second

// watch finds hangs until close. With --on-hang kill it ends the job.
func (b *observer) watch(requests *ui.Requests) {
	limit := time.Duration(b.o.Hang.Timeout)
	if limit <= 0 {
		return
	}
	ctx := b.life
	b.wg.Go(func() {
		tick := time.NewTicker(min(max(limit/8, minLook), maxLook))
		defer tick.Stop()
		w := stacks.Watch{Limit: limit}
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			pulses, err := b.pulses(ctx)
			if err != nil || !w.Sample(time.Now(), pulses, time.Unix(0, b.printed.Load())) {
				continue
			}
			b.console.Warningf("the job makes no progress: for %v no rank has printed or finished a collective, and "+
				"ranks wait or are idle", limit)
			b.console.Table(b.report(ctx, "no rank has made progress for "+limit.String()))
			if b.o.Hang.On == "kill" {
				requests.Hung(b.console)
			}
		}
	})
}

// pulses asks all hosts whether their ranks make progress. An error means that it is not known of
// some.
func (b *observer) pulses(ctx context.Context) (all []stacks.Pulse, err error) {
	hosts, err := b.talks.perHost(nil)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stacksLimit, errors.New("it does not answer"))
	defer cancel()
	var mu sync.Mutex
	err = each(hosts, func(s *session.Session, _ []int) error {
		out, err := ask(ctx, s, wire.Ask{Kind: wire.AskPulse}, maxStacks)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for line := range bytes.Lines(out) {
			var p stacks.Pulse
			if err := json.Unmarshal(line, &p); err != nil {
				return fmt.Errorf("%s: read whether its ranks make progress: %w", s.Host.Name, err)
			}
			all = append(all, p)
		}
		return nil
	})
	return all, err
}

// tap wraps a launcher.Options.Tap, so that output counts as progress.
func (b *observer) tap(next func(rank, fd int, at time.Time, data []byte)) func(rank, fd int, at time.Time,
	data []byte) {
	if b.o.Hang.Timeout <= 0 {
		return next
	}
	return func(rank, fd int, at time.Time, data []byte) {
		b.printed.Store(time.Now().UnixNano())
		if next != nil {
			next(rank, fd, at, data)
		}
	}
}

// close ends the watch, and reports that are under way.
func (b *observer) close() {
	b.stop()
	b.wg.Wait()
}
