// Package record keeps the samples and events of a whole run in a folder of bounded size, and reads
// them again.
package record

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/watch"
)

// Version is the version of the files.
const Version = 2

// Names of the files in the folder.
const (
	runFile    = "run.json"         // Run, written at the start and at the end
	sampleFile = "samples.jsonl.gz" // a line for each sample
	eventFile  = "events.jsonl"     // an Event in each line
)

// In reports whether a folder holds a record.
func In(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, runFile))
	return err == nil
}

// Bounds of a folder.
const (
	maxSamples = 256 << 20 // bytes of samples, uncompressed
	maxEvents  = 8 << 20   // bytes
)

// Run describes a recorded job.
type Run struct {
	Version int           `json:"version"`
	ID      string        `json:"id,omitempty"`
	Name    string        `json:"name,omitempty"`
	Program []string      `json:"program"`
	Size    int           `json:"size"`
	Places  []watch.Place `json:"places,omitempty"` // none: the job is elastic
	Began   time.Time     `json:"began"`
	Ended   time.Time     `json:"ended,omitzero"` // zero: gorun was killed, or the job still runs
	Code    int           `json:"code"`
	Cause   string        `json:"cause,omitempty"`
	Last    []string      `json:"last,omitempty"` // last lines of the rank that failed
}

// Event is an event of a job.
type Event struct {
	At   time.Time `json:"at"`
	What string    `json:"what"` // started, membership, exited, lost, stacks, straggler
	Rank int       `json:"rank,omitempty"`
	Host string    `json:"host,omitempty"`
	Text string    `json:"text,omitempty"`
	// Failed and Stopped are how a rank exited: not with code 0, and after gorun had signalled it.
	Failed  bool `json:"failed,omitempty"`
	Stopped bool `json:"stopped,omitempty"`
	// Stacks are the ranks' stacks, at most MaxStacks bytes. Text is the reason for collecting
	// them.
	Stacks string `json:"stacks,omitempty"`
}

// MaxStacks bounds the stacks of an event.
const MaxStacks = 64 << 10

// Point is a sample in a file: columns of all ranks and hosts, rounded to what a chart shows.
type Point struct {
	At    float64  `json:"t"` // seconds since Run.Began
	Ranks Ranks    `json:"r"`
	Hosts []string `json:"hn,omitempty"` // names of hosts, if they differ from the previous point's
	Host  Hosts    `json:"h"`
}

// Ranks are columns by rank.
type Ranks struct {
	Rank  []int     `json:"n,omitempty"` // numbers of ranks, if they are not 0, 1, 2 ...
	CPU   []float64 `json:"c"`           // cores; -1: the rank does not run
	MiB   []int64   `json:"m"`
	Read  []int64   `json:"rd"` // KiB/s
	Write []int64   `json:"wr"`
	Lines []int64   `json:"lt"`           // since the rank's start
	GPU   []int     `json:"g,omitempty"`  // percent; -1: unknown
	Ring  []int64   `json:"cb,omitempty"` // KiB/s of collectives' vectors; -1: no ring
	Share []int     `json:"cs,omitempty"` // percent of time in collectives; -1: no ring
}

// Hosts are columns by host.
type Hosts struct {
	CPU      []float64 `json:"c"` // percent of all cores
	Used     []float64 `json:"m"` // percent of memory
	Received []int64   `json:"in"`
	Sent     []int64   `json:"out"` // KiB/s
	GPU      []int     `json:"g,omitempty"`
}

// Every returns the interval of samples for a number of ranks. It doubles each time that the job's
// age doubles, and grows with the ranks: 64 ranks write less than 2 MB in the first hour.
func Every(ranks int, since time.Duration) time.Duration {
	every := 2 * time.Second * time.Duration(1+ranks/128)
	for age := time.Hour; since >= age && every < time.Hour; age *= 2 {
		every *= 2
	}
	return every
}

// Recorder writes a folder. It is safe for concurrent use.
type Recorder struct {
	dir    string
	failed func(error)

	mu         sync.Mutex
	run        Run
	samples    *os.File
	zip        *gzip.Writer
	wrote      int64
	events     *os.File
	eventBytes int64
	names      []string
	broken     bool
}

// Create begins to record in a folder, which it makes. A folder with another record is refused.
// failed is called once, for the first thing that cannot be written; the job goes on.
func Create(dir string, run Run, failed func(error)) (*Recorder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := trust.MakeDir(dir); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(filepath.Join(dir, runFile)); !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s holds a record already", dir)
	}
	run.Version = Version
	r := &Recorder{dir: dir, run: run, failed: failed}
	if err := r.describe(); err != nil {
		return nil, err
	}
	if r.samples, err = trust.Create(filepath.Join(dir, sampleFile)); err != nil {
		return nil, err
	}
	if r.events, err = trust.Create(filepath.Join(dir, eventFile)); err != nil {
		r.samples.Close()
		return nil, err
	}
	r.zip = gzip.NewWriter(r.samples)
	return r, nil
}

func (r *Recorder) describe() error {
	text, err := json.MarshalIndent(r.run, "", "  ")
	if err != nil {
		return err
	}
	return trust.WriteFile(filepath.Join(r.dir, runFile), append(prose.PlainJSON(text), '\n'))
}

func (r *Recorder) fail(err error) {
	if err != nil && !r.broken {
		r.broken = true
		r.failed(err)
	}
}

// Sample adds a sample. After an error, or beyond the bound, nothing more is written.
func (r *Recorder) Sample(s watch.Sample) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.broken || s.Seconds == 0 { // no rates before the ranks start
		return
	}
	p := pointOf(s, r.run.Began)
	if slices.Equal(p.Hosts, r.names) {
		p.Hosts = nil
	} else {
		r.names = p.Hosts
	}
	line, err := json.Marshal(p)
	if err == nil && r.wrote+int64(len(line)) > maxSamples {
		err = fmt.Errorf("the record has reached its limit of %d MiB", maxSamples>>20)
	}
	if err == nil {
		r.wrote += int64(len(line)) + 1
		_, err = r.zip.Write(append(line, '\n'))
	}
	if err == nil {
		err = r.zip.Flush() // so that the samples so far can be read, even if gorun is killed
	}
	r.fail(err)
}

// pointOf returns a sample as a point of a run that began at a time, with the names of hosts.
func pointOf(s watch.Sample, began time.Time) Point {
	p := Point{At: math.Round(s.At.Sub(began).Seconds()*10) / 10, Hosts: []string{}}
	plain := true
	gpus := false
	ring := false
	for i, k := range s.Ranks {
		plain = plain && k.Rank == i
		ring = ring || k.Ring != nil
		gpus = gpus || k.GPUBusy != nil
	}
	for _, k := range s.Ranks {
		cpu := math.Round(k.CPU*100) / 100
		busy := -1
		if k.Exit != nil || k.State == watch.Waiting {
			cpu = -1
		}
		if k.GPUBusy != nil {
			busy = int(*k.GPUBusy)
		}
		c := &p.Ranks
		c.CPU = append(c.CPU, cpu)
		c.MiB = append(c.MiB, k.Memory>>20)
		c.Read = append(c.Read, int64(k.Read)>>10)
		c.Write = append(c.Write, int64(k.Written)>>10)
		c.Lines = append(c.Lines, k.LinesTotal)
		if !plain {
			c.Rank = append(c.Rank, k.Rank)
		}
		if gpus {
			c.GPU = append(c.GPU, busy)
		}
		if ring {
			bytes := int64(-1)
			share := -1
			if k.Ring != nil && cpu >= 0 {
				bytes = int64(k.Ring.Bytes) >> 10
				share = int(math.Round(100 * k.Ring.Share))
			}
			c.Ring = append(c.Ring, bytes)
			c.Share = append(c.Share, share)
		}
	}
	gpus = false
	for _, h := range s.Hosts {
		gpus = gpus || len(h.GPUs) > 0
	}
	for _, h := range s.Hosts {
		p.Hosts = append(p.Hosts, h.Host)
		c := &p.Host
		c.CPU = append(c.CPU, percent(h.CPU, float64(h.CPUs)))
		c.Used = append(c.Used, percent(float64(h.Used), float64(h.Memory)))
		c.Received = append(c.Received, int64(h.Received)>>10)
		c.Sent = append(c.Sent, int64(h.Sent)>>10)
		if gpus {
			busy := 0
			known := 0
			for _, g := range h.GPUs {
				if g.Busy >= 0 {
					busy += g.Busy
					known++
				}
			}
			if known == 0 {
				busy = -1
				known = 1
			}
			c.GPU = append(c.GPU, busy/known)
		}
	}
	return p
}

func percent(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return math.Round(part/whole*1000) / 10
}

// Event adds an event.
func (r *Recorder) Event(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.Stacks = strings.ToValidUTF8(e.Stacks[:min(len(e.Stacks), MaxStacks)], "")
	line, err := json.Marshal(e)
	line = prose.PlainJSON(line) // texts of hosts and ranks are in it
	if err != nil || r.broken || r.eventBytes+int64(len(line)) > maxEvents {
		return
	}
	r.eventBytes += int64(len(line)) + 1
	_, err = r.events.Write(append(line, '\n'))
	r.fail(err)
}

// Close completes the folder.
func (r *Recorder) Close(id string, code int, cause string, last []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run.ID = id
	r.run.Ended = time.Now()
	r.run.Code = code
	r.run.Cause = cause
	r.run.Last = last
	r.fail(errors.Join(r.zip.Close(), r.samples.Close(), r.events.Close(), r.describe()))
}
