package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gorun/gorun/launcher"
)

// dryRun is what a run would do. Its fields are the document of --dry-run --json, which docs/mapping.md
// describes.
type dryRun struct {
	Ranks       int       `json:"ranks"`
	Hosts       []dryHost `json:"hosts"`
	Source      string    `json:"source"` // who said which hosts there are
	MapBy       string    `json:"map_by"`
	RankBy      string    `json:"rank_by"`
	BindTo      string    `json:"bind_to"`
	CPUsPerRank int       `json:"cpus_per_rank,omitempty"`
	Program     []string  `json:"program"`
	Directory   string    `json:"directory"`
	Network     string    `json:"network,omitempty"`
	Variables   []string  `json:"variables"` // names only: values may be secrets
	Warnings    []string  `json:"warnings"`
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
		BindTo: binding.String(), CPUsPerRank: opts.Binding.Each, Program: opts.Argv, Directory: opts.Wdir,
		Network: opts.Network.String(), Variables: []string{}, Warnings: append([]string{}, warnings...)}
	for _, kv := range opts.Env {
		name, _, _ := strings.Cut(kv, "=")
		d.Variables = append(d.Variables, name)
	}
	for _, h := range plan.Hosts {
		host := dryHost{Host: h.Name, User: h.User, Port: h.Port, Slots: h.Slots}
		for _, r := range h.Ranks {
			host.Ranks = append(host.Ranks, dryRank(r))
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
	line("program", fmt.Sprintf("%q", d.Program))
	line("directory", d.Directory)
	if d.Network != "" {
		line("network", d.Network)
	}
	line("variables", strings.Join(d.Variables, " "))
	return b.String()
}
