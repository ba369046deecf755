// Command kube runs a command beside a Kubernetes cluster that is made for it:
//
//	kube [-n 2] [CMD ARG...]
//
// Without a command it starts a shell, in which kubectl works. The cluster ends with the command.
// Its exit status is the command's, or 125 where there is no cluster.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/gorun/gorun/internal/test/kube/cluster"
)

const exitNoCluster = 125

func main() {
	cluster.Main(os.Args)
	nodes := flag.Int("n", 2, "number of nodes")
	parts := flag.String("parts", os.Getenv("GORUN_KUBE"), "folder that .ci/kube has made")
	bin := flag.String("bin", "bin", "folder of gorun and its examples, for the image gorun-example")
	flag.Parse()
	argv := flag.Args()
	if len(argv) == 0 {
		argv = []string{os.Getenv("SHELL")}
	}
	os.Exit(run(*nodes, *parts, *bin, argv))
}

func run(nodes int, parts, bin string, argv []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	images, err := os.MkdirTemp("", "gorun-kube-images-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(images)
	archives, err := cluster.ExampleImages(images, parts, bin)
	if err != nil {
		return fail(err)
	}
	c, err := cluster.Start(ctx, cluster.Options{
		Nodes:  nodes,
		Parts:  parts,
		Images: archives,
		Log:    os.Stderr,
	})
	if err != nil {
		return fail(err)
	}
	cmd := c.Command(context.WithoutCancel(ctx), argv...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	err = cmd.Run()
	code := cmd.ProcessState.ExitCode()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		code = fail(err)
	}
	if err := c.Close(); err != nil {
		return fail(err)
	}
	return code
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
	return exitNoCluster
}
