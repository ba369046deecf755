package ui

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

func planOf(t *testing.T, hosts string) launcher.Plan {
	t.Helper()
	list := must.Get(hostfile.ParseList(hosts))(t)
	parsed := must.Get(list.Hosts())(t)
	return must.Get(plan.New(parsed, launcher.Request{}))(t)
}

// TestPrefixes compares the prefix of a line of an elastic job, whose program may run with any
// number of ranks.
func TestPrefixes(t *testing.T) {
	programs := []launcher.Program{{Argv: []string{"bin/train"}, Ranks: 3}}
	golden.Cases(t, "testdata/prefixes.txt", func(input string) (string, error) {
		words, err := usage.SplitShell(input)
		if err != nil {
			return "", err
		}
		l := LineStyle{Style: words[0], Timestamp: slices.Contains(words, "+time"), Programs: programs}
		l.Color[1] = slices.Contains(words, "+color")
		prefix, err := l.Prefixer(planOf(t, words[1]))
		if err != nil || prefix == nil {
			return "no prefix", err
		}
		rank, err := strconv.Atoi(words[2])
		fd := map[string]int{"stdout": 1, "stderr": 2}[words[3]]
		at := time.Date(2026, 11, 21, 0, 57, 31, 45e6, time.UTC)
		text := string(prefix(rank, fd, at))
		check.Equal(t, string(prefix(rank, fd, at)), text, input, text, "at first, then")
		if later := string(prefix(rank, fd, at.Add(time.Minute))); later != strings.Replace(text, "00:57", "00:58", 1) {
			t.Errorf("%s: %q a minute after %q", input, later, text)
		}
		if n := testing.AllocsPerRun(100, func() { at = at.Add(time.Second); prefix(rank, fd, at) }); n != 0 {
			t.Errorf("%s: %v allocations for a prefix", input, n)
		}
		return text, err
	})
}

func TestUseColor(t *testing.T) {
	for _, tc := range []struct {
		mode     string
		terminal bool
		env      map[string]string
		want     bool
	}{
		{"auto", true, nil, true},
		{"auto", false, nil, false},
		{"auto", true, map[string]string{"NO_COLOR": "1"}, false},
		{"auto", true, map[string]string{"NO_COLOR": ""}, true},
		{"auto", true, map[string]string{"TERM": "dumb"}, false},
		{"always", false, map[string]string{"NO_COLOR": "1"}, true},
		{"never", true, nil, false},
	} {
		check.Equal(t, UseColor(tc.mode, tc.terminal, environ.Lookup(tc.env)), tc.want, tc)
	}
}
