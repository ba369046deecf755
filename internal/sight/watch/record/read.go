package record

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/untrusted"
)

// Bounds of what Read keeps, whoever has written the folder.
const (
	maxRun     = 32 << 20 // bytes
	maxSize    = 1 << 20  // ranks
	maxLine    = 8 << 20  // bytes of a sample
	maxPoints  = 4096
	maxValues  = 4 << 20 // words of memory in all points, and values of the run
	mostEvents = 1 << 17
)

// Record is a folder that was read.
type Record struct {
	Run    Run
	Points []Point // points, each with the names of hosts
	Events []Event
	Cut    bool // whether samples or events end in the middle: gorun was killed, or still writes
}

// Read reads a folder. Of a long run it drops every other sample until the rest is within bounds.
func Read(dir string) (r Record, err error) {
	text, err := trust.ReadFile(filepath.Join(dir, runFile), maxRun)
	if err != nil {
		return r, err
	}
	if err := untrusted.Unmarshal(text, maxValues, &r.Run); err != nil {
		return r, fmt.Errorf("read %s: %w", runFile, err)
	}
	if r.Run.Version != Version {
		return r, fmt.Errorf("%s has version %d, and this gorun reads %d", runFile, r.Run.Version, Version)
	}
	if r.Run.Size < 0 || r.Run.Size > maxSize {
		return r, fmt.Errorf("%s is about %d ranks", runFile, r.Run.Size)
	}
	samples, err := trust.Open(filepath.Join(dir, sampleFile))
	if err != nil {
		return r, err
	}
	defer samples.Close()
	if err := r.readSamples(samples); err != nil {
		return r, err
	}
	f, err := trust.Open(filepath.Join(dir, eventFile))
	if err != nil {
		return r, err
	}
	defer f.Close()
	for lines := json.NewDecoder(io.LimitReader(f, maxEvents)); ; {
		var e Event
		if len(r.Events) == mostEvents {
			r.Cut = true
			return r, nil
		}
		if err := lines.Decode(&e); err != nil {
			r.Cut = r.Cut || !errors.Is(err, io.EOF)
			return r, nil
		}
		r.Events = append(r.Events, e)
	}
}

func (r *Record) readSamples(f io.Reader) error {
	zip, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil { // nothing was written yet
		r.Cut = true
		return nil
	}
	var names []string
	step := 1
	values := 0
	var dropped *Point // the last point, if it is not kept: it has the totals
	lines := bufio.NewScanner(io.LimitReader(zip, maxSamples))
	lines.Buffer(nil, maxLine)
	for n := 0; lines.Scan(); n++ {
		var p Point
		if err := json.Unmarshal(lines.Bytes(), &p); err != nil {
			r.Cut = true
			break
		}
		if p.Hosts != nil {
			names = p.Hosts
		}
		if err := p.check(len(names)); err != nil {
			return fmt.Errorf("read %s: %w", sampleFile, err)
		}
		if p.Hosts = names; n%step != 0 {
			dropped = &p
			continue
		}
		dropped = nil
		r.Points = append(r.Points, p)
		values += r.values(len(r.Points) - 1)
		for len(r.Points) > 1 && (len(r.Points) >= maxPoints || values > maxValues) {
			if len(r.Points)%2 == 0 {
				dropped = &p
			}
			values = r.thin()
			step *= 2
		}
	}
	if dropped != nil {
		r.Points = append(r.Points, *dropped)
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("read %s: a sample has more than %d MiB", sampleFile, maxLine>>20)
	}
	r.Cut = r.Cut || lines.Err() != nil
	return nil
}

// thin drops every other point and returns how many values the others have.
func (r *Record) thin() (values int) {
	kept := make([]Point, 0, maxPoints)
	for i := 0; i < len(r.Points); i += 2 {
		kept = append(kept, r.Points[i])
	}
	r.Points = kept
	for i := range kept {
		values += r.values(i)
	}
	return values
}

// values returns the words of memory that a point adds to the one before, with which it may share
// the hosts' names.
func (r *Record) values(i int) int {
	k := r.Points[i].Ranks
	h := r.Points[i].Host
	n := len(k.Rank) + len(k.CPU) + len(k.MiB) + len(k.Read) + len(k.Write) + len(k.Lines) + len(k.GPU) +
		len(k.Ring) + len(k.Share) + len(h.CPU) + len(h.Used) + len(h.Received) + len(h.Sent) + len(h.GPU)
	names := r.Points[i].Hosts
	if before := r.Points[max(i-1, 0)].Hosts; i > 0 && len(names) > 0 && len(before) > 0 && &names[0] == &before[0] {
		return n
	}
	for _, name := range names {
		n += 2 + len(name)/8
	}
	return n
}

// check reports columns of different lengths.
func (p *Point) check(hosts int) error {
	k := p.Ranks
	h := p.Host
	n := len(k.CPU)
	if len(k.MiB) != n || len(k.Read) != n || len(k.Write) != n || len(k.Lines) != n || k.GPU != nil &&
		len(k.GPU) != n || k.Ring != nil && len(k.Ring) != n || len(k.Share) != len(k.Ring) || k.Rank != nil &&
		len(k.Rank) != n ||
		len(h.CPU) != hosts || len(h.Used) != hosts || len(h.Received) != hosts || len(h.Sent) != hosts ||
		h.GPU != nil && len(h.GPU) != hosts {
		return fmt.Errorf("the columns of a sample at %v s have different lengths", p.At)
	}
	return nil
}
