package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Inventory is what the gorun-gpu program prints, as JSON.
type Inventory struct {
	Devices []Device `json:"devices"`
}

// fromHelper asks the gorun-gpu program, which asks the driver's own library.
func fromHelper(ctx context.Context, program string) ([]Device, error) {
	out, err := output(ctx, program)
	if err != nil || out == nil {
		return nil, err
	}
	return parseInventory(out)
}

func parseInventory(text []byte) ([]Device, error) {
	var inv Inventory
	if err := json.Unmarshal(text, &inv); err != nil {
		return nil, fmt.Errorf("read its inventory: %w", err)
	}
	for i, d := range inv.Devices {
		if d.Index != i {
			return nil, fmt.Errorf("read its inventory: device %d is in place %d", d.Index, i)
		}
		id, err := parseBusID(d.BusID)
		if err != nil {
			return nil, fmt.Errorf("read its inventory: %w", err)
		}
		inv.Devices[i].BusID = id
	}
	return inv.Devices, nil
}

// fromSMI asks nvidia-smi, which comes with the driver.
func fromSMI(ctx context.Context, program string) ([]Device, error) {
	out, err := output(ctx, program,
		"--query-gpu=index,uuid,pci.bus_id,name,memory.total", "--format=csv,noheader,nounits")
	if err != nil || out == nil {
		return nil, err
	}
	return parseSMI(string(out))
}

// parseSMI reads one device a line, its values parted by commas. Memory is in
// MiB, or text in brackets where the device does not tell.
func parseSMI(text string) ([]Device, error) {
	var devices []Device
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line == "No devices were found" {
			continue
		}
		f := strings.Split(line, ",")
		if len(f) != 5 {
			return nil, fmt.Errorf("expected 5 values in %q", line)
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		index, err := strconv.Atoi(f[0])
		if err != nil || index != len(devices) {
			return nil, fmt.Errorf("expected device %d in %q", len(devices), line)
		}
		mib, err := strconv.ParseUint(f[4], 10, 32)
		if err != nil && told(f[4]) != "" {
			return nil, fmt.Errorf("expected a memory size in MiB at the end of %q", line)
		}
		id, err := parseBusID(f[2])
		if err != nil {
			return nil, err
		}
		devices = append(devices, Device{
			Index: index, UUID: told(f[1]), BusID: id, Name: told(f[3]),
			NUMANode: -1, MemoryBytes: mib << 20,
		})
	}
	return devices, nil
}

// told is a value that nvidia-smi prints, or "" for one such as [N/A].
func told(value string) string {
	if strings.HasPrefix(value, "[") {
		return ""
	}
	return value
}

// output runs a program and returns what it printed. It returns nil and no
// error when the program does not exist or exits with a status of its own,
// which is how both programs say that there is no driver.
func output(ctx context.Context, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.WaitDelay = time.Second // for children that keep the pipe open
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.As(err, &exit) && exit.Exited():
		return nil, nil
	case err != nil:
		return nil, err
	}
	return out, nil
}
