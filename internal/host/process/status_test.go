package process

import (
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestStatusIsRead(t *testing.T) {
	const status = "Name:\tsh\nState:\tS (sleeping)\nUid:\t1\t2\t3\t4\nSigCgt:\t0000000000004001\n"
	for name, want := range map[string][]string{
		"State:": {"S", "(sleeping)"},
		"Uid:":   {"1", "2", "3", "4"},
		"Gid:":   nil,
	} {
		check.Slice(t, Field(status, name), want, name)
	}
	for signal, want := range map[int]bool{1: true, 2: false, 15: true, 64: false} {
		check.That(t, Catches(status, signal) == want, "signal %d: want %v", signal, want)
	}
	check.That(t, !Catches("", 1), "a process that has ended catches a signal")
}
