package hosts

import (
	"strings"

	"github.com/gorun/gorun/cmd/gorun/internal/rankfile"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// seatRanks returns the hosts of a run with a rankfile: those of flags or the scheduler, or else
// all that the file names.
func (s Finder) seatRanks(o *settings.Options) (Selection, error) {
	places, err := s.readRankfile(o.Rankfile)
	if err != nil {
		return Selection{}, err
	}
	if o.NP > len(places) {
		return Selection{}, usage.Errorf("add lines for the others", "-np %d, and %s places %s", o.NP, o.Rankfile,
			prose.Count(len(places), "rank"))
	}
	if o.NP > 0 {
		places = places[:o.NP]
	}
	var p Selection
	if o.Hosts != "" || o.Hostfile != "" {
		p, err = findHosts(o, s)
	} else if p, err = s.Defaults(); err == nil && p.Hosts == nil {
		p, err = namedIn(o.Rankfile, places)
	}
	if err != nil {
		return Selection{}, err
	}
	p.NP = len(places)
	for rank, place := range places {
		at := place.Index
		if place.Host != "" {
			at = indexOf(p.Hosts, place.Host)
		}
		switch {
		case at < 0:
			var names []string
			for _, h := range p.Hosts {
				names = append(names, h.Name)
			}
			return Selection{}, usage.Errorf(nearHosts(place.Host, names),
				"%s puts rank %d on %s, which is none of the hosts from %s", o.Rankfile, rank, place.Host, p.Source)
		case at >= len(p.Hosts):
			return Selection{}, usage.Errorf("+n0 is the first host",
				"%s puts rank %d on host +n%d, and there %s, from %s", o.Rankfile, rank, at, areHosts(len(p.Hosts)),
				p.Source)
		}
		p.Seats = append(p.Seats, Seat{at, place.Cores})
	}
	return p, nil
}

func (s Finder) readRankfile(name string) ([]rankfile.Place, error) {
	file, err := s.Open(name)
	if err != nil {
		return nil, usage.Errorf(usage.FileHint(name, "check the name after --rankfile"), "open the rankfile: %w", err)
	}
	defer file.Close()
	return rankfile.Parse(name, file)
}

// namedIn returns the hosts that a rankfile names, with a slot for each of their ranks.
func namedIn(name string, places []rankfile.Place) (Selection, error) {
	p := Selection{Source: "rankfile " + name}
	for _, place := range places {
		if place.Host == "" {
			return Selection{}, usage.Errorf("name the hosts with -H or --hostfile",
				"%s names a host by its index, +n%d, and there is no list of hosts", name, place.Index)
		}
		if at := indexOf(p.Hosts, place.Host); at >= 0 {
			p.Hosts[at].Slots++
			continue
		}
		list, err := hostfile.ParseList(place.Host)
		if err != nil {
			return Selection{}, hostsError(err)
		}
		named, err := list.Hosts()
		if err != nil {
			return Selection{}, hostsError(err)
		}
		p.Hosts = append(p.Hosts, named...)
	}
	return p, nil
}

// indexOf returns the index of the host with a name in a rankfile, or -1. An IPv6 address may stand
// in brackets.
func indexOf(hosts []hostfile.Host, name string) int {
	if strings.Contains(name, ":") {
		name = strings.NewReplacer("[", "", "]", "").Replace(name)
	}
	for i, h := range hosts {
		if h.Name == name || h.User+"@"+h.Name == name {
			return i
		}
	}
	return -1
}
