package main

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gorun/gorun/internal/test/lab"
)

//go:embed train.py
var program string

// launcher is one of the launchers compared.
type launcher struct {
	name string
	argv []string // before the flags that all understand
}

// bench is the data that all jobs of a run share.
type bench struct {
	dir       string   // of its own
	script    string   // train.py
	env       []string // of launchers, ranks and sessions
	launchers []launcher
	log       string // a folder for the output of jobs, or ""
}

// newBench unpacks Horovod and returns both launchers; with alone, gorun without Horovod.
func newBench(ctx context.Context, gorun, dir string, alone bool) (*bench, error) {
	gorun, err := filepath.Abs(gorun)
	if err != nil {
		return nil, err
	}
	ours := launcher{name: "gorun", argv: []string{gorun, "-F", "{config}"}}
	b := &bench{
		dir:       dir,
		script:    filepath.Join(dir, "train.py"),
		launchers: []launcher{ours},
		env: []string{"OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" +
			filepath.Join(filepath.Dir(gorun), "../ring/python")},
	}
	if err := os.WriteFile(b.script, []byte(program), 0o644); err != nil {
		return nil, err
	}
	if alone {
		return b, nil
	}
	horovod := filepath.Join(dir, "horovod")
	if b.env[2], err = lab.UnpackHorovod(ctx, horovod); err != nil {
		return nil, err
	}
	const horovodrun = "from horovod.runner.launch import run_commandline; run_commandline()"
	b.launchers = []launcher{{name: "horovodrun", argv: []string{lab.Python, "-c", horovodrun}}, ours}
	return b, nil
}

// specs returns hosts whose sessions have the environment of jobs: horovodrun looks for itself
// there.
func (b *bench) specs(n int) []lab.Spec {
	specs := lab.Specs(n)
	for i := range specs {
		specs[i].Env = b.env
	}
	return specs
}

// hosts makes hosts that both launchers can use.
func (b *bench) hosts(ctx context.Context, n int) (*lab.Cluster, error) {
	c, err := lab.Namespaces(ctx, b.specs(n)...)
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(c.ConfigFile)
	if err != nil {
		return c, err
	}
	// horovodrun starts ssh without -F, and requires the same interface names everywhere.
	setUp := c.Command(ctx, "sh", "-c", "mkdir -p ~/.ssh && cat >~/.ssh/config && chmod 700 ~/.ssh && chmod 600 "+
		"~/.ssh/config && "+
		"ip link set br0 down && ip link set br0 name eth0 && ip link set eth0 up")
	setUp.Stdin = strings.NewReader(string(config))
	if out, err := setUp.CombinedOutput(); err != nil {
		return c, fmt.Errorf("setting up the host of the launcher: %w: %s", err, out)
	}
	return c, nil
}
