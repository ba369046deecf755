package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/lab"
)

// BenchmarkHorovodLaunch runs a Horovod program of one step on two hosts, by gorun and by horovodrun in turn, and as four processes side
// by side that know nothing of each other. What a launcher adds is what it takes beyond those; the figure to look at is how much of horovodrun's is left.
func BenchmarkHorovodLaunch(b *testing.B) {
	path := horovod(b)
	env := []string{path, "OMP_NUM_THREADS=1"}
	c := lab.MustNamespaces(b, lab.Spec{Env: env}, lab.Spec{Env: env}) // horovodrun looks for itself there
	config, err := os.ReadFile(c.ConfigFile)
	if err != nil {
		b.Fatal(err)
	}
	// horovodrun calls ssh without a word about where its configuration is. All start on f1: it fails where the interfaces
	// here have other names than those of the hosts.
	install := c.On(b.Context(), "f1", "sh", "-c", "mkdir -p ~/.ssh && cat >~/.ssh/config && chmod 700 ~/.ssh && chmod 600 ~/.ssh/config")
	install.Stdin = strings.NewReader(string(config))
	if out, err := install.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	program := filepath.Join(b.TempDir(), "step.py")
	if err := os.WriteFile(program, []byte(hello), 0o644); err != nil {
		b.Fatal(err)
	}
	const horovodrun = "from horovod.runner.launch import run_commandline; run_commandline()"
	sides := []side{
		{name: "gorun", argv: []string{binary("gorun"), "-F", c.ConfigFile, "-np", "4", "-H", "f1:2,f2:2", python, program}, env: env},
		{name: "horovodrun", argv: []string{python, "-c", horovodrun, "-np", "4", "-H", "f1:2,f2:2", python, program}, env: env},
		{name: "alone", argv: []string{"sh", "-c", `for i in 1 2 3 4; do "$0" "$1" & done; wait`, python, program}, env: env},
	}
	times := map[string][]time.Duration{}
	for b.Loop() {
		for _, s := range sides {
			cmd := c.On(b.Context(), "f1", s.argv...)
			if cmd.Env == nil {
				cmd.Env = os.Environ()
			}
			cmd.Env = append(cmd.Env, s.env...)
			begun := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				b.Fatalf("%q: %v: %s", s.argv, err, out)
			}
			times[s.name] = append(times[s.name], time.Since(begun))
		}
	}
	alone := median(times["alone"])
	for _, s := range sides {
		b.ReportMetric(median(times[s.name]).Seconds(), s.name+"-s")
	}
	b.ReportMetric(float64(median(times["gorun"])-alone)/float64(median(times["horovodrun"])-alone), "gorun/horovodrun")
}
