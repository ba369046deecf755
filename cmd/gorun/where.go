package main

import (
	"context"
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/usage"
)

// whereToRun is the hosts that were asked for, with the slots that --ppn, --nodes and their
// cores give them.
func whereToRun(ctx context.Context, o *runOptions, s surroundings) (place, error) {
	var p place
	var err error
	if o.discovery != "" {
		p, err = discover(ctx, o, s)
	} else {
		p, err = findHosts(o, s)
	}
	if err != nil {
		return place{}, err
	}
	p, err = shape(p, o)
	if err != nil {
		return place{}, err
	}
	p, err = s.countCores(ctx, p, int(o.cpusPerRank))
	if err != nil {
		return place{}, err
	}
	return bound(p, o)
}

// bound keeps a number of ranks that nobody gave between --min-np and --max-np.
func bound(p place, o *runOptions) (place, error) {
	if o.np > 0 || o.minNP == 0 && o.maxNP == 0 {
		return p, nil
	}
	if p.np == 0 {
		for _, h := range p.hosts {
			p.np += h.Slots
		}
	}
	if o.maxNP > 0 {
		p.np = min(p.np, o.maxNP)
	}
	if p.np < o.minNP {
		return place{}, usage.Errorf("name more hosts, or give them more slots", "--min-np %d, but there is room for %d, from %s", o.minNP, p.np, p.source)
	}
	return p, nil
}

// discover asks the discovery script which hosts there are: a host, or host:slots, a
// line, as Horovod's does.
func discover(ctx context.Context, o *runOptions, s surroundings) (place, error) {
	ctx, cancel := context.WithTimeout(ctx, max(time.Duration(o.startTimeout), time.Second))
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", o.discovery)
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		said := ""
		if errors.As(err, &exit) && len(exit.Stderr) > 0 {
			said = ": " + strings.TrimSpace(string(exit.Stderr))
		}
		return place{}, usage.Errorf("it must print a host per line, such as f1:2, and end with 0", "--host-discovery-script %s: %w%s", o.discovery, err, said)
	}
	list, err := hostfile.Parse(o.discovery, strings.NewReader(withSlots(string(out), int(o.slotsPerHost))))
	if err != nil {
		return place{}, hostsError(err)
	}
	return s.resolve(list, "the discovery script "+o.discovery)
}

// withSlots gives slots to the lines that are a bare name.
func withSlots(lines string, slots int) string {
	var b strings.Builder
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.ContainsAny(line, ":#= \t") {
			line += ":" + strconv.Itoa(slots)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// shape gives the hosts of p the slots that --nodes and --ppn ask for. --nodes alone
// shares the ranks out evenly, one a host when no number is given. It is pure.
func shape(p place, o *runOptions) (place, error) {
	if o.nodes == 0 && o.ppn == 0 {
		return p, nil
	}
	nodes, ppn := int(o.nodes), int(o.ppn)
	if nodes > len(p.hosts) {
		return place{}, usage.Errorf("name more hosts with -H or --hostfile", "--nodes %d, but there %s, from %s", nodes, areHosts(len(p.hosts)), p.source)
	}
	hosts := append([]hostfile.Host(nil), p.hosts...)
	if nodes > 0 {
		hosts = hosts[:nodes]
	}
	p.np = 0
	slots := func(int) int { return ppn }
	if ppn == 0 {
		np := max(o.np, 0)
		if np == 0 {
			np = len(hosts)
		}
		hosts = hosts[:min(len(hosts), np)]
		slots = func(i int) int {
			share := np / len(hosts)
			if i < np%len(hosts) {
				share++
			}
			return share
		}
	}
	for i := range hosts {
		hosts[i].Slots, hosts[i].Auto = slots(i), false
		if h := hosts[i]; h.MaxSlots > 0 && h.Slots > h.MaxSlots {
			return place{}, usage.Errorf("", "%s is to get %d ranks, and may have at most %d (max_slots)", h.Name, h.Slots, h.MaxSlots)
		}
		if hosts[i].Slots > hostfile.MaxSlots {
			return place{}, usage.Errorf("", "%s is to get %d ranks: a host may have at most %d", hosts[i].Name, hosts[i].Slots, hostfile.MaxSlots)
		}
	}
	p.hosts = hosts
	return p, nil
}

func areHosts(n int) string {
	if n == 1 {
		return "is 1 host"
	}
	return "are " + strconv.Itoa(n) + " hosts"
}
