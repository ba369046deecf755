// Package gpu lists the GPUs of this machine and assigns them to local ranks.
//
// It needs no library. [List] reads /proc and /sys of the NVIDIA driver, and
// runs gorun-gpu or nvidia-smi only if they show nothing. [Details] always runs
// one of them. A machine without GPUs is no error, and nothing is run there.
package gpu

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"

	"github.com/gorun/gorun/internal/files/trust"
)

// Sources are the sources of information on GPUs.
type Sources struct {
	Root   fs.FS    // the machine's root directory, for /proc, /sys and /dev
	Helper string   // path of the gorun-gpu program; "" skips it
	Memory *os.File // an open gorun-gpu executable to use instead of Helper; nil means none
	// SMI returns the path of nvidia-smi when that is to run, or why it may not; nil skips it.
	SMI    func() (path string, err error)
	Health bool // whether gorun-gpu also reports the GPUs' health, which takes longer
}

// Machine returns this machine's sources. helper is the path of gorun-gpu, or "" if it is not
// installed. nvidia-smi is looked for when it is asked, among programs that nobody but the user and
// root can have changed.
func Machine(helper string) Sources {
	find := func() (string, error) { return trust.Program("nvidia-smi", os.Getenv("PATH")) }
	return Sources{Root: os.DirFS("/"), Helper: helper, SMI: find}
}

// Inventory is the known GPUs of a machine. gorun-gpu prints it as JSON.
type Inventory struct {
	Devices []Device `json:"devices"`
	// Warnings explain why fields of the devices are unknown.
	Warnings []string `json:"warnings,omitempty"`
}

// Present reports whether the machine shows any sign of an NVIDIA GPU driven by its kernel. Without
// one there is no reason to run a program.
func Present(root fs.FS) bool {
	if entries, err := fs.ReadDir(root, procDir); err == nil {
		return len(entries) > 0
	}
	// Some sandboxes and WSL show nothing in /proc.
	return slices.ContainsFunc([]string{"dev/nvidiactl", "dev/dxg"}, func(name string) bool {
		_, err := fs.Stat(root, name)
		return err == nil
	})
}

// List returns the GPUs of the machine in index order. It is cheap: no program
// runs if /proc shows the GPUs. Programs are killed when ctx ends.
//
// A missing source, or one that exits because it finds no driver, counts as no
// GPU. A source that fails otherwise is skipped; its failure is the error if no
// other source knows a GPU.
func List(ctx context.Context, s Sources) ([]Device, error) {
	devices, err := fromProc(s.Root)
	if len(devices) > 0 {
		addPlaces(s.Root, devices)
		return devices, nil
	}
	inv, asked := ask(ctx, s)
	return inv.Devices, errors.Join(prefixed("/proc/driver/nvidia", err), asked)
}

// Details returns the GPUs with the fields that only the driver knows: memory, utilization, MIG
// instances, NVLinks, processes. It takes up to some seconds per program. If no program succeeds,
// it returns the result of List with warnings. It omits devices that the driver does not let this
// process use.
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

// merge returns the library's description of a device, completed from /proc.
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

// ask runs the programs in order until one knows a GPU. The warnings are about earlier ones; err is
// the failure if none knows a GPU.
func ask(ctx context.Context, s Sources) (inv Inventory, err error) {
	if !Present(s.Root) {
		return inv, nil
	}
	var errs []error
	for _, list := range []func(context.Context, Sources) (string, []Device, error){fromHelper, fromSMI} {
		program, devices, err := list(ctx, s)
		if ctx.Err() != nil {
			return Inventory{}, fmt.Errorf("list GPUs: %w", context.Cause(ctx))
		}
		if len(devices) > 0 {
			addPlaces(s.Root, devices)
			inv.Devices = devices
			return inv, nil
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			continue
		}
		if err == nil {
			err = &noDriverError{errors.New("it knows of none")}
		}
		err = prefixed(program, err)
		inv.Warnings = append(inv.Warnings, err.Error())
		if none := (*noDriverError)(nil); !errors.As(err, &none) {
			errs = append(errs, err)
		}
	}
	return inv, errors.Join(errs...)
}

// prefixed adds the name of the source to err.
func prefixed(source string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("list GPUs with %s: %w", source, err)
}
