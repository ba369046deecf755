// Package top shows what the ranks and hosts of a running job use, in a table that is always up to
// date.
package top

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/usage"
)

// Options select the output of Run.
type Options struct {
	Every time.Duration // between samples
	Once  bool          // one sample
	JSON  bool          // lines of JSON instead of a table
}

// Run shows a job until the job ends or the user quits. An empty name selects the only running job.
func Run(ctx context.Context, place control.Place, name string, o Options, in *os.File, out io.Writer,
	console *ui.UI) error {
	f, err := find(ctx, place, name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := f.Client.Get(ctx, "/v1/watch?every="+o.Every.String())
	if err != nil {
		return fmt.Errorf("watch job %s: %w", f.ID, err)
	}
	defer body.Close()
	samples := json.NewDecoder(body)
	switch {
	case o.JSON:
		return print(samples, o.Once, func(s watch.Sample) error {
			return ui.WriteJSON(out, document{f.ID, f.Name, s}, "")
		})
	case o.Once:
		return print(samples, true, func(s watch.Sample) error {
			_, err := io.WriteString(ui.Plain(out), plain(f.Job, s))
			return err
		})
	case !ui.IsTerminal(in) || !ui.IsTerminal(out):
		return usage.Errorf("gorun top --once prints one table, --json lines for programs",
			"gorun top needs a terminal")
	}
	return live(ctx, f, samples, in, out.(*os.File), console)
}

// document is a line of --json.
type document struct {
	Job  string `json:"job"`
	Name string `json:"name,omitempty"`
	watch.Sample
}

// find returns a job that runs on this machine.
func find(ctx context.Context, place control.Place, name string) (f control.Found, err error) {
	if name != "" {
		if f, err = place.Find(ctx, name); err != nil {
			return f, err
		}
		if f.Client == nil {
			return f, usage.Errorf("gorun ps -a shows how", "job %s has ended", f.ID)
		}
		return f, f.Reach(ctx)
	}
	all, err := place.List(ctx, false)
	if err != nil {
		return f, fmt.Errorf("list your jobs: %w", err)
	}
	var names []string
	for _, one := range all {
		if one.Client != nil && one.State != control.Keeping {
			f = one
			names = append(names, cmp.Or(one.Name, one.ID))
		}
	}
	switch len(names) {
	case 0:
		return f, usage.Errorf("start one: gorun -np 4 ./train", "no job of yours runs on this machine")
	case 1:
		return f, f.Reach(ctx)
	}
	return f, usage.Errorf("for example gorun top "+names[0], "%d jobs run: %s", len(names), prose.List(names))
}

// print shows the samples until the job ends, or only one.
func print(samples *json.Decoder, once bool, show func(watch.Sample) error) error {
	for {
		var s watch.Sample
		err := samples.Decode(&s)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil
		}
		if err == nil {
			err = show(s)
		}
		if err != nil || once {
			return err
		}
	}
}

func plain(job control.Job, s watch.Sample) string {
	m := newModel(job)
	m.sample = s
	m.width = 100
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%s\n\n", m.title(), m.totals())
	for _, m.hosts = range []bool{true, false} {
		if m.hosts {
			fmt.Fprintln(&b, header(hostColumns(), m.width, m.sort[1], false))
		} else {
			fmt.Fprintf(&b, "\n%s\n", header(m.rankColumns(), m.width, m.sort[0], false))
		}
		for _, r := range m.rows() {
			fmt.Fprintln(&b, strings.TrimRight(r.text(), " "))
		}
	}
	return b.String()
}

// live shows the table on a terminal.
func live(ctx context.Context, f control.Found, samples *json.Decoder, in, out *os.File, console *ui.UI) error {
	t, err := openTerminal(in, out)
	if err != nil {
		return err
	}
	ended, err := t.run(ctx, newModel(f.Job), f, samples)
	t.close()
	if ended {
		console.Notef("job %s has ended; gorun ps -a shows how", f.ID)
	}
	return err
}

// run draws until the job ends or the user quits.
func (t *terminal) run(ctx context.Context, m *model, f control.Found, samples *json.Decoder) (ended bool, err error) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	var looking sync.WaitGroup
	defer looking.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys := make(chan string)
	came := make(chan watch.Sample)
	over := make(chan error, 1)
	go readKeys(t.in, keys) // a read of a terminal ends with the process
	go func() {
		over <- print(samples, false, func(s watch.Sample) error {
			select {
			case came <- s:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	looks := make(chan look, 1)
	for busy := false; !m.quit; {
		if m.detail >= 0 && m.stacks.wanted && !busy { // one look at a time
			m.stacks.wanted = false
			m.stacks.under = true
			busy = true
			rank := m.detail
			looking.Go(func() { looks <- take(ctx, f.Client, rank) })
		}
		m.width, m.height = t.size()
		if err := t.draw(m.screen()); err != nil {
			return false, fmt.Errorf("write to the terminal: %w", err)
		}
		select {
		case s := <-came:
			m.take(s)
		case l := <-looks:
			busy = false
			if !m.stacks.wanted { // otherwise the user has asked for newer stacks
				m.stacks = l
			}
		case err := <-over:
			return err == nil, err
		case s := <-signals:
			m.quit = s != syscall.SIGWINCH
			continue
		case key, more := <-keys:
			if !more {
				return false, nil
			}
			m.key(key)
			if key != "enter" && key != "right" {
				continue
			}
		}
		if m.detail >= 0 {
			if lines, err := lastLines(ctx, f.Client, m.detail, m.height); err == nil {
				m.tail = lines
			}
		}
	}
	return false, nil
}

// lastLines returns the last lines of a rank's output that the job keeps.
func lastLines(ctx context.Context, c *control.Client, rank, most int) ([]string, error) {
	body, err := c.Output(ctx, -1, false)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	var text []byte
	for records := control.NewRecordReader(body); ; {
		r, err := records.Next()
		if err != nil { // the end
			break
		}
		if r.Rank == rank && r.FD != control.Gap {
			text = append(text, r.Data...)
			text = text[max(0, len(text)-(64<<10)):]
		}
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(strings.TrimRight(line, "\r\n"), '\r'); i >= 0 { // a progress bar
			line = line[i+1:]
		}
		lines = append(lines, prose.Printable(line))
	}
	return lines[max(0, len(lines)-most):], nil
}
