package job

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// DryRun is the JSON document of --dry-run --json, which docs/mapping.md describes.
type DryRun struct {
	Ranks       int          `json:"ranks"` // 0: one per slot, and the slots are not known
	Hosts       []dryHost    `json:"hosts"`
	Source      string       `json:"source"`            // source of the hosts
	Unasked     []string     `json:"unasked,omitempty"` // steps before the placement; no rank has a place yet
	MapBy       string       `json:"map_by"`
	RankBy      string       `json:"rank_by"`
	PerHost     string       `json:"ppn,omitempty"`
	Rankfile    string       `json:"rankfile,omitempty"`
	BindTo      string       `json:"bind_to"`
	CPUsPerRank int          `json:"cpus_per_rank,omitempty"`
	CPUList     string       `json:"cpu_list,omitempty"`
	RankCPUs    string       `json:"rank_cpus,omitempty"`
	GPUsPerRank string       `json:"gpus_per_rank"`
	Program     []string     `json:"program,omitempty"` // argv of a job's only program
	Directory   string       `json:"directory,omitempty"`
	Programs    []dryProgram `json:"programs,omitempty"` // programs of a job with several
	Tools       []dryTool    `json:"tools,omitempty"`    // ranks that start otherwise
	Staged      *dryStaged   `json:"staged,omitempty"`
	Back        *dryBack     `json:"stage_back,omitempty"`
	Python      *dryPython   `json:"python,omitempty"`
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
	Variables []string `json:"variables,omitempty"` // names beside the shared ones
}

// dryBack is which files come back.
type dryBack struct {
	Patterns []string `json:"patterns"`
	Dir      string   `json:"dir"`
}

// dryStaged is a folder copied to the hosts.
type dryStaged struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// dryPython is a Python environment that hosts get a copy of.
type dryPython struct {
	Dir   string `json:"dir"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
	To    string `json:"to,omitempty"` // the folder of the copies, if the user has chosen one
}

type dryHost struct {
	Host  string    `json:"host"`
	User  string    `json:"user,omitempty"`
	Port  int       `json:"port,omitempty"`
	Slots int       `json:"slots"`
	Auto  bool      `json:"auto,omitempty"` // one slot per core; nothing counts them
	GPUs  int       `json:"gpus,omitempty"` // number in the hostfile
	Ranks []dryRank `json:"ranks"`
}

type dryRank struct {
	Rank      int    `json:"rank"`
	LocalRank int    `json:"local_rank"`
	CrossRank int    `json:"cross_rank"`
	CrossSize int    `json:"cross_size"`
	Cores     string `json:"cores,omitempty"` // cores named by a rankfile
}

// NewDryRun describes a run without starting it.
func NewDryRun(o *settings.Options, plan launcher.Plan, opts launcher.Options, where hosts.Selection,
	warnings []string) DryRun {
	mapBy := cmp.Or(o.MapBy.String(), launcher.BySlot.String())
	rankBy := mapBy
	if asked := o.Request(0); asked.RankBy != 0 {
		rankBy = asked.RankBy.String()
	}
	binding := o.BindTo
	binding.Binding = opts.Binding
	binding.Given = true
	d := DryRun{
		Ranks:       plan.Size,
		Hosts:       []dryHost{},
		Source:      where.Source,
		Unasked:     where.Unasked,
		MapBy:       mapBy,
		RankBy:      cmp.Or(o.RankBy.String(), rankBy),
		PerHost:     o.Ppn.String(),
		Rankfile:    o.Rankfile,
		CPUList:     o.CPUList.String(),
		RankCPUs:    o.RankCPUs.String(),
		BindTo:      binding.String(),
		CPUsPerRank: opts.Binding.Each,
		GPUsPerRank: cmp.Or(o.GPUsPerRank.String(), "auto"),
		Network:     opts.Network.String(),
		Variables:   append([]string{}, rankenv.NamesOf(opts.Env)...),
		Warnings:    append([]string{}, warnings...),
	}
	if one := opts.Programs; len(one) == 1 {
		d.Program = one[0].Argv
		d.Directory = string(one[0].Wdir)
	} else {
		first := 0
		for _, p := range opts.Programs {
			d.Programs = append(d.Programs, dryProgram{first, p.Ranks, p.Argv, string(p.Wdir), rankenv.NamesOf(p.Env)})
			first += p.Ranks
		}
	}
	if b := opts.Back; b != nil {
		d.Back = &dryBack{b.Patterns, b.Dir}
	}
	if w := opts.Work; w != nil {
		d.Staged = &dryStaged{w.Dir, w.Files, w.Bytes}
	}
	if p := opts.Python; p != nil {
		d.Python = &dryPython{p.Env.Dir, p.Env.Files, p.Env.Bytes, p.Base}
	}
	for _, h := range plan.Hosts {
		host := dryHost{
			Host:  h.Name,
			User:  h.User,
			Port:  h.Port,
			Slots: h.Slots,
			Auto:  h.Auto,
			GPUs:  h.GPUs,
			Ranks: []dryRank{},
		}
		for _, r := range h.Ranks {
			host.Ranks = append(host.Ranks, dryRank{r.Rank, r.LocalRank, r.CrossRank, r.CrossSize, r.Cores})
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
			if _, unit, asked := strings.Cut(d.PerHost, ":"); asked {
				slots = strings.TrimSuffix(d.PerHost, ":"+unit) + " for each " + unit
			}
		}
		text += fmt.Sprintf("  %-*s  %s\n", width, h.Host, slots)
	}
	return text
}

// Text formats d for a terminal, below the plan. Settings that the user did not give are left out.
func (d DryRun) Text(o *settings.Options) string {
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, "%-10s %s\n", name, value) }
	if text := o.MappingText(); text != "" {
		line("mapping", text)
	}
	if text := d.bindingText(o); text != "" {
		line("binding", text)
	}
	for _, h := range d.Hosts {
		for _, r := range h.Ranks {
			if r.Cores != "" {
				line("", fmt.Sprintf("rank %d to cores %s of %s", r.Rank, r.Cores, h.Host))
			}
		}
	}
	if text := o.SavedText(); text != "" {
		line("output", text)
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
	if b := d.Back; b != nil {
		line("back", fmt.Sprintf("%s, to %s", strings.Join(b.Patterns, ", "), b.Dir))
	}
	if s := d.Staged; s != nil {
		line("staged", fmt.Sprintf("%s: %d files, %s, to hosts that do not see it", s.Dir, s.Files,
			workdir.SizeText(s.Bytes)))
	}
	if p := d.Python; p != nil {
		text := fmt.Sprintf("%s: %d files, %s, to hosts that do not have it", p.Dir, p.Files, workdir.SizeText(p.Bytes))
		if p.To != "" {
			text += ", in " + p.To
		}
		line("python", text)
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

// bindingText describes the binding of ranks, or is "" without such flags.
func (d DryRun) bindingText(o *settings.Options) string {
	var parts []string
	switch {
	case d.RankCPUs != "":
		parts = append(parts, "local ranks to cpus "+d.RankCPUs)
	case d.BindTo != "none" && (o.BindTo.Given || d.CPUsPerRank > 0 || d.CPUList != "" || o.Binding().Over != ""):
		parts = append(parts, "to "+d.BindTo)
	case o.BindTo.Given:
		parts = append(parts, "none")
	}
	if d.CPUList != "" {
		parts = append(parts, "of cores "+d.CPUList)
	}
	if d.CPUsPerRank > 0 {
		parts = append(parts, fmt.Sprintf("cores per rank: %d", d.CPUsPerRank))
	}
	return strings.Join(parts, ", ")
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
