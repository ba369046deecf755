package seat

import (
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/net/wire"
)

// Interfaces are the network interfaces of this host for libraries that open sockets themselves;
// "": the library chooses.
type Interfaces struct {
	Name string // name of the interface with the host's address
	NCCL string // as NCCL_SOCKET_IFNAME names them
}

// Interfaces chooses among the host's addresses for the ranks of a job that starts.
func (h *Host) Interfaces(own []wire.Address, job wire.Job, start wire.Start) (n Interfaces) {
	elastic := job.Elastic != nil // other hosts may come later, and ranks keep their environment
	if len(start.Addrs) > 0 {
		n.Name = interfaceOf(own, start.Addrs[0], len(job.Ranks) == job.Size && !elastic)
	}
	if len(start.Interfaces) == 0 && n.Name != "" {
		start.Interfaces = []string{n.Name}
		start.Asked = start.Asked || elastic
	}
	n.NCCL = socketInterfaces(os.DirFS("/"), start, own, h.BusIDs)
	return n
}

// interfaceOf names the interface that has addr, where ranks of other hosts reach those of this
// one; alone, with all ranks here, it is loopback's. It is "" if no interface has the address.
func interfaceOf(own []wire.Address, addr string, alone bool) string {
	want, _ := netip.ParseAddr(addr)
	want = want.WithZone("")
	for _, a := range own {
		has := a.Prefix.Addr().WithZone("")
		if alone && a.Loopback && has.Is4() || !alone && has.IsValid() && has == want {
			return a.Interface
		}
	}
	return ""
}

// socketInterfaces is NCCL_SOCKET_IFNAME for all ranks of this host: of the launcher's interfaces,
// those nearest to the GPUs. All ranks of a host get the same ones, because each computes the
// routes through the host and the results must agree. It is "" where NCCL would choose among the
// same interfaces by default.
func socketInterfaces(root fs.FS, start wire.Start, own []wire.Address, busIDs []string) string {
	wanted := gpu.NearestNICs(root, busIDs, start.Interfaces)
	if len(wanted) == 0 || !start.Asked && same(wanted, usualInterfaces(own)) {
		return ""
	}
	text := strings.Join(wanted, ",")
	if slices.ContainsFunc(own, func(a wire.Address) bool { return mistaken(a.Interface, wanted) }) {
		return "=" + text // names are exact
	}
	return text
}

// mistaken reports whether NCCL would take name for one that is wanted: names are prefixes.
func mistaken(name string, wanted []string) bool {
	return !slices.Contains(wanted, name) && slices.ContainsFunc(wanted, func(w string) bool {
		return strings.HasPrefix(name, w)
	})
}

// usualInterfaces lists those that NCCL uses by default: InfiniBand's if there are any, else all
// but loopback's and Docker's. NCCL 2.24 and later leave out virbr, too; here they count, for older
// versions.
func usualInterfaces(own []wire.Address) (names []string) {
	var infiniband []string
	for _, a := range own {
		switch {
		case !a.Prefix.IsValid() || a.Loopback || strings.HasPrefix(a.Interface, "docker"):
		case strings.HasPrefix(a.Interface, "ib"):
			infiniband = append(infiniband, a.Interface)
		default:
			names = append(names, a.Interface)
		}
	}
	if infiniband != nil {
		return infiniband
	}
	return names
}

// same reports whether two lists have the same names, in any order, repeated or not.
func same(a, b []string) bool {
	set := func(list []string) []string { return slices.Compact(slices.Sorted(slices.Values(list))) }
	return slices.Equal(set(a), set(b))
}
