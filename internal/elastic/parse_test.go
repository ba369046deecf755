package elastic

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestParse(t *testing.T) {
	tests := []struct{ text, want string }{ // hosts, or the error
		{"", ""},
		{"\n  \r\n# none\r\n", ""},
		{"b\r\na:2\r\n", "b:4 a:2"},
		{"\ufeffa\n\n  c:1  \n", "a:4 c:1"},
		{"a:2\nb\na:3\na\n", "a:9 b:4"},
		{"[fd00::1]:2\n[fd00::2]\nfd00::3\n", "fd00::1:2 fd00::2:4 fd00::3:4"},
		{"u@a slots=3 port=22\na.b # c\n", "a:3 a.b:1"},
		{"f[1-3]:2", "f1:2 f2:2 f3:2"},

		{"b\na:0\n", "s:2:1: \"a:0\": the slots"},
		{"a:-1", "s:1:1: \"a:-1\": the slots"},
		{"a:1000000000", "s:1:1: \"a:1000000000\": the slots"},
		{"a\n\nb\x00c\n", "s:3:1: \"b\\x00c"},
		{"a:2\n\nu@a:2\n", "s:3: a is on line 1 too, with another user or port"},
		{"a:60000\na:60000\n", "s:2: the slots of a add up to more than"},
		{"a\n^b\n", "s:2: \"^b\": not a host"},
		{"a\n+n0\n", "s:2: \"+n0\": not a host"},
		{"a:auto", "s:1: a: a discovery script says"},
		{"Traceback (most recent call last):", "s:1:"},
		{"a /* b\nc */", "s:1:"},
		{strings.Repeat("\n", MaxLines+1), "s:10001: more than 10000 lines"},
		{strings.Repeat(" ", MaxOutput+1), "s: more than 1048576 bytes"},
		{"a\nf[1-10000]\n", "s:2: more than 10000 hosts"},
	}
	for _, tt := range tests {
		hosts, err := Parse("s", []byte(tt.text), 4)
		if err != nil {
			check.That(t, hosts == nil && strings.HasPrefix(err.Error(), tt.want) && tt.want != "",
				"%.40q: %v, %v\nwant %s", tt.text, hosts, err, tt.want)
			continue
		}
		var got []string
		for _, h := range hosts {
			got = append(got, fmt.Sprintf("%s:%d", h.Name, h.Slots))
		}
		check.That(t, strings.Join(got, " ") == tt.want, "%.40q: %q\nwant %q", tt.text, got, tt.want)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"a\nb:2\n", "[fd00::1]:2\r\n", "a:0", "a:-1", "a:1000000000", "a\x00", "a\na",
		"a:1\na:2", "# x", "^a", "+n1", "f[1-3]", "u@a slots=2", "a:auto"} {
		f.Add(seed, 2)
	}
	f.Fuzz(func(t *testing.T, text string, slots int) {
		hosts, err := Parse("s", []byte(text), slots%100)
		var bad *hostfile.ParseError
		lines := strings.Count(text, "\n") + 1
		switch {
		case err != nil && (hosts != nil || !errors.As(err, &bad)):
			t.Fatalf("%v beside %v", hosts, err)
		case err != nil && (bad.Line < 0 || bad.Line > lines || bad.Line == 0 && len(text) <= MaxOutput):
			t.Fatalf("%v in %d lines", err, lines)
		}
		seen := map[string]bool{}
		for _, h := range hosts {
			must.That(t, h.Name != "" && h.Slots >= 1 && h.Slots <= hostfile.MaxSlots && !seen[h.Name], "%+v", hosts)
			seen[h.Name] = true
		}
		again, err2 := Parse("s", []byte(hostfile.Format(hosts)), 1)
		must.That(t, err != nil || err2 == nil && len(again) == len(hosts), "%v, and again %v, %v", hosts, again, err2)
	})
}
