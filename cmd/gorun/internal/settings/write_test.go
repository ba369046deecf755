package settings

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// A file that is written means what the flags meant.
func TestFilesAreReadAsWritten(t *testing.T) {
	for typed, want := range map[string]string{
		"--hosts f1:2,ada@f[2-8]:4":               "hosts=f1:2,ada@f[2-8]:4",
		"--hostfile hosts.txt --stage .":          "hostfile=/at/hosts.txt stage=.",
		"--np 4 --timeout 10m -i key":             "np=4 ssh-identity-file=/at/key timeout=10m0s",
		"--quiet --host-keys accept-new":          "host-keys=accept-new quiet=true",
		"-x A=1 -x B=yes -x C= --unset-env 007":   "export=A=1 export=B=yes export=C= unset-env=007",
		"--network-interface ib0,10.0.0.0/8 -v":   "network-interface=ib0,10.0.0.0/8 verbose=1",
		"--prefix null --gpus-per-rank none":      "gpus-per-rank=none prefix=null",
		"--timeout 1h --config other --grace 0.5": "grace=500ms timeout=1h0m0s",
	} {
		flags, _ := NewFlags()
		must.OK(t, flags.Parse(strings.Fields(typed)))
		var names []string
		for name := range Given(flags) {
			names = append(names, name)
		}
		text := must.Get(FileOf(flags, names, "/at"))(t)
		fresh, _ := NewFlags()
		got, err := parseSettings("f", text, fresh)
		must.OK(t, err, string(text))
		must.OK(t, got.Apply(fresh), string(text))
		read := strings.Fields(listing(got))
		slices.Sort(read)
		check.Equal(t, strings.Join(read, " "), want)
	}
}
