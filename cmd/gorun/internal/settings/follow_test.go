package settings

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/dialect"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher"
)

// TestLaunchersFormOfOutput has flags of gorun under the names of launchers: what they set stays,
// and the launcher decides the rest.
func TestLaunchersFormOfOutput(t *testing.T) {
	for _, tc := range []struct {
		name, flags, prefix, stdin string
		codes                      launcher.Codes
	}{
		{"gorun", "", "host", "0", launcher.FirstCode},
		{"gorun", "--timestamp", "host", "0", launcher.FirstCode},
		{"mpirun", "", "none", "0", launcher.FirstCode},
		{"mpiexec", "--prefix rank --stdin 1", "rank", "1", launcher.FirstCode},
		{"mpirun", "--timestamp", "%T<%s>:", "0", launcher.FirstCode},
		{"mpirun", "--timestamp --tag-output", "none", "0", launcher.FirstCode},
		{"mpirun", "--timestamp --prefix host", "host", "0", launcher.FirstCode},
		{"mpiexec.hydra", "", "none", "0", launcher.MergedCode},
		{"srun", "", "none", "all", launcher.HighestCode},
		{"srun", "--panes 0", "none", "0", launcher.HighestCode},
		{"srun", "--stdin 0 --prefix srun", "srun", "0", launcher.HighestCode},
		{"torchrun", "", "none", "0", launcher.OneCode},
		{"horovodrun", "", "horovod", "0", launcher.OneCode},
		{"horovodrun", "--timestamp", "horovod", "0", launcher.OneCode},
		{"horovodrun", "--prefix mpirun", "mpirun", "0", launcher.OneCode},
		{"deepspeed", "", "none", "0", launcher.FirstCode},
		{"accelerate", "", "none", "0", launcher.OneCode},
		{"flux", "", "none", "all", launcher.HighestCode},
	} {
		flags, o := must.GetTwo(parse(strings.Fields(tc.flags)))(t)
		chosen, _ := dialect.Named(tc.name)
		o.Follow(chosen, flags)
		check.That(t, o.Prefix == tc.prefix && o.Stdin.String() == tc.stdin && o.Codes == tc.codes &&
			o.Foreign == (tc.name != "gorun"),
			"%s %s: %q, input for %s, codes by rule %d, foreign: %v", tc.name, tc.flags, o.Prefix, &o.Stdin, o.Codes,
			o.Foreign)
	}
}
