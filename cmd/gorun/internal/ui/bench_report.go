package ui

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/sight/chart"
	"github.com/gorun/gorun/internal/usage"
)

// BenchReport is a writer for rank 0's JSON rows. It prints them as a table or as JSON lines.
type BenchReport struct {
	Table   *bench.Table
	Out     io.Writer
	JSON    bool
	partial []byte
	rows    []bench.Row
}

// Bounds of what the ranks of a benchmark print.
const (
	maxRow  = 64 << 10 // bytes of a row
	maxRows = 1 << 16
)

func (r *BenchReport) Write(p []byte) (int, error) {
	r.partial = append(r.partial, p...)
	for {
		line, rest, whole := bytes.Cut(r.partial, []byte("\n"))
		if !whole && len(r.partial) > maxRow {
			return 0, fmt.Errorf("a rank printed a row of more than %d bytes", maxRow)
		}
		if !whole {
			return len(p), nil
		}
		r.partial = rest
		if err := r.show(line); err != nil {
			return 0, err
		}
	}
}

func (r *BenchReport) show(line []byte) error {
	var row bench.Row
	if err := cmp.Or(json.Unmarshal(line, &row), row.Check()); err != nil {
		return fmt.Errorf("a rank printed %q", prose.Printable(string(line)))
	}
	if len(r.rows) == maxRows {
		return fmt.Errorf("a rank printed more than %d rows", maxRows)
	}
	r.rows = append(r.rows, row)
	if r.JSON {
		_, err := fmt.Fprintf(r.Out, "%s\n", prose.PlainJSON(line))
		return err
	}
	return r.Table.Add(row)
}

// Peer is a curve beside those of a benchmark.
type Peer struct {
	Name  string
	Curve []bench.Measured
}

// ReadPeers reads the files of curves beside those of a plot.
func ReadPeers(names []string) (peers []Peer, err error) {
	for _, name := range names {
		file, err := trust.Open(name)
		if err != nil {
			return nil, usage.Errorf("name a file with the output of gorun bench or nccl-tests", "--against: %w", err)
		}
		curve, err := bench.ReadCurve(file)
		file.Close()
		if err != nil {
			return nil, usage.Errorf("redirect a table there: gorun bench allreduce -np 4 >"+prose.Quoted(name),
				"--against %s: %w", name, err)
		}
		base := filepath.Base(name)
		peers = append(peers, Peer{strings.TrimSuffix(base, filepath.Ext(base)), curve})
	}
	return peers, nil
}

// CheckPlot returns an error if the plot cannot be made, or another user made the file in its
// place.
func CheckPlot(plot string) error {
	if plot == "" {
		return nil
	}
	if err := trust.CheckOutput(plot); err != nil {
		return usage.Errorf(usage.Hint(err), "--plot: %w", err)
	}
	return nil
}

// Finish completes the table and draws the plot, with the curves of peers. Wrong results are an
// error.
func (r *BenchReport) Finish(plot string, peers []Peer) error {
	if err := r.Table.Finish(); err != nil {
		return err
	}
	if plot != "" && len(r.rows) > 0 {
		title := fmt.Sprintf("%s, %d ranks", r.rows[0].Collective, r.rows[0].Ranks)
		drawn, err := chart.BySize(title, "bus bandwidth", chart.Bandwidth(), benchSeries(r.rows, peers)).Picture(plot)
		if err == nil {
			err = trust.WriteFile(plot, drawn)
		}
		if err != nil {
			return fmt.Errorf("write the plot: %w", err)
		}
	}
	wrong := 0
	for _, row := range r.rows {
		wrong += row.Wrong
	}
	if wrong > 0 {
		return fmt.Errorf("%d results were wrong", wrong)
	}
	return nil
}

// benchSeries returns the bus bandwidths of a plot: a series per type, operation and in-place form,
// the wire, and the peers.
func benchSeries(rows []bench.Row, peers []Peer) []chart.Series {
	var all []chart.Series
	wire := chart.Series{Name: "plain socket", Dashed: true}
	for _, row := range rows {
		name := row.Type
		if row.Op != "" {
			name += " " + row.Op
		}
		if row.InPlace {
			name += ", in place"
		}
		i := slices.IndexFunc(all, func(s chart.Series) bool { return s.Name == name })
		if i < 0 {
			i = len(all)
			all = append(all, chart.Series{Name: name})
		}
		all[i].Points = append(all[i].Points, chart.Point{X: float64(row.Bytes), Y: 1e9 * row.BusBW})
		if i == 0 && row.WireBW > 0 {
			wire.Points = append(wire.Points, chart.Point{X: float64(row.Bytes), Y: 1e9 * row.WireBW})
		}
	}
	if len(wire.Points) > 0 {
		all = append(all, wire)
	}
	for _, p := range peers {
		peer := chart.Series{Name: p.Name, Dashed: true}
		for _, m := range p.Curve {
			peer.Points = append(peer.Points, chart.Point{X: float64(m.Bytes), Y: 1e9 * m.BusBW})
		}
		all = append(all, peer)
	}
	return all
}
