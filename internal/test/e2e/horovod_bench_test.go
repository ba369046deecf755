package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// BenchmarkHorovodLaunch runs a one-step Horovod program on two hosts under gorun and horovodrun in
// turn, and as four independent processes. A launcher's overhead is the difference to those; the
// metric is the ratio of the overheads. It also runs Horovod's synthetic benchmark under both: the
// images per second must not depend on the launcher.
func BenchmarkHorovodLaunch(b *testing.B) {
	path := lab.Horovod(b)
	env := []string{path, "OMP_NUM_THREADS=1"}
	c := lab.MustNamespaces(b, lab.Spec{Env: env}, lab.Spec{Env: env}) // horovodrun looks for itself there
	config := must.Get(os.ReadFile(c.ConfigFile))(b)
	// horovodrun starts ssh without -F. All sides start on f1, since horovodrun fails where the
	// launcher's interfaces have other names than those of the hosts.
	install := c.On(b.Context(), "f1", "sh", "-c",
		"mkdir -p ~/.ssh && cat >~/.ssh/config && chmod 700 ~/.ssh && chmod 600 ~/.ssh/config")
	install.Stdin = strings.NewReader(string(config))
	must.Run(b, install)
	program := filepath.Join(b.TempDir(), "step.py")
	must.OK(b, os.WriteFile(program, []byte(hello), 0o644))
	const horovodrun = "from horovod.runner.launch import run_commandline; run_commandline()"
	by := []side{
		{name: "gorun", argv: []string{command.Binary("gorun"), "-F", c.ConfigFile, "-np", "4", "-H", "f1:2,f2:2",
			python}, env: env},
		{name: "horovodrun", argv: []string{python, "-c", horovodrun, "-np", "4", "-H", "f1:2,f2:2", python}, env: env},
		{name: "alone", argv: []string{"sh", "-c", `for i in 1 2 3 4; do "$0" "$@" & done; wait`, python}, env: env},
	}
	synthetic := []string{lab.HorovodSource(b, "examples/pytorch/pytorch_synthetic_benchmark.py"), "--no-cuda",
		"--model", "squeezenet1_1",
		"--batch-size", "2", "--num-warmup-batches", "2", "--num-batches-per-iter", "5", "--num-iters", "3"}
	times := map[string][]time.Duration{}
	images := map[string][]float64{}
	for b.Loop() {
		for _, s := range by {
			begun := time.Now()
			runOn(b, c, "f1", s, program)
			times[s.name] = append(times[s.name], time.Since(begun))
		}
		for _, s := range by[:2] {
			images[s.name] = append(images[s.name], imagesPerSecond(b, runOn(b, c, "f1", s, synthetic...)))
		}
		slices.Reverse(by[:2]) // each is the first in turn
	}
	alone := median(times["alone"])
	for _, s := range by {
		b.ReportMetric(median(times[s.name]).Seconds(), s.name+"-s")
	}
	b.ReportMetric(float64(median(times["gorun"])-alone)/float64(median(times["horovodrun"])-alone), "gorun/horovodrun")
	for _, s := range by[:2] {
		b.ReportMetric(median(images[s.name]), s.name+"-img/s")
	}
	b.ReportMetric(median(images["gorun"])/median(images["horovodrun"]), "gorun/horovodrun-img/s")
}

// runOn runs a program on a host under a launcher and returns its output.
func runOn(b *testing.B, c *lab.Cluster, host string, s side, program ...string) string {
	b.Helper()
	argv := slices.Concat(s.argv, program)
	cmd := c.On(b.Context(), host, argv...)
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, s.env...)
	out := must.Run(b, cmd)
	return string(out)
}

// imagesPerSecond returns the total that the synthetic benchmark printed.
func imagesPerSecond(b *testing.B, out string) float64 {
	b.Helper()
	found := regexp.MustCompile(`Total img/sec on 4 CPU\(s\): ([0-9.]+)`).FindStringSubmatch(out)
	must.That(b, found != nil, "no images a second in %s", out)
	return must.Get(strconv.ParseFloat(found[1], 64))(b)
}
