package settings

import (
	"errors"
	"slices"

	"github.com/spf13/pflag"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/launcher"
)

// Follow sets the defaults in which a launcher differs from gorun: mpirun starts a rank per core
// without -np, mpiexec.hydra numbers ranks beyond the slots as if the list of hosts began again,
// horovodrun has its own rules for hosts whose rank fails, mpiexec.hydra and srun let the other
// ranks go on, ranks of srun and flux run read
// variables of their own, and each has its form of output and its exit code. What flags already
// set stays.
func (o *Options) Follow(launcher dialect.Dialect, flags *pflag.FlagSet) {
	o.SlotsByCores = launcher == dialect.OpenMPI
	o.rounds = launcher == dialect.Hydra
	o.Elastic.Horovodrun = launcher == dialect.Horovod && o.Elastic.Restarts == 0
	o.Foreign = launcher != dialect.Own
	o.Codes = codesOf(launcher)
	if o.Foreign && !flags.Changed("prefix") {
		o.followPrefix(launcher)
	}
	if o.Foreign && !flags.Changed("color") {
		o.Color = "never"
	}
	if o.Foreign && !flags.Changed("fold") {
		o.NoFold = true
	}
	if !flags.Changed("keep-going") {
		o.KeepGoing = goesOn(launcher)
	}
	if launcher&(dialect.Slurm|dialect.Flux) != 0 {
		o.StandsFor = launcher.String()
		// A rank with a terminal of its own reads this one.
		if !flags.Changed("stdin") && !flags.Changed("panes") {
			o.Stdin = "all"
		}
	}
}

// followPrefix sets the launcher's form of output lines.
func (o *Options) followPrefix(launcher dialect.Dialect) {
	switch {
	case launcher == dialect.Horovod:
		o.Prefix = "horovod"
	case launcher == dialect.OpenMPI && o.Timestamp && !o.TagOutput:
		o.Prefix = "%T<%s>:"
	default:
		o.Prefix = "none"
	}
}

// codesOf returns how a launcher's exit code follows from those of its ranks.
func codesOf(l dialect.Dialect) launcher.Codes {
	switch l {
	case dialect.Hydra:
		return launcher.MergedCode
	case dialect.Slurm, dialect.Flux:
		return launcher.HighestCode
	case dialect.Horovod, dialect.Torch, dialect.Accelerate:
		return launcher.OneCode
	}
	return launcher.FirstCode
}

// goesOn returns which failures of ranks leave the others running under a launcher.
func goesOn(l dialect.Dialect) keepGoing {
	switch l {
	case dialect.Hydra:
		return keepGoing(launcher.TolerateCodes)
	case dialect.Slurm:
		return keepGoing(launcher.TolerateAll)
	}
	return keepGoing(launcher.TolerateNone)
}

// keepGoing is which failures of ranks leave the others running.
type keepGoing launcher.Tolerance

func (keepGoing) words() []string {
	return []string{
		launcher.TolerateNone:  "none",
		launcher.TolerateCodes: "codes",
		launcher.TolerateAll:   "all",
	}
}

func (k *keepGoing) Type() string   { return "failures" }
func (k *keepGoing) String() string { return k.words()[*k] }

func (k *keepGoing) Set(text string) error {
	i := slices.Index(k.words(), text)
	if i < 0 {
		return errors.New("expected all, codes or none")
	}
	*k = keepGoing(i)
	return nil
}
