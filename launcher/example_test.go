package launcher_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

// A job of two ranks on this machine. exe is a gorun executable, as its agent on every host.
func ExampleRun() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var exe launcher.Executable
	p, err := plan.New([]hostfile.Host{{Name: "localhost", Slots: 2}}, launcher.Request{NP: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := launcher.Run(ctx, p, launcher.Options{
		Programs: []launcher.Program{{Argv: []string{"hostname"}, Wdir: "/", Ranks: 2}},
		Dial:     func(context.Context, hostfile.Host) (launcher.Host, error) { return launcher.Local{}, nil },
		Exe:      exe, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	os.Exit(result.Code())
}

// Check says which hosts can run an agent.
func ExampleCheck() {
	dial := func(context.Context, hostfile.Host) (launcher.Host, error) {
		return nil, fmt.Errorf("connection refused")
	}
	var out bytes.Buffer
	for _, c := range launcher.Check(context.Background(), []hostfile.Host{{Name: "f1"}}, launcher.Options{Dial: dial}) {
		fmt.Fprintf(&out, "%s: %v\n", c.Host.Name, c.Err)
	}
	fmt.Print(out.String())
	// Output: f1: connection refused
}
