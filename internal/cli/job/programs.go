package job

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/cli/dialect"
	"github.com/gorun/gorun/internal/cli/hosts"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// program is one of a job's programs.
type program struct {
	argv     []string
	opts     *settings.Options // the job's, with the program's own laid over them
	ownHosts bool              // the program's own options say where it runs
}

// Programs are the programs of a job: argv, or those of line where it has several. It completes
// o, and checks it and them.
func Programs(o *settings.Options, argv []string, line dialect.Line) ([]program, error) {
	if len(line.Blocks) == 0 {
		return []program{{argv: argv, opts: o}}, nil
	}
	var programs []program
	total := 0
	for _, b := range line.Blocks {
		p, err := layOver(o, b, line.Typed)
		if err != nil {
			return nil, err
		}
		total += p.opts.NP
		programs = append(programs, p)
	}
	o.NP = total
	return programs, o.Check(true)
}

// layOver lays a program's own options over the job's, o. typed are the job's flags on the command line: -H chooses
// among the hosts of a hostfile there, and stands in the place of hosts from elsewhere.
func layOver(o *settings.Options, b dialect.Block, typed map[string]string) (program, error) {
	flags, own := settings.NewFlags()
	if err := flags.Parse(b.Args); err != nil {
		return program{}, settings.ExplainUsage(err, b.Typed)
	}
	all := *o
	all.NP, all.Elastic.MinNP, all.Elastic.MaxNP = own.NP, 0, 0
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
	}
	return p, all.Check(true)
}

// planJob decides where the ranks of programs run. Programs without hosts of their own share the job's:
// those that o names or that are found, and else the first program's.
func planJob(ctx context.Context, o *settings.Options, programs []program, s hosts.Finder) (hosts.Selection, launcher.Plan, error) {
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
		plan, err := plan.New(where.Hosts, req)
		return where, plan, err
	}
	shared, err := sharedHosts(o, programs, s)
	if err != nil {
		return hosts.Selection{}, launcher.Plan{}, err
	}
	var job *hosts.Selection // found when the first program needs it
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
		where.Warnings = unique(append(where.Warnings, at.Warnings...))
	}
	plan, err := plan.Join(parts, req)
	for _, h := range plan.Hosts {
		where.Hosts = append(where.Hosts, h.Host)
	}
	where.Source = strings.Join(unique(sources), ", ")
	return where, plan, err
}

// sharedHosts are the options that say where programs without hosts of their own run.
func sharedHosts(o *settings.Options, programs []program, s hosts.Finder) (*settings.Options, error) {
	shared := *o
	shared.NP = 0
	for _, p := range programs {
		if !p.ownHosts {
			shared.NP += p.opts.NP
		}
	}
	if first := programs[0]; first.ownHosts && o.Hosts == "" && o.Hostfile == "" && o.Elastic.Discovery == "" {
		found, err := s.Defaults()
		if err != nil {
			return nil, err
		}
		if found.Hosts == nil {
			shared.Hosts, shared.Hostfile = first.opts.Hosts, first.opts.Hostfile
		}
	}
	return &shared, nil
}

// environment is what the launcher needs to know of programs, and what the user is told of it.
type environment struct {
	shared   []string // NAME=value, for all programs
	programs []launcher.Program
	exported []string // names that were asked for
	withheld []string // names that look like secrets and stay
	warnings []string
	notices  []string
}

// prepareAll finds each program's directory and environment. What all programs get is shared.
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
		set, notice := forContainer(p.argv, ForRanks(env.Set, p.opts.Exports), env.Exported)
		sets = append(sets, set)
		ranks := size
		if len(programs) > 1 {
			ranks = p.opts.NP
		}
		drop, here := leftOut(environ, env, p.opts)
		e.programs = append(e.programs, launcher.Program{Argv: p.argv, Wdir: wdir, Ranks: ranks, Drop: drop, DropHere: here})
		e.exported = unique(append(e.exported, env.Exported...))
		e.withheld = unique(append(e.withheld, env.Withheld...))
		e.warnings = unique(append(e.warnings, env.Warnings...))
		if notice != "" {
			e.notices = unique(append(e.notices, notice))
		}
	}
	var own [][]string
	e.shared, own = inCommon(sets)
	for i := range own {
		e.programs[i].Env = own[i]
	}
	return e, nil
}

// inCommon parts sets into what all of them hold and what each holds beside that, in order. It is pure.
func inCommon(sets [][]string) (shared []string, own [][]string) {
	holders := map[string]int{}
	for _, set := range sets {
		for _, kv := range unique(set) {
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

// programsText is a line for each of several programs: its ranks, and its command line.
func programsText(programs []launcher.Program) string {
	var b strings.Builder
	first := 0
	for _, p := range programs {
		fmt.Fprintf(&b, "  %s: %q\n", plan.RanksOf(first, p.Ranks), p.Argv)
		first += p.Ranks
	}
	return b.String()
}

// names are the names of NAME=value.
func names(env []string) (out []string) {
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		out = append(out, name)
	}
	return out
}

// unique is words without repetitions, in order.
func unique(words []string) (out []string) {
	for _, w := range words {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}
