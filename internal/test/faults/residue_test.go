package faults

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// Files that a job leaves are found, and those of others are not blamed on it.
func TestResidue(t *testing.T) {
	w := NewWatch(nil)
	others := must.Get(os.MkdirTemp("", "gorun-e2e-others-"))(t)
	defer os.Remove(others)
	j := must.Get(new(Marks).Start(t.Context(), nil, []string{"GORUN_GUARD=1-2-3"}, "sh", "-c",
		`echo >"$TMPDIR/left"; sleep 0.1 & echo up; wait`))(t)
	defer j.Close()
	j.Await(10*time.Second, func() bool { return len(j.Processes("sleep")) > 0 })
	v := w.Judge(j, time.Now(), Expect{Codes: []int{0}, End: soon, Clean: soon})
	check.That(t, len(v.Violations) == 1 && strings.HasPrefix(v.Violations[0], "I4: left behind: "+j.Home),
		"%q", v.Violations)
	check.That(t, j.guards["1-2-3"] && len(j.guards) == 1, "guards %v", j.guards)
}
