package agent

import (
	"cmp"
	"errors"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/host/lookup"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/host/services"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
)

// program is a program of the job, as ranks of this host run it.
type program struct {
	path  string
	argv  []string
	place lookup.Place
	env   map[string]string // variables that are the same for all ranks
	// singularity is whether variables reach the ranks through a container.
	singularity bool
	// withoutFiles is whether ranks are in a container that inherits no open files.
	withoutFiles bool
	mpi          services.Use
	seats        []seat.Seat // by local rank; all programs share those of the host
	ownThreads   bool        // whether the user has set the number of threads, whatever the seats say
}

// prepare checks that job can run on this host, before anything is started
// anywhere. inherited is the agent's own environment.
func prepare(job wire.Job, inherited []string) ([]program, error) {
	var programs []program
	for _, w := range job.Programs {
		p, err := prepareProgram(w, job, inherited)
		if err != nil {
			return nil, err
		}
		programs = append(programs, p)
	}
	for _, r := range job.Ranks {
		if r.Program < 0 || r.Program >= len(programs) {
			return nil, wire.Refusef(wire.CodeHostFailed, "", "rank %d is to run program %d of %d", r.Rank, r.Program,
				len(programs))
		}
	}
	return programs, nil
}

// checkRanks validates the ranks of a job.
func checkRanks(job wire.Job) error {
	if len(job.Ranks) == 0 && (!job.Stay || len(job.Programs) == 0) {
		return wire.Refusef(wire.CodeHostFailed, "", "no rank is to run here")
	}
	if err := seat.CheckFiles(len(job.Ranks), len(outputsOf(job)), seat.FilesLimit()); err != nil {
		return err
	}
	if job.Elastic != nil {
		return checkElastic(job)
	}
	seen := map[int]bool{}
	for _, r := range job.Ranks {
		if r.Rank < 0 || r.Rank >= job.Size || seen[r.Rank] || r.LocalRank < 0 || r.LocalRank >= len(job.Ranks) {
			return wire.Refusef(wire.CodeHostFailed, "", "rank %d, local rank %d: no place in a job of %d with %d here",
				r.Rank, r.LocalRank, job.Size, len(job.Ranks))
		}
		seen[r.Rank] = true
	}
	return nil
}

// checkElastic validates the rank of an elastic job's process.
func checkElastic(job wire.Job) error {
	r := job.Ranks[0]
	e := job.Elastic
	if len(job.Ranks) != 1 || r.Rank < 0 || r.Rank >= job.Size || r.LocalRank < 0 || r.LocalRank >= e.LocalSize ||
		e.Slot < 0 || e.Slot >= e.Slots || e.Lease <= 0 {
		return wire.Refusef(wire.CodeHostFailed, "",
			"rank %d, local rank %d of %d in slot %d of %d: no place in an elastic job", r.Rank, r.LocalRank,
			e.LocalSize, e.Slot, e.Slots)
	}
	return nil
}

// prepareProgram checks one program of a job.
func prepareProgram(w wire.Program, job wire.Job, inherited []string) (program, error) {
	p := program{
		argv:  slices.Clone(w.Argv),
		place: lookup.Place{Dir: string(w.Wdir), Hosts: job.Hosts > 1 || job.Host != "localhost"},
		env:   baseEnv(inherited, job, w),
	}
	if len(p.argv) == 0 || p.argv[0] == "" {
		return p, wire.Refusef(2, "", "no program was given")
	}
	p.argv[0] = wire.ForArch(goruntime.GOARCH, p.argv[0])
	if err := p.place.CheckDir(); err != nil {
		var no *wire.Refuse
		if len(job.Shares) > 1 && errors.As(err, &no) { // say which program's directory it is
			no.What = p.argv[0] + ": " + no.What
		}
		return p, err
	}
	p.env["PWD"] = p.place.Dir
	runtime := rankenv.FindContainer(p.argv).Runtime
	p.singularity = runtime == rankenv.Singularity
	p.withoutFiles = runtime != rankenv.Singularity && runtime != rankenv.NoRuntime
	if p.singularity {
		prefixForContainers(p.env)
	}
	var err error
	p.path, err = p.find(p.argv)
	return p, err
}

// find returns the path of the program that argv begins with, to be run in p's environment and
// directory.
func (p program) find(argv []string) (path string, err error) {
	if path, err = p.place.Find(argv[0], p.env["PATH"]); err == nil {
		err = seat.CheckSize(path, argv, p.env, seat.StackLimit())
	}
	return path, err
}

// baseEnv lays the variables of a job and of its program over the agent's own, without those
// that belong to another launch or to this host's SSH session.
func baseEnv(inherited []string, job wire.Job, w wire.Program) map[string]string {
	drop := map[string]bool{}
	for _, name := range slices.Concat(job.Drop, w.Drop) {
		drop[name] = true
	}
	env := map[string]string{}
	for _, kv := range inherited {
		name, value, ok := strings.Cut(kv, "=")
		if ok && name != "" && !rankenv.Stale(name) && !drop[name] {
			env[name] = value
		}
	}
	for _, kv := range slices.Concat(job.Env, w.Env) {
		if name, value, ok := strings.Cut(kv, "="); ok {
			env[name] = value
		}
	}
	if w.Python != "" {
		rankenv.UsePython(env, string(w.Python))
	}
	if _, set := env[rankenv.Unbuffered]; !set {
		env[rankenv.Unbuffered] = "1" // a rank's stdout is a pipe, which Python would buffer
	}
	spareLoopback(env)
	return env
}

// taken are the variables that env itself sets for containers.
func taken(env map[string]string) map[string]bool {
	var list []string
	for name := range env {
		list = append(list, name+"=")
	}
	return rankenv.Taken(list)
}

// prefixForContainers sets the agent's defaults for containers, too, unless the user did.
func prefixForContainers(env map[string]string) {
	for _, kv := range rankenv.Prefixed([]string{rankenv.Unbuffered + "=" + env[rankenv.Unbuffered]}, taken(env)) {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
}

// rankEnv is the environment of one rank.
func (p program) rankEnv(r rankenv.Rank) []string {
	set := map[string]bool{}
	place := p.seatOf(r.LocalRank)
	r.GPUs = place.GPUs.Seen
	// Those of the user, for what is made of them.
	r.Rendezvous.MasterAddr = cmp.Or(p.env["MASTER_ADDR"], r.Rendezvous.MasterAddr)
	if port, err := strconv.Atoi(p.env["MASTER_PORT"]); err == nil {
		r.Rendezvous.MasterPort = port
	}
	env := append(r.Environ(), place.Environ()...)
	env = append(env, p.unset(r.Defaults())...)
	if p.singularity {
		env = append(env, rankenv.Prefixed(env, nil)...)
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		set[name] = true
	}
	for name, value := range p.env {
		if !set[name] {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// bareEnv is the environment of a process that is a rank only to gorun.
func (p program) bareEnv(r rankenv.Rank) []string {
	env := []string{"GORUN_HOSTNAME=" + r.Host}
	for name, value := range p.env {
		if name != "GORUN_HOSTNAME" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// unset lists those of the NAME=value strings that are not set for p's ranks.
func (p program) unset(env []string) (rest []string) {
	var inside map[string]bool
	if p.singularity {
		inside = taken(p.env)
	}
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		if _, set := p.env[name]; !set && !inside[name] {
			rest = append(rest, kv)
		}
	}
	return rest
}

// spareLoopback makes programs that use a proxy reach the agent without it.
func spareLoopback(env map[string]string) {
	const lower = "no_proxy"
	const upper = "NO_PROXY"
	const local = "127.0.0.1,localhost"
	if !usesProxy(env) {
		return
	}
	_, hasLower := env[lower]
	_, hasUpper := env[upper]
	for name, has := range map[string]bool{lower: hasLower, upper: hasUpper} {
		switch value := env[name]; {
		// only the other name is set, or no host uses the proxy
		case !has && (hasLower || hasUpper), strings.TrimSpace(value) == "*":
		case value == "":
			env[name] = local
		default:
			env[name] = value + "," + local
		}
	}
}

func usesProxy(env map[string]string) bool {
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"} {
		if env[name] != "" {
			return true
		}
	}
	return false
}

// assign gives the program the host's seats, which do not change any more. A job may have a program
// for each rank, so each has no copy of all. A number of threads that the user has set stays.
func (p *program) assign(seats []seat.Seat) {
	p.seats = seats
	p.ownThreads = p.threadsGiven()
}

// threadsGiven reports whether the user has set the number of threads, in the environment or for a
// container only: gorun's number would replace that of env OMP_NUM_THREADS=4 singularity.
func (p program) threadsGiven() bool {
	_, set := p.env[rankenv.Threads]
	if set || !p.singularity {
		return set
	}
	if slices.ContainsFunc(p.argv, func(a string) bool { return strings.Contains(a, rankenv.Threads+"=") }) {
		return true
	}
	return taken(p.env)[rankenv.Threads]
}

// seatOf is the seat of a local rank.
func (p program) seatOf(local int) seat.Seat {
	if local >= len(p.seats) {
		return seat.Seat{}
	}
	s := p.seats[local]
	if p.ownThreads {
		s.Threads = 0
	}
	return s
}
