package launcher

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/elastic"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/connect"
	"github.com/gorun/gorun/launcher/core"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/route"
)

// Elastic holds the settings of an elastic job beside its [Options]. [RunElastic] sets the bounds
// Stop and Fence of the driver.
type Elastic struct {
	Hosts []hostfile.Host // hosts at the start
	// Discover lists the hosts available now; it is called about once a second. nil: always Hosts.
	Discover func(context.Context) ([]hostfile.Host, error)

	ElasticDriver

	// Prepare is called before the first process starts on a host, and again after the host was
	// lost. Processes wait for it; they do not start if it fails. nil: nothing is to be done.
	Prepare func(context.Context, hostfile.Host) error

	// Slow yields members that keep the others waiting. A spare takes the place of each, if one is
	// ready. nil: none is replaced.
	Slow <-chan SlowRank

	// Prefix returns Options.Prefix for a plan that holds one rank; nil: there are no prefixes.
	Prefix func(Plan) (func(rank, fd int, at time.Time) []byte, error)
	// SaveAs replaces Options.SaveAs, which knows only the ranks at the start. rank is that of the
	// process when it was started; nil: no stream has its own file.
	SaveAs func(host string, rank Rank, fd int) string
}

// SlowRank is a rank that is slow.
type SlowRank struct {
	Rank int
	Host string
	Text string // how slow it is, after its name
}

// ElasticDriver is the part of the settings by which the driver decides.
type ElasticDriver = elastic.Config

// Membership is an [Event] of an elastic job: its hosts, ranks or epoch changed.
type Membership struct {
	Kind  string // name for programs: epoch, hosts, lost, failed, aside, waiting, refused, gave up, ending, finished
	Epoch int    // latest epoch
	Host  string // "": none
	Text  string // text for the user
	At    time.Duration
}

const (
	elasticTick    = 250 * time.Millisecond // interval of the driver's ticks
	elasticTimeout = 10 * time.Minute       // default bound on the wait for enough slots
)

// RunElastic runs an elastic job of one program, as the elastic driver decides. It connects to a
// host when a process is to start there, starts one agent per process, and admits processes to one
// epoch after another. An error means that the job could not start.
func RunElastic(ctx context.Context, settings Elastic, opts Options) (Result, error) {
	opts.setDefaults()
	if err := settings.checkFiles(); err != nil {
		return Result{}, err
	}
	j, err := newElasticJob(settings, opts)
	if err != nil {
		return Result{}, err
	}
	defer j.close()
	if err := j.stream(); err != nil {
		return Result{}, err
	}
	j.hearOfSlow()
	j.discover()
	j.handle(hostsListed{settings.Hosts})
	result := j.run(ctx)
	if j.fatal == nil {
		j.bringBack(ctx, j.backHosts(), &result)
	}
	return result, j.fatal
}

// elasticJob is one run of an elastic job. Its policy is the driver.
type elasticJob struct {
	*loop
	settings Elastic
	turns    connect.Turns

	driver    *elastic.Driver
	hosts     []*elasticHost // in the order in which they were first seen
	procs     map[elastic.Process]*elasticProcess
	epoch     *elasticEpoch   // epoch in force; nil: none yet
	end       Result          // Elastic is nil until the driver has ended the job
	failed    *elasticProcess // process whose failure ended a job of ranks unaware of epochs, or nil
	later     []elastic.Event // events that follow from the driver's actions
	endedAt   time.Duration
	short     bool // whether the user was told that open files do not suffice for all hosts
	gpus      plan.GPUUsers
	fatal     error         // error for which the job does not start
	suspended time.Duration // how long the launcher was suspended since the job began

	mu       sync.Mutex
	serials  []*elasticProcess        // by serial number, which printers and files use as a rank
	contacts map[string]route.Contact // hosts that have been reached, by name
}

func newElasticJob(settings Elastic, opts Options) (*elasticJob, error) {
	settings.Timeout = cmp.Or(settings.Timeout, elasticTimeout)
	settings.Stop = opts.Grace + core.StopMargin
	settings.Fence = elasticFence
	driver, err := elastic.New(settings.ElasticDriver)
	if err != nil {
		return nil, err
	}
	l, err := newLoop(opts)
	if err != nil {
		return nil, err
	}
	j := &elasticJob{
		loop:     l,
		settings: settings,
		turns:    connect.NewTurns(),
		driver:   driver,
		procs:    map[elastic.Process]*elasticProcess{},
		contacts: map[string]route.Contact{},
		gpus:     plan.GPUUsers{},
	}
	j.policy = j
	return j, nil
}

// now returns the time since the job began, without the time for which the launcher was suspended.
func (j *elasticJob) now() time.Duration { return j.clock() - j.suspended }

func (j *elasticJob) interval() time.Duration { return elasticTick }

func (j *elasticJob) tick() {
	j.findHung(elasticSilence)
	j.step(elastic.Tick{})
}

func (j *elasticJob) finished() bool { return j.driver.Phase() == elastic.Ended && j.drained() }

func (j *elasticJob) result() Result {
	if j.failed != nil {
		j.end.Cause.ReadStderr(j.streams.LastLines(j.failed.serial))
		j.end.Cause.Shown = j.streams.Visible(j.failed.serial, len(j.end.Cause.Stderr))
	}
	j.end.Ended = j.clock()
	j.end.Codes = j.opts.Codes
	return j.end
}

// drained reports that every agent has swept up after its process and ended, or takes too long.
func (j *elasticJob) drained() bool {
	late := j.clock() > j.endedAt+core.StopMargin
	for _, p := range j.procs {
		if late && !slices.Contains(j.end.Unconfirmed, p.name.Host) {
			j.end.Unconfirmed = append(j.end.Unconfirmed, p.name.Host)
		}
	}
	return late || len(j.procs) == 0
}

// stop ends the job at the user's request. A failure that has ended it is a better reason.
func (j *elasticJob) stop(s Stop) bool {
	if j.end.Stopped == NotStopped && !(j.finished() && j.end.Elastic.Code != 0) {
		j.end.Stopped = s.Reason
	}
	j.step(elastic.UserStop{Code: Result{Stopped: j.end.Stopped}.Code(), Now: s.Now})
	return j.end.Stopped != NotStopped
}

// step passes an event to the driver and performs its actions.
func (j *elasticJob) step(event elastic.Event) {
	for _, act := range j.driver.Step(event, j.now()) {
		switch act := act.(type) {
		case elastic.Start:
			j.start(act)
		case elastic.Stop:
			j.stopProcess(act)
		case elastic.Fence:
			j.fenceOff(j.host(act.Host))
		case elastic.Announce:
			j.announce(act.Plan)
		case elastic.Interrupt:
			j.interrupt(act)
		case elastic.Note:
			j.note(act)
		case elastic.End:
			j.endedAt = j.clock()
			j.end.Elastic = &core.ElasticEnd{Code: act.Code, Cause: act.Cause, Hint: act.Hint}
		}
	}
	for len(j.later) > 0 {
		event = j.later[0]
		j.later = j.later[1:]
		j.step(event)
	}
}

// note reports a note of the driver to the user.
func (j *elasticJob) note(n elastic.Note) {
	if n.Routine {
		j.opts.Trace("%s", n.Text)
	} else {
		j.opts.Note(prose.Printable(n.Text))
	}
	if n.Kind == elastic.NoteUnaware {
		return
	}
	j.notify(Membership{string(n.Kind), n.Epoch, n.Host, n.Text, j.clock()})
}

// discover polls the hosts of the job until the job is over.
func (j *elasticJob) discover() {
	if j.settings.Discover == nil {
		return
	}
	j.wg.Go(func() {
		seen := elastic.Debouncer{Prompt: j.settings.Horovodrun}
		polled := seen.Polled(j.settings.Hosts, nil, 0)
		for {
			select {
			case <-time.After(polled.Next - j.clock()):
			case <-j.over:
				return
			}
			hosts, err := j.settings.Discover(j.life)
			if j.life.Err() != nil {
				return // the job ended during the poll
			}
			if polled = seen.Polled(hosts, err, j.clock()); polled.Warning != "" {
				j.opts.Note(prose.Printable(polled.Warning))
			}
			if polled.Changed {
				j.post(hostsListed{polled.Hosts})
			}
		}
	})
}

// hearOfSlow posts the slow ranks that the settings report to the loop of the job.
func (j *elasticJob) hearOfSlow() {
	if j.settings.Slow == nil {
		return
	}
	j.wg.Go(func() {
		for {
			select {
			case slow := <-j.settings.Slow:
				j.post(slow)
			case <-j.over:
				return
			}
		}
	})
}

// close ends the remaining sessions and connections.
func (j *elasticJob) close() {
	j.endLife(errOver)
	for _, h := range j.hosts {
		h.pool.Cut(&j.wg)
	}
	j.wg.Wait()
}

// checkFiles checks that the limit on open files allows the initial connections.
func (e *Elastic) checkFiles() error {
	hosts, short := connect.Reachable(e.Hosts, e.most(), connect.OpenFiles())
	slots := 0
	for _, h := range hosts {
		slots += h.Slots
	}
	if short != nil && slots < e.NP {
		return short
	}
	return nil
}

// most returns the greatest number of ranks.
func (e *Elastic) most() int { return cmp.Or(e.Max, math.MaxInt) }
