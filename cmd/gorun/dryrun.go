package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gorun/gorun/internal/workdir"
	"github.com/gorun/gorun/launcher"
)

// dryRun is what a run would do. Its fields are the document of --dry-run --json, which docs/mapping.md
// describes.
type dryRun struct {
	Ranks       int          `json:"ranks"`
	Hosts       []dryHost    `json:"hosts"`
	Source      string       `json:"source"` // who said which hosts there are
	MapBy       string       `json:"map_by"`
	RankBy      string       `json:"rank_by"`
	BindTo      string       `json:"bind_to"`
	CPUsPerRank int          `json:"cpus_per_rank,omitempty"`
	Program     []string     `json:"program,omitempty"` // where there is one, as is the directory
	Directory   string       `json:"directory,omitempty"`
	Programs    []dryProgram `json:"programs,omitempty"` // where there are several
	Staged      *dryStaged   `json:"staged,omitempty"`
	Network     string       `json:"network,omitempty"`
	Variables   []string     `json:"variables"` // names only: values may be secrets
	Warnings    []string     `json:"warnings"`
}

// dryProgram is one of several programs.
type dryProgram struct {
	FirstRank int      `json:"first_rank"`
	Ranks     int      `json:"ranks"`
	Program   []string `json:"program"`
	Directory string   `json:"directory"`
	Variables []string `json:"variables,omitempty"` // beside those of all programs
}

// dryStaged is a folder that is brought to hosts.
type dryStaged struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

type dryHost struct {
	Host  string    `json:"host"`
	User  string    `json:"user,omitempty"`
	Port  int       `json:"port,omitempty"`
	Slots int       `json:"slots"`
	Ranks []dryRank `json:"ranks"`
}

type dryRank struct {
	Rank      int `json:"rank"`
	LocalRank int `json:"local_rank"`
	CrossRank int `json:"cross_rank"`
	CrossSize int `json:"cross_size"`
}

// newDryRun describes a run. It is pure.
func newDryRun(o *runOptions, plan launcher.Plan, opts launcher.Options, source string, warnings []string) dryRun {
	mapBy := cmp.Or(o.mapBy.Order, launcher.BySlot)
	binding := o.bindTo
	binding.Binding, binding.given = opts.Binding, true
	d := dryRun{Ranks: plan.Size, Source: source, MapBy: mapBy.String(), RankBy: cmp.Or(o.rankBy.Order, mapBy).String(),
		BindTo: binding.String(), CPUsPerRank: opts.Binding.Each,
		Network: opts.Network.String(), Variables: append([]string{}, names(opts.Env)...), Warnings: append([]string{}, warnings...)}
	if one := opts.Programs; len(one) == 1 {
		d.Program, d.Directory = one[0].Argv, one[0].Wdir
	} else {
		first := 0
		for _, p := range opts.Programs {
			d.Programs = append(d.Programs, dryProgram{first, p.Ranks, p.Argv, p.Wdir, names(p.Env)})
			first += p.Ranks
		}
	}
	if w := opts.Work; w != nil {
		d.Staged = &dryStaged{w.Dir, w.Files, w.Bytes}
	}
	for _, h := range plan.Hosts {
		host := dryHost{Host: h.Name, User: h.User, Port: h.Port, Slots: h.Slots}
		for _, r := range h.Ranks {
			host.Ranks = append(host.Ranks, dryRank{r.Rank, r.LocalRank, r.CrossRank, r.CrossSize})
		}
		d.Hosts = append(d.Hosts, host)
	}
	return d
}

// writeJSON writes d as one document.
func (d dryRun) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}

// text is d for people, below the plan. What nobody asked for is left out.
func (d dryRun) text(o *runOptions) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-10s %s\n", name, value) }
	if o.mapBy.Order != 0 || o.rankBy.Order != 0 {
		line("mapping", fmt.Sprintf("by %s, ranks numbered by %s", d.MapBy, d.RankBy))
	}
	if o.bindTo.given || d.CPUsPerRank > 0 {
		text := "to " + d.BindTo
		if d.BindTo == "none" {
			text = "none"
		}
		if d.CPUsPerRank > 0 {
			text += fmt.Sprintf(", cores per rank: %d", d.CPUsPerRank)
		}
		line("binding", text)
	}
	if d.Programs == nil {
		line("program", fmt.Sprintf("%q", d.Program))
		line("directory", d.Directory)
	}
	for _, p := range d.Programs {
		line("program", fmt.Sprintf("%s: %q", launcher.RanksOf(p.FirstRank, p.Ranks), p.Program))
		line("directory", p.Directory)
		if len(p.Variables) > 0 {
			line("variables", strings.Join(p.Variables, " "))
		}
	}
	if s := d.Staged; s != nil {
		line("staged", fmt.Sprintf("%s: %d files, %s, to hosts that do not see it", s.Dir, s.Files, workdir.SizeText(s.Bytes)))
	}
	if d.Network != "" {
		line("network", d.Network)
	}
	whose := ""
	if d.Programs != nil {
		whose = "of all programs: "
	}
	line("variables", whose+strings.Join(d.Variables, " "))
	return b.String()
}
