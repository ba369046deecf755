package ui

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/survey"
)

// WriteGPUs writes a line per GPU, with a dash for unknown values. With more, it adds topology, MIG
// instances and processes.
func WriteGPUs(out io.Writer, all []survey.GPUs, more bool) error {
	count := 0
	err := WriteColumns(out, func(table io.Writer) {
		fmt.Fprintln(table, "host\tgpu\tname\tused\tmemory\tbusy\tnuma\tmig\tuuid\tnvlinks")
		for _, g := range all {
			count += len(g.Devices)
			switch {
			case g.Err != nil:
				fmt.Fprintf(table, "%s\t-\tfailed\n", g.Host.Name)
			case len(g.Devices) == 0:
				fmt.Fprintf(table, "%s\t-\tnone\n", g.Host.Name)
			}
			for _, d := range g.Devices {
				fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g.Host.Name, d.Index, orDash(d.Name),
					usedText(d), gib(d.MemoryBytes),
					known(d.Utilization, " %"), known(d.NUMANode, ""), migText(d), shortUUID(d.UUID), linksText(d))
			}
		}
	})
	for _, g := range all {
		if more && err == nil {
			err = writeGPUsMore(out, g)
		}
	}
	if err == nil {
		_, err = fmt.Fprintf(out, "%s, %s\n", prose.Count(len(all), "host"), prose.Count(count, "GPU"))
	}
	return err
}

// writeGPUsMore writes a host's topology matrix, as nvidia-smi topo -m does, and its MIG instances
// and processes.
func writeGPUsMore(out io.Writer, g survey.GPUs) error {
	return WriteColumns(out, func(table io.Writer) {
		if len(g.Devices) == 0 {
			return
		}
		fmt.Fprintf(table, "\n%s", g.Host.Name)
		for _, d := range g.Devices {
			fmt.Fprintf(table, "\t%d", d.Index)
		}
		fmt.Fprint(table, "\tbus\tcpus\n")
		for _, d := range g.Devices {
			fmt.Fprintf(table, "%d", d.Index)
			for _, peer := range g.Devices {
				fmt.Fprint(table, "\t"+between(d, peer.Index))
			}
			fmt.Fprintf(table, "\t%s\t%s\n", d.BusID, orDash(d.CPUs))
		}
		for _, d := range g.Devices {
			for _, m := range d.MIG {
				fmt.Fprintf(table, "%d: MIG %s, %s, %s\n", d.Index, m.Profile, gib(m.MemoryBytes), m.UUID)
			}
			for _, p := range d.Processes {
				fmt.Fprintf(table, "%d: process %d, %s\n", d.Index, p.PID, gib(p.MemoryBytes))
			}
		}
		fmt.Fprintln(table)
	})
}

// between returns the connection of two GPUs as nvidia-smi names it: NV12 for 12 NVLinks, else the
// PCI distance.
func between(d gpu.Device, peer int) string {
	path, known := d.Paths[peer]
	switch {
	case d.Index == peer:
		return "X"
	case d.NVLinks[peer] > 0:
		return "NV" + strconv.Itoa(d.NVLinks[peer])
	case known:
		return path.String()
	}
	return "-"
}

// linksText summarizes the NVLinks of a GPU: "12 to 1-7".
func linksText(d gpu.Device) string {
	peers := map[int][]int{} // key: number of links
	for peer, n := range d.NVLinks {
		if n > 0 {
			peers[n] = append(peers[n], peer)
		}
	}
	var parts []string
	for _, n := range slices.Backward(slices.Sorted(maps.Keys(peers))) {
		slices.Sort(peers[n])
		parts = append(parts, fmt.Sprintf("%d to %s", n, prose.Ranges(peers[n], 0)))
	}
	return orDash(strings.Join(parts, ", "))
}

// migText counts the MIG instances of a GPU by profile.
func migText(d gpu.Device) string {
	if !d.MIGEnabled {
		return "-"
	}
	count := map[string]int{}
	var profiles []string
	for _, m := range d.MIG {
		if count[m.Profile]++; count[m.Profile] == 1 {
			profiles = append(profiles, m.Profile)
		}
	}
	for i, p := range profiles {
		profiles[i] = fmt.Sprintf("%dx%s", count[p], p)
	}
	if len(profiles) == 0 {
		return "on"
	}
	return strings.Join(profiles, "+")
}

// usedText formats the used memory, or a dash if the total is unknown.
func usedText(d gpu.Device) string {
	if d.MemoryBytes > 0 && d.MemoryUsed == 0 {
		return "0"
	}
	return gib(d.MemoryUsed)
}

func gib(bytes uint64) string {
	if bytes == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// known formats a number, or a dash if it is negative: unknown.
func known(n int, unit string) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n) + unit
}

// shortUUID returns the first part of a UUID. CUDA_VISIBLE_DEVICES accepts it after GPU-.
func shortUUID(uuid string) string {
	short, _, _ := strings.Cut(strings.TrimPrefix(uuid, "GPU-"), "-")
	return orDash(short)
}

func orDash(text string) string { return cmp.Or(text, "-") }

// WriteColumns aligns tab-separated columns.
func WriteColumns(out io.Writer, fill func(table io.Writer)) error {
	var b strings.Builder
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fill(table)
	_ = table.Flush() // a strings.Builder takes everything
	for line := range strings.Lines(b.String()) {
		if _, err := fmt.Fprintln(out, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}
