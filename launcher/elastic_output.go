package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gorun/gorun/launcher/output"
)

// stream begins to carry output and results. Printers and files know processes by their serial
// numbers: a process's rank changes.
func (j *elasticJob) stream() error {
	if j.opts.OutputDir != "" || j.settings.SaveAs != nil {
		var err error
		if j.files, err = output.OpenFiles(j.opts.OutputDir, j.saveAs, Plan{}, j.opts.Note); err != nil {
			return err
		}
	}
	how := j.opts.Format
	how.Prefix = nil // that of a rank, not of a process
	how.Fold = Folding{}
	if j.settings.Prefix != nil {
		how.Prefix = j.prefix
		how.Fold = j.folding()
	}
	if j.opts.Show != nil {
		how.Show = func(serial, fd int) bool { return j.opts.Show(j.serial(serial).rank(), fd) }
	}
	if j.opts.Tap != nil {
		how.Tap = func(serial, fd int, at time.Time, data []byte) {
			j.opts.Tap(j.serial(serial).rank(), fd, at, data)
		}
	}
	j.print(how, j.settings.NP)
	return nil
}

// folding returns how lines of processes are folded, which the ranks of the moment name.
func (j *elasticJob) folding() output.Folding {
	how := j.opts.Fold
	if how.Prefix == nil {
		return how
	}
	byRank := how.Prefix
	how.Ranks = 0
	how.Prefix = func(serials []int, at time.Time) []byte {
		ranks := make([]int, len(serials))
		for i, serial := range serials {
			ranks[i] = j.serial(serial).rank()
		}
		slices.Sort(ranks)
		return byRank(slices.Compact(ranks), at)
	}
	return how
}

func (j *elasticJob) serial(n int) *elasticProcess {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.serials[n]
}

// saveAs returns the file of a process's stream, which its rank at the start names. A replacement
// appends to the file.
func (j *elasticJob) saveAs(serial, fd int) string {
	born := j.serial(serial).born
	if j.settings.SaveAs != nil {
		if path := j.settings.SaveAs(born.Host, rankOf(born), fd); path != "" {
			return path
		}
	}
	if j.opts.OutputDir == "" {
		return os.DevNull
	}
	return filepath.Join(j.opts.OutputDir, fmt.Sprintf("rank.%d", born.Rank), [...]string{1: "stdout", 2: "stderr"}[fd])
}

// numbers returns the serial numbers of the last epoch's ranks, or of the ranks at the start if
// there was no epoch.
func (j *elasticJob) numbers() (all []int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for serial, p := range j.serials { // a later process replaces one that did not start
		m, member := j.memberOf(p)
		if j.epoch == nil {
			m = p.born
			member = true
		}
		if member {
			all = append(all, slices.Repeat([]int{-1}, max(0, m.Size-len(all)))...)
			all[m.Rank] = serial
		}
	}
	return all
}

func (j *elasticJob) prefix(serial, fd int, at time.Time) []byte {
	p := j.serial(serial)
	if prefix := p.prefix.Load(); prefix != nil {
		return (*prefix)(p.rank(), fd, at)
	}
	return nil
}

// setPrefix gives the process's lines the prefix of the rank that it has now.
func (j *elasticJob) setPrefix(p *elasticProcess) {
	if j.settings.Prefix == nil {
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
	// errors were reported before the job started
	if prefix, err := j.settings.Prefix(plan); err == nil && prefix != nil {
		both := func(_, fd int, at time.Time) []byte { return prefix(m.Rank, fd, at) }
		p.prefix.Store(&both)
	}
}
