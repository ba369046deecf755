// Package gpu lists the GPUs of this machine and deals them to its local ranks.
//
// It needs no library: [List] reads what the NVIDIA driver shows in /proc and
// /sys, and only where that shows nothing it asks a program, gorun-gpu or
// nvidia-smi. [Details] asks them in any case. A machine without GPUs is the
// normal case and no error: nothing is run there.
package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// Sources are the places that know GPUs.
type Sources struct {
	Root   fs.FS    // the machine's root directory, for /proc, /sys and /dev
	Helper string   // the gorun-gpu program; "" leaves it out
	Memory *os.File // gorun-gpu's executable, which lies in no folder, in Helper's place; nil: there is none
	SMI    string   // the nvidia-smi program, a path or a name on PATH; "" leaves it out
}

// Machine returns this machine's sources. helper is the path of gorun-gpu, or
// "" where it is not installed.
func Machine(helper string) Sources {
	return Sources{Root: os.DirFS("/"), Helper: helper, SMI: "nvidia-smi"}
}

// Inventory is what is known of a machine's GPUs. The gorun-gpu program prints it as JSON.
type Inventory struct {
	Devices []Device `json:"devices"`
	// Warnings are why less is known of the devices than could be.
	Warnings []string `json:"warnings,omitempty"`
}

// Present reports whether the machine shows any sign of an NVIDIA GPU that its kernel drives: nobody needs
// to ask a program else.
func Present(root fs.FS) bool {
	if entries, err := fs.ReadDir(root, procDir); err == nil {
		return len(entries) > 0
	}
	// Where /proc shows nothing: some sandboxes, and Windows' Linux.
	return slices.ContainsFunc([]string{"dev/nvidiactl", "dev/dxg"}, func(name string) bool {
		_, err := fs.Stat(root, name)
		return err == nil
	})
}

// List returns the GPUs of the machine in the order of their indices, none if
// there are none, cheaply: no program is run where /proc shows the GPUs. The programs are killed when ctx ends.
//
// A source that is not there, or that exits with a status because it finds no
// driver, has no GPU to tell of. A source that breaks in another way is passed
// over too; what happened to it is the error when no other source knows a GPU.
func List(ctx context.Context, s Sources) ([]Device, error) {
	devices, err := fromProc(s.Root)
	if len(devices) > 0 {
		addPlaces(s.Root, devices)
		return devices, nil
	}
	inv, asked := ask(ctx, s)
	return inv.Devices, errors.Join(prefixed("/proc/driver/nvidia", err), asked)
}

// Details is List with what only the driver knows: memory, utilization, MIG instances, NVLinks, processes. It
// takes as long as the driver does, at most some seconds per program. When no program tells, it
// returns what List would, and warnings. Devices that /proc shows and the driver does not let this
// process use are left out.
func Details(ctx context.Context, s Sources) (Inventory, error) {
	shown, err := fromProc(s.Root)
	inv, asked := ask(ctx, s)
	if ctx.Err() != nil {
		return Inventory{}, asked
	}
	if len(shown) == 0 {
		return inv, errors.Join(prefixed("/proc/driver/nvidia", err), asked)
	}
	if len(inv.Devices) == 0 {
		inv.Devices = shown
		addPlaces(s.Root, inv.Devices)
		if len(inv.Warnings) == 0 {
			inv.Warnings = []string{"neither gorun-gpu nor nvidia-smi is there to ask the driver"}
		}
	}
	for i, d := range inv.Devices {
		if at := slices.IndexFunc(shown, func(p Device) bool { return p.BusID == d.BusID }); at >= 0 {
			inv.Devices[i] = merge(d, shown[at])
		}
	}
	return inv, nil
}

// merge is what the driver's library says of a device, and what /proc says where that is silent.
func merge(d, shown Device) Device {
	if d.UUID == "" {
		d.UUID = shown.UUID
	}
	if d.Name == "" {
		d.Name = shown.Name
	}
	if d.Minor < 0 {
		d.Minor = shown.Minor
	}
	return d
}

// ask asks the programs, one after the other, until one knows a GPU. The warnings are about those before it;
// err is what broke when none knows any.
func ask(ctx context.Context, s Sources) (inv Inventory, err error) {
	if !Present(s.Root) {
		return inv, nil
	}
	helper := s.Helper
	if s.Memory != nil {
		helper = "gorun-gpu"
	}
	var errs []error
	for _, source := range []struct {
		name string
		list func(context.Context) ([]Device, error)
	}{
		{helper, func(ctx context.Context) ([]Device, error) { return fromHelper(ctx, s) }},
		{s.SMI, func(ctx context.Context) ([]Device, error) { return fromSMI(ctx, s.SMI) }},
	} {
		if source.name == "" {
			continue
		}
		devices, err := source.list(ctx)
		if ctx.Err() != nil {
			return Inventory{}, fmt.Errorf("list GPUs: %w", context.Cause(ctx))
		}
		if len(devices) > 0 {
			addPlaces(s.Root, devices)
			inv.Devices = devices
			return inv, nil
		}
		if errors.Is(err, errAbsent) {
			continue
		}
		if err == nil {
			err = &noDriverError{errors.New("it knows of none")}
		}
		err = prefixed(source.name, err)
		inv.Warnings = append(inv.Warnings, err.Error())
		if none := (*noDriverError)(nil); !errors.As(err, &none) {
			errs = append(errs, err)
		}
	}
	return inv, errors.Join(errs...)
}

// prefixed says of which source err is.
func prefixed(source string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("list GPUs with %s: %w", source, err)
}
