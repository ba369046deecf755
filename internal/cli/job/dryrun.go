package job

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gorun/gorun/internal/cli/hosts"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/workdir"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// DryRun is the JSON document of --dry-run --json, which docs/mapping.md describes.
type DryRun struct {
	Ranks       int          `json:"ranks"` // 0: one per slot, and the slots are not known
	Hosts       []dryHost    `json:"hosts"`
	Source      string       `json:"source"`            // of the hosts
	Unasked     []string     `json:"unasked,omitempty"` // what a run does first; no rank has a place yet
	MapBy       string       `json:"map_by"`
	RankBy      string       `json:"rank_by"`
	BindTo      string       `json:"bind_to"`
	CPUsPerRank int          `json:"cpus_per_rank,omitempty"`
	GPUsPerRank string       `json:"gpus_per_rank"`
	Program     []string     `json:"program,omitempty"` // if the job has one program
	Directory   string       `json:"directory,omitempty"`
	Programs    []dryProgram `json:"programs,omitempty"` // if the job has several
	Tools       []dryTool    `json:"tools,omitempty"`    // ranks that start otherwise
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
	Variables []string `json:"variables,omitempty"` // in addition to the shared ones
}

// dryStaged is a folder copied to the hosts.
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
	Auto  bool      `json:"auto,omitempty"` // as many slots as cores, which are not counted
	GPUs  int       `json:"gpus,omitempty"` // from the hostfile
	Ranks []dryRank `json:"ranks"`
}

type dryRank struct {
	Rank      int `json:"rank"`
	LocalRank int `json:"local_rank"`
	CrossRank int `json:"cross_rank"`
	CrossSize int `json:"cross_size"`
}

// NewDryRun describes a run without starting it.
func NewDryRun(o *settings.Options, plan launcher.Plan, opts launcher.Options, where hosts.Selection, warnings []string) DryRun {
	mapBy := cmp.Or(o.MapBy.Order, launcher.BySlot)
	binding := o.BindTo
	binding.Binding, binding.Given = opts.Binding, true
	d := DryRun{Ranks: plan.Size, Hosts: []dryHost{}, Source: where.Source, Unasked: where.Unasked, MapBy: mapBy.String(), RankBy: cmp.Or(o.RankBy.Order, mapBy).String(),
		BindTo: binding.String(), CPUsPerRank: opts.Binding.Each, GPUsPerRank: cmp.Or(o.GPUsPerRank.String(), "auto"),
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
		host := dryHost{Host: h.Name, User: h.User, Port: h.Port, Slots: h.Slots, Auto: h.Auto, GPUs: h.GPUs, Ranks: []dryRank{}}
		for _, r := range h.Ranks {
			host.Ranks = append(host.Ranks, dryRank{r.Rank, r.LocalRank, r.CrossRank, r.CrossSize})
		}
		d.Hosts = append(d.Hosts, host)
	}
	return d
}

// maxToolLines is the most ranks with tools that a text lists.
const maxToolLines = 16

// planText shows the plan, or the hosts of a job whose ranks have no places yet.
func (d DryRun) planText(plan launcher.Plan) string {
	if d.Unasked == nil {
		return plan.String()
	}
	text := "a rank for each slot\n"
	if d.Ranks > 0 {
		text = prose.Count(d.Ranks, "rank") + "\n"
	}
	width := 0
	for _, h := range d.Hosts {
		width = max(width, len(h.Host))
	}
	for _, h := range d.Hosts {
		slots := prose.Count(h.Slots, "slot")
		if h.Auto {
			slots = "one slot per core"
		}
		text += fmt.Sprintf("  %-*s  %s\n", width, h.Host, slots)
	}
	return text
}

// Text formats d for a terminal, below the plan. Settings that the user did not give are left out.
func (d DryRun) Text(o *settings.Options) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-10s %s\n", name, value) }
	if o.MapBy.Order != 0 || o.RankBy.Order != 0 {
		line("mapping", fmt.Sprintf("by %s, ranks numbered by %s", d.MapBy, d.RankBy))
	}
	if o.BindTo.Given || d.CPUsPerRank > 0 {
		text := "to " + d.BindTo
		if d.BindTo == "none" {
			text = "none"
		}
		if d.CPUsPerRank > 0 {
			text += fmt.Sprintf(", cores per rank: %d", d.CPUsPerRank)
		}
		line("binding", text)
	}
	if text := d.GpusText(o.GPUsPerRank.Given); text != "" {
		line("gpus", text)
	}
	if d.Programs == nil {
		line("program", fmt.Sprintf("%q", d.Program))
		line("directory", d.Directory)
	}
	for _, p := range d.Programs {
		line("program", fmt.Sprintf("%s: %q", plan.RanksOf(p.FirstRank, p.Ranks), p.Program))
		line("directory", p.Directory)
		if len(p.Variables) > 0 {
			line("variables", strings.Join(p.Variables, " "))
		}
	}
	for i, t := range d.Tools {
		if i == maxToolLines && len(d.Tools) > maxToolLines+1 {
			line("", fmt.Sprintf("and %d more ranks", len(d.Tools)-i))
			break
		}
		line(map[bool]string{true: "tools"}[i == 0], t.text())
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

// GpusText describes the GPUs known before any host is asked: their number, not their identity.
func (d DryRun) GpusText(given bool) string {
	const most = 4
	var listed []string
	for _, h := range d.Hosts {
		if h.GPUs > 0 {
			listed = append(listed, fmt.Sprintf("%d on %s", h.GPUs, h.Host))
		}
	}
	if !given && len(listed) == 0 {
		return ""
	}
	if d.GPUsPerRank == "none" {
		return "left alone"
	}
	text := d.GPUsPerRank
	if text != "auto" {
		text += " per rank"
	}
	if more := len(listed) - most; more > 1 {
		listed = append(listed[:most], fmt.Sprintf("on %d more hosts", more))
	}
	if len(listed) > 0 {
		text += ", of " + strings.Join(listed, ", ")
	}
	return text + ", assigned on the hosts"
}
