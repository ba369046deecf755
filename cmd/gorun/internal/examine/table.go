package examine

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/net/untrusted"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// maxCells is the largest number of hosts in the tables of pairs. --html and --json show more.
const maxCells = 16

// WriteText writes the verdict and the findings, and then tables of all that was measured.
func (r Report) WriteText(out io.Writer) error {
	var b strings.Builder
	r.verdict(&b)
	if err := errors.Join(r.hostTable(&b), r.speedTable(&b), r.gpuTable(&b), r.pairTables(&b)); err != nil {
		return err
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// WriteVerdict writes the report without its tables.
func (r Report) WriteVerdict(out io.Writer) error {
	var b strings.Builder
	r.verdict(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func (r Report) verdict(b *strings.Builder) {
	examined := fmt.Sprintf("%s examined in %.0f s", prose.Count(len(r.Names), "host"), r.Seconds)
	switch r.Verdict {
	case "ok":
		fmt.Fprintf(b, "ok: %s\n", examined)
	case "bad":
		what := "bad links"
		if len(r.Bad) > 0 {
			what = "bad: " + prose.List(r.Bad)
		}
		fmt.Fprintf(b, "%s (%s)\n", what, examined)
	default:
		fmt.Fprintf(b, "%s (%s)\n", prose.Count(len(r.Findings), "warning"), examined)
	}
	// If many hosts have a finding in common, the text names the first ones.
	const most = 3
	count := map[string]int{}
	same := func(f doctor.Finding) string { return string(f.Severity) + f.Kind + f.Text }
	hosts := map[string][]string{}
	for _, f := range r.Findings {
		hosts[same(f)] = append(hosts[same(f)], pairName(f))
	}
	for _, f := range r.Findings {
		if count[same(f)]++; count[same(f)] > 1 {
			continue
		}
		names := hosts[same(f)]
		who := strings.Join(names[:min(len(names), most)], ", ")
		if len(names) > most {
			who += fmt.Sprintf(" and %d more", len(names)-most)
		}
		fmt.Fprintf(b, "  %-7s  %s: %s%s\n", f.Severity, who, f.Text, off(f))
		if f.Fix != "" {
			fmt.Fprintf(b, "           %s\n", f.Fix)
		}
	}
}

// pairName names the host of a finding, or both.
func pairName(f doctor.Finding) string {
	switch {
	case f.Host == "":
		return "all hosts"
	case f.With != "":
		return f.Host + " - " + f.With
	}
	return f.Host
}

// off formats the deviation of a finding.
func off(f doctor.Finding) string {
	switch {
	case f.Times > 0 && f.Sigma > 0:
		return fmt.Sprintf(" (%.2g times, %.0f σ)", f.Times, f.Sigma)
	case f.Times > 0:
		return fmt.Sprintf(" (%.2g times)", f.Times)
	}
	return ""
}

// hostTable writes a row of facts for each host.
func (r Report) hostTable(b *strings.Builder) error {
	b.WriteString("\n")
	return ui.WriteColumns(b, func(table io.Writer) {
		fmt.Fprintln(table, "host\tlogin\tcores\tload\tmemory\tshm\ttmp free\tnofile\tkernel\tpython\ttorch\tdriver")
		for _, name := range r.Names {
			h := r.Hosts[name]
			login := "-"
			f := h.Facts
			if h.Login != nil {
				login = doctor.Seconds(h.Login.Seconds)
			}
			if f == nil {
				fmt.Fprintf(table, "%s\t%s%s\n", name, login, strings.Repeat("\t-", 10))
				continue
			}
			cores := fmt.Sprint(f.Cores)
			if f.Quota > 0 && f.Quota < float64(f.Cores) {
				cores = fmt.Sprintf("%.3g of %d", f.Quota, f.Cores)
			}
			tmp := "-"
			for _, d := range f.Disks {
				if d.Name == "tmp" {
					tmp = prose.Size(d.Free)
				}
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%.2f\t%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\n", name, login, cores, f.Load,
				prose.Size(f.Memory), prose.Size(f.Shm.Size), tmp,
				f.Limits["nofile"], cmp.Or(f.Kernel, "-"), cmp.Or(f.Versions["python"], "-"),
				cmp.Or(f.Versions["torch"], "-"), cmp.Or(f.Versions["driver"], "-"))
		}
	})
}

// speedTable writes a row of measured speeds for each host.
func (r Report) speedTable(b *strings.Builder) error {
	b.WriteString("\n")
	totals := doctor.Totals(r.Measured)
	return ui.WriteColumns(b, func(table io.Writer) {
		fmt.Fprintln(table, "host\tmemory GB/s\tGflop/s\tfsync\tround trip\tsends MB/s\treceives MB/s\tlost\tclock")
		for i, name := range r.Names {
			h := r.Hosts[name]
			t := totals[i]
			copied := "-"
			flops := "-"
			fsync := "-"
			if h.Speed != nil {
				copied = fmt.Sprintf("%.1f", h.Speed.Copy/1e9)
				flops = fmt.Sprintf("%.1f", h.Speed.Flops/1e9)
			}
			if h.Facts != nil {
				worst := 0.0
				for _, d := range h.Facts.Disks {
					worst = max(worst, d.Fsync)
				}
				fsync = doctor.Seconds(worst)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", name, copied, flops, fsync, strings.Join(netColumns(t), "\t"))
		}
	})
}

// gpuTable writes a row of health for each GPU.
func (r Report) gpuTable(b *strings.Builder) error {
	if !slices.ContainsFunc(r.Names, func(name string) bool { return len(r.Hosts[name].GPUs) > 0 }) {
		return nil
	}
	b.WriteString("\n")
	return ui.WriteColumns(b, func(table io.Writer) {
		fmt.Fprintln(table, "host\tgpu\tname\tused\tMHz\t°C\tW\tPCIe\tnvlinks\tuncorrected\tslow by")
		for _, name := range r.Names {
			for _, d := range r.Hosts[name].GPUs {
				used := prose.Size(int64(d.MemoryUsed)) + " of " + prose.Size(int64(d.MemoryBytes))
				h := d.Health
				if h == nil {
					fmt.Fprintf(table, "%s\t%d\t%s\t%s%s\n", name, d.Index, cmp.Or(d.Name, "-"), used,
						strings.Repeat("\t-", 7))
					continue
				}
				var slow []string
				for _, s := range h.Slowdowns {
					slow = append(slow, string(s))
				}
				fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%d of %d\t%d\t%.0f of %.0f\tgen%d x%d\t%d\t%d\t%s\n", name, d.Index,
					cmp.Or(d.Name, "-"), used, h.Clock, h.MaxClock, h.Temperature,
					h.PowerLimit, h.PowerDefault, h.PCIe.Generation, h.PCIe.Width, h.NVLinksUp, h.UncorrectedEver,
					cmp.Or(strings.Join(slow, ", "), "-"))
			}
		}
	})
}

func netColumns(t doctor.Total) []string {
	if t.RTT == 0 {
		return []string{"-", "-", "-", "-", "-"}
	}
	return []string{doctor.Seconds(t.RTT), megabytes(t.Out), megabytes(t.In), fmt.Sprintf("%.2g %%", 100*t.Loss),
		fmt.Sprintf("%+.1f ms", 1e3*t.Clock+0)}
}

// pairTables writes the round trips and bandwidths of all pairs of hosts.
func (r Report) pairTables(b *strings.Builder) error {
	if len(r.Links) == 0 || len(r.Names) > maxCells {
		return nil
	}
	for _, q := range quantities() {
		cells := map[[2]int]string{}
		for _, p := range r.directions() {
			if value := q.of(p.Link, p.back); value > 0 {
				cells[[2]int{p.from, p.to}] = q.show(value)
			}
		}
		b.WriteString("\n")
		err := ui.WriteColumns(b, func(table io.Writer) {
			fmt.Fprintf(table, "%s\t%s\n", q.corner, strings.Join(r.Names, "\t"))
			for i, name := range r.Names {
				row := []string{name}
				for j := range r.Names {
					row = append(row, cmp.Or(cells[[2]int{i, j}], "-"))
				}
				fmt.Fprintln(table, strings.Join(row, "\t"))
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func megabytes(rate float64) string {
	if rate <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", rate/1e6)
}

// maxReport is the largest size of a report that is read, in bytes.
const maxReport = 64 << 20

// ReadReport reads a report that --save wrote.
func ReadReport(name string) (*Report, error) {
	text, err := trust.ReadFile(name, maxReport)
	if err != nil {
		return nil, usage.Errorf("make one with gorun doctor --save "+prose.Quoted(name), "read the baseline: %w", err)
	}
	var r Report
	if err := untrusted.Unmarshal(text, maxReport/8, &r); err != nil || r.Version != 1 {
		return nil, usage.Errorf("make one with gorun doctor --save FILE", "%s is no report of gorun doctor", name)
	}
	valid := func(i int) bool { return i >= 0 && i < len(r.Names) }
	r.Links = slices.DeleteFunc(r.Links, func(l doctor.Link) bool { return !valid(l.From) || !valid(l.To) })
	return &r, nil
}
