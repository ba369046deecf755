package faults

import (
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestCheckLines(t *testing.T) {
	line := func(rank, n int, text string) string {
		said := fmt.Sprintf("%d %d %s", rank, n, text)
		return fmt.Sprintf("%s %08x\n", said, crc32.ChecksumIEEE([]byte(said)))
	}
	a0 := line(0, 0, "line")
	a1 := line(0, 1, "line")
	a2 := line(0, 2, "end")
	b0 := line(1, 0, "line")
	b1 := line(1, 1, "end")
	for _, tt := range []struct {
		name, out      string
		complete, torn bool
		want           string // "": nothing is wrong
	}{
		{"all", a0 + b0 + a1 + b1 + a2, true, false, ""},
		{"a prefix", b0 + a0 + a1, false, false, ""},
		{"nothing", "", false, false, ""},
		{"a prefix is not all", b0 + a0 + a1 + a2, true, false, "I5: rank 1's output ends with line 0"},
		{"lost", a0 + a2, false, false, "I5: rank 0's line 2 came where 1 was next"},
		{"doubled", a0 + a1 + a1, false, false, "I5: rank 0's line 1 came where 2 was next"},
		{"out of order", a1 + a0, false, false, "I5: rank 0's line 1 came where 0 was next"},
		{"after the last", b0 + b1 + line(1, 2, "line"), false, false, "I5: rank 1's line 2 came"},
		{"merged inside a line", a0[:5] + b0 + a0[5:], false, false, "I5: "},
		{"a byte changed", strings.Replace(a0, "line", "lime", 1), false, false, "its checksum is"},
		{"cut off", a0 + a1[:4], false, false, "cut off"},
		{"cut off where that may be", a0 + a1[:4], false, true, ""},
		{"cut off in the middle", a0[:4] + "\n" + a1, false, true, "I5: "},
		{"another rank's", line(2, 0, "line"), false, false, "rank 2, which is none"},
		{"a wrong sum", a0 + "WRONG: number 3 of step 1 is 4, not 5\n", false, false, "I6: WRONG"},
		{"foreign", "hello\n", false, false, "I5: "},
	} {
		got := strings.Join(CheckLines(tt.out, 2, tt.complete, tt.torn), "; ")
		check.That(t, (tt.want == "") == (got == "") && strings.Contains(got, tt.want),
			"%s: %q, want %q", tt.name, got, tt.want)
	}
}
