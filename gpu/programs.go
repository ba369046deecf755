package gpu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
)

const (
	programTime = 5 * time.Second // bounds a program, since a hanging driver never returns
	killTime    = 2 * time.Second // bounds the wait for a killed program, which may be stuck in the driver
	maxOutput   = 8 << 20
)

// HealthArgument makes gorun-gpu tell the health of GPUs, too. Older ones ignore it.
const HealthArgument = "health"

// fromHelper runs gorun-gpu, which uses the driver's library. It returns an fs.ErrNotExist if there
// is none, as fromSMI does.
func fromHelper(ctx context.Context, s Sources) (program string, devices []Device, err error) {
	program = s.Helper
	if s.Memory != nil {
		program = "gorun-gpu"
	}
	if program == "" {
		return "", nil, fs.ErrNotExist
	}
	var args []string
	if s.Health {
		args = []string{HealthArgument}
	}
	out, err := output(ctx, s.Memory, s.Helper, args...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.ExitCode() == 1 {
		return program, nil, &noDriverError{err}
	}
	if err != nil {
		return program, nil, err
	}
	devices, err = parseInventory(out)
	return program, devices, err
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

// fromSMI runs nvidia-smi, which comes with the driver. Old versions refuse unknown fields.
func fromSMI(ctx context.Context, s Sources) (program string, devices []Device, err error) {
	if s.SMI == nil {
		return "", nil, fs.ErrNotExist
	}
	program, err = s.SMI()
	if err != nil {
		return "nvidia-smi", nil, err
	}
	const old = "index,uuid,pci.bus_id,name,memory.total,memory.used,utilization.gpu"
	out, err := querySMI(ctx, program, old+",mig.mode.current")
	exit := (*exec.ExitError)(nil)
	if errors.As(err, &exit) && exit.ExitCode() == 2 { // nvidia-smi's code for an invalid argument
		out, err = querySMI(ctx, program, old)
	}
	if errors.As(err, &exit) && exit.Exited() {
		return program, nil, &noDriverError{err}
	}
	if err != nil {
		return program, nil, err
	}
	devices, err = parseSMI(string(out))
	return program, devices, err
}

func querySMI(ctx context.Context, program, fields string) ([]byte, error) {
	return output(ctx, nil, program, "--query-gpu="+fields, "--format=csv,noheader,nounits")
}

// parseSMI parses one device per line, with comma-separated values. Memory is in
// MiB, or text in brackets if unknown.
func parseSMI(text string) ([]Device, error) {
	var devices []Device
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line == "No devices were found" {
			continue
		}
		f := strings.Split(line, ",")
		if len(f) != 7 && len(f) != 8 {
			return nil, fmt.Errorf("expected 7 or 8 values in %.200q", line)
		}
		f = append(f, "[N/A]") // without MIG
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		index, err := strconv.Atoi(f[0])
		if err != nil || index != len(devices) {
			return nil, fmt.Errorf("expected device %d in %.200q", len(devices), line)
		}
		total, err := mebibytes(f[4])
		if err != nil {
			return nil, fmt.Errorf("%w in %.200q", err, line)
		}
		used, err := mebibytes(f[5])
		if err != nil {
			return nil, fmt.Errorf("%w in %.200q", err, line)
		}
		d := unknown()
		if d.BusID, err = parseBusID(f[2]); err != nil {
			return nil, err
		}
		if busy, err := strconv.ParseUint(f[6], 10, 7); err == nil {
			d.Utilization = int(busy)
		}
		d.Index = index
		d.UUID = known(f[1])
		d.Name = known(f[3])
		d.MemoryBytes = total
		d.MemoryUsed = used
		d.MIGEnabled = f[7] == "Enabled"
		devices = append(devices, d)
	}
	return devices, nil
}

// mebibytes parses a size in MiB; it is 0 if unknown.
func mebibytes(value string) (bytes uint64, err error) {
	mib, err := strconv.ParseUint(value, 10, 32)
	if err != nil && known(value) != "" {
		return 0, fmt.Errorf("expected a memory size in MiB, not %.200q,", value)
	}
	return mib << 20, nil
}

// known returns a value of nvidia-smi, or "" if it is [N/A] or the like.
func known(value string) string {
	if strings.HasPrefix(value, "[") {
		return ""
	}
	return value
}

// noDriverError reports that a program exited because it found no driver.
type noDriverError struct{ err error }

func (e *noDriverError) Error() string { return e.err.Error() }
func (e *noDriverError) Unwrap() error { return e.err }

// output runs a program, or the executable in a file, and returns its output. For a program that is
// not there the error is an fs.ErrNotExist or an exec.ErrNotFound.
func output(ctx context.Context, executable *os.File, program string, args ...string) ([]byte, error) {
	late := fmt.Errorf("it did not end within %v", programTime)
	ctx, cancel := context.WithTimeoutCause(ctx, programTime, late)
	defer cancel()
	stdout := &limited{}
	stderr := &limited{}
	if executable != nil {
		program = "/proc/self/fd/3"
	}
	cmd := exec.CommandContext(ctx, program, args...)
	if executable != nil {
		cmd.ExtraFiles = []*os.File{executable}
	}
	cmd.Dir = trust.StartDir() // an empty entry of LD_LIBRARY_PATH is the working directory, which others may own
	cmd.Env = trust.Environ(os.Environ())
	cmd.Stdout = stdout
	cmd.Stderr = stderr
	cmd.WaitDelay = killTime / 2 // children may keep the pipe open after the program has ended
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-after(ctx, killTime):
		return nil, fmt.Errorf("%w, and does not even when killed", late)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if stdout.full || stderr.full {
		return nil, errors.New("it printed too much")
	}
	if said, _, _ := strings.Cut(strings.TrimSpace(stderr.held.String()), "\n"); err != nil && said != "" {
		return nil, fmt.Errorf("%w: %.200s", err, said)
	}
	if err != nil {
		return nil, err
	}
	return stdout.held.Bytes(), nil
}

// after is closed some time after ctx has ended.
func after(ctx context.Context, delay time.Duration) <-chan struct{} {
	over := make(chan struct{})
	context.AfterFunc(ctx, func() { time.AfterFunc(delay, func() { close(over) }) })
	return over
}

// limited keeps a program's output up to a limit.
type limited struct {
	held bytes.Buffer
	full bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.held.Len()+len(p) > maxOutput {
		l.full = true
		return 0, io.ErrShortWrite
	}
	return l.held.Write(p)
}
