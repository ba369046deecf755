package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// ground is where ranks run: this machine, or network namespaces.
type ground struct {
	dir     string   // folder of built programs and of output
	addrs   []string // address of each rank
	network *network // nil: ranks run in the network of this machine
	cpus    []string // processors that ranks are bound to in turn; empty: none
	turn    int      // number of ranks on one processor
}

// command returns a program that starts ranks itself.
func (g *ground) command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // so that it ends its ranks
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// rank returns the program of rank r.
func (g *ground) rank(ctx context.Context, r int, argv []string) *exec.Cmd {
	if len(g.cpus) > 0 {
		argv = append([]string{"taskset", "-c", g.cpus[r/g.turn%len(g.cpus)]}, argv...)
	}
	if g.network != nil {
		argv = append([]string{"nsenter", "-t", strconv.Itoa(g.network.hosts[r].pid), "-n", "--"}, argv...)
	}
	return exec.CommandContext(ctx, argv[0], argv[1:]...)
}

// wrapper returns the words before a program, whose launcher gives it its rank, that pin it to its
// processor.
func (g *ground) wrapper() []string {
	if len(g.cpus) == 0 {
		return nil
	}
	script := `rank=${GORUN_RANK:-${OMPI_COMM_WORLD_RANK:-$PMI_RANK}}
i=$((rank / ` + strconv.Itoa(g.turn) + ` % ` + strconv.Itoa(len(g.cpus)) + `))
for cpu in ` + strings.Join(g.cpus, " ") + `; do [ $i -gt 0 ] || break; i=$((i - 1)); done
exec taskset -c $cpu "$@"`
	return []string{"sh", "-c", script, "sh"}
}

// allowed returns the processors that this process may use.
func allowed() ([]string, error) {
	if _, err := exec.LookPath("taskset"); err != nil {
		return nil, err
	}
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(string(text), "\nCpus_allowed_list:")
	if !found {
		return nil, errors.New("the kernel does not say which processors are allowed")
	}
	list, _, _ := strings.Cut(rest, "\n")
	return cpuList(strings.TrimSpace(list))
}

// cpuList parses lists such as 0-3,8.
func cpuList(text string) (cpus []string, err error) {
	for item := range strings.SplitSeq(text, ",") {
		low, high, isRange := strings.Cut(item, "-")
		if !isRange {
			high = low
		}
		first, err1 := strconv.Atoi(low)
		last, err2 := strconv.Atoi(high)
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("processors %q: %w", text, err)
		}
		for cpu := first; cpu <= last; cpu++ {
			cpus = append(cpus, strconv.Itoa(cpu))
		}
	}
	return cpus, nil
}

// machine describes when and where figures were measured.
func machine(ctx context.Context, g *ground) string {
	model := runtime.GOARCH
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, found := strings.Cut(string(info), "model name"); found {
		line, _, _ := strings.Cut(rest, "\n")
		model = strings.TrimSpace(strings.TrimLeft(line, " \t:"))
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	control, _ := g.rank(ctx, 0, []string{"cat", "/proc/sys/net/ipv4/tcp_congestion_control"}).Output()
	load, _ := os.ReadFile("/proc/loadavg")
	before, _, _ := strings.Cut(string(load), " ")
	return fmt.Sprintf("%s, %d × %s, Linux %s, %s, TCP %s, load %s",
		time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), model, strings.TrimSpace(string(kernel)),
		runtime.Version(), strings.TrimSpace(string(control)), before)
}
