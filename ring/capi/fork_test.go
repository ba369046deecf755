package main

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

// R10: a rank and its fork call at once: the fork is refused, and the rank's calls are right. When
// the rank ends, the others hear of it though the fork lives on. The fork has none of the memory
// that ranks share.
func TestR10ForkAfterInit(t *testing.T) {
	program := compile(t, "c", "fork.c")
	for _, transport := range []string{"tcp", "shm"} {
		for _, end := range []string{"close", "exit"} {
			t.Run(transport+" "+end, func(t *testing.T) {
				t.Parallel()
				out, code := ranks(t, 3, []string{"RING_TRANSPORT=" + transport}, program, end, transport)
				check.That(t, code == 0 && strings.Count(out, "all right") == 3, "exit code %d\n%s", code, out)
			})
		}
	}
}
