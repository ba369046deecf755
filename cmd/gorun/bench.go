package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/installed"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/bench"
	"github.com/gorun/gorun/internal/usage"
)

// benchOptions holds the flags of bench, in addition to those of a run.
type benchOptions struct {
	min, max    settings.ByteSize
	factor      int
	budget      settings.Seconds
	types, ops  []string
	perHost     int
	transport   string
	streams     int
	device      string
	wire        bool
	percentiles bool
	json        bool
	plot        string
	against     []string
}

func (o *benchOptions) addFlags(flags *pflag.FlagSet) {
	o.min = 8
	o.max = 64 << 20
	o.budget = settings.Seconds(200 * time.Millisecond)
	flags.VarP(&o.min, "min", "b", "smallest vector in bytes: 8, 4K, 1M")
	flags.VarP(&o.max, "max", "e", "largest vector in bytes")
	flags.IntVarP(&o.factor, "stepfactor", "f", 2, "factor between sizes")
	flags.Var(&o.budget, "time", "time for each size")
	flags.StringSliceVar(&o.types, "type", nil, "types of elements, or all: "+strings.Join(bench.Types(), ", ")+
		" (default float)")
	flags.StringSliceVar(&o.ops, "op", nil, "operations, or all: "+strings.Join(bench.Ops(), ", ")+" (default sum)")
	flags.IntVar(&o.perHost, "ranks-per-host", 0,
		"ranks on each host, regardless of its slots; all hosts are used")
	flags.StringVar(&o.transport, "transport", "auto", "auto, shm or tcp")
	flags.IntVar(&o.streams, "streams", 1, "TCP connections between two ranks (RING_STREAMS)")
	flags.StringVar(&o.device, "device", "cpu", "memory to use: cpu, or cuda for NVIDIA GPUs")
	flags.BoolVar(&o.wire, "wire", false,
		"also time one plain TCP connection between two hosts, in turns with the collective")
	flags.BoolVar(&o.percentiles, "percentiles", false, "also print median, 99th percentile and maximum")
	flags.BoolVar(&o.json, "json", false, "print JSON lines instead of a table")
	flags.StringVar(&o.plot, "plot", "", "also plot bus bandwidth by size, beside that of --wire, to this file: "+
		"a PNG if its name ends with .png, else an SVG")
	flags.StringArrayVar(&o.against, "against", nil,
		"a file with the output of gorun bench or nccl-tests, whose curve --plot draws too")
}

// options converts the flags to the options of each rank.
func (o *benchOptions) options(collective string) (bench.Options, error) {
	// Accept the spellings of nccl-tests and MPI (reduce_scatter) and of ring (reduce-scatter).
	collective = strings.NewReplacer("-", "", "_", "").Replace(collective)
	opts := bench.Options{
		Collective: collective,
		Types:      o.types,
		Ops:        o.ops,
		Min:        int(o.min),
		Max:        int(o.max),
		Factor:     o.factor,
		Budget:     time.Duration(o.budget),
		Wire:       o.wire || o.plot != "",
		Device:     o.device,
	}
	switch names := bench.Collectives(); {
	case !slices.Contains(names, collective):
		return opts, usage.Errorf(usage.Choose(collective, names), "unknown benchmark %q", collective)
	case o.min < 1 || o.max < o.min:
		return opts, usage.Errorf("for example --min 8 --max 64M",
			"--min %d --max %d: sizes start at 1 byte and --max is at least --min", o.min, o.max)
	case o.factor < 2:
		return opts, usage.Errorf("for example --stepfactor 4", "--stepfactor %d: it must be at least 2", o.factor)
	case len(o.against) > 0 && o.plot == "":
		return opts, usage.Errorf("add --plot FILE.svg", "--against %s: there is no plot to draw it in", o.against[0])
	case o.streams < 1:
		return opts, usage.Errorf("for example --streams 2", "--streams %d: it must be at least 1", o.streams)
	case !slices.Contains([]string{"auto", "shm", "tcp"}, o.transport):
		return opts, usage.Errorf("for example --transport tcp",
			"--transport %q: it must be auto, shm or tcp", o.transport)
	}
	if err := opts.Check(); err != nil {
		hint := "see gorun bench --help"
		for _, of := range [][2][]string{{o.types, bench.Types()}, {o.ops, bench.Ops()}} {
			for _, word := range of[0] {
				if word != "all" && !slices.Contains(of[1], word) {
					hint = usage.Choose(word, of[1])
				}
			}
		}
		return opts, usage.Errorf(hint, "%w", err)
	}
	return opts, nil
}

// setRanks makes the run start perHost ranks on each host.
func (o *benchOptions) setRanks(flags *pflag.FlagSet) error {
	if !flags.Changed("ranks-per-host") {
		return nil
	}
	if flags.Changed("np") || flags.Changed("ppn") {
		return usage.Errorf("leave -np and --ppn out", "--ranks-per-host %d says how many ranks there are", o.perHost)
	}
	if err := flags.Set("ppn", strconv.Itoa(o.perHost)); err != nil {
		return usage.Errorf("for example --ranks-per-host 4", "--ranks-per-host %d: it must be at least 1", o.perHost)
	}
	return nil
}

// setFlags sets the run's flags that a benchmark depends on, so that files and variables cannot
// change them.
func (o *benchOptions) setFlags(flags *pflag.FlagSet) error {
	wanted := [][2]string{{"prefix", "none"}, {"stdin", "none"}, {"export", "RING_TRANSPORT=" + o.transport}}
	if flags.Changed("streams") {
		wanted = append(wanted, [2]string{"export", "RING_STREAMS=" + strconv.Itoa(o.streams)})
	}
	for _, w := range wanted {
		if err := flags.Set(w[0], w[1]); err != nil {
			return err
		}
	}
	return nil
}

// benchCommand is gorun bench, a run whose program is gorun itself.
type benchCommand struct {
	jobCommand
	bench benchOptions
}

func newBench(call *invocation) *cobra.Command {
	c := &benchCommand{jobCommand: jobCommand{invocation: call}}
	cmd := &cobra.Command{
		Use:   "bench {" + strings.Join(bench.Collectives(), "|") + "} [flags]",
		Short: "Time ring's collectives on hosts of your choice",
		Long: `bench starts ranks as a run does and times a collective on them, with checked
results and the columns of nccl-tests. The size is that of the whole vector: one rank's
data in allreduce, broadcast, reduce and sendrecv, the data of all ranks together in the
others. Time is the average of all calls; algbw is size by time, and busbw what a link
carries by time.`,
		Example: `  gorun bench allreduce -np 4
  gorun bench allreduce -np 4 --type half,float --op all --max 1M
  gorun bench allgather --ranks-per-host 4 -H f1,f2 -b 1K -e 64M -f 4 --percentiles
  gorun bench alltoall -np 2 --transport tcp --streams 2
  gorun bench allreduce -np 8 --device cuda
  gorun bench allreduce -np 8 -H f1:4,f2:4 --max 256M --plot allreduce.svg
  gorun bench allreduce -np 8 --plot both.png --against nccl.txt`,
		Args:      oneArgument(bench.Collectives()),
		ValidArgs: bench.Collectives(),
	}
	c.bench.addFlags(cmd.Flags())
	return c.takeJobFlags(cmd, c, settings.Jobs)
}

func (c *benchCommand) Run(ctx context.Context) (code int, err error) {
	argv, err := c.program()
	if err != nil {
		return 0, err
	}
	peers, err := ui.ReadPeers(c.bench.against)
	if err != nil {
		return 0, err
	}
	if err := errors.Join(c.bench.setRanks(c.flags), c.bench.setFlags(c.flags)); err != nil {
		return 0, err
	}
	if _, err := c.complete(); err != nil {
		return 0, err
	}
	switch {
	case c.keeping:
		return c.keep(ctx)
	case c.detaches():
		return 0, usage.Errorf("redirect its table instead: gorun bench ... >FILE &",
			"--detach is for programs, not for gorun bench")
	case c.o.DryRun:
		return c.start(ctx, argv, c.plain)
	}
	table := bench.NewTable(c.plain)
	table.Percentiles = c.bench.percentiles
	table.Wire = c.bench.wire
	report := &ui.BenchReport{Table: table, Out: c.plain, JSON: c.bench.json}
	if code, err = c.start(ctx, argv, report); err != nil {
		return 0, err
	}
	return code, report.Finish(c.bench.plot, peers)
}

// program returns the command line of each rank.
func (c *benchCommand) program() ([]string, error) {
	opts, err := c.bench.options(c.args[0])
	if err != nil {
		return nil, err
	}
	if err := ui.CheckPlot(c.bench.plot); err != nil {
		return nil, err
	}
	text, err := json.Marshal(opts)
	if err != nil {
		return nil, err
	}
	program, err := benchProgram(c.bench.device)
	return append(program, string(text)), err
}

// benchProgram returns the command line of each rank without its options.
func benchProgram(device string) ([]string, error) {
	if device != "cuda" {
		return []string{"/proc/self/exe", benchRank}, nil // the agent's own executable: the same gorun on every host
	}
	gorun, err := installed.Own()
	if err != nil {
		return nil, err
	}
	program, err := installed.Path(gorun.Path, "gorun-bench")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage.Errorf("make build makes it where there is a C compiler; all hosts need it at that path",
			"--device cuda: %w", err)
	}
	if err != nil {
		return nil, usage.Errorf(usage.Hint(err), "--device cuda: %w", err)
	}
	return []string{"/proc/self/exe", benchDeviceRank, program}, nil
}
