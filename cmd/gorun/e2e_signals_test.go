package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What docs/signals.md says of signals that users seldom send.
func TestSeldomSignals(t *testing.T) {
	// Under nohup gorun would ignore SIGHUP, as it should. What is caught here is not ignored there.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	defer signal.Stop(caught)
	for _, tc := range []struct {
		name   string
		script string
		first  syscall.Signal
		then   syscall.Signal // when gorun has answered the first; 0: none
		code   int
	}{
		{"HUP", "trap 'exit 0' TERM", syscall.SIGHUP, 0, 129},
		{"QUIT", "trap 'exit 0' TERM", syscall.SIGQUIT, 0, 2},
		{"TERM, then INT", "trap '' TERM", syscall.SIGTERM, syscall.SIGINT, 143},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := start(t, nil, "-np", "2", "--grace", "60", "sh", "-c", tc.script+"; echo ready; while :; do sleep .05; done")
			await(t, "the ranks", func() bool { return strings.Count(r.out.String(), "ready") == 2 })
			signalRun(t, r, tc.first)
			if tc.then != 0 {
				await(t, "a word of gorun's", func() bool { return strings.Contains(r.err.String(), "again") })
				signalRun(t, r, tc.then)
			}
			if code := r.wait(); code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, clip(r.err.String()))
			}
			r.nothingLeft(7 * time.Second)
		})
	}
}
