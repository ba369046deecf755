package job

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// hangReporter saves the stacks of all ranks when the job hangs, when ranks wait long for others,
// when the job has run too long, and on request.
type hangReporter struct {
	hosts     hostRequests
	o         *settings.Options
	size      int
	console   *ui.UI
	control   *controlServer      // set, like published, before a rank runs: without ranks there is no report
	published *publish.Publishing // gets the reports too; nil: nothing is published
	printed   atomic.Int64        // when a rank printed last, in Unix nanoseconds
	stalls    stacks.Stalls
	wg        sync.WaitGroup
	life      context.Context // ends with Close
	stop      context.CancelFunc
}

func newHangReporter(o *settings.Options, size int, hosts hostRequests, console *ui.UI) *hangReporter {
	h := &hangReporter{
		hosts:   hosts,
		o:       o,
		size:    size,
		console: console,
	}
	h.life, h.stop = context.WithCancel(context.Background())
	return h
}

// stalled takes the stacks when ranks have not come to a collective.
func (h *hangReporter) stalled(report string) {
	if h.stalls.Due(time.Now()) {
		h.wg.Go(func() { _ = h.report(h.life, report) })
	}
}

// Bounds of the lines of a report. The file of reports has all lines.
const (
	reportLines = 24  // lines at the terminal
	recordLines = 120 // lines in a record of the run
)

// report writes the stacks of all ranks to a file, and returns the most important lines.
func (h *hangReporter) report(ctx context.Context, why string) string {
	all, err := h.hosts.look(ctx, nil)
	if err != nil {
		return "" // no ranks run
	}
	full := fmt.Sprintf("%s: %s\n\n%s", time.Now().Format(time.DateTime), why,
		stacks.View{Size: h.size, All: true}.Text(all))
	path, err := h.save(full)
	if err != nil {
		h.console.Warningf("the stacks of the ranks could not be saved: %v", err)
	} else {
		h.console.Notef("the stacks of the ranks are in %s", path)
	}
	if h.published != nil {
		h.published.Stacks(why, stacks.View{Size: h.size, Lines: recordLines}.Text(all))
	}
	return stacks.View{Size: h.size, Lines: reportLines}.Text(all)
}

// save writes a new file: beside the ranks' output or into the record if one is saved, else in the
// job's folder. Without any of them it is in the current folder.
func (h *hangReporter) save(text string) (path string, err error) {
	dir := cmp.Or(h.o.OutputFilename, h.o.Watch.Record, h.control.folder())
	name := "stacks"
	if dir == "" {
		name = fmt.Sprintf("gorun-stacks-%d", os.Getpid())
	}
	for n := 1; n < 100; n++ {
		path = filepath.Join(dir, name+".txt")
		if n > 1 {
			path = filepath.Join(dir, fmt.Sprintf("%s-%d.txt", name, n))
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			continue // the file of an earlier report
		}
		return path, trust.WriteFile(path, []byte(text))
	}
	return "", fmt.Errorf("%s: there are 99 such files", path)
}

// overdue reports on a job that has run longer than --timeout.
func (h *hangReporter) overdue() {
	_ = h.report(context.Background(), "the job has run longer than --timeout")
}

// requested reports at the user's request.
func (h *hangReporter) requested() {
	if h.report(h.life, "requested by SIGQUIT") == "" {
		h.console.Notef("no rank runs, so there are no stacks")
	}
}

// Bounds on the time between two looks at a job that is watched.
const minLook = 250 * time.Millisecond
const maxLook = 30 * time.Second

// watch finds hangs until Close. With --on-hang kill it ends the job.
func (h *hangReporter) watch(requests *ui.Requests) {
	limit := time.Duration(h.o.Hang.Timeout)
	if limit <= 0 {
		return
	}
	h.wg.Go(func() {
		tick := time.NewTicker(min(max(limit/8, minLook), maxLook))
		defer tick.Stop()
		w := stacks.Watch{Limit: limit}
		told := map[*session.Session][]stacks.Pulse{}
		for {
			select {
			case <-h.life.Done():
				return
			case <-tick.C:
			}
			var err error
			if told, err = h.pulses(h.life, told); err != nil || h.life.Err() != nil {
				continue // no rank runs
			}
			pulses := slices.Concat(slices.Collect(maps.Values(told))...)
			if !w.Sample(time.Now(), pulses, time.Unix(0, h.printed.Load())) {
				continue
			}
			h.console.Warningf("the job makes no progress: for %v no rank has printed or finished a collective, and "+
				"ranks wait or are idle", limit)
			h.console.Table(h.report(h.life, "no rank has made progress for "+limit.String()))
			if h.o.Hang.On == "kill" {
				requests.Hung(h.console)
			}
		}
	})
}

const (
	maxPulse = 256 // bytes that tell of a rank's progress
	spare    = 64  // ranks that may be spawned while their host is asked
)

// pulses asks all hosts whether their ranks make progress. What a host does not tell is no
// progress: it is as in the answer before.
func (h *hangReporter) pulses(ctx context.Context, before map[*session.Session][]stacks.Pulse) (
	told map[*session.Session][]stacks.Pulse, err error) {
	hosts, err := h.hosts.perHost(nil)
	if err != nil {
		return before, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, stacksLimit, errors.New("it does not answer"))
	defer cancel()
	told = map[*session.Session][]stacks.Pulse{}
	var mu sync.Mutex
	return told, each(hosts, func(s *session.Session, _ []int) error {
		out, err := ask(ctx, s, wire.Ask{Kind: wire.AskPulse}, maxPulse*(spare+len(s.Host.Ranks)+len(s.Spawned())))
		var pulses []stacks.Pulse
		if err == nil {
			pulses, err = readPulses(out, s.Identity)
		}
		if err != nil {
			pulses = orIdle(before[s], s.Identity)
		}
		mu.Lock()
		defer mu.Unlock()
		told[s] = pulses
		return nil
	})
}

// readPulses reads what a host says of its ranks, of each once.
func readPulses(out []byte, id session.Identity) (all []stacks.Pulse, err error) {
	for line := range bytes.Lines(out) {
		var p stacks.Pulse
		if err := json.Unmarshal(line, &p); err != nil {
			return nil, fmt.Errorf("read whether its ranks make progress: %w", err)
		}
		if !id.Owns(p.Rank) {
			return nil, session.ForeignRank(p.Rank)
		}
		p.Rank = keyOf(p.Rank, id)
		if slices.ContainsFunc(all, func(other stacks.Pulse) bool { return other.Rank == p.Rank }) {
			return nil, fmt.Errorf("it tells twice of rank %d", p.Rank)
		}
		all = append(all, p)
	}
	return all, nil
}

// orIdle returns the pulses of a host that does not tell: the earlier ones, or those of idle ranks.
func orIdle(before []stacks.Pulse, id session.Identity) (all []stacks.Pulse) {
	if before != nil {
		return before
	}
	for _, rank := range id.Host.Numbers() {
		all = append(all, stacks.Pulse{Rank: keyOf(rank, id)})
	}
	return all
}

// keyOf is what a rank is known by as long as it runs. Ranks of an elastic job change their
// numbers.
func keyOf(rank int, id session.Identity) int {
	if id.Now != nil {
		return id.Index
	}
	return rank
}

// output counts output of a rank as progress.
func (h *hangReporter) output() { h.printed.Store(time.Now().UnixNano()) }

func (*hangReporter) Event(launcher.Event) {}

func (*hangReporter) End(ui.Outcome) {}

// Close ends the watch, and reports that are under way.
func (h *hangReporter) Close() {
	h.stop()
	h.wg.Wait()
}
