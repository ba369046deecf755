package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/ringtest"
)

func TestRunTimesAndChecksEverySize(t *testing.T) {
	for _, collective := range Collectives() {
		comms := ringtest.NewDoor(t, 3).Join(t)
		rows := make([][]Row, 3)
		err := ringtest.Each(3, func(rank int) error {
			return Run(t.Context(), comms[rank], Options{collective, 12, 50, time.Millisecond}, func(r Row) { rows[rank] = append(rows[rank], r) })
		})
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows[0] {
			if r.Wrong != 0 || r.Median <= 0 || r.P99 < r.Median || r.Bytes != 4*r.Count || r.Iterations < minIterations || r != rows[2][i] {
				t.Errorf("%+v on rank 0, %+v on rank 2", r, rows[2][i])
			}
		}
		if want := map[string]int{"broadcast": 3}[collective]; len(rows[0]) != max(want, 3) && len(rows[0]) != 6 {
			t.Errorf("%s: %d rows", collective, len(rows[0]))
		}
	}
}

func TestWrongResultsAreCounted(t *testing.T) {
	comms := ringtest.NewDoor(t, 2).Join(t)
	err := ringtest.Each(2, func(rank int) error {
		trial := newTrial(comms[rank], "allreduce", 40, false)
		right := trial.want
		trial.want = func(i int) float32 {
			if rank == 1 && i < 3 {
				return right(i) + 1
			}
			return right(i)
		}
		if err := trial.check(t.Context()); err != nil {
			return err
		}
		if trial.row.Wrong != 3 {
			t.Errorf("rank %d counts %d wrong elements, want 3", rank, trial.row.Wrong)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := Run(t.Context(), comms[0], Options{Collective: "reduce"}, nil); err == nil {
		t.Error("an unknown collective was timed")
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	table := NewTable(&out)
	row := Row{Collective: "allreduce", Ranks: 2, Bytes: 8, Count: 2, Type: "float", Op: "sum", Median: 1.234, P99: 150.6, AlgBW: 2, BusBW: 2}
	inPlace := row
	inPlace.InPlace, inPlace.Median, inPlace.Wrong = true, 45.67, 9
	for _, r := range []Row{row, inPlace, {InPlace: true, Bytes: 16, Type: "float"}} {
		if err := table.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 5 {
		t.Fatalf("%d lines:\n%s", len(lines), &out)
	}
	if want := "8 2 float sum | 1.23 151 2.00 2.00 0 | 45.7 151 2.00 2.00 9"; strings.Join(strings.Fields(lines[3]), " ") != want {
		t.Errorf("got %q, want %q", lines[3], want)
	}
	if want := "16 0 float - | - - - - - | 0.00 0.00 0.00 0.00 0"; strings.Join(strings.Fields(lines[4]), " ") != want {
		t.Errorf("got %q, want %q", lines[4], want)
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
