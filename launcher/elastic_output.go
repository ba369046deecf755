package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/wire"
	"github.com/gorun/gorun/launcher/output"
	"github.com/gorun/gorun/launcher/session"
)

// stream begins to carry output. Printers and files know processes by their serial numbers: a process's rank changes.
func (j *elasticJob) stream() error {
	if j.opts.OutputDir != "" || j.wish.SaveAs != nil {
		if j.opts.OutputDir != "" {
			if err := os.MkdirAll(j.opts.OutputDir, 0o700); err != nil {
				return &OutputError{Err: fmt.Errorf("make the output directory: %w", err)}
			}
		}
		var err error
		if j.files, err = output.OpenFiles("", j.saveAs, Plan{Size: 1}, j.opts.Note); err != nil {
			return err
		}
	}
	how := output.Printing{Files: j.files, Failed: func(err error) { j.post(eventOutput{err}) }}
	if j.wish.Prefix != nil {
		how.Prefix = j.prefix
	}
	if j.opts.Show != nil {
		how.Show = func(serial, fd int) bool { return j.opts.Show(int(j.serial(serial).rank.Load()), fd) }
	}
	j.stdout, j.stderr = j.opts.printers(how)
	return nil
}

func (j *elasticJob) serial(n int) *elasticProcess {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.serials[n]
}

// saveAs is the file of a process's stream: that of the rank that it was started as. One that takes its place goes on in it.
func (j *elasticJob) saveAs(serial, fd int) string {
	born := j.serial(serial).born
	if j.wish.SaveAs != nil {
		if path := j.wish.SaveAs(born.Host, rankOf(born), fd); path != "" {
			return path
		}
	}
	if j.opts.OutputDir == "" {
		return os.DevNull
	}
	return filepath.Join(j.opts.OutputDir, fmt.Sprintf("rank.%d", born.Rank), [...]string{1: "stdout", 2: "stderr"}[fd])
}

func (j *elasticJob) prefix(serial, fd int, at time.Time) []byte {
	p := j.serial(serial)
	if prefix := p.prefix.Load(); prefix != nil {
		return (*prefix)(int(p.rank.Load()), fd, at)
	}
	return nil
}

// look gives the process's lines the prefix of the rank that it has now.
func (j *elasticJob) look(p *elasticProcess) {
	if j.wish.Prefix == nil {
		return
	}
	m := p.born
	if now, member := j.memberOf(p); member {
		m = now
	}
	plan := Plan{Size: m.Size}
	for _, h := range j.hosts {
		own := PlannedHost{Host: h.host}
		if h == p.host {
			own.Ranks = []Rank{{Rank: m.Rank, LocalRank: m.LocalRank}}
		}
		plan.Hosts = append(plan.Hosts, own)
	}
	if prefix, err := j.wish.Prefix(plan); err == nil && prefix != nil { // what cannot be was found out before
		both := func(_, fd int, at time.Time) []byte { return prefix(m.Rank, fd, at) }
		p.prefix.Store(&both)
	}
}

// output hands a process's bytes to the printer, which returns the credit.
func (j *elasticJob) output(p *elasticProcess, s *session.Session, f wire.Frame) error {
	rank, fd := wire.RankFD(f.Stream)
	if rank != p.born.Rank {
		return session.ForeignRank(rank)
	}
	to := j.stdout
	if fd == 2 {
		to = j.stderr
	}
	if err := s.Out.CountReceived(f.Stream, len(f.Payload)); err != nil {
		return err
	}
	shown := wire.OutputStream(p.serial, fd)
	if len(f.Payload) == 0 {
		to.Pause(shown)
		return nil
	}
	to.Add(shown, f.Payload, s.Out.Creditor(f.Stream))
	return nil
}

// cannotWrite ends the job: nobody sees its output any more.
func (j *elasticJob) cannotWrite(err error) {
	if !errors.Is(err, syscall.EPIPE) {
		j.opts.Note(fmt.Sprintf("cannot write output any more: %v", err))
	}
	j.stop(Stop{Reason: OutputClosed})
}

// clock is the time since the job began, for goroutines other than the loop.
func (j *elasticJob) clock() time.Duration { return time.Since(j.began) }

// pauseOrResume has all processes stand still with gorun, or go on.
func (j *elasticJob) pauseOrResume(p Pause) {
	if !p.Suspend {
		j.excuseAgents()
		j.toAll(wire.TypeResume, nil)
		return
	}
	j.pause = pausing{p.Told, map[int]bool{}}
	for _, proc := range j.procs {
		if proc.session != nil && !proc.exited {
			j.pause.waiting[proc.serial] = true
		}
	}
	j.toAll(wire.TypeSuspend, nil)
	j.pause.without(-1)
}

func (j *elasticJob) signal(number int) { j.toAll(wire.TypeSignal, wire.Signal{Number: number}) }

func (j *elasticJob) toAll(t wire.Type, message any) {
	for _, p := range j.procs {
		if p.session != nil {
			p.session.Out.SendMessage(t, message)
		}
	}
}
