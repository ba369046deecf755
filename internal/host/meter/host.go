package meter

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
)

// sector is the unit of /proc/diskstats, whatever the disk's own.
const sector = 512

// Host returns the use of the host, without its GPUs.
func (m *Meter) Host() (u wire.HostUse) {
	for line := range strings.Lines(string(m.read("proc", "stat"))) {
		f := strings.Fields(line)
		switch {
		case len(f) > 8 && f[0] == "cpu": // user nice system idle iowait irq softirq steal: guests are in user already
			for i, text := range f[1:9] {
				if n, err := strconv.ParseInt(text, 10, 64); err == nil && i != 3 && i != 4 {
					u.Busy += time.Duration(n) * tick
				}
			}
		case len(f) > 0 && strings.HasPrefix(f[0], "cpu"):
			u.CPUs++
		}
	}
	for line := range strings.Lines(string(m.read("proc", "meminfo"))) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "MemTotal:":
			u.Memory = n << 10
		case "MemAvailable:":
			u.Available = n << 10
		}
	}
	u.Read, u.Written = m.disks()
	u.Received, u.Sent = m.networks()
	return u
}

// disks adds up whole disks: partitions and volumes are parts of them.
func (m *Meter) disks() (read, written int64) {
	for line := range strings.Lines(string(m.read("proc", "diskstats"))) {
		f := strings.Fields(line)
		if len(f) < 10 || !m.has("sys", "block", f[2], "device") {
			continue
		}
		r, _ := strconv.ParseInt(f[5], 10, 64)
		w, _ := strconv.ParseInt(f[9], 10, 64)
		read += r * sector
		written += w * sector
	}
	return read, written
}

// networks adds up the interfaces with a device of their own, or where none has one, as in
// containers, all but loopback: a bridge or a bond counts what its members count.
func (m *Meter) networks() (received, sent int64) {
	type sums struct{ received, sent int64 }
	var devices, all sums
	hasDevice := false
	for line := range strings.Lines(string(m.read("proc", "net", "dev"))) {
		name, values, found := strings.Cut(line, ":")
		f := strings.Fields(values)
		name = strings.TrimSpace(name)
		if !found || len(f) < 9 || name == "lo" {
			continue
		}
		r, _ := strconv.ParseInt(f[0], 10, 64)
		s, _ := strconv.ParseInt(f[8], 10, 64)
		all = sums{all.received + r, all.sent + s}
		if m.has("sys", "class", "net", name, "device") {
			hasDevice = true
			devices = sums{devices.received + r, devices.sent + s}
		}
	}
	if hasDevice {
		all = devices
	}
	return all.received, all.sent
}

func (m *Meter) has(names ...string) bool {
	_, err := os.Stat(filepath.Join(append([]string{m.root}, names...)...))
	return err == nil
}
