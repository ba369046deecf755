package inspect

import (
	"testing"

	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/internal/test/check"
)

// Debuggers print names that the rank has chosen: no text of theirs may break the parsers.
func FuzzTools(f *testing.F) {
	f.Add("Thread 2 (Thread 0x7f (LWP 12) \"w\"):\n#0  0x00007f in poll () from /lib/libc.so.6\n")
	f.Add("Current thread 0x00008f (most recent call first):\n  File \"/x/b.py\", line 99999999999999999999 in f\n")
	f.Add("PID 11 - process\nTID 12:\n#0  0xffffffffffffffff poll - 1\n    /x/w.c:9:3\n")
	f.Add("goroutine 1 [chan receive]:\n([(\n\t:\n(\n\t/x/m.go:9 +0x1\ncreated by ")
	f.Add(`[{"thread_name":"x","os_thread_id":7,"frames":[{"line":-1}]},null]`)
	f.Fuzz(func(t *testing.T, text string) {
		spied, _ := parsePySpy([]byte(text), 7)
		for _, threads := range [][]stacks.Thread{spied, parseFaults(text), parseGDB(text), parseGoroutines(text),
			parseEuStack(text, 12, func(uint64, *stacks.Frame) {})} {
			check.That(t, len(threads) <= len(text), "%d threads in %d bytes", len(threads), len(text))
		}
	})
}
