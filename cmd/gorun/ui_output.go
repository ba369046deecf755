package main

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/gorun/gorun/launcher"
)

// outputOptions sets how and where the ranks' output is shown.
func outputOptions(opts *launcher.Options, o *runOptions, plan launcher.Plan, io streams) (err error) {
	l := o.look(opts.Programs, io)
	out, errs := isTerminal(io.out), isTerminal(io.err)
	opts.OneOutput = o.mergeStderr || sameFile(io.out, io.err)
	opts.Screen = [3]bool{1: out, 2: errs}
	widenPipe(io.out)
	opts.Stdout, opts.Stderr, opts.OutputDir, opts.CutMark = io.out, io.err, o.outputFilename, cutMark
	if l.ctime() { // programs that read these styles know no marks
		opts.CutMark = ""
	}
	prefix, err := l.prefixer(plan)
	if err != nil {
		return err
	}
	opts.Prefix = prefix
	ranks, err := o.show.filter(plan.Size)
	if err != nil {
		return err
	}
	opts.Show = shown(ranks, o.hide|o.save.hidden())
	opts.SaveAs, err = o.save.places(plan, os.Getenv("SLURM_JOB_ID"))
	return err
}

// look is how lines are to begin.
func (o *runOptions) look(programs []launcher.Program, io streams) look {
	l := look{style: o.prefix, timestamp: o.timestamp, programs: programs}
	if o.tagOutput {
		l.style = "mpirun"
	}
	l.colour = [3]bool{1: useColour(o.color, isTerminal(io.out), os.LookupEnv), 2: useColour(o.color, isTerminal(io.err), os.LookupEnv)}
	if o.mergeStderr {
		l.colour[2] = l.colour[1]
	}
	return l
}

// widenPipe gives a pipe room for what ranks print while its reader is at work. Where that may not be, it
// stays as it is.
func widenPipe(w io.Writer) {
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeNamedPipe != 0 {
			_, _ = unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, 1<<20)
		}
	}
}

// isTerminal reports whether what is written to w is seen at once by a person.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// sameFile reports whether two outputs lead to one place: a terminal, or 2>&1.
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
