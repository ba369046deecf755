// Events starts a job from a program of one's own, and reads what happens in it.
//
//	events -H f1:2,f2:2 ./train
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
	"github.com/gorun/gorun/launcher/transport"
)

func main() {
	hosts := flag.String("H", "localhost:2", "hosts and slots")
	flag.Parse()
	result, err := run(context.Background(), *hosts, flag.Args())
	if err != nil {
		log.Fatal(err)
	}
	if result.Cause != nil {
		fmt.Println("cause:", result.Cause)
	}
	os.Exit(result.Code())
}

// run runs a program as a rank in each slot of the hosts.
func run(ctx context.Context, list string, program []string) (launcher.Result, error) {
	parsed, err := hostfile.ParseList(list)
	if err != nil {
		return launcher.Result{}, err
	}
	hosts, err := parsed.Hosts()
	if err != nil {
		return launcher.Result{}, err
	}
	placed, err := plan.New(hosts, launcher.Request{})
	if err != nil {
		return launcher.Result{}, err
	}
	dial, err := transport.Dialer(transport.Options{Launcher: "auto", SSHConfig: os.Getenv("GORUN_SSH_CONFIG")})
	if err != nil {
		return launcher.Result{}, err
	}
	gorun, err := exec.LookPath("gorun") // copied to hosts that lack it
	if err != nil {
		return launcher.Result{}, err
	}
	agent, err := launcher.Installed(gorun)
	if err != nil {
		return launcher.Result{}, err
	}
	return launcher.Run(ctx, placed, launcher.Options{
		Programs: []launcher.Program{{Argv: program, Wdir: "/", Ranks: placed.Size}},
		Reach:    launcher.Reach{Dial: dial, Exe: agent},
		Stdout:   os.Stdout,
		Stderr:   os.Stderr,
		Grace:    5 * time.Second,
		Follow:   report,
	})
}

// report prints an event. It must return soon, since the job waits for it.
func report(event launcher.Event) {
	switch e := event.(type) {
	case launcher.Ready:
		fmt.Println("ready:", e.Host)
	case launcher.Exited:
		fmt.Printf("rank %d on %s %s\n", e.Exit.Rank, e.Host, e.Exit.Describe())
	case launcher.HostLost:
		fmt.Println("lost:", e.Host, e.Err)
	}
}
