package job

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/internal/test/check"
)

// A host tells of the ranks that it was asked for, of each once, and what is beyond the bounds of a
// report takes no memory.
func TestReportsOfAHostAreBounded(t *testing.T) {
	const own = `{"rank":3}` + "\n"
	for name, tc := range map[string]struct{ out, want string }{
		"another's rank": {`{"rank":2}`, "reported rank 2, which was not requested"},
		"a rank twice":   {own + own, "reported rank 3, which was not requested or was reported before"},
		"no report":      {"[]", "read what the host says"},
		"many values":    {`{"rank":3,"processes":[` + strings.Repeat("{},", maxReport) + "{}]}", "values"},
	} {
		_, err := readReports([]byte(tc.out), "f1", []int{3})
		check.That(t, err != nil && strings.Contains(err.Error(), tc.want), "%s: %v", name, err)
	}
	large := `{"rank":3,"host":"f2","processes":[` + strings.Repeat("{},", 1<<16) + `{}],` +
		`"record":{"comms":[` + strings.Repeat("{},", 1<<16) + "{}]}}"
	all, err := readReports([]byte(large), "f1", []int{3, 4})
	check.OK(t, err)
	check.Equal(t, len(all), 1)
	r := all[0]
	check.Equal(t, r.Host, "f1")
	check.That(t, cap(r.Processes) < 2*stacks.MaxProcesses && cap(r.Record.Comms) < 64,
		"%d processes, %d communicators", cap(r.Processes), cap(r.Record.Comms))
}
