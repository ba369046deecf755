package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

const (
	benchLine  = 80 // bytes, with its end
	benchLines = 50 << 20 / benchLine
)

// BenchmarkOutput has 4 ranks on 2 hosts print 50 MiB each in lines of 80 bytes, which gorun,
// mpirun and mpiexec.hydra label. Every line of gorun must be complete.
func BenchmarkOutput(b *testing.B) {
	c := lab.MustNamespaces(b, lab.Specs(2)...)
	script := fmt.Sprintf("yes %s | head -n %d", strings.Repeat("x", benchLine-1), benchLines)
	hosts := "f1:2,f2:2"
	sides := []side{
		{name: "gorun", argv: []string{command.Binary("gorun"), "-F", c.ConfigFile, "-H", hosts, "--prefix", "mpirun",
			"sh", "-c", script}},
		{name: "mpirun", argv: []string{"mpirun.openmpi", "--allow-run-as-root", "--tag-output", "--mca",
			"plm_rsh_args", "-F " + c.ConfigFile, "-H", hosts, "sh", "-c", script}},
		{name: "mpiexec.hydra", argv: []string{"mpiexec.hydra", "-l", "-launcher", "ssh", "-np", "4", "-hosts", hosts,
			"sh", "-c", script},
			env: []string{"HYDRA_LAUNCHER_EXTRA_ARGS=-F " + c.ConfigFile}},
	}
	times := map[string][]time.Duration{}
	for b.Loop() {
		for _, s := range sides {
			if _, err := exec.LookPath(s.argv[0]); err == nil {
				times[s.name] = append(times[s.name], drained(b, c, s))
			}
		}
	}
	ours := 0.0
	best := 0.0
	for _, s := range sides {
		if times[s.name] == nil {
			continue
		}
		speed := 4 * benchLines * benchLine / median(times[s.name]).Seconds() / 1e6
		b.ReportMetric(speed, s.name+"-MB/s")
		if s.name == "gorun" {
			ours = speed
		} else {
			best = max(best, speed)
		}
	}
	if best > 0 {
		b.ReportMetric(ours/best, "gorun/best-peer")
	}
}

// drained returns how long a launcher takes to print everything. It checks every line of gorun's.
func drained(b *testing.B, c *lab.Cluster, s side) time.Duration {
	b.Helper()
	cmd := c.Command(b.Context(), s.argv...)
	cmd.Env = append(os.Environ(), s.env...)
	out := must.Get(cmd.StdoutPipe())(b)
	begun := time.Now()
	must.OK(b, cmd.Start())
	if s.name == "gorun" {
		checkLines(b, out)
	} else if _, err := io.Copy(io.Discard, out); err != nil {
		b.Fatal(err)
	}
	must.OK(b, cmd.Wait(), s.argv)
	return time.Since(begun)
}

func checkLines(b *testing.B, out io.Reader) {
	b.Helper()
	lines := bufio.NewReaderSize(out, 1<<20)
	counts := map[string]int{}
	for {
		line, err := lines.ReadSlice('\n')
		if errors.Is(err, io.EOF) && len(line) == 0 {
			break
		}
		must.That(b, err == nil && len(line) >= benchLine, "a broken line: %q, %v", line, err)
		counts[string(line[:len(line)-benchLine])]++
	}
	for label, n := range counts {
		must.That(b, n == benchLines, "%d lines of %q, want %d", n, label, benchLines)
	}
	must.That(b, len(counts) == 4, "lines of %d ranks", len(counts))
}

// BenchmarkIdle measures the processor time of the launcher and its agents while the ranks sleep,
// in percent of one core: without and with the search for stragglers.
func BenchmarkIdle(b *testing.B) {
	c := lab.MustNamespaces(b, lab.Specs(2)...)
	b.Run("plain", func(b *testing.B) { idle(b, c) })
	b.Run("stragglers", func(b *testing.B) { idle(b, c, "--summary") })
}

func idle(b *testing.B, c *lab.Cluster, flags ...string) {
	const wait = 10 * time.Second
	argv := append([]string{command.Binary("gorun"), "-F", c.ConfigFile, "-H", "f1:2,f2:2"}, flags...)
	cmd := c.Command(b.Context(), append(argv, "sleep", "1000")...)
	must.OK(b, cmd.Start())
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	// Four ranks, and the launcher's own words.
	must.Until(b, "the ranks", func() bool { return len(lab.Processes("sleep 1000")) >= 5 })
	for b.Loop() {
		pids := append(lab.Processes("__agent"), lab.Processes("__serve")...)
		pids = append(pids, cmd.Process.Pid)
		before := ticks(pids)
		time.Sleep(wait)
		b.ReportMetric(float64(ticks(pids)-before)/wait.Seconds(), "%-of-a-core") // a tick is 10 ms
		b.ReportMetric(float64(len(pids)), "processes")
	}
}

// ticks returns the processor time of processes, in hundredths of a second.
func ticks(pids []int) int {
	sum := 0
	for _, pid := range pids {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		var user, system int
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 12 {
			_, _ = fmt.Sscan(fields[11], &user)
			_, _ = fmt.Sscan(fields[12], &system)
		}
		sum += user + system
	}
	return sum
}
