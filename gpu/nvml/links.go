//go:build cgo

package nvml

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gorun/gorun/gpu"
)

// link is the far end of an active NVLink.
type link struct {
	bus    string // PCI address of the peer
	toward nvml.IntNvLinkDeviceType
}

func (d *driver) linksOf(handle nvml.Device) (all []link) {
	if !d.has("GetNvLinkState", "GetNvLinkRemotePciInfo") {
		return nil
	}
	typed := d.has("GetNvLinkRemoteDeviceType")
	for i := range nvml.NVLINK_MAX_LINKS {
		state, ret := handle.GetNvLinkState(i)
		if ret == nvml.ERROR_NOT_SUPPORTED || ret == nvml.ERROR_INVALID_ARGUMENT {
			break // past its last link
		}
		if ret != nvml.SUCCESS || state != nvml.FEATURE_ENABLED {
			continue
		}
		l := link{toward: nvml.NVLINK_DEVICE_TYPE_UNKNOWN}
		if typed {
			if t, ret := handle.GetNvLinkRemoteDeviceType(i); ret == nvml.SUCCESS {
				l.toward = t
			}
		}
		if pci, ret := handle.GetNvLinkRemotePciInfo(i); ret == nvml.SUCCESS {
			l.bus = busID(pci)
		}
		all = append(all, l)
	}
	return all
}

// connect sets the links and paths from device i to the others, after all were described.
func (d *driver) connect(i int) {
	g := &d.devices[i]
	ancestors := d.has("GetTopologyCommonAncestor")
	for j, peer := range d.handles {
		if i == j {
			continue
		}
		if n := linksBetween(d.links[i], d.links[j], d.devices[j].BusID); n > 0 {
			if g.NVLinks == nil {
				g.NVLinks = map[int]int{}
			}
			g.NVLinks[j] = n
		}
		if !ancestors {
			continue
		}
		if level, ret := d.handles[i].GetTopologyCommonAncestor(peer); ret == nvml.SUCCESS {
			if g.Paths == nil {
				g.Paths = map[int]gpu.Path{}
			}
			g.Paths[j] = gpu.Path(level)
		}
	}
}

// linksBetween returns the number of NVLinks from one GPU to another at the address bus: direct
// ones, and those through switches, which connect every link of a machine with every other.
func linksBetween(from, to []link, bus string) int {
	direct := 0
	for _, l := range from {
		if l.bus == bus {
			direct++
		}
	}
	return direct + min(switched(from), switched(to))
}

// switched returns the number of links to a switch.
func switched(links []link) (n int) {
	for _, l := range links {
		if l.toward == nvml.NVLINK_DEVICE_TYPE_SWITCH {
			n++
		}
	}
	return n
}
