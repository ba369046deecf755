package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/topology"
)

// place is where to run, and who said so.
type place struct {
	hosts    []hostfile.Host
	np       int // ranks to start when the user does not say; 0: one per slot
	source   string
	warnings []string
}

// surroundings are what hosts are found in besides the options.
type surroundings struct {
	lookup   func(string) (string, bool) // of the environment
	open     func(string) (io.ReadCloser, error)
	hostname string
	cores    func() int // of this machine that this process may keep busy
	// count asks other hosts for theirs.
	count func(ctx context.Context, hosts []hostfile.Host) ([]int, error)
}

func newSurroundings(count func(context.Context, []hostfile.Host) ([]int, error)) surroundings {
	hostname, _ := os.Hostname()
	open := func(name string) (io.ReadCloser, error) { return os.Open(name) }
	return surroundings{lookup: os.LookupEnv, open: open, hostname: hostname, cores: topology.Cores, count: count}
}

// findHosts decides where to run. -H chooses among the hosts of --hostfile where both are given;
// either one alone is the hosts; with neither, [hostfile.Default] knows, and else
// it is this machine. A list that only chooses (^f3, +n0) does so among the default hosts, and one
// that names nodes of a Slurm job among those.
// It is pure.
func findHosts(o *runOptions, s surroundings) (p place, err error) {
	switch {
	case o.hostfile != "":
		p, err = s.readHostfile(o.hostfile)
		if err == nil && o.hosts != "" {
			p, err = s.narrow(p, o.hosts)
		}
	case o.hosts != "":
		list, err := hostfile.ParseList(o.hosts)
		if err != nil {
			return place{}, hostsError(err)
		}
		if p, err = s.ofSlurmJob(list, o.method()); p.hosts == nil && err == nil {
			p, err = s.resolve(list, "-H")
		}
		if err != nil {
			return place{}, err
		}
	default:
		p, err = s.defaults()
		if err == nil && p.hosts == nil {
			p = place{hosts: []hostfile.Host{{Name: "localhost", Slots: max(o.np, 1)}}, source: "nothing: this machine"}
		}
	}
	if err != nil {
		return place{}, err
	}
	return p, nil
}

// defaults is the place that the environment names; without hosts where it names none.
func (s surroundings) defaults() (place, error) {
	found, err := hostfile.Default(s.lookup, s.open)
	if err != nil {
		return place{}, usage.Errorf("give the hosts with -H or --hostfile, or unset the variable", "%w", err)
	}
	if found == nil {
		return place{}, nil
	}
	return place{hosts: found.Hosts, np: found.NP, source: found.Source, warnings: found.Warnings}, nil
}

func (s surroundings) readHostfile(name string) (place, error) {
	file, err := s.open(name)
	if err != nil {
		return place{}, usage.Errorf("check the name after --hostfile", "open the hostfile: %w", err)
	}
	defer file.Close()
	list, err := hostfile.Parse(name, file)
	var read *fs.PathError
	if errors.As(err, &read) {
		return place{}, usage.Errorf("check the name after --hostfile", "read the hostfile: %w", read)
	}
	if err != nil {
		return place{}, hostsError(err)
	}
	return s.resolve(list, "hostfile "+name)
}

// resolve turns a list into hosts. One that only chooses does so among the default hosts.
func (s surroundings) resolve(list hostfile.List, source string) (place, error) {
	p := place{source: source, warnings: list.Warnings}
	var err error
	if !list.Relative() {
		p.hosts, err = list.Hosts()
		return p, hostsError(err)
	}
	others, err := s.defaults()
	switch {
	case err != nil:
		return place{}, err
	case others.hosts == nil:
		p.hosts, err = list.Hosts() // which says that there is nothing to choose from
	default:
		p.hosts, err = list.Select(others.hosts, others.source)
		p.source, p.warnings = source+" among "+others.source, slices.Concat(others.warnings, p.warnings)
	}
	return p, hostsError(err)
}

// narrow leaves of p what -H names.
func (s surroundings) narrow(p place, hosts string) (place, error) {
	list, err := hostfile.ParseList(hosts)
	if err != nil {
		return place{}, hostsError(err)
	}
	p.hosts, err = list.Select(p.hosts, p.source)
	p.source = "-H among " + p.source
	return p, hostsError(err)
}

// hostsError makes a mistake in a list of hosts one of the user's, with the
// names that were probably meant.
func hostsError(err error) error {
	var absent *hostfile.AbsentError
	var parse *hostfile.ParseError
	switch {
	case errors.As(err, &absent):
		return usage.Errorf(nearHosts(absent.Host, absent.Have), "%w", err)
	case errors.As(err, &parse):
		return usage.Errorf(hostsHint(parse.File), "%w", err)
	}
	return err
}

// nearHosts says which of the names there are may have been meant.
func nearHosts(name string, have []string) string {
	short := func(s string) string {
		label, _, _ := strings.Cut(s, ".")
		return strings.ToLower(label)
	}
	var near []string
	for _, h := range have {
		if short(h) == short(name) && !slices.Contains(near, h) {
			near = append(near, h)
		}
	}
	if n := usage.Nearest(name, have); n != "" && !slices.Contains(near, n) {
		near = append(near, n)
	}
	if len(near) > 0 {
		return "did you mean " + strings.Join(near[:min(len(near), 3)], " or ") + "?"
	}
	return "it has " + nameHosts(slices.Compact(slices.Clone(have)))
}

// summary is how many hosts and slots there are and who said so, for --dry-run and -v.
func (p place) summary() string {
	slots := 0
	for _, h := range p.hosts {
		slots += h.Slots
	}
	text := fmt.Sprintf("%d with %d slots, from %s", len(p.hosts), slots, p.source)
	if p.np > 0 {
		text += fmt.Sprintf(", which asks for %d ranks", p.np)
	}
	return text
}
