package core

import (
	"syscall"

	"github.com/gorun/gorun/internal/net/wire"
)

// Codes is how the failures of ranks become the exit code of a job.
type Codes uint8

// The ways of launchers.
const (
	FirstCode   Codes = iota // the first failure's: gorun, mpirun, deepspeed
	HighestCode              // the highest of all failures: srun, flux
	MergedCode               // wait statuses, or-ed bit by bit: Hydra
	OneCode                  // 1 for any failure: torchrun, horovodrun, accelerate
)

// of returns the exit code of a job in which ranks failed, first before all others. Ranks that the
// launcher has stopped do not count.
func (c Codes) of(first Exit, all []Exit) int {
	switch c {
	case OneCode:
		return 1
	case HighestCode:
		highest := first.code()
		for _, e := range failures(all) {
			highest = max(highest, e.code())
		}
		return highest
	case MergedCode:
		return merged(append(failures(all), first))
	}
	return first.code()
}

// failures returns the exits of ranks that failed by themselves.
func failures(all []Exit) (failed []Exit) {
	for _, e := range all {
		if e.IsFailure() && !e.Stopped {
			failed = append(failed, e)
		}
	}
	return failed
}

// merged returns the bits of all signals, or if no signal ended a rank those of all codes.
func merged(failed []Exit) int {
	code := 0
	signal := 0
	for _, e := range failed {
		signal |= e.Signal
		if e.Signal == 0 {
			code |= e.code()
		}
	}
	if signal != 0 {
		return signal
	}
	return code
}

// code returns the exit code of a failed rank as a shell would see it. An end that only MPI reports
// is no success.
func (e Exit) code() int {
	switch {
	case e.Signal != 0:
		return wire.SignalCode(syscall.Signal(e.Signal))
	case e.MPI != "":
		return max(e.Code, 1)
	}
	return e.Code
}
