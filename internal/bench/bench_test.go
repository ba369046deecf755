package bench

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// rowsOf runs opts on ranks in this process.
func rowsOf(t *testing.T, door *ringtest.Job, opts Options) [][]Row {
	t.Helper()
	comms := door.Join(t)
	rows := make([][]Row, door.Size)
	ringtest.All(t, door.Size, func(rank int) error {
		return Run(t.Context(), comms[rank], opts, func(r Row) { rows[rank] = append(rows[rank], r) })
	})
	return rows
}

func TestRunTimesAndChecksEverySize(t *testing.T) {
	single := map[string]bool{"broadcast": true, "alltoall": true, "sendrecv": true}
	for _, collective := range Collectives() {
		for _, ranks := range []int{1, 2, 3} {
			rows := rowsOf(t, ringtest.NewJob(t, ranks), Options{
				Collective: collective,
				Min:        24,
				Max:        100,
				Budget:     time.Millisecond,
			})
			sizes := []int{24, 24, 48, 48, 96, 96}
			switch {
			case single[collective]:
				sizes = []int{24, 48, 96}
			case collective == Barrier:
				sizes = []int{0}
			}
			must.That(t, len(rows[0]) == len(sizes), "%s: %d rows, want %d", collective, len(rows[0]), len(sizes))
			for i, r := range rows[0] {
				if r.Wrong != 0 || r.Time <= 0 || r.Median <= 0 || r.P99 < r.Median || r.Max < r.P99 ||
					r.WireTime != 0 || r.Bytes != 4*r.Count || r.Bytes != sizes[i] ||
					r.Iterations < minIterations || r.Ranks != ranks || r != rows[ranks-1][i] {
					t.Errorf("%+v on rank 0, %+v on rank %d", r, rows[ranks-1][i], ranks-1)
				}
			}
		}
	}
}

func TestEveryTypeAndOperationIsChecked(t *testing.T) {
	must.HaveTime(t)
	for _, collective := range Collectives() {
		opts := Options{
			Collective: collective,
			Types:      []string{"all"},
			Min:        9000,
			Max:        9000,
			Budget:     time.Microsecond,
		}
		combos := len(Types())
		if collective == Barrier {
			opts.Types = nil
			combos = 1
		}
		if what, _ := find(collective); what.combines() {
			opts.Ops = []string{"all"}
			combos = 4*5 + 6*8 + 7 // floats, integers, bool
		}
		door := ringtest.NewJob(t, 5)
		door.Hosts = []int{2, 3}
		seen := map[[2]string]bool{}
		for _, r := range rowsOf(t, door, opts)[0] {
			seen[[2]string{r.Type, r.Op}] = true
			check.That(t, r.Wrong == 0, "%s of %s %s: %d wrong", collective, r.Type, r.Op, r.Wrong)
		}
		check.That(t, len(seen) == combos, "%s: %d types and operations, want %d", collective, len(seen), combos)
	}
}

func TestWrongResultsAreCounted(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	ringtest.All(t, 2, func(rank int) error {
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
		check.That(t, trial.row.Wrong == 5, "rank %d counts %d wrong elements, want 5", rank, trial.row.Wrong)
		return nil
	})
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	good := Options{Collective: "allreduce", Min: 8, Max: 8}
	for want, change := range map[string]func(o *Options){
		"unknown benchmark":             func(o *Options) { o.Collective = "reduceall" },
		"the smaller first":             func(o *Options) { o.Max = 4 },
		"factor of 1":                   func(o *Options) { o.Factor = 1 },
		"no type":                       func(o *Options) { o.Types = []string{"float", "quad"} },
		"no operation \"xor\"":          func(o *Options) { o.Ops = []string{"xor"} },
		"band is not defined for float": func(o *Options) { o.Ops = []string{"band"} },
		"has no operation": func(o *Options) {
			o.Collective = "gather"
			o.Ops = []string{"sum"}
		},
		"has no type": func(o *Options) {
			o.Collective = Barrier
			o.Types = []string{"float"}
		},
		"has no bandwidth": func(o *Options) {
			o.Collective = Barrier
			o.Wire = true
		},
		"has no device": func(o *Options) {
			o.Collective = Barrier
			o.Device = "cuda"
		},
		"timed together": func(o *Options) { o.Batch = -1 },
	} {
		o := good
		change(&o)
		err := o.Check()
		check.That(t, err != nil && strings.Contains(err.Error(), want), "%+v: %v, want %q", o, err, want)
	}
	check.OK(t, good.Check())
	comms := ringtest.NewJob(t, 1).Join(t)
	check.Error(Run(t.Context(), comms[0], Options{Collective: "allgather", Min: 1, Max: 3}, nil)).Says(t, "larger",
		"3 bytes of float")
	// The names of ring and those of nccl-tests.
	if o := (Options{
		Collective: "reduce",
		Types:      []string{"float16", "half"},
		Min:        2,
		Max:        2,
	}); o.Check() != nil {
		t.Error(o.Check())
	}
}

// The factors are those of nccl-tests' doc/PERFORMANCE.md and, for gather, scatter and sendrecv, of
// its sources.
func TestFactors(t *testing.T) {
	for name, want := range map[string][2]float64{ // of 2 and of 8 ranks
		"allreduce": {1, 1.75}, "reducescatter": {.5, .875}, "allgather": {.5, .875}, "broadcast": {1, 1},
		"reduce":   {1, 1},
		"alltoall": {.5, .875}, "gather": {.5, .875}, "scatter": {.5, .875}, "sendrecv": {1, 1},
	} {
		c, known := find(name)
		got := [2]float64{c.factor(2), c.factor(8)}
		check.That(t, known && got == want, "%s of 2 and 8 ranks: %v, want %v", name, got, want)
	}
	r := Row{
		Bytes:    4000,
		Time:     2,
		Median:   1,
		WireTime: 0.5,
	}
	r.bandwidths(1.5)
	check.That(t, r.AlgBW == 2 && r.BusBW == 3 && r.WireBW == 8 && r.WireShare == 0.75, "%+v", r)
}

// The first calls of a process are many times as slow as the others, and must not decide how many
// there are.
func TestBudgetIsUsed(t *testing.T) {
	for _, c := range []struct {
		budget           time.Duration
		given            int
		each             float64
		iterations, size int
	}{
		{50 * time.Millisecond, 0, 25e-6, 2000, 1},
		{50 * time.Millisecond, 0, 1e-6, 50000, 20}, // samples of 20 µs
		{50 * time.Millisecond, 0, 0, 500000, 200},  // at least 0.1 µs each
		{time.Millisecond, 0, 1e-3, minIterations, 1},
		{time.Hour, 0, 1e-6, maxIterations / 20 * 20, 20},
		{50 * time.Millisecond, 7, 25e-6, 1995, 7},
		{time.Microsecond, 7, 25e-6, 7 * minIterations, 7},
	} {
		iterations, batch := plan(Options{Budget: c.budget, Batch: c.given}, c.each, minSample)
		check.That(t, iterations == c.iterations && batch == c.size,
			"%v of calls of %v s: %d calls in samples of %d, want %d and %d", c.budget, c.each, iterations, batch,
			c.iterations, c.size)
	}
}

func TestBatchIsTimedTogether(t *testing.T) {
	for _, batch := range []int{1, 7} {
		for _, r := range rowsOf(t, ringtest.NewJob(t, 2), Options{
			Collective: "allreduce",
			Min:        8,
			Max:        8,
			Budget:     time.Millisecond,
			Batch:      batch,
		})[0] {
			check.That(t, r.Iterations%batch == 0 && r.Iterations >= batch*minIterations,
				"%d calls in samples of %d", r.Iterations, batch)
		}
	}
}

// Sums must not be rounded, whatever the order: the smallest significand has 8 bits.
func TestSumsAreExact(t *testing.T) {
	for _, ranks := range []int{2, 3, 8, 47, 48, 49, 50, 255, 1000} {
		for _, op := range []ring.Op{ring.Sum, ring.Avg} {
			c := combination{elementTypes()[3], op}
			for i := range period {
				up := int64(0)
				down := int64(0)
				for rank := range ranks {
					v := c.contribution(i, rank, ranks)
					up += max(v, 0)
					down += min(v, 0)
				}
				must.That(t, (up <= 256 || op != ring.Sum && ranks > 500) && (down >= -256 || ranks > 500),
					"%v of %d ranks: element %d may get to %d or %d on the way", op, ranks, i, up, down)
				must.That(t, op != ring.Avg || (up+down)%int64(ranks) == 0,
					"%d ranks: the average of element %d is no whole number", ranks, i)
			}
		}
	}
}

// A rank that is left out, or counted twice, must be seen in some element.
func TestEveryRankMatters(t *testing.T) {
	for _, ranks := range []int{2, 3, 5, 64, 250} {
		all := must.Get(combinations([]string{"all"}, []string{"all"}, true))(t)
		for _, c := range all {
			switch op := c.operation(); {
			case op == ring.Avg && ranks > few, op == ring.Min, op == ring.Max, c.typ.id == ring.Bool &&
				op == ring.BXor:
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
	for v, want := range map[int64]uint16{0: 0, 1: 0x3c00, -1: 0xbc00, 2: 0x4000, 3: 0x4200, 255: 0x5bf8, 2047: 0x67ff,
		-63: 0xd3e0} {
		check.Equal(t, half16(v), want, v)
	}
}

func TestSegments(t *testing.T) {
	typ := elementTypes()[1]
	tile := typ.tile(func(i int) int64 { return int64(i) })
	s := segment{memory: make([]byte, 8*1000), tile: tile, phase: period - 1}
	s.fill(8)
	want := typ.put(typ.put(nil, period-1), 0)
	check.That(t, bytes.Equal(s.memory[:16], want) && bytes.Equal(s.memory[8*period:][:16], want) && s.wrong(8) == 0,
		"filled with %v…, %d wrong", s.memory[:16], s.wrong(8))
	s.memory[8*999+3] ^= 4
	s.memory[0] ^= 1
	check.That(t, s.wrong(8) == 2, "%d wrong, want 2", s.wrong(8))
	s.phase = 0
	check.That(t, s.wrong(8) >= 990, "data in the wrong place: %d wrong", s.wrong(8))
	v := math.Float64frombits(0xa5a5a5a5a5a5a5a5)
	check.That(t, v != math.Trunc(v), "memory that was not written looks like %v", v)
}

// TestTable compares with what all_reduce_perf of nccl-tests prints for such figures.
func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	row := Row{
		Collective: "allreduce",
		Ranks:      2,
		Bytes:      8,
		Count:      2,
		Type:       "float",
		Op:         "sum",
		Root:       -1,
		Time:       21.624,
		AlgBW:      0.001,
		BusBW:      0.001,
	}
	inPlace := row
	inPlace.InPlace = true
	inPlace.Time = 12345.67
	inPlace.Wrong = 9
	for _, r := range []Row{row, inPlace,
		{InPlace: true, Bytes: 16, Type: "float", Root: 3, BusBW: 123.4},
		{Collective: "alltoall", Bytes: 24, Type: "half", Root: -1, Time: 123456, AlgBW: 1234.5},
		{Collective: Barrier, Root: -1, Time: 0.5}} {
		must.OK(t, table.Add(r))
	}
	must.OK(t, errors.Join(table.Finish(), NewTable(nil).Finish()))
	want := `# allreduce, 2 ranks; time: average of all calls and ranks
#
#                                                             out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    21.62    0.00    0.00       0  12345.7    0.00    0.00       9
          16             0     float    none       3      N/A     N/A     N/A     N/A     0.00    0.00  123.40       0
          24             0      half    none      -1   123456  1234.5    0.00       0      N/A     N/A     N/A     N/A
           0             0      none    none      -1     0.50    0.00    0.00       0      N/A     N/A     N/A     N/A
# Out of bounds values : 9 FAILED
# Avg bus bandwidth    : 24.6804
#
`
	check.That(t, out.String() == want, "got\n%s\nwant\n%s", &out, want)
	check.That(t, NewTable(broken{}).Add(row) != nil, "a table that cannot be written is no error")
}

// The columns of nccl-tests come first in each form, with more behind them.
func TestTableHasMoreColumns(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	table.Percentiles = true
	table.Wire = true
	row := Row{
		Collective: "broadcast",
		Ranks:      2,
		Bytes:      8,
		Count:      2,
		Type:       "float",
		Time:       1,
		AlgBW:      2,
		BusBW:      3,
		Median:     4,
		P99:        5,
		Max:        6,
		WireBW:     7,
		WireShare:  0.875,
	}
	row.InPlace = true
	must.OK(t, errors.Join(table.Add(row), table.Finish()))
	lines := strings.Split(out.String(), "\n")
	columns := "time algbw busbw #wrong p50 p99 max wire /wire"
	for i, want := range map[int]string{
		3: "# size count type redop root " + columns + " " + columns,
		5: "8 2 float none 0 " + strings.Repeat("N/A ", 9) + "1.00 2.00 3.00 0 4.00 5.00 6.00 7.00 0.88",
	} {
		check.Equal(t, strings.Join(strings.Fields(lines[i]), " "), want)
	}
	check.That(t, len(lines[3]) == len(lines[5]), "titles and values are not in line:\n%s\n%s", lines[3], lines[5])
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{0.004: "0.00", 9.999: "10.00", 999.99: "999.99", 9999.99: "9999.99",
		9999.996: "10000.0", 99999.9: "99999.9", 1e6: "1000000", 1e7: "1.0e+07"} {
		check.Equal(t, number(value, 7), want, value)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("full") }

// TestRowKeys pins the keys of gorun bench --json, which scripts read.
func TestRowKeys(t *testing.T) {
	row := Row{
		Collective: "allreduce",
		Ranks:      2,
		Bytes:      8,
		Count:      2,
		Type:       "float",
		Op:         "sum",
		Root:       -1,
		Time:       1,
		Median:     1.5,
		P99:        2,
		Max:        2.5,
		AlgBW:      3,
		BusBW:      4,
		Iterations: 5,
	}
	want := `{"collective":"allreduce","ranks":2,"bytes":8,"count":2,"type":"float","op":"sum","root":-1,"in_place":false,"time_us":1,"algbw_gb_s":3,"busbw_gb_s":4,"median_us":1.5,"p99_us":2,"max_us":2.5,"wrong":0,"iterations":5}`
	got, err := json.Marshal(row)
	check.That(t, err == nil && string(got) == want, "got %s, %v\nwant %s", got, err, want)
	row.Device = "nccl"
	row.WireTime = 6
	row.WireBW = 7
	row.WireShare = 8
	want = strings.TrimSuffix(want, "}") + `,"device":"nccl","wire_us":6,"wire_gb_s":7,"busbw_of_wire":8}`
	got, err = json.Marshal(row)
	check.That(t, err == nil && string(got) == want, "got %s, %v\nwant %s", got, err, want)
}
