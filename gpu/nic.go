package gpu

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// bondDepth is how many interfaces may stand on each other: a VLAN on a bond of ports.
const bondDepth = 3

// NearestNICs chooses of a machine's network interfaces those that are nearest to GPUs with these PCI addresses: for each GPU
// the ones with the least between it and them, and of these the whole. root is the machine's root directory, for /sys. What is
// not known to be anywhere, as bridges and virtual cards are not, is as near as anything; so all are nearest where a GPU's
// place is not known.
func NearestNICs(root fs.FS, busIDs, nics []string) (nearest []string) {
	if len(busIDs) == 0 || len(nics) < 2 {
		return nics
	}
	ports := make([][]place, len(nics))
	for i, nic := range nics {
		ports[i] = portsOf(root, nic, bondDepth)
	}
	chosen := make([]bool, len(nics))
	for _, id := range busIDs {
		gpu, known := placeAt(root, path.Join("sys/bus/pci/devices", id))
		if !known {
			return nics
		}
		best := System
		for _, own := range ports {
			best = min(best, nearestOf(gpu, own))
		}
		for i, own := range ports {
			chosen[i] = chosen[i] || len(own) == 0 || nearestOf(gpu, own) == best
		}
	}
	for i, nic := range nics {
		if chosen[i] {
			nearest = append(nearest, nic)
		}
	}
	return nearest
}

// place is where a device hangs.
type place struct {
	way  []string
	node int // -1 where not known
}

// placeAt follows a link in /sys to a PCI device, or to something that belongs to one.
func placeAt(root fs.FS, link string) (p place, known bool) {
	target, err := fs.ReadLink(root, link)
	if err != nil {
		return p, false
	}
	way := wayTo(target)
	last := slices.IndexFunc(way, func(hop string) bool { return !strings.HasPrefix(hop, "pci") && !isAddress(hop) })
	if last >= 0 { // net/eth0, or a driver's own devices, which are in no other place
		way = way[:last]
	}
	if len(way) < 2 {
		return p, false
	}
	return place{way: way, node: nodeAt(root, path.Join("sys/bus/pci/devices", way[len(way)-1]))}, true
}

// isAddress reports a PCI address: 0000:18:00.0.
func isAddress(hop string) bool {
	return strings.Count(hop, ":") == 2 && strings.Count(hop, ".") == 1
}

// portsOf are the places of the cards that an interface sends by: its own, or those of the interfaces below it. There are none
// where it stands on nothing, or on something whose place is not known.
func portsOf(root fs.FS, nic string, depth int) (ports []place) {
	dir := path.Join("sys/class/net", nic)
	if p, known := placeAt(root, dir); known {
		return []place{p}
	}
	if depth == 0 {
		return nil
	}
	lower, _ := fs.Glob(root, path.Join(dir, "lower_*"))
	for _, link := range lower {
		below := portsOf(root, strings.TrimPrefix(path.Base(link), "lower_"), depth-1)
		if len(below) == 0 {
			return nil
		}
		ports = append(ports, below...)
	}
	return ports
}

// nearestOf is what lies at least between a GPU and one of several cards.
func nearestOf(gpu place, ports []place) Path {
	best := System
	for _, p := range ports {
		best = min(best, between(gpu.way, p.way, gpu.node >= 0 && gpu.node == p.node))
	}
	return best
}
