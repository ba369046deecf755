// Package gpu lists the GPUs of this machine and deals them to its local ranks.
//
// It needs no library: [List] reads what the NVIDIA driver shows in /proc and
// /sys, and only where that shows nothing it asks a program, gorun-gpu or
// nvidia-smi. A machine without GPUs is the normal case and no error.
package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Sources are the places [List] asks, in this order, until one knows a GPU.
type Sources struct {
	Root   fs.FS  // the machine's root directory, for /proc and /sys
	Helper string // the gorun-gpu program; "" leaves it out
	SMI    string // the nvidia-smi program, a path or a name on PATH; "" leaves it out
}

// Machine returns this machine's sources. helper is the path of gorun-gpu, or
// "" where it is not installed.
func Machine(helper string) Sources {
	return Sources{Root: os.DirFS("/"), Helper: helper, SMI: "nvidia-smi"}
}

// List returns the GPUs of the machine in the order of their indices, none if
// there are none. The programs it may run are killed when ctx ends.
//
// A source that is not there, or that exits with a status because it finds no
// driver, has no GPU to tell of. A source that breaks in another way is passed
// over too; what happened to it is the error when no other source knows a GPU.
func List(ctx context.Context, s Sources) ([]Device, error) {
	var errs []error
	for _, source := range []struct {
		name string
		list func() ([]Device, error)
	}{
		{"/proc/driver/nvidia", func() ([]Device, error) { return fromProc(s.Root) }},
		{s.Helper, func() ([]Device, error) { return fromHelper(ctx, s.Helper) }},
		{s.SMI, func() ([]Device, error) { return fromSMI(ctx, s.SMI) }},
	} {
		if source.name == "" {
			continue
		}
		devices, err := source.list()
		switch {
		case ctx.Err() != nil:
			return nil, fmt.Errorf("list GPUs: %w", context.Cause(ctx))
		case err != nil:
			errs = append(errs, fmt.Errorf("list GPUs with %s: %w", source.name, err))
		case len(devices) > 0:
			AddNUMA(s.Root, devices)
			return devices, nil
		}
	}
	return nil, errors.Join(errs...)
}

// fromProc reads the directory in which the driver describes every GPU it
// holds. It knows no memory sizes.
func fromProc(root fs.FS) ([]Device, error) {
	const dir = "proc/driver/nvidia/gpus"
	entries, err := fs.ReadDir(root, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var devices []Device
	for _, e := range entries {
		text, err := fs.ReadFile(root, path.Join(dir, e.Name(), "information"))
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

// parseInformation reads one GPU's information file: lines of key, colon and
// value. It reports false for a GPU that the administrator excluded from use.
func parseInformation(text string) (d Device, usable bool) {
	d.NUMANode = -1
	usable = true
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Model":
			d.Name = value
		case "GPU UUID":
			// Question marks stand where the GPU was never opened.
			if !strings.Contains(value, "?") {
				d.UUID = value
			}
		case "GPU Excluded":
			usable = value != "Yes"
		}
	}
	return d, usable
}

// AddNUMA sets the NUMA node of every device from /sys under root. It leaves
// alone the devices that /sys does not place.
func AddNUMA(root fs.FS, devices []Device) {
	for i, d := range devices {
		name := path.Join("sys/bus/pci/devices", d.BusID, "numa_node")
		text, err := fs.ReadFile(root, name)
		if err != nil {
			continue
		}
		if node, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && node >= 0 {
			devices[i].NUMANode = node
		}
	}
}

// parseBusID reads a PCI address and spells it as /sys does. The driver's
// programs write the domain with eight digits and capitals: 00000000:3B:00.0.
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

// byBusID orders devices as the driver numbers them. A domain with more digits
// comes after all the shorter ones.
func byBusID(a, b Device) int {
	return cmp.Or(cmp.Compare(len(a.BusID), len(b.BusID)), cmp.Compare(a.BusID, b.BusID))
}
