package route

import (
	"fmt"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/launcher/plan"
)

// SameMachine returns a line for every machine with several of the hosts' names.
// Boot id and hostname identify a machine. It is pure.
func SameMachine(hosts []plan.Host, contacts []Contact) (notes []string) {
	byMachine := map[string][]string{}
	var machines []Contact // machines of several hosts, in order of appearance
	for i, c := range contacts {
		if c.Boot == "" {
			continue
		}
		names := append(byMachine[c.machine()], loginName(hosts[i].Host))
		byMachine[c.machine()] = names
		if len(names) == 2 {
			machines = append(machines, c)
		}
	}
	for _, c := range machines {
		notes = append(notes, fmt.Sprintf("%s are one machine (%s): their ranks share its cores and GPUs",
			prose.And(byMachine[c.machine()]), prose.Printable(c.Hostname)))
	}
	return notes
}

// loginName returns the host with user and port, which distinguish it from others of its name.
func loginName(h hostfile.Host) string {
	name := h.Name
	if h.User != "" {
		name = h.User + "@" + name
	}
	if h.Port != 0 {
		name += fmt.Sprintf(" port %d", h.Port)
	}
	return name
}
