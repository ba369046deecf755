package launcher_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/buildid"
	"github.com/gorun/gorun/internal/host/agent"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// TestMain makes the test binary gorun's agent and the guard above it.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) == 3 && os.Args[1] == launcher.AgentCommand:
		_, err = agent.Guard(context.Background(),
			agent.GuardOptions{Argv: []string{"/proc/self/exe", "__serve", os.Args[2]}})
	case len(os.Args) == 4 && os.Args[1] == "__serve":
		err = agent.Serve(context.Background(), os.Stdin, os.Stdout,
			agent.Options{Nonce: os.Args[2], Build: build(), Guard: os.Args[3]})
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build() string {
	id, err := buildid.Of("/proc/self/exe")
	if err != nil {
		panic(err)
	}
	return id
}

// options are those of a job on this machine. The executable is gorun, which runs as the agent
// there.
func options(script string, ranks int) launcher.Options {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return launcher.Options{
		Programs: []launcher.Program{{Argv: []string{"/bin/sh", "-c", script}, Wdir: "/", Ranks: ranks}},
		Reach: launcher.Reach{
			Dial: func(context.Context, hostfile.Host) (launcher.Host, error) { return launcher.Local{}, nil },
			Exe:  launcher.Executable{Path: path, Build: build()},
		},
		Stdout: os.Stdout,
		Stderr: os.Stderr,
		Grace:  time.Second,
	}
}

// Run starts two ranks on this machine. The first failure ends the job, and its exit code is the
// job's.
func ExampleRun() {
	p, err := plan.New([]hostfile.Host{{Name: "localhost", Slots: 2}}, launcher.Request{NP: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := launcher.Run(context.Background(), p, options("test $GORUN_RANK = 0 || exit 3; sleep 60", 2))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Cause, result.Code())
	// Output: rank 1 on localhost exited with code 3 3
}

// RunElastic starts as many ranks as there are slots, up to Max, and goes on when hosts leave or
// join.
func ExampleRunElastic() {
	settings := launcher.Elastic{
		Hosts:         []hostfile.Host{{Name: "localhost", Slots: 1}},
		ElasticDriver: launcher.ElasticDriver{NP: 1, Max: 4, Together: true},
	}
	result, err := launcher.RunElastic(context.Background(), settings,
		options("echo rank $GORUN_RANK of $GORUN_SIZE", 1))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("exit code", result.Code())
	// Output:
	// rank 0 of 1
	// exit code 0
}
