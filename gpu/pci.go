package gpu

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// addPlaces sets what /sys under root says of where the devices are: NUMA nodes, the cores next to them, and
// what lies between them. It leaves alone what /sys does not say, and the paths that are known.
func addPlaces(root fs.FS, devices []Device) {
	ways := make([][]string, len(devices))
	for i := range devices {
		d := &devices[i]
		dir := path.Join("sys/bus/pci/devices", d.BusID)
		if node := nodeAt(root, dir); node >= 0 {
			d.NUMANode = node
		}
		if cpus := line(root, path.Join(dir, "local_cpulist")); cpus != "" {
			d.CPUs = cpus
		}
		if target, err := fs.ReadLink(root, dir); err == nil {
			ways[i] = wayTo(target)
		}
	}
	for i := range devices {
		for j := range devices {
			_, known := devices[i].Paths[j]
			if i == j || known || ways[i] == nil || ways[j] == nil {
				continue
			}
			if devices[i].Paths == nil {
				devices[i].Paths = map[int]Path{}
			}
			devices[i].Paths[j] = between(ways[i], ways[j], devices[i].NUMANode == devices[j].NUMANode)
		}
	}
}

// nodeAt is the NUMA node of the PCI device whose folder dir is; -1 where not known.
func nodeAt(root fs.FS, dir string) int {
	if node, err := strconv.Atoi(line(root, path.Join(dir, "numa_node"))); err == nil {
		return max(node, -1)
	}
	return -1
}

// line is a small file's content without the line's end; "" where it cannot be read.
func line(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// wayTo is the way from the host bridge to a device, both included, that the device's link in /sys spells:
// ../../../devices/pci0000:17/0000:17:00.0/0000:18:00.0. It is nil if that is no PCI device's.
func wayTo(link string) []string {
	_, way, _ := strings.Cut(link, "/devices/")
	hops := strings.Split(way, "/")
	for i, hop := range hops {
		if strings.HasPrefix(hop, "pci") { // platforms may have parts of their own before it
			return hops[i:]
		}
	}
	return nil
}

// between is what two devices' ways cross. Ports of a switch are bridges, as is the port of the host bridge
// that a switch hangs on: below the last common one, two devices of one switch have a port each.
func between(a, b []string, sameNode bool) Path {
	common := 0
	for common < min(len(a), len(b))-1 && a[common] == b[common] {
		common++
	}
	switch rest := max(len(a), len(b)) - common; {
	case common == 0 && sameNode:
		return Node
	case common == 0:
		return System
	case common == 1:
		return HostBridge
	case rest <= 2:
		return SingleSwitch
	}
	return MultipleSwitches
}
