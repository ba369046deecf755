package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/output"
)

// View selects and styles a job's output.
type View struct {
	Ranks  [][2]int       // none: all
	Since  time.Duration  // 0: all that is kept
	Stderr bool           // only stderr
	Tail   int            // number of present lines to show, the last ones; 0: all
	Grep   *regexp.Regexp // only lines that match; nil: all
	Style  ui.LineStyle
	Screen [3]bool // index: fd; true: a terminal
}

// Logs prints a job's output, with follow to the job's end.
func Logs(ctx context.Context, place control.Place, name string, view View, follow bool, out,
	errs io.Writer) (err error) {
	f, err := place.Find(ctx, name)
	if err != nil {
		return err
	}
	if f.Client == nil && f.Log == "" {
		return usage.Errorf("start jobs with --detach, or with --output-filename DIR, to keep their output",
			"job %s has ended, and its output was not kept", f.ID)
	}
	if err := f.Reach(ctx); err != nil {
		return err
	}
	show, err := newShow(f.Job, view, out, errs)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, show.close()) }()
	from := int64(-1)
	if f.Log != "" {
		if from, err = control.ReadLog(f.Log, 0, show.record); err != nil {
			return fmt.Errorf("read the output of job %s: %w", f.ID, err)
		}
	}
	if f.Client == nil {
		return nil
	}
	if follow && view.Tail > 0 { // first what is there
		from, err = show.stream(ctx, f, from, false)
		show.endTail()
	}
	if err == nil {
		from, err = show.stream(ctx, f, from, follow)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	if now, findErr := place.Find(ctx, f.ID); findErr != nil || now.Client != nil || f.Log == "" {
		return fmt.Errorf("read the output of job %s: %w", f.ID, err)
	}
	_, err = control.ReadLog(f.Log, from, show.record) // the job has ended since its socket was found
	return err
}

// show is a printer of records.
type show struct {
	view        View
	size        int
	first       time.Time // records before are not shown
	streams     *output.Streams
	stderr      io.Writer
	tail        *tail // nil: all lines are shown
	mu          sync.Mutex
	broken      error
	room        sync.Cond
	outstanding int
}

// maxOutstanding bounds the cost of records that wait to be printed: of those without bytes, too.
const maxOutstanding = 1 << 20

func newShow(job control.Job, view View, out, errs io.Writer) (*show, error) {
	plan := launcher.Plan{Size: job.Size}
	for _, h := range job.Hosts {
		host := launcher.PlannedHost{Host: hostfile.Host{Name: h.Host}}
		for local, rank := range h.Ranks {
			if rank < 0 || rank >= job.Size {
				return nil, fmt.Errorf("job %s describes rank %d of %d", job.ID, rank, job.Size)
			}
			host.Ranks = append(host.Ranks, launcher.Rank{Rank: rank, LocalRank: local})
		}
		plan.Hosts = append(plan.Hosts, host)
	}
	plan = plan.WithSpawn(1, 0) // so that lines of spawned ranks have their host
	for _, part := range view.Ranks {
		if last := lastRank(job); part[1] > last && !job.Elastic {
			return nil, usage.Errorf(fmt.Sprintf("this job's ranks go from 0 to %d", last), "job %s has no rank %d",
				job.ID, part[1])
		}
	}
	s := &show{view: view, size: job.Size, stderr: errs}
	s.room.L = &s.mu
	if view.Since > 0 {
		s.first = time.Now().Add(-view.Since)
	}
	style := view.Style
	style.Programs = []launcher.Program{{Argv: append([]string{""}, job.Program...)[min(1, len(job.Program)):],
		Ranks: job.Size}}
	prefix, err := style.Prefixer(plan)
	if err != nil {
		return nil, err
	}
	if job.Elastic { // ranks change hosts, which records do not name
		prefix = func(rank, _ int, _ time.Time) []byte { return fmt.Appendf(nil, "[%d] ", rank) }
	}
	if view.Tail > 0 {
		s.tail = &tail{most: view.Tail}
		out = s.tail.of(out)
		errs = s.tail.of(errs)
		s.stderr = errs
	}
	how := output.Printing{
		Format: output.Format{
			Prefix:   prefix,
			CutMark:  style.CutMark(),
			LastMark: style.LastMark(),
			Fold:     style.Folding(plan, view.Screen),
		},
		W:      out,
		Screen: view.Screen[1],
		Failed: s.fail,
	}
	if view.Grep != nil {
		how.Match = view.Grep.Match
	}
	second := how
	second.W = errs
	second.Screen = view.Screen[2]
	s.streams = output.NewStreams(how, second, nil)
	return s, nil
}

func (s *show) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = fmt.Errorf("write the output: %w", err)
	}
	s.room.Broadcast()
}

// close prints what is left, and returns why the output could not be written.
func (s *show) close() error {
	s.streams.Close()
	if s.tail != nil {
		if err := s.tail.end(); err != nil {
			s.fail(err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

// endTail prints the last lines of what has come, and lets later ones pass.
func (s *show) endTail() {
	s.mu.Lock()
	for s.outstanding > 0 && s.broken == nil {
		s.room.Wait()
	}
	s.mu.Unlock()
	if err := s.tail.end(); err != nil {
		s.fail(err)
	}
}

func (s *show) record(r control.Record) error {
	switch {
	case r.FD == control.Gap:
		_, err := fmt.Fprintf(s.stderr, "gorun: %s of output are missing here\n", prose.Size(r.Lost))
		return err
	case r.At.Before(s.first):
		return nil
	case r.Rank == control.Own:
		if len(s.view.Ranks) == 0 && (s.view.Grep == nil || s.view.Grep.Match(r.Data)) {
			return s.add(r.At, 0, 2, r.Data, true)
		}
		return nil
	case r.Rank < 0 || r.Rank >= 1<<29 || r.FD != 1 && r.FD != 2:
		return fmt.Errorf("there is no stream %d of rank %d", r.FD, r.Rank)
	case s.view.Stderr && r.FD != 2:
		return nil
	case len(s.view.Ranks) > 0 && !slices.ContainsFunc(s.view.Ranks, func(part [2]int) bool {
		return part[0] <= r.Rank && r.Rank <= part[1]
	}):
		return nil
	}
	return s.add(r.At, r.Rank, r.FD, r.Data, false)
}

func (s *show) add(at time.Time, rank, fd int, data []byte, own bool) error {
	cost := wire.Cost(len(data))
	s.mu.Lock()
	for s.outstanding > maxOutstanding && s.broken == nil {
		s.room.Wait()
	}
	s.outstanding += cost
	err := s.broken
	s.mu.Unlock()
	if err != nil {
		return err
	}
	written := func(int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.outstanding -= cost
		s.room.Broadcast()
	}
	printer := s.streams.Of(fd)
	switch {
	case own: // between the ranks' lines
		_, err = s.stderr.Write(data)
		written(len(data))
		return err
	case len(data) == 0:
		printer.Pause(wire.OutputStream(rank, fd), written)
	default:
		printer.AddAt(at, wire.OutputStream(rank, fd), data, written)
	}
	return nil
}

// stream prints the records that a running job sends, and returns the position after them.
func (s *show) stream(ctx context.Context, f control.Found, from int64, follow bool) (next int64, err error) {
	body, err := f.Client.Output(ctx, from, follow)
	if err != nil {
		return from, err
	}
	defer body.Close()
	for records := control.NewRecordReader(body); ; {
		r, err := records.Next()
		if err == nil {
			from += r.Size()
			err = s.record(r)
		}
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err != nil {
			return from, err
		}
	}
}
