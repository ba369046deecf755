package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const procDir = "proc/driver/nvidia/gpus"

// fromProc reads the directory in which the driver describes its GPUs. It has
// no memory sizes.
func fromProc(root fs.FS) ([]Device, error) {
	entries, err := fs.ReadDir(root, procDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var devices []Device
	for _, e := range entries {
		text, err := fs.ReadFile(root, path.Join(procDir, e.Name(), "information"))
		if err != nil {
			return nil, err
		}
		d, usable := parseInformation(string(text))
		if d.BusID, err = parseBusID(e.Name()); err != nil {
			return nil, err
		}
		if usable {
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, byBusID)
	for i := range devices {
		devices[i].Index = i
	}
	return devices, nil
}

// parseInformation parses one GPU's information file: lines of key, colon and
// value. It returns false for a GPU that the administrator has excluded.
func parseInformation(text string) (d Device, usable bool) {
	d = unknown()
	usable = true
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Model":
			d.Name = value
		case "GPU UUID":
			// A GPU that was never opened has question marks.
			if !strings.Contains(value, "?") {
				d.UUID = value
			}
		case "Device Minor":
			if minor, err := strconv.ParseUint(value, 10, 16); err == nil {
				d.Minor = int(minor)
			}
		case "GPU Excluded", "Blacklisted": // the second in older drivers
			usable = value != "Yes"
		}
	}
	return d, usable
}

// parseBusID parses a PCI address and returns it in the format of /sys. The
// driver's programs write an eight-digit domain in capitals: 00000000:3B:00.0.
func parseBusID(s string) (string, error) {
	domain, rest, _ := strings.Cut(s, ":")
	bus, rest, _ := strings.Cut(rest, ":")
	device, function, _ := strings.Cut(rest, ".")
	var n [4]uint64
	for i, field := range []string{domain, bus, device, function} {
		var err error
		if n[i], err = strconv.ParseUint(field, 16, []int{32, 8, 5, 3}[i]); err != nil {
			return "", fmt.Errorf("%q is not a PCI address", s)
		}
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", n[0], n[1], n[2], n[3]), nil
}

// byBusID compares devices in the driver's order. A domain with more digits
// comes after all shorter ones.
func byBusID(a, b Device) int {
	return cmp.Or(cmp.Compare(len(a.BusID), len(b.BusID)), cmp.Compare(a.BusID, b.BusID))
}
