package services

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/linkage"
	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
)

// When processes of ranks are looked at: each second at first, since most programs load their MPI
// early, and for lookTime at all.
const (
	lookOften  = time.Second
	lookSeldom = 10 * time.Second
	oftenTime  = 15 * time.Second
	lookTime   = 2 * time.Minute
)

// watchAlone tells the user once when a process of a rank has loaded an Open MPI that it is not
// served: it will be rank 0 of 1. The host where a program's first rank runs does so.
func (s *Services) watchAlone() {
	began := time.Now()
	for next := lookOften; time.Since(began) < lookTime; {
		select {
		case <-s.mpi.ctx.Done():
			return
		case <-time.After(next):
		}
		for _, p := range contain.Descendants(os.Getpid()) {
			if rank, text := alone(p.PID, s.job.Ranks); text != "" {
				s.relay.Note(rank, kv.Note{Text: text})
				return
			}
		}
		if time.Since(began) > oftenTime {
			next = lookSeldom
		}
	}
}

// leads reports whether this host has the first rank of one of the job's programs.
func leads(job wire.Job) bool {
	firsts := map[int]bool{0: true}
	last := 0
	for _, share := range job.Shares {
		last += share
		firsts[last] = true
	}
	for _, r := range job.Ranks {
		if firsts[r.Rank] {
			return true
		}
	}
	return false
}

// alone returns a note about a process whose MPI will not find the other ranks, and its rank. text
// is "" if the process finds them, has no MPI, or is none of ours: a rank may start a job of its
// own.
func alone(pid int, ours []wire.Rank) (rank int, text string) {
	p, err := process.Open(pid)
	if err != nil {
		return 0, ""
	}
	defer p.Close()
	maps, _ := p.Text("maps")
	flag := ""
	mpi := linkage.Loaded(maps).MPI
	switch mpi {
	case linkage.OpenMPI:
		flag = "pmix"
	case linkage.OpenMPI4:
		flag = "ompi4"
	default:
		return 0, ""
	}
	env, err := p.Environment()
	number, _ := env.Lookup("GORUN_RANK")
	rank, noRank := strconv.Atoi(number)
	known := slices.ContainsFunc(ours, func(r wire.Rank) bool { return r.Rank == rank })
	if err != nil || noRank != nil || !known || served(mpi, env) {
		return 0, ""
	}
	name, _ := p.Text("comm")
	return rank, fmt.Sprintf("%s has loaded Open MPI, which gorun could not foresee: for MPI it is rank 0 of 1, "+
		"alone. Start the job with --mpi %s",
		strings.TrimSpace(name), flag)
}

// served reports whether a rank with this environment finds the others.
func served(mpi linkage.MPI, env process.Environment) bool {
	_, pmix := env.Lookup("PMIX_RANK")
	_, flux := env.Lookup("FLUX_JOB_ID")
	_, library := env.Lookup("FLUX_PMI_LIBRARY_PATH")
	return pmix && (mpi == linkage.OpenMPI || flux) || library && mpi == linkage.OpenMPI4
}
