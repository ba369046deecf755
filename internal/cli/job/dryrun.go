package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/workdir"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// DryRun is what a run would do. Its fields are the document of --dry-run --json, which docs/mapping.md
// describes.
type DryRun struct {
	Ranks       int          `json:"ranks"`
	Hosts       []dryHost    `json:"hosts"`
	Source      string       `json:"source"` // who said which hosts there are
	MapBy       string       `json:"map_by"`
	RankBy      string       `json:"rank_by"`
	BindTo      string       `json:"bind_to"`
	CPUsPerRank int          `json:"cpus_per_rank,omitempty"`
	GPUsPerRank string       `json:"gpus_per_rank"`
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
	GPUs  int       `json:"gpus,omitempty"` // as the hostfile says
	Ranks []dryRank `json:"ranks"`
}

type dryRank struct {
	Rank      int `json:"rank"`
	LocalRank int `json:"local_rank"`
	CrossRank int `json:"cross_rank"`
	CrossSize int `json:"cross_size"`
}

// NewDryRun describes a run. It is pure.
func NewDryRun(o *settings.Options, plan launcher.Plan, opts launcher.Options, source string, warnings []string) DryRun {
	mapBy := cmp.Or(o.MapBy.Order, launcher.BySlot)
	binding := o.BindTo
	binding.Binding, binding.Given = opts.Binding, true
	d := DryRun{Ranks: plan.Size, Source: source, MapBy: mapBy.String(), RankBy: cmp.Or(o.RankBy.Order, mapBy).String(),
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
		host := dryHost{Host: h.Name, User: h.User, Port: h.Port, Slots: h.Slots, GPUs: h.GPUs}
		for _, r := range h.Ranks {
			host.Ranks = append(host.Ranks, dryRank{r.Rank, r.LocalRank, r.CrossRank, r.CrossSize})
		}
		d.Hosts = append(d.Hosts, host)
	}
	return d
}

// writeJSON writes d as one document.
func (d DryRun) writeJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(d)
}

// Text is d for people, below the plan. What nobody asked for is left out.
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

// GpusText is what is known of GPUs before hosts are asked: how many, and not which. What nobody spoke of is left out.
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
