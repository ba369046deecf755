package transport

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/ssh"
)

// D13: attempts at a busy sshd slow down, vary between launchers, and end.
func TestBusyPause(t *testing.T) {
	for _, tc := range []struct {
		tries int
		since time.Duration
		luck  float64
		pause time.Duration
		more  bool
	}{
		{0, 0, 0, 50 * time.Millisecond, true}, {0, 0, 1, 150 * time.Millisecond, true},
		{2, time.Second, 0.5, 400 * time.Millisecond, true},
		{1000, 19 * time.Second, 0.5, time.Second, true}, {3, busyTime, 0.5, 800 * time.Millisecond, false},
	} {
		pause, more := busyPause(tc.tries, tc.since, tc.luck)
		check.That(t, pause == tc.pause && more == tc.more, "%+v: %v, %v", tc, pause, more)
	}
	dropped := &ssh.HandshakeError{Phase: ssh.PhaseBanner, Said: "Exceeded MaxStartups", Err: io.EOF}
	check.That(t, isBusy(fmt.Errorf("f1: jump host: %w", dropped)) &&
		!isBusy(&ssh.HandshakeError{Phase: ssh.PhaseKex, Err: io.EOF}), "a busy sshd is not told from a broken one")
}

func TestRetriesEndSoonerOutsideOfPods(t *testing.T) {
	for _, tc := range []struct {
		tries int
		inPod bool
		pause time.Duration
		more  bool
	}{
		{0, false, 300 * time.Millisecond, true}, {2, false, 1500 * time.Millisecond, true},
		{3, false, 1500 * time.Millisecond, false},
		{0, true, 300 * time.Millisecond, true}, {1000, true, 1500 * time.Millisecond, true},
	} {
		if pause, more := retryPause(tc.tries, tc.inPod); pause != tc.pause || more != tc.more {
			t.Errorf("%d tries, in a pod %v: %v, %v", tc.tries, tc.inPod, pause, more)
		}
	}
}
