package examine

import (
	"bytes"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/doctor/probe"
	"github.com/gorun/gorun/internal/net/untrusted"
	"github.com/gorun/gorun/internal/prose"
)

// maxAnswer bounds the answer of a host in bytes.
const maxAnswer = 1 << 20

// maxValues bounds the values in a line of a host's answer.
const maxValues = 1 << 16

// collector keeps the answers of probes, by rank.
type collector struct{ answers []*prose.Head }

func newCollector(ranks int) *collector {
	c := &collector{answers: make([]*prose.Head, ranks)}
	for i := range c.answers {
		c.answers[i] = &prose.Head{Limit: maxAnswer}
	}
	return c
}

// take is a launcher.Options.Tap.
func (c *collector) take(rank, fd int, _ time.Time, data []byte) {
	if fd == 1 && rank >= 0 && rank < len(c.answers) {
		_, _ = c.answers[rank].Write(data)
	}
}

// into adds the answers to m. A host can only report on itself, and invalid answers are ignored.
func (c *collector) into(hosts []hostfile.Host, m *doctor.Measured) {
	place := make([]int, len(hosts)) // index: rank
	for rank, h := range hosts {
		place[rank] = slices.Index(m.Names, h.Name)
	}
	waited := map[[2]int]float64{} // key: both ends of a link, the dialer first
	for rank, a := range c.answers {
		h := m.Hosts[hosts[rank].Name]
		met := make([]bool, len(hosts)) // hosts to which it has reported a link
		for line := range bytes.Lines(a.Bytes()) {
			var said probe.Line
			if untrusted.Unmarshal(line, maxValues, &said) != nil {
				continue
			}
			limit(reflect.ValueOf(&said).Elem())
			switch {
			case said.Facts != nil:
				tidy(said.Facts)
				h.Facts = said.Facts
			case said.Speed != nil:
				h.Speed = said.Speed
			case said.Link != nil:
				l := *said.Link
				if l.From != rank || l.To <= rank || l.To >= len(hosts) || met[l.To] {
					continue // the lower of two hosts reports their link, once
				}
				met[l.To] = true
				l.From = place[rank]
				l.To = place[l.To]
				l.Error = prose.Printable(l.Error)
				l.Over = prose.Printable(l.Over)
				l.Into = prose.Printable(l.Into)
				l.Back = prose.Printable(l.Back)
				l.Stalled = prose.Printable(l.Stalled)
				m.Links = append(m.Links, l)
			case said.Waited != nil:
				if from := said.Waited.From; from >= 0 && from < len(hosts) {
					waited[[2]int{place[from], place[rank]}] = said.Waited.Share
				}
			case said.Alone:
				h.Alone = true
			case said.Finished:
				h.Finished = true
			}
		}
		m.Hosts[hosts[rank].Name] = h
	}
	for i := range m.Links {
		l := &m.Links[i]
		l.Busy = max(l.Busy, waited[[2]int{l.From, l.To}])
	}
}

// A host's numbers are between least and most, so that sums and ratios of two stay finite, as JSON
// needs them.
const (
	least = 1e-18
	most  = 1e18
)

// limit limits the numbers in what a host says.
func limit(v reflect.Value) {
	switch v.Kind() {
	case reflect.Float64:
		n := max(-most, min(v.Float(), most))
		if math.Abs(n) < least {
			n = 0
		}
		v.SetFloat(n)
	case reflect.Int, reflect.Int64:
		const most = 1 << 56 // a multiple of 20 fits
		v.SetInt(max(-most, min(v.Int(), most)))
	case reflect.Pointer:
		if !v.IsNil() {
			limit(v.Elem())
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			limit(field)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			limit(v.Index(i))
		}
	}
}

const (
	maxDisks = 8
	maxNodes = 1 << 10
	maxName  = 64 // bytes of a process's name
)

// tidy corrects numbers that a host reports, removes control characters from its texts, and bounds
// its lists, of which each entry may be a finding.
func tidy(f *doctor.Facts) {
	f.Busy = f.Busy[:min(len(f.Busy), doctor.MaxBusy)]
	f.Disks = f.Disks[:min(len(f.Disks), maxDisks)]
	f.NodeMemory = f.NodeMemory[:min(len(f.NodeMemory), maxNodes)]
	f.Xids = f.Xids[:min(len(f.Xids), doctor.MaxXids)]
	for i := range f.Xids {
		f.Xids[i].Bus = prose.Printable(f.Xids[i].Bus)
	}
	for _, text := range []*string{&f.Balancing, &f.Hostname, &f.Machine, &f.Kernel, &f.Libc, &f.CPU, &f.Governor,
		&f.Transparent, &f.Ptrace, &f.DNS.Address, &f.DNS.Name, &f.DNS.Error,
		&f.Shm.Name, &f.Shm.Path, &f.Shm.Error} {
		*text = prose.Printable(*text)
	}
	for i := range f.Disks {
		d := &f.Disks[i]
		d.Name = prose.Printable(d.Name)
		d.Path = prose.Printable(d.Path)
		d.Error = prose.Printable(d.Error)
	}
	for i := range f.Busy {
		name := f.Busy[i].Name
		f.Busy[i].Name = prose.Printable(name[:min(len(name), maxName)])
	}
	// The names are the host's, too.
	maps.DeleteFunc(f.Versions, func(name, _ string) bool { return !slices.Contains(doctor.Versions(), name) })
	for _, name := range slices.Collect(maps.Keys(f.Versions)) {
		f.Versions[name] = prose.Printable(f.Versions[name])
	}
	maps.DeleteFunc(f.Limits, func(name string, _ uint64) bool { return !slices.Contains(doctor.Limits(), name) })
	f.Cores = max(f.Cores, 1)
	f.Quota = math.Abs(f.Quota)
}
