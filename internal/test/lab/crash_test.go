package lab_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// TestVictim runs only in the process that TestCrashLeavesNothing starts: it brings a lab up, opens
// a session, prints where, and waits.
func TestVictim(t *testing.T) {
	var c *lab.Cluster
	switch os.Getenv("GORUN_LAB_VICTIM") {
	case "":
		return
	case "loopback":
		c = lab.MustLoopback(t, lab.Specs(2)...)
	case "namespaces":
		c = lab.MustNamespaces(t, lab.Specs(2)...)
	}
	p := lab.Start(t, c.Command(t.Context(), "ssh", "-F", c.ConfigFile, "f2", "echo up; exec sleep 300"))
	must.Get(p.Line())(t)
	fmt.Println("lab in", c.Dir)
	p.Wait() // until this process is killed
}

func TestCrashLeavesNothing(t *testing.T) {
	must.HaveTime(t)
	lab.Need(t, "ssh")
	for _, mode := range []string{"loopback", "namespaces"} {
		t.Run(mode, func(t *testing.T) {
			if mode == "namespaces" && os.Getuid() != 0 {
				lab.Skip(t, "needs root")
			}
			dir := killVictim(t, mode)
			// The guardian is nobody's child now: look.
			must.Until(t, "the end of the lab", func() bool {
				_, err := os.Stat(dir)
				return os.IsNotExist(err) && len(lab.Processes(dir)) == 0
			})
			assertGone(t, dir, dir)
			assertGone(t, dir, "GORUN_LAB="+dir[strings.LastIndexByte(dir, '/')+1:])
		})
	}
}

// killVictim runs TestVictim, kills it without warning when its lab is up, and
// returns the lab's directory.
func killVictim(t *testing.T, mode string) string {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), "GORUN_LAB_VICTIM="+mode)
	p := lab.Start(t, cmd)
	line, err := p.Hear("lab in ")
	must.OK(t, errors.Join(err, p.Process.Kill()))
	p.Wait()
	return strings.TrimPrefix(line, "lab in ")
}
