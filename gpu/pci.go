package gpu

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// addPlaces sets the locations of the devices from /sys under root: NUMA nodes, nearest cores and
// paths. It leaves fields that /sys does not have, and known paths, unchanged.
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

// nodeAt returns the NUMA node of the PCI device with the folder dir, or -1 if unknown.
func nodeAt(root fs.FS, dir string) int {
	if node, err := strconv.Atoi(line(root, path.Join(dir, "numa_node"))); err == nil {
		return max(node, -1)
	}
	return -1
}

// line returns the content of a one-line file, or "" if it cannot be read.
func line(root fs.FS, name string) string {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// wayTo returns the path from the host bridge to a device, both included, from the device's link in
// /sys, such as ../../../devices/pci0000:17/0000:17:00.0/0000:18:00.0. It returns nil for a link
// that is not a PCI device's.
func wayTo(link string) []string {
	_, way, _ := strings.Cut(link, "/devices/")
	hops := strings.Split(way, "/")
	for i, hop := range hops {
		if strings.HasPrefix(hop, "pci") { // platforms may have other components before it
			return hops[i:]
		}
	}
	return nil
}

// between returns the path of two devices. Ports of a switch are bridges, as is the host bridge's
// port above a switch: below the last common bridge, two devices of one switch have one port each.
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
