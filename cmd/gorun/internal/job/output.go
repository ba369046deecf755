package job

import (
	"cmp"
	"io"
	"os"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/launcher"
)

// defaultResult is the --result-limit in bytes.
const defaultResult = 1 << 30

// outputOptions sets how and where the launcher shows and saves the ranks' output.
func outputOptions(opts *launcher.Options, o *settings.Options, plan launcher.Plan, io Streams) (err error) {
	l := lineStyle(o, opts.Programs, io)
	out := ui.IsTerminal(io.Out)
	errs := ui.IsTerminal(io.Err)
	opts.OneOutput = o.MergeStderr || sameFile(io.Out, io.Err)
	opts.Screen = [3]bool{1: out, 2: errs}
	widenPipe(io.Out)
	opts.Stdout = io.Out
	opts.Stderr = io.Err
	opts.OutputDir = o.OutputFilename
	opts.CutMark = l.CutMark()
	opts.LastMark = l.LastMark()
	opts.ResultDir = o.ResultDir
	opts.ResultLimit = cmp.Or(int64(o.ResultLimit), defaultResult)
	prefix, err := l.Prefixer(plan)
	if err != nil {
		return err
	}
	opts.Prefix = prefix
	if opts.Show, err = o.Shown(plan); err != nil {
		return err
	}
	if opts.Fold = l.Folding(plan, opts.Screen); opts.Fold.Prefix != nil {
		opts.Fold.Ranks = shownRanks(plan, opts.Show)
	}
	opts.SaveAs, err = o.Save.Paths(plan, os.Getenv("SLURM_JOB_ID"))
	return err
}

// shownRanks returns the number of ranks of which something is shown.
func shownRanks(plan launcher.Plan, show func(rank, fd int) bool) (n int) {
	for rank := range plan.Size {
		if show == nil || show(rank, 1) || show(rank, 2) {
			n++
		}
	}
	return n
}

func lineStyle(o *settings.Options, programs []launcher.Program, io Streams) ui.LineStyle {
	l := ui.LineStyle{
		Style:     o.Prefix,
		Foreign:   o.Foreign,
		Timestamp: o.Timestamp,
		Fold:      o.Fold.Of(o.NoFold),
		Programs:  programs,
	}
	if o.TagOutput {
		l.Style = "mpirun"
	}
	l.Color = [3]bool{1: ui.UseColor(o.Color, ui.IsTerminal(io.Out), os.LookupEnv),
		2: ui.UseColor(o.Color, ui.IsTerminal(io.Err), os.LookupEnv)}
	if o.MergeStderr {
		l.Color[2] = l.Color[1]
	}
	return l
}

// widenPipe enlarges a pipe so that ranks can write while its reader is busy. Failure is harmless.
func widenPipe(w io.Writer) {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			enlarge(f)
		}
	}
}

// sameFile reports whether two outputs are the same file, as with 2>&1.
func sameFile(a, b io.Writer) bool {
	f, ok := a.(*os.File)
	g, also := b.(*os.File)
	if !ok || !also {
		return false
	}
	one, err := f.Stat()
	other, otherErr := g.Stat()
	return err == nil && otherErr == nil && os.SameFile(one, other)
}
