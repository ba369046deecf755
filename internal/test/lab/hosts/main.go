// Command hosts runs another command with real SSH hosts to try it on:
//
//	hosts [-n 2] -- CMD ARG...
//
// It starts sshds on loopback addresses of this machine, as f1, f2 and so on,
// puts the path of their ssh_config in the place of {config} in CMD's words and
// in LAB_SSH_CONFIG, and takes the hosts down when CMD ends. Its exit status is
// CMD's, or 128 and the signal that ended CMD, or 125 when there are no hosts.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/internal/test/lab"
)

const (
	exitUsage     = 2
	exitNoHosts   = 125
	exitNotRun    = 126
	exitNotFound  = 127
	exitSignalled = 128 // and the signal's number
)

func main() {
	n := flag.Int("n", 2, "number of hosts")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(),
			"usage: hosts [-n 2] -- CMD ARG...   ({config} becomes the ssh_config file)")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() == 0 || *n < 1 {
		flag.Usage()
		os.Exit(exitUsage)
	}
	os.Exit(run(*n, flag.Args()))
}

// run starts the hosts, runs argv and takes the hosts down.
func run(n int, argv []string) int {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cluster, sig, err := up(ctx, cancel, n, signals)
	if sig != nil {
		return exitSignalled + int(sig.(syscall.Signal))
	}
	if err != nil {
		say(err)
		return exitNoHosts
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			say(err)
		}
	}()
	say(describe(cluster))
	code, err := command(cluster, argv, signals)
	if err != nil {
		say(err)
	}
	return code
}

// up starts the hosts. A signal meanwhile stops that and is returned.
func up(ctx context.Context, cancel func(), n int, signals <-chan os.Signal) (*lab.Cluster, os.Signal, error) {
	type result struct {
		cluster *lab.Cluster
		err     error
	}
	done := make(chan result, 1)
	go func() {
		c, err := lab.Loopback(ctx, lab.Specs(n)...)
		done <- result{c, err}
	}()
	select {
	case r := <-done:
		return r.cluster, nil, r.err
	case sig := <-signals:
		cancel()
		if r := <-done; r.cluster != nil {
			return nil, sig, r.cluster.Close()
		}
		return nil, sig, nil
	}
}

func describe(c *lab.Cluster) string {
	var hosts []string
	for _, h := range c.Hosts {
		hosts = append(hosts, fmt.Sprintf("%s=%s:%d", h.Name, h.Addr, h.Port))
	}
	return "hosts up: " + strings.Join(hosts, " ") + ", config " + c.ConfigFile
}

// command runs argv to its end, forwards signals, and returns its exit code.
func command(c *lab.Cluster, argv []string, signals <-chan os.Signal) (int, error) {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = strings.ReplaceAll(word, "{config}", c.ConfigFile)
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdin = os.Stdin
	cmd.Stdout = os.Stdout
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "LAB_SSH_CONFIG="+c.ConfigFile)
	if err := cmd.Start(); err != nil {
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, exec.ErrNotFound) {
			return exitNotFound, err
		}
		return exitNotRun, err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			if !sentByTerminal(sig) {
				cmd.Process.Signal(sig)
			}
		case <-done:
			return exitCode(cmd.ProcessState), nil
		}
	}
}

// sentByTerminal reports whether sig came from the keyboard. The terminal has then signalled the
// command too, and a second signal would mean "at once".
func sentByTerminal(sig os.Signal) bool {
	if sig != unix.SIGINT && sig != unix.SIGQUIT {
		return false
	}
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}

func exitCode(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return exitSignalled + int(status.Signal())
	}
	return state.ExitCode()
}

func say(what any) { fmt.Fprintf(os.Stderr, "hosts: %v\n", what) }
