// Command hosts runs gorun, or another command, with stub hosts, and reports what the command cost:
//
//	hosts -gorun bin/gorun -n 1000 -slots 8 -- bin/gorun -F {config} --hostfile {hosts} -np 8000 true
//
// {config} becomes the ssh_config file and {hosts} the hostfile. Its exit status is the command's,
// or 125 when there are no hosts.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/tools/stub"
)

const exitNoHosts = 125

// cost is what the command used, without its stub hosts.
type cost struct {
	Hosts, Ranks, Agents int
	Seconds, CPUSeconds  float64
	CPUPerHost           float64 // milliseconds
	PeakKiB              int64
	PeakKiBPerHost       int64
	ToHostBytes          int64 // each
	FromHostBytes        int64
	Code                 int
}

func main() {
	var spec stub.Spec
	flag.IntVar(&spec.Hosts, "n", 100, "number of hosts")
	flag.IntVar(&spec.Slots, "slots", 8, "slots of each host")
	flag.IntVar(&spec.Fence, "fence", 0, "bytes of each rank's value in one fence of all ranks; 0: no fence")
	flag.IntVar(&spec.Lines, "lines", 0, "lines that each rank prints")
	flag.IntVar(&spec.Fail, "fail", -1, "ranks from this one on exit with 3")
	flag.DurationVar(&spec.Hold, "hold", 0, "how long ranks run")
	gorun := flag.String("gorun", "bin/gorun", "the gorun that is run")
	flag.Parse()
	code, err := run(spec, *gorun, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "hosts:", err)
		code = exitNoHosts
	}
	os.Exit(code)
}

// run starts the hosts, runs argv and prints its cost as JSON to stderr.
func run(spec stub.Spec, gorun string, argv []string) (code int, err error) {
	if len(argv) == 0 {
		return 0, fmt.Errorf("give a command after --")
	}
	if spec.Build, err = buildid.Of(gorun); err != nil {
		return 0, err
	}
	dir, err := os.MkdirTemp("", "gorun-stub-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	hosts, err := stub.Start(dir, spec)
	if err != nil {
		return 0, err
	}
	defer hosts.Close()
	put := strings.NewReplacer("{config}", hosts.ConfigFile, "{hosts}", hosts.HostFile)
	for i, word := range argv {
		argv[i] = put.Replace(word)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	began := time.Now()
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	cpu := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	to, from := hosts.Bytes()
	return cmd.ProcessState.ExitCode(), json.NewEncoder(os.Stderr).Encode(cost{
		Hosts:          spec.Hosts,
		Ranks:          spec.Hosts * spec.Slots,
		Agents:         hosts.Reached(),
		Seconds:        time.Since(began).Seconds(),
		CPUSeconds:     cpu.Seconds(),
		CPUPerHost:     cpu.Seconds() * 1000 / float64(spec.Hosts),
		PeakKiB:        used.Maxrss,
		PeakKiBPerHost: used.Maxrss / int64(spec.Hosts),
		ToHostBytes:    to / int64(spec.Hosts),
		FromHostBytes:  from / int64(spec.Hosts),
		Code:           cmd.ProcessState.ExitCode(),
	})
}
