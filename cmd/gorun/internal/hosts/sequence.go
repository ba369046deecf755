package hosts

import (
	"slices"

	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher/transport"
)

// seatInSequence returns the hosts of --map-by seq: each mention in -H or the hostfile is the place
// of one rank, whatever its slots.
func (s Finder) seatInSequence(o *settings.Options) (Selection, error) {
	var list hostfile.List
	var source string
	var err error
	switch {
	case o.Hostfile != "" && o.Hosts != "":
		return Selection{}, usage.Errorf("leave one of them out",
			"--map-by seq takes the hosts in the order of -H or of --hostfile, and there are both")
	case o.Hostfile != "":
		source = "hostfile " + o.Hostfile
		list, err = s.parseHostfile(o.Hostfile)
	case o.Hosts != "":
		source = "-H"
		list, err = hostfile.ParseList(o.Hosts)
		err = hostsError(err)
	default:
		return Selection{}, usage.Errorf("name the hosts with --hostfile, a line for each rank",
			"--map-by seq needs a list of hosts")
	}
	if err != nil {
		return Selection{}, err
	}
	hosts, err := list.Hosts()
	if err != nil {
		return Selection{}, hostsError(err)
	}
	places := list.Mentions()
	if o.NoLocal {
		here := func(h hostfile.Host) bool { return transport.IsLocal(h, s.Hostname) }
		hosts = slices.DeleteFunc(hosts, here)
		places = slices.DeleteFunc(places, here)
	}
	switch {
	case len(places) == 0:
		return Selection{}, usage.Errorf("name others", "--no-local: the only host is this machine, from %s", source)
	case o.NP > len(places):
		return Selection{}, usage.Errorf("add a mention for each of the others", "-np %d, and %s has %s", o.NP, source,
			prose.Count(len(places), "place"))
	case o.NP > 0:
		places = places[:o.NP]
	}
	p := Selection{
		Hosts:    hosts,
		NP:       len(places),
		Source:   source,
		Warnings: list.Warnings,
	}
	for _, place := range places {
		at := slices.IndexFunc(hosts, func(h hostfile.Host) bool {
			return h.Name == place.Name && h.User == place.User && h.Port == place.Port
		})
		p.Seats = append(p.Seats, Seat{Host: at})
	}
	return p, nil
}
