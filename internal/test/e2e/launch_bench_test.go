package e2e

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// BenchmarkLaunch starts `true` on two ranks per host, on 1, 16 and 64 hosts, with gorun and with
// each installed one of mpirun, mpiexec.hydra and pdsh, and once per host over bare SSH. The
// launchers take turns in one run; the metrics are medians from exec to exit.
func BenchmarkLaunch(b *testing.B) {
	for _, hosts := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			c := lab.MustNamespaces(b, lab.Specs(hosts)...)
			compare(b, c, sidesOn(c, 2, "true"))
		})
	}
}

// BenchmarkKept is BenchmarkLaunch on kept hosts, and beside it gorun that connects anew. Other
// launchers run between two turns of the kept hosts, which get their next agents ready meanwhile.
func BenchmarkKept(b *testing.B) {
	for _, hosts := range []int{2, 64} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			c := lab.MustNamespaces(b, lab.Specs(hosts)...)
			sides := slices.DeleteFunc(sidesOn(c, 2, "true"), func(s side) bool { return s.name == "bare-ssh" })
			fresh := side{name: "not-kept", argv: slices.Insert(slices.Clone(sides[0].argv), 1, "--no-kept")}
			keep(b, c, sides[0].argv[1:len(sides[0].argv)-1]...) // not the program
			compare(b, c, append(sides, fresh))
		})
	}
}

// keep keeps connections to c's hosts until the benchmark ends.
func keep(b *testing.B, c *lab.Cluster, args ...string) {
	b.Helper()
	gorun := command.Binary("gorun")
	up := slices.Concat([]string{gorun, "up"}, args)
	must.Run(b, c.Command(b.Context(), up...))
	b.Cleanup(func() {
		if out, err := c.Command(context.Background(), gorun, "down", "--now").CombinedOutput(); err != nil {
			b.Errorf("gorun down: %v: %s", err, out)
		}
	})
}

// BenchmarkWarmPython starts `import torch` of Debian's python3 on two ranks of each of two hosts,
// forked from warm interpreters and, in turns, connected and started anew. The metrics are medians
// from exec to the first line of a rank.
func BenchmarkWarmPython(b *testing.B) {
	c := lab.MustNamespaces(b, lab.Specs(2)...)
	b.Setenv("PATH", "/usr/bin:/bin")
	flags := []string{"-F", c.ConfigFile, "-H", "f1:2,f2:2"}
	keep(b, c, append(flags, "--preload", "torch")...)
	program := "import torch; print(torch.ones(2).sum())"
	job := append([]string{command.Binary("gorun")}, append(flags, "python3", "-u", "-c", program)...)
	cold := slices.Insert(slices.Clone(job), 1, "--no-kept")
	var warmTimes, coldTimes []time.Duration
	for b.Loop() {
		warmTimes = append(warmTimes, firstLine(b, c, job))
		coldTimes = append(coldTimes, firstLine(b, c, cold))
	}
	b.ReportMetric(float64(median(warmTimes).Milliseconds()), "warm-ms")
	b.ReportMetric(float64(median(coldTimes).Milliseconds()), "cold-ms")
	b.ReportMetric(median(coldTimes).Seconds()/median(warmTimes).Seconds(), "cold/warm")
}

// firstLine runs a command to its end, and returns when it printed its first line.
func firstLine(b *testing.B, c *lab.Cluster, argv []string) time.Duration {
	b.Helper()
	cmd := c.Command(b.Context(), argv...)
	out, err := cmd.StdoutPipe()
	must.OK(b, err)
	begun := time.Now()
	must.OK(b, cmd.Start())
	reader := bufio.NewReader(out)
	_, err = reader.ReadString('\n')
	must.OK(b, err)
	took := time.Since(begun)
	_, err = io.Copy(io.Discard, reader)
	must.OK(b, err)
	must.OK(b, cmd.Wait())
	return took
}

// BenchmarkLaunchLocal starts `true` on two ranks of this machine.
func BenchmarkLaunchLocal(b *testing.B) {
	sides := []side{{name: "gorun", argv: []string{command.Binary("gorun"), "-np", "2", "true"}}}
	for name, argv := range map[string][]string{
		"mpirun":        {"mpirun.openmpi", "--allow-run-as-root", "-np", "2", "--oversubscribe", "true"},
		"mpiexec.hydra": {"mpiexec.hydra", "-np", "2", "true"},
	} {
		sides = append(sides, side{name: name, argv: argv})
	}
	compare(b, nil, sides)
}

// side is one launcher in a comparison.
type side struct {
	name string
	argv []string
	env  []string
}

// sidesOn returns the launchers that can run a program on perHost ranks of c's hosts, gorun first.
func sidesOn(c *lab.Cluster, perHost int, program string) []side {
	var names, slots, addrs []string
	for _, h := range c.Hosts {
		names = append(names, h.Name)
		slots = append(slots, fmt.Sprintf("%s:%d", h.Name, perHost))
		addrs = append(addrs, net.JoinHostPort(h.Addr, fmt.Sprint(h.Port)))
	}
	np := fmt.Sprint(perHost * len(c.Hosts))
	sides := []side{
		{name: "gorun", argv: []string{command.Binary("gorun"), "-F", c.ConfigFile, "-H", strings.Join(slots, ","),
			program}},
		{name: "bare-ssh", argv: append([]string{command.Binary("fanout"), c.Identity, "root", c.KnownHosts, program},
			addrs...)},
		{name: "mpirun", argv: []string{"mpirun.openmpi", "--allow-run-as-root", "-np", np, "--mca", "plm_rsh_args",
			"-F " + c.ConfigFile, "-H", strings.Join(slots, ","), program}},
		{name: "mpiexec.hydra", argv: []string{"mpiexec.hydra", "-launcher", "ssh", "-np", np, "-hosts",
			strings.Join(slots, ","), program},
			env: []string{"HYDRA_LAUNCHER_EXTRA_ARGS=-F " + c.ConfigFile}},
		{name: "pdsh", argv: []string{"pdsh", "-R", "ssh", "-f", "64", "-w", strings.Join(names, ","), program},
			env: []string{"PDSH_SSH_ARGS_APPEND=-F " + c.ConfigFile}},
	}
	return sides
}

// compare runs the installed launchers in turn and reports their medians, and gorun's divided by
// the best of the others.
func compare(b *testing.B, c *lab.Cluster, sides []side) {
	b.Helper()
	sides = slices.DeleteFunc(sides, func(s side) bool {
		_, err := exec.LookPath(s.argv[0])
		return err != nil
	})
	times := map[string][]time.Duration{}
	memory := map[string]float64{}
	for _, s := range sides {
		_, memory[s.name] = timed(b, c, s) // warm
	}
	for b.Loop() {
		for _, s := range sides {
			took, _ := timed(b, c, s)
			times[s.name] = append(times[s.name], took)
		}
	}
	ours := median(times["gorun"])
	best := time.Duration(0)
	for _, s := range sides {
		took := median(times[s.name])
		b.ReportMetric(float64(took.Microseconds())/1000, s.name+"-ms")
		if s.name != "gorun" && s.name != "bare-ssh" && (best == 0 || took < best) {
			best = took
		}
	}
	b.ReportMetric(memory["gorun"], "gorun-MB")
	if best > 0 {
		b.ReportMetric(best.Seconds()/ours.Seconds(), "best-peer/gorun")
	}
	if bare := times["bare-ssh"]; bare != nil {
		b.ReportMetric(ours.Seconds()/median(bare).Seconds(), "gorun/bare-ssh")
	}
}

// timed returns how long a launcher takes, and the peak memory of its largest process here in MB.
func timed(b *testing.B, c *lab.Cluster, s side) (took time.Duration, memory float64) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), s.argv[0], s.argv[1:]...)
	if c != nil {
		cmd = c.Command(b.Context(), s.argv...)
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, s.env...)
	begun := time.Now()
	must.Run(b, cmd)
	return time.Since(begun), float64(cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss) / 1024
}

func median[T cmp.Ordered](d []T) T {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkStaging starts `true` on 64 hosts with separate homes and no gorun, so that each
// receives it.
func BenchmarkStaging(b *testing.B) {
	c := lab.MustNamespaces(b, lab.Specs(64)...)
	var names []string
	for _, h := range c.Hosts {
		names = append(names, h.Name)
	}
	install := c.Command(b.Context(), "sh", "-c", `mkdir -p ~/bin && cp "$0" ~/bin/gorun && cd && pwd`,
		command.Binary("gorun"))
	home := must.Get(install.Output())(b)
	ours := side{name: "gorun", argv: []string{filepath.Join(strings.TrimSpace(string(home)), "bin/gorun"), "-F",
		c.ConfigFile, "--wdir", "/", "-H", strings.Join(names, ","), "true"}}
	var first, again []time.Duration
	for b.Loop() {
		for _, h := range c.Hosts {
			must.OK(b, os.RemoveAll(filepath.Join(h.Home, ".cache/gorun")))
		}
		took, _ := timed(b, c, ours)
		first = append(first, took)
		took, _ = timed(b, c, ours)
		again = append(again, took)
	}
	b.ReportMetric(median(first).Seconds()*1000, "first-ms")
	b.ReportMetric(median(again).Seconds()*1000, "again-ms")
}
