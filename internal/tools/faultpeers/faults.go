package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// rankWord is in the command line of every rank, childWord in that of a rank's child.
const (
	rankWord  = "31077"
	childWord = "31078"
)

// fault is one row of the table.
type fault struct {
	name         string
	program      string // of the ranks, for sh. GO is a file's name, MYRANK the rank's number
	word         string // in the command lines of what must be gone
	launcherDies bool
	system       bool // hosts are reached by the ssh program
	quote        bool // what the launcher says goes into the table
	do           func(ctx context.Context, s *trial) error
}

func faultList() []fault {
	const (
		sleep  = "exec sleep " + rankWord
		ignore = `: ` + rankWord + `; trap "" TERM; while :; do sleep 0.5; done`
		await  = "while [ ! -e GO ]; do sleep 0.02; done; "
	)
	return []fault{
		{name: "one rank is killed (SIGKILL)", program: sleep, word: rankWord,
			do: func(_ context.Context, s *trial) error {
				return syscall.Kill(s.ranks()[0], syscall.SIGKILL)
			}},
		{name: "one rank exits with 3", program: "if [ MYRANK = 1 ]; then " + await + "exit 3; fi; " + sleep,
			word: rankWord, do: goAhead},
		{name: "the launcher is killed", program: sleep, word: rankWord, launcherDies: true,
			do: signalLauncher(syscall.SIGKILL)},
		{name: "the launcher is killed, ranks ignore SIGTERM", program: ignore, word: rankWord, launcherDies: true,
			do: signalLauncher(syscall.SIGKILL)},
		{name: "a rank leaves a daemon and exits with 1",
			program: "if [ MYRANK = 1 ]; then (setsid sleep " + childWord + " >/dev/null 2>&1 </dev/null &); " + await +
				"exit 1; fi; " + sleep, word: childWord, do: goAhead},
		{name: "SIGTERM to the launcher, ranks ignore it", program: ignore, word: rankWord,
			do: signalLauncher(syscall.SIGTERM)},
		{name: "a host is cut off silently", program: sleep, word: rankWord, quote: true,
			do: func(ctx context.Context, s *trial) error {
				return s.c.Cut(ctx, "f2")
			}},
		{name: "the daemon on a host is killed", program: sleep, word: rankWord, quote: true,
			do: func(_ context.Context, s *trial) error {
				pid, err := find(s.l.daemon, func(pid int) bool { return s.on("f2", pid) })
				if err != nil {
					return err
				}
				return syscall.Kill(pid, syscall.SIGKILL)
			}},
		{name: "the local ssh to a host is killed", program: sleep, word: rankWord, system: true, quote: true,
			do: func(_ context.Context, s *trial) error {
				pid, err := find("ssh ", func(pid int) bool { return s.isSSH(pid, "f2") })
				if err != nil {
					return err
				}
				return syscall.Kill(pid, syscall.SIGKILL)
			}},
	}
}

// isSSH reports whether a process is the job's own ssh to host.
func (s *trial) isSSH(pid int, host string) bool {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	words := strings.Split(string(line), "\x00")
	if !strings.HasSuffix(words[0], "ssh") {
		return false
	}
	for _, w := range words[1:] {
		if w == host || strings.HasSuffix(w, "@"+host) {
			return !s.on(host, pid)
		}
	}
	return false
}

func goAhead(_ context.Context, s *trial) error { return os.WriteFile(s.trigger, nil, 0o644) }

func signalLauncher(sig syscall.Signal) func(context.Context, *trial) error {
	return func(_ context.Context, s *trial) error { return syscall.Kill(s.Launcher(), sig) }
}
