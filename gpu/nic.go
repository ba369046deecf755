package gpu

import (
	"io/fs"
	"path"
	"slices"
	"strings"
)

// bondDepth bounds the layers of interfaces, such as a VLAN on a bond of ports.
const bondDepth = 3

// NearestNICs returns the network interfaces that are nearest to the GPUs with these PCI addresses:
// the union, over the GPUs, of the interfaces with the shortest PCI path. root is the machine's
// root directory, for /sys. Interfaces without a known location, such as bridges and virtual cards,
// count as nearest; so do all interfaces for a GPU without a known location.
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

// place is the location of a device.
type place struct {
	way  []string
	node int // -1 if unknown
}

// placeAt follows a link in /sys to a PCI device, or to a child of one.
func placeAt(root fs.FS, link string) (p place, known bool) {
	target, err := fs.ReadLink(root, link)
	if err != nil {
		return p, false
	}
	way := wayTo(target)
	last := slices.IndexFunc(way, func(hop string) bool { return !strings.HasPrefix(hop, "pci") && !isAddress(hop) })
	if last >= 0 { // net/eth0, or a driver's own device, has the location of its PCI device
		way = way[:last]
	}
	if len(way) < 2 {
		return p, false
	}
	return place{way: way, node: nodeAt(root, path.Join("sys/bus/pci/devices", way[len(way)-1]))}, true
}

// isAddress reports whether s is a PCI address such as 0000:18:00.0.
func isAddress(hop string) bool {
	return strings.Count(hop, ":") == 2 && strings.Count(hop, ".") == 1
}

// portsOf returns the locations of the cards that an interface sends through: its own, or those of
// the interfaces below it. It returns none for an interface without a card, or if a location is
// unknown.
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

// nearestOf returns the shortest path between a GPU and one of several cards.
func nearestOf(gpu place, ports []place) Path {
	best := System
	for _, p := range ports {
		best = min(best, between(gpu.way, p.way, gpu.node >= 0 && gpu.node == p.node))
	}
	return best
}
