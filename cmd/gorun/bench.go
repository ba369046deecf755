package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/ring"
)

// benchRank is the first argument that makes gorun one rank of a benchmark.
const benchRank = "__bench"

// benchOptions are the flags of bench beside those of a run.
type benchOptions struct {
	min, max  byteSize
	budget    seconds
	transport string
	json      bool
	plot      string
}

func (o *benchOptions) addFlags(flags *pflag.FlagSet) {
	o.min, o.max, o.budget = 8, 64<<20, seconds(200*time.Millisecond)
	flags.Var(&o.min, "min", "smallest vector in bytes: 8, 4K, 1M")
	flags.Var(&o.max, "max", "largest vector in bytes")
	flags.Var(&o.budget, "time", "time for each size")
	flags.StringVar(&o.transport, "transport", "auto", "auto, shm or tcp")
	flags.BoolVar(&o.json, "json", false, "print a JSON object a line instead of a table")
	flags.StringVar(&o.plot, "plot", "", "also draw time by size into this SVG file")
}

func (o *benchOptions) check(collective string) error {
	names := bench.Collectives()
	if !strings.Contains(" "+strings.Join(names, " ")+" ", " "+collective+" ") {
		return usagef("choose "+strings.Join(names, ", "), "there is no benchmark of %q", collective)
	}
	if o.min < 4 || o.max < o.min {
		return usagef("", "--min %d --max %d: sizes go from 4 bytes up", o.min, o.max)
	}
	switch o.transport {
	case "auto", "shm", "tcp":
		return nil
	}
	return usagef("", "--transport %q: it must be auto, shm or tcp", o.transport)
}

// newBench is `gorun bench COLLECTIVE`: a run whose program is gorun itself.
func newBench(run func(flags *pflag.FlagSet, o *runOptions, program []string, out io.Writer) error) *cobra.Command {
	var o runOptions
	var b benchOptions
	cmd := &cobra.Command{
		Use:     "bench {allreduce|allgather|broadcast} [flags]",
		Short:   "Time ring's collectives on hosts of your choice",
		Long:    "bench starts ranks as a run does and times a collective on them, with checked\nresults and the columns of nccl-tests.",
		Example: "  gorun bench allreduce -np 4\n  gorun bench allreduce -np 8 -H f1:4,f2:4 --max 256M --plot allreduce.svg",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := b.check(args[0]); err != nil {
				return err
			}
			report := &benchReport{table: bench.NewTable(cmd.OutOrStdout()), out: cmd.OutOrStdout(), json: b.json}
			// The agent's own executable: the same gorun on every host.
			program := []string{"/proc/self/exe", benchRank, args[0], strconv.Itoa(int(b.min)), strconv.Itoa(int(b.max)), time.Duration(b.budget).String()}
			o.prefix, o.stdin = "none", "none"
			o.exports = append(o.exports, "RING_TRANSPORT="+b.transport)
			if err := run(cmd.Flags(), &o, program, report); err != nil {
				return err
			}
			return report.finish(b.plot)
		},
	}
	cmd.Flags().SortFlags = false
	b.addFlags(cmd.Flags())
	o.addFlags(cmd.Flags())
	return cmd
}

// benchReport takes what rank 0 prints, a JSON row a line, and shows it.
type benchReport struct {
	table   *bench.Table
	out     io.Writer
	json    bool
	partial []byte
	rows    []bench.Row
}

func (r *benchReport) Write(p []byte) (int, error) {
	r.partial = append(r.partial, p...)
	for {
		line, rest, whole := bytes.Cut(r.partial, []byte("\n"))
		if !whole {
			return len(p), nil
		}
		r.partial = rest
		if err := r.show(line); err != nil {
			return 0, err
		}
	}
}

func (r *benchReport) show(line []byte) error {
	var row bench.Row
	if err := json.Unmarshal(line, &row); err != nil {
		return fmt.Errorf("a rank printed %q", line)
	}
	r.rows = append(r.rows, row)
	if r.json {
		_, err := fmt.Fprintf(r.out, "%s\n", line)
		return err
	}
	return r.table.Add(row)
}

// finish draws the plot, and is an error when results were wrong.
func (r *benchReport) finish(plot string) error {
	wrong := 0
	var inPlace, outOfPlace bench.Series
	inPlace.Name, outOfPlace.Name = "in place", "out of place"
	for _, row := range r.rows {
		wrong += row.Wrong
		if row.InPlace {
			inPlace.Rows = append(inPlace.Rows, row)
		} else {
			outOfPlace.Rows = append(outOfPlace.Rows, row)
		}
	}
	if plot != "" && len(r.rows) > 0 {
		var svg bytes.Buffer
		title := fmt.Sprintf("%s, %d ranks, %s", r.rows[0].Collective, r.rows[0].Ranks, r.rows[0].Type)
		series := []bench.Series{inPlace}
		if len(outOfPlace.Rows) > 0 {
			series = append(series, outOfPlace)
		}
		if err := errors.Join(bench.Plot(&svg, title, series), os.WriteFile(plot, svg.Bytes(), 0o644)); err != nil {
			return fmt.Errorf("draw the plot: %w", err)
		}
	}
	if wrong > 0 {
		return fmt.Errorf("%d results were wrong", wrong)
	}
	return nil
}

// runBenchRank is one rank: args are the collective, min, max and budget.
func runBenchRank(args []string) int {
	err := func() error {
		if len(args) != 4 {
			return errors.New("this command is internal to gorun")
		}
		low, err1 := strconv.Atoi(args[1])
		high, err2 := strconv.Atoi(args[2])
		budget, err3 := time.ParseDuration(args[3])
		if err := errors.Join(err1, err2, err3); err != nil {
			return err
		}
		ctx := context.Background()
		c, err := ring.Init(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		out := json.NewEncoder(os.Stdout)
		var lost error
		err = bench.Run(ctx, c, bench.Options{Collective: args[0], Min: low, Max: high, Budget: budget}, func(row bench.Row) {
			if c.Rank() == 0 {
				lost = errors.Join(lost, out.Encode(row))
			}
		})
		return errors.Join(err, lost)
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, "gorun bench:", err)
		return 1
	}
	return 0
}

// byteSize is a number of bytes on the command line: 8, 4K, 1M, 1G.
type byteSize int

func (s *byteSize) String() string { return strconv.Itoa(int(*s)) }
func (s *byteSize) Type() string   { return "bytes" }

func (s *byteSize) Set(text string) error {
	number, shift := strings.TrimSuffix(strings.ToUpper(text), "B"), 0
	for i, unit := range []string{"K", "M", "G"} {
		if n, found := strings.CutSuffix(strings.TrimSuffix(number, "I"), unit); found {
			number, shift = n, 10*(i+1)
		}
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 1<<40>>shift {
		return errors.New("want bytes, such as 8, 64K or 256M")
	}
	*s = byteSize(n << shift)
	return nil
}
