package bench

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// rowsOf runs opts on ranks in this process.
func rowsOf(t *testing.T, door *ringtest.Job, opts Options) [][]Row {
	t.Helper()
	comms := door.Join(t)
	rows := make([][]Row, door.Size)
	err := ringtest.Each(door.Size, func(rank int) error {
		return Run(t.Context(), comms[rank], opts, func(r Row) { rows[rank] = append(rows[rank], r) })
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

func TestRunTimesAndChecksEverySize(t *testing.T) {
	single := map[string]bool{"broadcast": true, "alltoall": true, "sendrecv": true}
	for _, collective := range Collectives() {
		for _, ranks := range []int{1, 2, 3} {
			rows := rowsOf(t, ringtest.NewJob(t, ranks), Options{Collective: collective, Min: 24, Max: 100, Budget: time.Millisecond})
			sizes := []int{24, 24, 48, 48, 96, 96}
			if single[collective] {
				sizes = []int{24, 48, 96}
			}
			if len(rows[0]) != len(sizes) {
				t.Fatalf("%s: %d rows, want %d", collective, len(rows[0]), len(sizes))
			}
			for i, r := range rows[0] {
				if r.Wrong != 0 || r.Median <= 0 || r.P99 < r.Median || r.Bytes != 4*r.Count || r.Bytes != sizes[i] ||
					r.Iterations < minIterations || r.Ranks != ranks || r != rows[ranks-1][i] {
					t.Errorf("%+v on rank 0, %+v on rank %d", r, rows[ranks-1][i], ranks-1)
				}
			}
		}
	}
}

func TestEveryTypeAndOperationIsChecked(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	for _, collective := range Collectives() {
		opts := Options{Collective: collective, Types: []string{"all"}, Min: 9000, Max: 9000, Budget: time.Microsecond}
		combos := len(Types())
		if what, _ := find(collective); what.combines() {
			opts.Ops = []string{"all"}
			combos = 4*5 + 6*8 + 7 // floats, integers, bool
		}
		door := ringtest.NewJob(t, 5)
		door.Hosts = []int{2, 3}
		seen := map[[2]string]bool{}
		for _, r := range rowsOf(t, door, opts)[0] {
			seen[[2]string{r.Type, r.Op}] = true
			if r.Wrong != 0 {
				t.Errorf("%s of %s %s: %d wrong", collective, r.Type, r.Op, r.Wrong)
			}
		}
		if len(seen) != combos {
			t.Errorf("%s: %d types and operations, want %d", collective, len(seen), combos)
		}
	}
}

func TestWrongResultsAreCounted(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	err := ringtest.Each(2, func(rank int) error {
		what, combos, err := Options{Collective: "allreduce", Min: 4, Max: 4}.resolve()
		if err != nil {
			return err
		}
		const size = 4 * (period + 39)
		trial := newTrial(comms[rank], what, combos[0], [2][]byte{aligned(size), aligned(size)}, size, false)
		if rank == 1 {
			for _, element := range []int{0, 1, 50} { // the first two come twice
				trial.want[0].tile[4*element] ^= 1
			}
		}
		if err := trial.check(t.Context()); err != nil {
			return err
		}
		if trial.row.Wrong != 5 {
			t.Errorf("rank %d counts %d wrong elements, want 5", rank, trial.row.Wrong)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	good := Options{Collective: "allreduce", Min: 8, Max: 8}
	for want, change := range map[string]func(o *Options){
		"unknown benchmark":             func(o *Options) { o.Collective = "reduceall" },
		"1 byte up":                     func(o *Options) { o.Max = 4 },
		"factor of 1":                   func(o *Options) { o.Factor = 1 },
		"no type":                       func(o *Options) { o.Types = []string{"float", "quad"} },
		"no operation \"xor\"":          func(o *Options) { o.Ops = []string{"xor"} },
		"band is not defined for float": func(o *Options) { o.Ops = []string{"band"} },
		"has no operation":              func(o *Options) { o.Collective, o.Ops = "gather", []string{"sum"} },
	} {
		o := good
		change(&o)
		if err := o.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	comms := ringtest.NewJob(t, 1).Join(t)
	if err := Run(t.Context(), comms[0], Options{Collective: "allgather", Min: 1, Max: 3}, nil); err == nil || !strings.Contains(err.Error(), "larger") {
		t.Errorf("3 bytes of float: %v", err)
	}
	// The names of ring and those of nccl-tests.
	if o := (Options{Collective: "reduce", Types: []string{"float16", "half"}, Min: 2, Max: 2}); o.Check() != nil {
		t.Error(o.Check())
	}
}

func TestFactors(t *testing.T) {
	want := map[string]float64{"allreduce": 1.5, "broadcast": 1, "reduce": 1, "sendrecv": 1,
		"allgather": .75, "reducescatter": .75, "alltoall": .75, "gather": .75, "scatter": .75}
	for _, c := range collectives() {
		if got := c.factor(4); got != want[c.name] {
			t.Errorf("%s of 4 ranks: %v, want %v", c.name, got, want[c.name])
		}
	}
}

// Sums must not be rounded, whatever the order: the smallest significand has 8 bits.
func TestSumsAreExact(t *testing.T) {
	for _, ranks := range []int{2, 3, 8, 47, 48, 49, 50, 255, 1000} {
		for _, op := range []ring.Op{ring.Sum, ring.Avg} {
			c := combination{elementTypes()[3], op}
			for i := range period {
				up, down := int64(0), int64(0)
				for rank := range ranks {
					v := c.contribution(i, rank, ranks)
					up, down = up+max(v, 0), down+min(v, 0)
				}
				if up > 256 && (op == ring.Sum || ranks <= 500) || down < -256 && ranks <= 500 {
					t.Fatalf("%v of %d ranks: element %d may get to %d or %d on the way", op, ranks, i, up, down)
				}
				if op == ring.Avg && (up+down)%int64(ranks) != 0 {
					t.Fatalf("%d ranks: the average of element %d is no whole number", ranks, i)
				}
			}
		}
	}
}

// A rank that is left out, or counted twice, must be seen in some element.
func TestEveryRankMatters(t *testing.T) {
	for _, ranks := range []int{2, 3, 5, 64, 250} {
		all, err := combinations([]string{"all"}, []string{"all"}, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range all {
			switch op := c.operation(); {
			case op == ring.Avg && ranks > few, op == ring.Min, op == ring.Max, c.typ.id == ring.Bool && op == ring.BXor:
				continue // not every rank brings the extreme
			}
			for _, out := range []int{0, 1, ranks / 2, ranks - 1} {
				if !c.needs(out, ranks) {
					t.Errorf("%v of %s on %d ranks is right without rank %d", c.op, c.typ.name, ranks, out)
					break
				}
			}
		}
	}
}

// needs reports whether the result differs without rank out.
func (c combination) needs(out, ranks int) bool {
	for i := range period {
		var with, without []int64
		for rank := range ranks {
			v := c.contribution(i, rank, ranks)
			with = append(with, v)
			if rank != out {
				without = append(without, v)
			}
		}
		fold := func(values []int64) int64 {
			v := values[0]
			for _, next := range values[1:] {
				v = c.typ.wrap(combine(c.operation(), v, next))
			}
			return v
		}
		if fold(with) != fold(without) {
			return true
		}
	}
	return false
}

func TestHalf(t *testing.T) {
	for v, want := range map[int64]uint16{0: 0, 1: 0x3c00, -1: 0xbc00, 2: 0x4000, 3: 0x4200, 255: 0x5bf8, 2047: 0x67ff, -63: 0xd3e0} {
		if got := half16(v); got != want {
			t.Errorf("%d is %#x, want %#x", v, got, want)
		}
	}
}

func TestSegments(t *testing.T) {
	typ := elementTypes()[1]
	tile := typ.tile(func(i int) int64 { return int64(i) })
	s := segment{memory: make([]byte, 8*1000), tile: tile, phase: period - 1}
	s.fill(8)
	want := typ.put(typ.put(nil, period-1), 0)
	if !bytes.Equal(s.memory[:16], want) || !bytes.Equal(s.memory[8*period:][:16], want) || s.wrong(8) != 0 {
		t.Errorf("filled with %v…, %d wrong", s.memory[:16], s.wrong(8))
	}
	s.memory[8*999+3] ^= 4
	s.memory[0] ^= 1
	if s.wrong(8) != 2 {
		t.Errorf("%d wrong, want 2", s.wrong(8))
	}
	if s.phase = 0; s.wrong(8) < 990 {
		t.Errorf("data in the wrong place: %d wrong", s.wrong(8))
	}
	if v := math.Float64frombits(0xa5a5a5a5a5a5a5a5); v == math.Trunc(v) {
		t.Errorf("memory that was not written looks like %v", v)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	row := Row{Collective: "allreduce", Ranks: 2, Bytes: 8, Count: 2, Type: "float", Op: "sum", Median: 1.234, P99: 150.6, AlgBW: 2, BusBW: 2}
	inPlace := row
	inPlace.InPlace, inPlace.Median, inPlace.Wrong = true, 45.67, 9
	for _, r := range []Row{row, inPlace, {InPlace: true, Bytes: 16, Type: "float"}, {Collective: "alltoall", Bytes: 24, Type: "half"}, {Bytes: 32, Op: "sum"}} {
		if err := table.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(table.Flush(), table.Flush()); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	want := []string{
		"8 2 float sum | 1.23 151 2.00 2.00 0 | 45.7 151 2.00 2.00 9",
		"16 0 float - | N/A N/A N/A N/A N/A | 0.00 0.00 0.00 0.00 0",
		"24 0 half - | 0.00 0.00 0.00 0.00 0 | N/A N/A N/A N/A N/A",
		"32 0 sum | 0.00 0.00 0.00 0.00 0 | N/A N/A N/A N/A N/A",
	}
	if len(lines) != 3+len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), &out)
	}
	for i, w := range want {
		if got := strings.Join(strings.Fields(lines[3+i]), " "); got != w {
			t.Errorf("got %q, want %q", got, w)
		}
	}
	if err := NewTable(broken{}).Add(row); err == nil {
		t.Error("a table that cannot be written is no error")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestPlotIsWellFormed(t *testing.T) {
	series := []Series{
		{"a <b> & c", []Row{{Bytes: 8, Median: 0.2}, {Bytes: 64 << 20, Median: 6700}}},
		{"one point", []Row{{Bytes: 1024, Median: 3}}},
		{"none", nil},
	}
	for _, s := range [][]Series{series, series[2:], nil} {
		var out bytes.Buffer
		if err := Plot(&out, "title", s); err != nil {
			t.Fatal(err)
		}
		for d := xml.NewDecoder(&out); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
		}
	}
	x, _ := axes(series)
	if x.at(8) < 0 || x.at(64<<20) > 1 || x.at(8) >= x.at(1024) {
		t.Errorf("8 B at %v, 1 KiB at %v, 64 MiB at %v", x.at(8), x.at(1024), x.at(64<<20))
	}
}

// TestRowKeys pins the keys of gorun bench --json, which scripts read.
func TestRowKeys(t *testing.T) {
	got, err := json.Marshal(Row{Collective: "allreduce", Ranks: 2, Bytes: 8, Count: 2, Type: "float", Op: "sum", Median: 1.5, P99: 2, AlgBW: 3, BusBW: 4, Iterations: 5, Device: "nccl"})
	want := `{"collective":"allreduce","ranks":2,"bytes":8,"count":2,"type":"float","op":"sum","in_place":false,"median_us":1.5,"p99_us":2,"algbw_gb_s":3,"busbw_gb_s":4,"wrong":0,"iterations":5,"device":"nccl"}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}
