package probe

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/host/topology"
)

const (
	diskTimeout = 3 * time.Second // bound that keeps a dead network file system from delaying the others
	dnsTimeout  = 1500 * time.Millisecond
	watched     = 600 * time.Millisecond // time over which other programs' CPU time is measured
)

// facts reads what this host is. Whatever may hang is abandoned after a time; the end of the
// process ends it. machines are those of the job's hosts, as far as they are known.
func facts(ctx context.Context, plan doctor.Plan, machines []doctor.Machine) doctor.Facts {
	root := os.DirFS("/")
	own := machine()
	agents := []doctor.Process{own.Agent}
	for _, m := range machines {
		if m.ID == own.ID {
			agents = append(agents, m.Agent)
		}
	}
	f := doctor.Facts{
		Machine:   own.ID,
		Processor: doctor.Processor{Cores: runtime.NumCPU(), Quota: topology.Quota(root)},
	}
	f.Hostname, _ = os.Hostname()
	system(root, &f)
	asked, cancel := context.WithTimeout(ctx, plan.Version)
	defer cancel()
	var work sync.WaitGroup
	if plan.Version > 0 {
		f.Versions = map[string]string{}
		work.Go(func() { f.Limits = limits(asked) })
		work.Go(func() {
			f.Libc = firstLine(asked, "getconf", "GNU_LIBC_VERSION")
			versions(asked, root, f.Versions)
		})
	}
	work.Go(func() { f.DNS = lookUp(ctx, os.Getenv("GORUN_ADDR")) })
	work.Go(func() { f.Steal, f.Busy = watch(ctx, root, agents) })
	places := places()
	disks := make([]doctor.Disk, len(places))
	for i, d := range places {
		work.Go(func() { disks[i] = tryDisk(d) })
	}
	if f.NVIDIA = gpu.Present(root); f.NVIDIA && plan.Version > 0 {
		work.Go(func() { f.Xids = xids(asked, "/dev/kmsg") })
	}
	work.Wait()
	f.Throttles = throttles(root) - f.Throttles
	f.Unasked = plan.Version > 0 && asked.Err() != nil
	f.Shm = disks[0]
	f.Disks = disks[1:]
	return f
}

// machine tells whether other hosts share this machine, by the number that its kernel has chosen at
// the start.
func machine() doctor.Machine {
	root := os.DirFS("/")
	return doctor.Machine{
		ID:    clipped(text(root, "proc/sys/kernel/random/boot_id"), maxName),
		Cores: runtime.NumCPU(),
		Agent: agent(root),
	}
}

// places are the directories that jobs use. A cache that does not exist yet is left out.
func places() []doctor.Disk {
	all := []doctor.Disk{{Name: "shm", Path: "/dev/shm"}, {Name: "tmp", Path: os.TempDir()}}
	if home, err := os.UserHomeDir(); err == nil && home != "" {
		all = append(all, doctor.Disk{Name: "home", Path: home})
	}
	if cache, err := os.UserCacheDir(); err == nil {
		if info, err := os.Stat(cache); err == nil && info.IsDir() {
			all = append(all, doctor.Disk{Name: "cache", Path: cache})
		}
	}
	return all
}

// tryDisk finds out how much fits into a directory, and how long a small write to the disk takes.
func tryDisk(d doctor.Disk) doctor.Disk {
	done := make(chan doctor.Disk, 1)
	go func() { // ends with the process if the file system is dead
		var s unix.Statfs_t
		if err := unix.Statfs(d.Path, &s); err != nil {
			d.Error = reason(err)
			done <- d
			return
		}
		d.Size = int64(s.Blocks) * int64(s.Bsize)
		d.Free = int64(s.Bavail) * int64(s.Bsize)
		d.Files = int64(s.Ffree)
		if s.Files == 0 {
			d.Files = -1
		}
		began := time.Now()
		if err := writeSome(d.Path); err != nil {
			d.Error = reason(err)
		} else if d.Name != "shm" {
			d.Fsync = time.Since(began).Seconds()
		}
		done <- d
	}()
	select {
	case found := <-done:
		return found
	case <-time.After(diskTimeout):
		d.Error = fmt.Sprintf("no answer within %v", diskTimeout)
		d.Files = -1
		return d
	}
}

// writeSome writes a file to a disk and removes it.
func writeSome(dir string) error {
	file, err := os.CreateTemp(dir, ".gorun-doctor-*")
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, 64<<10))
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(file.Name()))
}

// reason is an error without the name of a file.
func reason(err error) string {
	if number, is := errors.AsType[unix.Errno](err); is {
		return number.Error()
	}
	return err.Error()
}

// system reads /proc and /sys.
func system(root fs.FS, f *doctor.Facts) {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		f.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var sum float64
	var clocks int
	for key, value := range pairs(root, "proc/cpuinfo") {
		switch key {
		case "model name":
			f.CPU = value
		case "cpu MHz":
			if mhz, err := strconv.ParseFloat(value, 64); err == nil {
				sum += mhz
				clocks++
			}
		}
	}
	if clocks > 0 {
		f.MHz = sum / float64(clocks)
	}
	f.Governor = text(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
	f.Throttles = throttles(root)
	if load := strings.Fields(text(root, "proc/loadavg")); len(load) > 0 {
		if l, err := strconv.ParseFloat(load[0], 64); err == nil {
			f.Load = l / float64(max(f.Cores, 1))
		}
	}
	memory := map[string]int64{}
	for key, value := range pairs(root, "proc/meminfo") {
		number, unit, _ := strings.Cut(value, " ")
		n, _ := strconv.ParseInt(number, 10, 64)
		if unit == "kB" {
			n <<= 10
		}
		memory[key] = n
	}
	f.Memory = memory["MemTotal"]
	f.Available = memory["MemAvailable"]
	f.Swap = memory["SwapTotal"]
	f.SwapUsed = memory["SwapTotal"] - memory["SwapFree"]
	f.HugePages = memory["HugePages_Total"]
	f.NodeMemory = nodeMemory(root)
	f.Nodes = len(f.NodeMemory)
	f.Balancing = text(root, "proc/sys/kernel/numa_balancing")
	if _, chosen, ok := strings.Cut(text(root, "sys/kernel/mm/transparent_hugepage/enabled"), "["); ok {
		f.Transparent, _, _ = strings.Cut(chosen, "]")
	}
	f.Ptrace = text(root, "proc/sys/kernel/yama/ptrace_scope")
	cards, _ := fs.Glob(root, "sys/class/infiniband/*")
	f.Infiniband = len(cards) > 0
}

// nodeMemory reads the memory of each NUMA node.
func nodeMemory(root fs.FS) (all []doctor.NodeMemory) {
	nodes, _ := fs.Glob(root, "sys/devices/system/node/node[0-9]*")
	for _, node := range nodes {
		var m doctor.NodeMemory
		for key, value := range pairs(root, node+"/meminfo") {
			number, _, _ := strings.Cut(value, " ")
			n, _ := strconv.ParseInt(number, 10, 64)
			switch {
			case strings.HasSuffix(key, " MemTotal"):
				m.Size = n << 10
			case strings.HasSuffix(key, " MemFree"), strings.HasSuffix(key, " FilePages"): // page cache can be freed
				m.Free += n << 10
			}
		}
		all = append(all, m)
	}
	return all
}

// throttles adds up how often the cores have been too hot.
func throttles(root fs.FS) (n int64) {
	files, _ := fs.Glob(root, "sys/devices/system/cpu/cpu[0-9]*/thermal_throttle/core_throttle_count")
	for _, name := range files {
		count, _ := strconv.ParseInt(text(root, name), 10, 64)
		n += count
	}
	return n
}

// text is a small file without the blanks around it, or "".
func text(root fs.FS, name string) string {
	b, _ := fs.ReadFile(root, name)
	return strings.TrimSpace(string(b))
}

// pairs yields the lines "key: value" of a file.
func pairs(root fs.FS, name string) func(yield func(key, value string) bool) {
	return func(yield func(key, value string) bool) {
		for line := range strings.Lines(text(root, name)) {
			if key, value, ok := strings.Cut(line, ":"); ok &&
				!yield(strings.TrimSpace(key), strings.TrimSpace(value)) {
				return
			}
		}
	}
}

// limits are those that other programs get. Go raises its own limit on files, and gives its
// children the old one.
func limits(ctx context.Context) map[string]uint64 {
	all := map[string]uint64{}
	for line := range strings.Lines(output(ctx, "cat", "/proc/self/limits")) {
		for name, title := range map[string]string{"nofile": "Max open files", "memlock": "Max locked memory",
			"nproc": "Max processes"} {
			rest, ok := strings.CutPrefix(line, title)
			fields := strings.Fields(rest)
			if !ok || len(fields) == 0 {
				continue
			}
			n, err := strconv.ParseUint(fields[0], 10, 64)
			if fields[0] == "unlimited" {
				n = 1 << 63
				err = nil
			}
			if err == nil {
				all[name] = n
			}
		}
	}
	return all
}

// lookUp asks for the name of this host's address.
func lookUp(ctx context.Context, addr string) doctor.DNS {
	d := doctor.DNS{Address: addr}
	if ip := net.ParseIP(addr); ip == nil || ip.IsLoopback() {
		return d
	}
	ctx, cancel := context.WithTimeout(ctx, dnsTimeout)
	defer cancel()
	began := time.Now()
	names, err := net.DefaultResolver.LookupAddr(ctx, addr)
	d.Seconds = time.Since(began).Seconds()
	var dns *net.DNSError
	switch {
	case err == nil && len(names) > 0:
		d.Name = strings.TrimSuffix(slices.Min(names), ".")
	case errors.As(err, &dns):
		d.Error = dns.Err
	case err != nil:
		d.Error = err.Error()
	}
	return d
}

// clipped bounds what others say.
func clipped(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
