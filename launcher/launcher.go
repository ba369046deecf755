package launcher

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/mpi/pmi"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/output"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/session"
)

// Dialer connects to a host.
type Dialer func(ctx context.Context, h hostfile.Host) (Host, error)

// Options are the settings of a job beside its plan. Functions may be called concurrently unless
// their comment says otherwise.
type Options struct {
	Settings
	// Programs are run by the plan's ranks in turn.
	Programs []Program
	Tools    []Tool   // in the order of their ranks
	Env      []string // NAME=value, for every rank
	// Work is the folder that holds the programs' directories, to be copied to the hosts that do
	// not see it; nil: all do.
	Work *WorkDir
	// Python is the environment that ranks run in, copied to all other hosts; nil: there is none.
	Python *PythonEnv
	// Back is which files come back when the job has ended; nil: none.
	Back *Back
	// Network selects the addresses that ranks may use.
	Network   Network
	MPI       wire.MPIWay
	MPIHelper func(wire.Need) wire.MPI // returns the files for programs of Open MPI; nil: none
	// WithoutMPI: no program is one of MPI. A host that speaks of MPI's fences is at fault, and not
	// the ranks that it waits for.
	WithoutMPI     bool
	ReportBindings bool // whether Note gets a line about the binding of each rank
	// GPUs is how GPUs are assigned to ranks. The plan has the number of GPUs that the hostfile
	// lists for a host.
	GPUs GPURequest

	Reach // its StartTimeout runs until every rank runs
	// Where says more about a host that fails, such as which machine it is on, or "". nil: nothing
	// is known.
	Where func(host string) string
	// Stdin is the input of the ranks that read it; nil: none. Its Read should return when Run
	// does.
	Stdin io.Reader
	// StdinRank is the rank that reads Stdin, or StdinAll.
	StdinRank int
	// Stdout and Stderr get the ranks' output in whole lines, each from one goroutine. With
	// OneOutput all output goes to Stdout, and lines of the two streams never mix.
	Stdout, Stderr io.Writer
	OneOutput      bool
	Screen         [3]bool // by fd: whether it is a terminal that can erase progress bars
	Format
	Sessions *Sessions // registry of sessions while their ranks run; nil: none
	// OutputDir, if set, gets a file for each rank and stream.
	OutputDir string
	// SaveAs names the file of a stream instead of OutputDir; "": OutputDir gets it. Two ranks may
	// not share a file. nil: no stream has its own name.
	SaveAs func(rank, fd int) string

	// ResultDir, if set, gets the result of each rank, what it writes to its result descriptor, of
	// at most ResultLimit bytes.
	ResultDir   string
	ResultLimit int64

	// Codes is how failures of ranks become [Result.Code].
	Codes Codes
	// Tolerate is which failures of ranks leave the others running. Jobs that [RunElastic] runs
	// have their own rules.
	Tolerate   Tolerance
	MPITimeout time.Duration // from the first rank's MPI_Init to the last one's; 0: no limit
	Grace      time.Duration // between TERM and KILL; 0: KILL at once
	// Stops carries requests to end the job. Each value counts once.
	Stops <-chan Stop
	// Pauses carries requests to suspend or resume the ranks.
	Pauses <-chan Pause
	// Signals are passed on to every rank.
	Signals <-chan int
	// Stalled gets the lines that report ranks missing from a collective; nil: none.
	Stalled func(string)
	// Follow gets the job's events and must not block; nil: none.
	Follow func(Event)
	// Meter hears of the bytes of gorun, of the working folder and of a Python environment that
	// hosts lack, and of files that come back; nil: nobody does.
	Meter Meter
}

// Stop is a request to end the job.
type Stop struct {
	Reason StopReason
	Now    bool // no time between TERM and KILL
}

// Run runs the plan: connect, stage, spawn, stream, reap. It returns a *[LaunchError] when some
// host could not start its ranks; nothing is left running then. The Result is how a started job
// ended.
func Run(ctx context.Context, plan Plan, opts Options) (Result, error) {
	opts.setDefaults()
	if err := plan.CheckPrograms(opts.Programs); err != nil {
		return Result{}, err
	}
	if err := connect.CheckFiles(len(plan.Hosts)); err != nil {
		return Result{}, err
	}
	job, err := newJob(plan, opts)
	if err != nil {
		return Result{}, err
	}
	defer job.close()
	startCtx, cancel := job.startContext(ctx)
	defer cancel(nil)
	if err := job.onEveryHost(startCtx, connect.Step{Doing: "connecting", Do: job.connect},
		connect.Step{Doing: "starting its agent", Do: job.stage},
		connect.Step{Doing: "bringing the work folder", Do: job.bringWork},
		connect.Step{Doing: "getting ready", Do: job.prepare}); err != nil {
		return Result{}, err
	}
	for _, note := range notices(plan.Hosts, job.hosts) {
		opts.Note(note)
	}
	job.reportPlacements()
	starts, err := job.chooseAddresses()
	if err != nil {
		return Result{}, err
	}
	job.spawn(starts)
	cancel(nil)
	job.stream()
	result := job.run(ctx)
	job.bringBack(ctx, job.backHosts(result), &result)
	return result, nil
}

// reportPlacements reports the ranks' bindings, if requested, and traces their cages and numbers of
// threads.
func (j *job) reportPlacements() {
	if j.opts.ReportBindings {
		for _, line := range plan.BindingLines(j.plan, j.places) {
			j.opts.Note(line)
		}
	}
	for _, line := range plan.SharedGPUs(j.plan, j.places) {
		j.opts.Note(line)
	}
	said := make([]string, len(j.sessions))
	gpus := make([]string, len(j.sessions))
	for i, s := range j.sessions {
		said[i] = s.Ready.Contained
		gpus[i] = s.Ready.GPUs
	}
	for _, text := range []string{plan.ContainedText(j.plan.Hosts, said), plan.GPUsText(j.plan.Hosts, gpus),
		plan.ThreadsText(j.plan, j.places)} {
		if text != "" {
			j.opts.Trace("%s", text)
		}
	}
}

func (o *Options) setDefaults() {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Trace == nil {
		o.Trace = func(string, ...any) {}
	}
	if o.Meter == nil {
		o.Meter = session.NoMeter{}
	}
}

// job is one run of a plan. Its policy is the core.
type job struct {
	*loop
	plan Plan
	key  []byte

	hosts    []Host // by index in the plan, as are the next two
	sessions []*session.Session
	places   [][]wire.Placement // where the ranks of each host run on it

	core    *core.Machine
	fences  *core.Fences
	startup *core.Startup
	spawned *spawnCoordinator
}

func newJob(plan Plan, opts Options) (*job, error) {
	l, err := newLoop(opts)
	if err != nil {
		return nil, err
	}
	j := &job{
		loop:     l,
		plan:     plan,
		key:      make([]byte, 32),
		core:     core.New(plan, opts.Grace, opts.Tolerate),
		hosts:    make([]Host, len(plan.Hosts)),
		sessions: make([]*session.Session, len(plan.Hosts)),
		places:   make([][]wire.Placement, len(plan.Hosts)),
	}
	j.policy = j
	j.stager.Hosts = len(plan.Hosts)
	j.work.Expect(len(plan.Hosts))
	rand.Read(j.key)
	if opts.OutputDir != "" || opts.SaveAs != nil {
		if j.files, err = output.OpenFiles(opts.OutputDir, opts.SaveAs, plan, opts.Note); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// startContext returns a context that ends at the start timeout or when the user stops the job.
func (j *job) startContext(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	var expired <-chan time.Time
	if j.opts.StartTimeout > 0 {
		expired = time.After(j.opts.StartTimeout)
	}
	j.wg.Go(func() {
		select {
		case <-expired:
			cancel(fmt.Errorf("not started within %v (--start-timeout)", j.opts.StartTimeout))
		case stop := <-j.opts.Stops:
			j.early <- stop // if the ranks already run, reap must know
			cancel(&StoppedError{stop.Reason})
		case <-ctx.Done():
		}
	})
	return ctx, cancel
}

// StoppedError is the cause when the user ended a job before its ranks ran.
type StoppedError struct{ Reason StopReason }

func (e *StoppedError) Error() string { return "stopped before the ranks had started" }

// onEveryHost runs the steps on all hosts in parallel. It returns all failures
// together; the caller's close then releases the other hosts.
func (j *job) onEveryHost(ctx context.Context, steps ...connect.Step) error {
	var names []string
	for _, h := range j.plan.Hosts {
		names = append(names, h.Name)
	}
	errs := connect.EveryHost(ctx, names, j.opts.Note, steps...)
	if stopped, is := errors.AsType[*StoppedError](context.Cause(ctx)); is {
		return stopped
	}
	return j.launchError(errs)
}

// launchError returns a *[LaunchError] with the hosts that have an error, or nil.
func (j *job) launchError(errs []error) error {
	var failed LaunchError
	for i, err := range errs {
		if err != nil {
			failed.Hosts = append(failed.Hosts, HostError{Host: j.plan.Hosts[i].Name, Err: err})
		}
	}
	if len(failed.Hosts) > 0 {
		return &failed
	}
	return nil
}

func (j *job) connect(ctx context.Context, i int) (err error) {
	h := j.plan.Hosts[i].Host
	j.opts.Trace("%s: connecting", h.Name)
	if j.hosts[i], err = j.opts.dialLocated(ctx, h); err == nil {
		j.notify(Connected{h.Name})
	}
	return err
}

func (j *job) stage(ctx context.Context, i int) error {
	s, err := j.stager.Agent(ctx, j.hosts[i], session.Identity{Index: i, Host: &j.plan.Hosts[i]})
	if err != nil {
		return err
	}
	j.sessions[i] = s
	j.opts.Trace("%s: agent %d on %s", s.Host.Name, s.Hello.PID, s.Hello.Hostname)
	return nil
}

func (j *job) bringWork(ctx context.Context, i int) error {
	return j.work.CopyTo(ctx, i, j.sessions[i])
}

// prepare sends the job and waits until the host is ready or refuses.
func (j *job) prepare(ctx context.Context, i int) error {
	s := j.sessions[i]
	described := j.describe(s.Host, s.Conn)
	j.work.Place(i, described.Programs)
	err := s.Prepare(ctx, described, session.Helpers{GPU: j.opts.GPUProgram, MPI: j.opts.MPIHelper}, j.opts.Trace)
	j.places[i] = s.Ready.Places
	if err == nil {
		j.notify(Ready{s.Host.Name})
	}
	return err
}

// Describe returns what the agent of the host with an index would be told of a job that runs a
// plan, without a key.
func Describe(plan Plan, opts Options, host int) wire.Job {
	j := &job{loop: &loop{opts: opts}, plan: plan}
	return j.describe(&plan.Hosts[host], nil)
}

// describe returns the job message for one host.
func (j *job) describe(h *PlannedHost, conn Host) wire.Job {
	w := j.opts.wire(j.id, h.Host, conn)
	w.Key = j.key
	w.Size = j.plan.Size
	w.Hosts = len(j.plan.Hosts)
	w.Stdin = j.opts.inputOf(h)
	w.Spawn = h.Spawn
	_, local := conn.(Local)
	w.Programs, w.Ranks = plan.ProgramsFor(h.Ranks, j.opts.Programs, local)
	if w.Stay = len(w.Ranks) == 0; w.Stay {
		w.Programs = []Program{plan.RunOn(j.opts.Programs[0], local)}
	}
	w.Tools = h.ToolsOf(j.opts.Tools)
	if len(j.opts.Programs) > 1 {
		w.Shares = plan.Shares(j.opts.Programs)
	}
	return w
}

// wire returns the part of the job message that is common to all jobs.
func (o *Options) wire(id string, h hostfile.Host, conn Host) wire.Job {
	w := wire.Job{
		ID:          id,
		Host:        h.Name,
		Drop:        plan.SessionNames(),
		Env:         o.Env,
		Grace:       o.Grace,
		GPUs:        wire.GPUs{Leave: o.GPUs.Leave, PerRank: o.GPUs.PerRank, Listed: h.GPUs},
		Settings:    o.Settings,
		AllNetworks: o.Network.Several(),
		Results:     o.ResultDir != "",
		MPI:         wire.MPI{Way: o.MPI},
	}
	if h, ok := conn.(interface{ BySSH() bool }); ok {
		w.SSH = h.BySSH()
	}
	return w
}

// chooseAddresses returns a start message for every host, with the addresses at which the others
// reach it.
func (j *job) chooseAddresses() ([]wire.Start, error) {
	contacts := make([]route.Contact, len(j.sessions))
	note := ""
	for i, s := range j.sessions {
		contacts[i] = contactOf(s)
		if note == "" && s.Ready.Note != "" {
			note = fmt.Sprintf("%s: %s", s.Host.Name, prose.Printable(s.Ready.Note))
		}
	}
	notes := route.SameMachine(j.plan.Hosts, contacts)
	if note != "" {
		notes = append(notes, note)
	}
	for _, note := range notes {
		j.opts.Note(note)
	}
	survey := route.NewSurvey(contacts)
	chosen, errs := survey.Addresses(contacts, j.opts.Network)
	if err := j.launchError(errs); err != nil {
		return nil, err
	}
	starts := make([]wire.Start, len(chosen))
	interfaces := survey.Interfaces(chosen)
	for i, list := range chosen {
		var shown []string
		starts[i] = wire.Start{Addrs: route.AddrTexts(list), Interfaces: interfaces[i], Asked: j.opts.Network.Names()}
		for _, a := range list {
			shown = append(shown,
				prose.Printable(fmt.Sprintf("%s (%s)", route.AddrText(a), cmp.Or(a.Interface, "unknown interface"))))
		}
		j.opts.Trace("%s: ranks reach it at %s", j.plan.Hosts[i].Name, strings.Join(shown, ", "))
	}
	return starts, nil
}

// spawn tells every host to start its ranks.
func (j *job) spawn(starts []wire.Start) {
	master := slices.IndexFunc(j.plan.Hosts, func(h PlannedHost) bool { return h.Has(0) })
	mapping := pmi.Mapping(j.plan.Nodes())
	for i, s := range j.sessions {
		start := starts[i]
		start.Mapping = mapping
		start.MasterAddr = starts[master].Addrs[0]
		start.MasterPort = j.sessions[master].Ready.FreePort
		if s.Ready.PMIx {
			start.Hosts = j.plan.Names()
			start.HostOf = j.plan.Nodes()
			start.Host = i
		}
		s.Out.SendMessage(wire.TypeStart, start)
	}
	j.started = j.clock()
	j.notify(Started{j.started})
	j.opts.Trace("%s started on %s", prose.Count(j.plan.Size, "rank"), prose.Count(len(j.plan.Hosts), "host"))
}

// close closes all sessions and connections in parallel, which ends remaining agents.
func (j *job) close() {
	j.endLife(errOver)
	var wg sync.WaitGroup
	for i := range j.hosts {
		wg.Go(func() {
			if s := j.sessions[i]; s != nil {
				s.Close()
			}
			if h := j.hosts[i]; h != nil {
				_ = h.Close()
			}
		})
	}
	wg.Wait()
	j.wg.Wait()
}

// WorkDir is a folder of this machine, or one for each architecture of hosts, as it was when
// [ScanWorkDir] read it.
type WorkDir struct {
	Dir      string // absolute; %a in it stands for the architecture of a host
	Files    int
	Bytes    int64
	Warnings []string // skipped files that the user may miss, one line each

	folders *workdir.Folders
}

// ScanWorkDir lists the folder dir, which may hold so many files and bytes at most. If there is no
// such folder, %a in dir stands for the architecture of a host (amd64, arm64), and the limits are
// for each. Some paths below dir may be left out.
func ScanWorkDir(dir string, files int, bytes int64, except ...string) (*WorkDir, error) {
	f, err := workdir.ScanFolders(dir, files, bytes, except...)
	if err != nil {
		return nil, err
	}
	return &WorkDir{f.Dir, f.Files, f.Bytes, f.Warnings, f}, nil
}

// scanned is the list of the folder, or nil.
func (w *WorkDir) scanned() *workdir.Folders {
	if w == nil {
		return nil
	}
	return w.folders
}

// StdinAll as Options.StdinRank gives the input to every rank.
const StdinAll = -1

// inputOf lists a host's ranks that read standard input.
func (o *Options) inputOf(h *PlannedHost) (ranks []int) {
	for _, r := range h.Ranks {
		if o.Stdin != nil && (o.StdinRank == StdinAll || o.StdinRank == r.Rank) {
			ranks = append(ranks, r.Rank)
		}
	}
	return ranks
}

// openInput begins to carry standard input to the hosts that have a rank which reads it.
func (j *job) openInput() {
	var readers []*session.Session
	for _, s := range j.sessions {
		if s.Input != nil {
			readers = append(readers, s)
		}
	}
	if len(readers) > 0 {
		go session.FeedStdin(j.opts.Stdin, readers) // ends with Stdin, which is the caller's
	}
}
