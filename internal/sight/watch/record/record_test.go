package record

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func create(t *testing.T, run Run) (*Recorder, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new", "record")
	r := must.Get(Create(dir, run, func(err error) { t.Error(err) }))(t)
	return r, dir
}

func TestRecordIsReadAgain(t *testing.T) {
	began := time.Now()
	r, dir := create(t, Run{
		Name:    "train",
		Program: []string{"a", "b"},
		Size:    2,
		Began:   began,
	})
	busy := 55.5
	r.Sample(watch.Sample{At: began})
	for i := range 3 {
		r.Sample(watch.Sample{
			At:      began.Add(time.Duration(i) * 2 * time.Second),
			Seconds: 1,
			Size:    2,
			Ranks: []watch.Rank{{Rank: 0, State: "R", CPU: 1.239, Memory: 5 << 20, Read: 2048, LinesTotal: 3,
				GPUBusy: &busy, Ring: &watch.Ring{Bytes: 5000, Share: .456}},
				{Rank: 1, State: watch.Ended, Exit: &watch.Exit{}}},
			Hosts: []watch.Host{{Host: "f1", CPUs: 4, CPU: 1, Memory: 100, Used: 25, Sent: 4096}},
		})
	}
	r.Event(Event{
		At:   began,
		What: "exited",
		Rank: 1,
		Host: "f1",
		Text: "exited with code 0",
	})
	r.Event(Event{At: began, What: "stacks", Stacks: strings.Repeat("é", MaxStacks)})
	all, err := Read(dir) // while it is written
	must.That(t, err == nil && len(all.Points) == 3 && all.Cut && all.Run.Ended.IsZero(), "%+v, %v", all, err)
	r.Close("g7k2", 3, "rank 0 failed", []string{"bad"})
	all, err = Read(dir)
	must.That(t, err == nil && !all.Cut && all.Run.ID == "g7k2" && all.Run.Code == 3 && all.Run.Last[0] == "bad" &&
		len(all.Events) == 2 && all.Events[0].Text == "exited with code 0" && len(all.Events[1].Stacks) == MaxStacks,
		"%+v, %v", all, err)
	want := Point{
		At:    4,
		Hosts: []string{"f1"},
		Ranks: Ranks{
			CPU:   []float64{1.24, -1},
			MiB:   []int64{5, 0},
			Read:  []int64{2, 0},
			Write: []int64{0, 0},
			Lines: []int64{3, 0},
			GPU:   []int{55, -1},
			Ring:  []int64{4, -1},
			Share: []int{46, -1},
		},
		Host: Hosts{
			CPU:      []float64{25},
			Used:     []float64{25},
			Received: []int64{0},
			Sent:     []int64{4},
		},
	}
	got := all.Points[2]
	check.That(t, reflect.DeepEqual(got, want), "got  %+v\nwant %+v", got, want)
	check.Error(Create(dir, Run{}, nil)).Any(t, "a record is overwritten")
}

func TestRecordsShowNothingToATerminal(t *testing.T) {
	const text = "a \u202e\u009b\x1b[2J \u200b"
	r, dir := create(t, Run{Program: []string{text}, Size: 1})
	r.Event(Event{What: "lost", Text: text, Stacks: text})
	r.Close("g7k2", 3, text, []string{text})
	for _, name := range []string{runFile, eventFile} {
		file := string(must.Get(os.ReadFile(filepath.Join(dir, name)))(t))
		check.Equal(t, prose.Plain(file), file, name)
	}
	all := must.Get(Read(dir))(t)
	check.That(t, all.Run.Cause == text && all.Run.Last[0] == text && all.Events[0].Stacks == text, "%+v", all)
}

// A job of 64 ranks has at most 5 MB in its first hour, of the least regular numbers, of which the
// test writes a tenth, and in a week at most six times as many samples. More ranks are asked less
// often.
func TestRecordsAreBounded(t *testing.T) {
	began := time.Now()
	r, dir := create(t, Run{Size: 64, Began: began})
	random := rand.New(rand.NewPCG(1, 2))
	n := 0
	for since := time.Duration(0); since < time.Hour/10; since += Every(64, since) {
		s := watch.Sample{At: began.Add(since), Seconds: 1, Hosts: make([]watch.Host, 8)}
		for i := range 64 {
			s.Ranks = append(s.Ranks, watch.Rank{
				Rank:       i,
				State:      "R",
				CPU:        random.Float64() * 8,
				Memory:     random.Int64N(64 << 30),
				Read:       random.Float64() * (1 << 30),
				Written:    random.Float64() * (1 << 30),
				LinesTotal: int64((1 + random.Float64()) * since.Seconds() * 1000),
				Ring:       &watch.Ring{Bytes: random.Float64() * (1 << 30), Share: random.Float64()},
			})
		}
		r.Sample(s)
		n++
	}
	r.Close("", 0, "", nil)
	info, err := os.Stat(filepath.Join(dir, sampleFile))
	check.That(t, err == nil && info.Size() <= 5e5 && n == 180, "%d samples have %v, %v", n, info, err)
	n *= 10
	for since := time.Hour; since < 7*24*time.Hour; since += Every(64, since) {
		n++
	}
	check.That(t, n <= 10000, "%d samples in a week", n)
	small := Every(64, 0)
	large := Every(2000, 0)
	check.That(t, large >= 10*small, "%v, %v", small, large)
}

func TestMalformedRecords(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"nothing":         {},
		"no JSON":         {runFile: "x"},
		"another version": {runFile: `{"version":2}`},
		"no samples":      {runFile: `{"version":1}`},
	} {
		dir := t.TempDir()
		for file, text := range files {
			must.OK(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
		r, err := Read(dir)
		check.That(t, err != nil, "%s: %+v", name, r)
	}
	bad := Point{Ranks: Ranks{CPU: []float64{1}}}
	check.That(t, bad.check(0) != nil, "columns of different lengths are taken")
}

func TestFullDiskEndsTheRecordOnce(t *testing.T) {
	failures := 0
	r := must.Get(Create(filepath.Join(t.TempDir(), "x"), Run{Began: time.Now()}, func(error) { failures++ }))(t)
	r.samples.Close() // as if nothing could be written
	for range 3 {
		r.Sample(watch.Sample{Seconds: 1})
	}
	check.That(t, failures == 1, "%d failures", failures)
}

// A folder of somebody else's making neither keeps Read waiting nor makes it take much memory.
func TestHostileFolders(t *testing.T) {
	columns := func(n int) string {
		c := "[" + strings.Repeat("0,", n-1) + "0]"
		return `{"t":1,"r":{"c":` + c + `,"m":` + c + `,"rd":` + c + `,"wr":` + c + `,"lt":` + c + `},"h":{}}` + "\n"
	}
	pipe := func(name string) func(dir string) error {
		return func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, name)), syscall.Mkfifo(filepath.Join(dir, name), 0o600))
		}
	}
	run := func(size int) func(dir string) error {
		return func(dir string) error {
			return os.WriteFile(filepath.Join(dir, runFile), fmt.Appendf(nil, `{"version":%d,"size":%d}`, Version, size), 0o600)
		}
	}
	samples := func(line string, times int) func(dir string) error {
		return func(dir string) error {
			f, err := os.Create(filepath.Join(dir, sampleFile))
			if err != nil {
				return err
			}
			zip := gzip.NewWriter(f)
			for range times {
				if _, err = zip.Write([]byte(line)); err != nil {
					break
				}
			}
			return errors.Join(err, zip.Close(), f.Close())
		}
	}
	for name, c := range map[string]struct {
		make func(dir string) error
		want string // in the error; "": it is read
	}{
		"a pipe for the run":         {pipe(runFile), "no regular file"},
		"a pipe for samples":         {pipe(sampleFile), "no regular file"},
		"a pipe for events":          {pipe(eventFile), "no regular file"},
		"a negative number of ranks": {run(-1), "about -1 ranks"},
		"ranks without number":       {run(1 << 40), "about 1099511627776 ranks"},
		"places without number": {func(dir string) error {
			text := fmt.Sprintf(`{"version":%d,"places":[`, Version) + strings.Repeat("{},", maxValues) + "{}]}"
			return os.WriteFile(filepath.Join(dir, runFile), []byte(text), 0o600)
		}, "values"},
		"events without number": {func(dir string) error {
			events := bytes.Repeat([]byte("{}"), 2*mostEvents)
			return errors.Join(samples(`{"t":1,"r":{},"h":{}}`+"\n", 1)(dir),
				os.WriteFile(filepath.Join(dir, eventFile), events, 0o600))
		}, ""},
		"many wide samples":          {samples(columns(20_000), 60), ""},
		"one sample that is wide":    {samples(columns(maxLine/10-100), 1), ""},
		"one sample that is wider":   {samples(columns(maxLine/10), 3), "more than 8 MiB"},
		"a sample without an end":    {samples(`{"t":`+strings.Repeat("1", 1<<20), 10), "more than 8 MiB"},
		"names without end":          {samples(`{"hn":["`+strings.Repeat("x", maxLine), 2), "more than 8 MiB"},
		"more points than are shown": {samples(`{"t":1,"r":{},"h":{}}`+"\n", 3*maxPoints), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r, dir := create(t, Run{Program: []string{"a"}, Size: 1, Began: time.Now()})
			r.Close("g7k2", 0, "", nil)
			must.OK(t, c.make(dir))
			all, err := Read(dir)
			must.That(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)),
				"%v, want %q", err, c.want)
			check.That(t, len(all.Events) <= mostEvents, "%d events", len(all.Events))
			values := 0
			for i := range all.Points {
				values += all.values(i)
			}
			check.That(t, values <= maxValues+maxLine/2 && len(all.Points) <= maxPoints &&
				(err != nil || len(all.Points) != 0), "%d points of %d values", len(all.Points), values)
		})
	}
}
