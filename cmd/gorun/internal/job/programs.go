package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// program is one of a job's programs.
type program struct {
	argv     []string
	opts     *settings.Options // the job's options, overridden by the program's own
	ownHosts bool              // the program's own options select hosts
}

// Programs returns the programs of a job: argv, or the blocks of line. It sets o.NP to the total
// and checks all options.
func Programs(o *settings.Options, argv []string, line dialect.Line) ([]program, error) {
	if len(line.Blocks) == 0 {
		return []program{{argv: argv, opts: o}}, nil
	}
	var programs []program
	total := 0
	for _, b := range line.Blocks {
		p, err := override(o, b, line.Typed)
		if err != nil {
			return nil, err
		}
		total += p.opts.NP
		programs = append(programs, p)
	}
	o.NP = total
	return programs, o.Check(true)
}

// override overrides the job's options o with those of a block. The block's -H selects among the
// hosts of a typed --hostfile and replaces hosts from any other source.
func override(o *settings.Options, b dialect.Block, typed map[string]string) (program, error) {
	flags, own := settings.NewFlags()
	if err := flags.Parse(b.Args); err != nil {
		return program{}, settings.ExplainUsage(err, b.Typed)
	}
	all := *o
	all.NP = own.NP
	all.Elastic.MinNP = 0
	all.Elastic.MaxNP = 0
	all.Exports = slices.Concat(o.Exports, own.Exports)
	all.NoEnv = o.NoEnv || own.NoEnv
	all.Wdir = cmp.Or(own.Wdir, o.Wdir)
	p := program{argv: b.Program, opts: &all, ownHosts: own.Hosts != "" || own.Hostfile != ""}
	if p.ownHosts {
		all.Hosts = own.Hosts
		if all.Hostfile = own.Hostfile; typed["hostfile"] != "" {
			all.Hostfile = cmp.Or(own.Hostfile, o.Hostfile)
		}
		if typed["host-discovery-script"] == "" {
			all.Elastic.Discovery = ""
		}
		if typed["hosts-from-pods"] == "" {
			all.Pods = ""
		}
	}
	return p, all.Check(true)
}

// unplanned lists the hosts of a job whose slots, and so its ranks' places, are known only when it
// starts.
func unplanned(where hosts.Selection, np int) launcher.Plan {
	plan := launcher.Plan{Size: np}
	listed := map[string]bool{}
	for _, h := range where.Hosts {
		if !listed[h.Name] {
			listed[h.Name] = true
			plan.Hosts = append(plan.Hosts, launcher.PlannedHost{Host: h})
		}
	}
	return plan
}

// bounded replaces an unknown number of ranks by the largest, so that no option names a rank beyond
// it.
func bounded(p launcher.Plan) launcher.Plan {
	if p.Size == 0 {
		p.Size = plan.MaxRanks
	}
	return p
}

// planJob plans the ranks of all programs. Programs without hosts of their own share the job's
// hosts, or else those of the first program.
func planJob(ctx context.Context, o *settings.Options, programs []program, s hosts.Finder) (hosts.Selection,
	launcher.Plan, error) {
	if o.Elastic.Given() {
		return planElastic(ctx, o, programs, s)
	}
	req := o.Request(0)
	if !slices.ContainsFunc(programs, func(p program) bool { return p.ownHosts }) {
		where, err := hosts.Find(ctx, o, s)
		if err != nil {
			return hosts.Selection{}, launcher.Plan{}, err
		}
		req.NP = cmp.Or(o.NP, where.NP)
		if where.Unasked != nil {
			return where, unplanned(where, req.NP), nil
		}
		plan, err := newPlan(where, req)
		return where, plan, err
	}
	shared, err := sharedHosts(o, programs, s)
	if err != nil {
		return hosts.Selection{}, launcher.Plan{}, err
	}
	var job *hosts.Selection // found on first use
	var sources []string
	var where hosts.Selection
	var parts []launcher.Part
	for _, p := range programs {
		var at hosts.Selection
		switch {
		case p.ownHosts:
			at, err = hosts.Find(ctx, p.opts, s)
		case job == nil:
			at, err = hosts.Find(ctx, shared, s)
			job = &at
		default:
			at = *job
		}
		if err != nil {
			return hosts.Selection{}, launcher.Plan{}, err
		}
		parts = append(parts, launcher.Part{NP: p.opts.NP, Hosts: at.Hosts})
		sources = append(sources, at.Source)
		where.Warnings = prose.Unique(append(where.Warnings, at.Warnings...))
		where.Unasked = prose.Unique(append(where.Unasked, at.Unasked...))
		where.Hosts = append(where.Hosts, at.Hosts...)
	}
	where.Source = strings.Join(prose.Unique(sources), ", ")
	all := unplanned(where, o.NP)
	if where.Unasked == nil {
		all, err = plan.Join(parts, req)
	}
	where.Hosts = nil
	for _, h := range all.Hosts {
		where.Hosts = append(where.Hosts, h.Host)
	}
	return where, all, err
}

// newPlan plans the ranks on the hosts, or in the seats that each rank has.
func newPlan(where hosts.Selection, req launcher.Request) (launcher.Plan, error) {
	if where.Seats == nil {
		return plan.New(where.Hosts, req)
	}
	var seats []plan.Seat
	for _, s := range where.Seats {
		seats = append(seats, plan.Seat(s))
	}
	return plan.Fixed(where.Hosts, seats, req)
}

// sharedHosts returns the options that select the hosts of programs without their own.
func sharedHosts(o *settings.Options, programs []program, s hosts.Finder) (*settings.Options, error) {
	shared := *o
	shared.NP = 0
	for _, p := range programs {
		if !p.ownHosts {
			shared.NP += p.opts.NP
		}
	}
	if o.Rankfile != "" || o.MapBy.Sequence {
		return nil, usage.Errorf("leave one of them out",
			"--rankfile and --map-by seq cannot be combined with programs that have hosts of their own")
	}
	if first := programs[0]; first.ownHosts && o.Hosts == "" && o.Hostfile == "" && o.Pods == "" &&
		o.Elastic.Discovery == "" {
		found, err := s.Defaults()
		if err != nil {
			return nil, err
		}
		if found.Hosts == nil {
			shared.Hosts = first.opts.Hosts
			shared.Hostfile = first.opts.Hostfile
		}
	}
	return &shared, nil
}

// environment holds the programs' environments, for the launcher and for messages.
type environment struct {
	shared   []string // NAME=value, for all programs
	programs []launcher.Program
	exported []string // names that the user requested
	withheld []string // names that look like secrets and are not sent
	warnings []string
	notices  []string
}

// prepareAll determines the directory and environment of each program, and the variables that all
// share.
func prepareAll(environ []string, programs []program, size int) (environment, error) {
	var e environment
	var sets [][]string
	for _, p := range programs {
		env, err := forwardEnv(environ, p.opts)
		if err != nil {
			return e, err
		}
		wdir, err := programDir(p.opts)
		if err != nil {
			return e, err
		}
		set, notice := containerEnv(p.argv, ForRanks(env.Set, p.opts.Exports), env.Exported)
		sets = append(sets, set)
		ranks := size
		if len(programs) > 1 {
			ranks = p.opts.NP
		}
		drop, here := notInherited(environ, env, p.opts)
		e.programs = append(e.programs, launcher.Program{
			Argv:     p.argv,
			Wdir:     launcher.Text(wdir),
			Ranks:    ranks,
			Drop:     drop,
			DropHere: here,
		})
		e.exported = prose.Unique(append(e.exported, env.Exported...))
		e.withheld = prose.Unique(append(e.withheld, env.Withheld...))
		e.warnings = prose.Unique(append(e.warnings, env.Warnings...))
		if notice != "" {
			e.notices = prose.Unique(append(e.notices, notice))
		}
	}
	var own [][]string
	e.shared, own = splitShared(sets)
	for i := range own {
		e.programs[i].Env = own[i]
	}
	return e, nil
}

// splitShared splits sets into the common items and the additional items of each, in order.
func splitShared(sets [][]string) (shared []string, own [][]string) {
	holders := map[string]int{}
	for _, set := range sets {
		for _, kv := range prose.Unique(set) {
			holders[kv]++
		}
	}
	own = make([][]string, len(sets))
	for i, set := range sets {
		for _, kv := range set {
			switch {
			case holders[kv] < len(sets):
				own[i] = append(own[i], kv)
			case i == 0:
				shared = append(shared, kv)
			}
		}
	}
	return shared, own
}

// programsText formats one line per program: its ranks and command line.
func programsText(programs []launcher.Program) string {
	var b strings.Builder
	first := 0
	for _, p := range programs {
		fmt.Fprintf(&b, "  %s: %q\n", plan.RanksOf(first, p.Ranks), p.Argv)
		first += p.Ranks
	}
	return b.String()
}
