package settings

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/exitcode"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/plan"
)

func TestExpand(t *testing.T) {
	values := map[byte]string{'r': "7", 'h': "f1", 'l': "0", 'j': ""}
	for pattern, want := range map[string]string{
		"out": "out", "out.%r": "out.7", "%3r-%h/%l.txt": "007-f1/0.txt", "100%%": "100%", "%%r": "%r", "": "",
		"%x": "there is no %x here", "a%": "there is no %", "%5": "there is no %5", "%j": "there is no %j here",
		"%99r": "there is no %99r",
	} {
		got, err := expand(pattern, values)
		if err != nil {
			got = err.Error()
		}
		check.Equal(t, got, want, pattern)
	}
}

func TestPathsOfSavedOutput(t *testing.T) {
	plan := must.Get(plan.New([]hostfile.Host{{Name: "f1", Slots: 2}, {Name: "f2", Slots: 2}}, launcher.Request{}))(t)
	for _, tc := range []struct {
		save saveFiles
		want string // of ranks 1 and 2, stdout and stderr
	}{
		{saveFiles{1: "o.%r", 2: "e.%h.%l"}, "o.1 e.f1.1 o.2 e.f2.0"},
		{saveFiles{1: "%r", 2: "%r"}, "1 1 2 2"},
		{saveFiles{2: "job%j_%2r"}, " job99_01  job99_02"},
		{saveFiles{1: "/dev/null"}, "/dev/null  /dev/null "},
		{saveFiles{1: "out.%l"}, "--stdout-file out.%l: ranks 0 and 2 would have one file"},
		{saveFiles{2: "err"}, "--stderr-file err: ranks 0 and 1 would have one file"},
		{saveFiles{1: "x%l", 2: "x%r"}, "--stdout-file x%l: ranks 0 and 2 would have one file"},
		{saveFiles{1: "%s"}, "--stdout-file %s: there is no %s here"},
	} {
		places, err := tc.save.Paths(plan, "99")
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = fmt.Sprintf("%s %s %s %s", places(1, 1), places(1, 2), places(2, 1), places(2, 2))
		}
		check.That(t, (err == nil || exitcode.IsUsage(err) && usage.Hint(err) != "") && strings.HasPrefix(got, tc.want),
			"%q: %q, want %q", tc.save, got, tc.want)
	}
	places, err := (saveFiles{}).Paths(plan, "")
	check.That(t, places == nil && err == nil, "nothing is saved, and there are places for it")
}
