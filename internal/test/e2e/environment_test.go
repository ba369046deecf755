package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// Variables that are left out reach ranks neither here nor on other hosts, and a login's own variables stay
// unless they are named.
func TestLeftOutOnEveryHost(t *testing.T) {
	c := lab.MustLoopback(t, lab.Spec{Env: []string{"E2E_LOGIN=login"}})
	env := []string{"E2E_A=1", "E2E_AB=2", "E2E_TOKEN=secret"}
	const show = `echo "$GORUN_HOSTNAME $E2E_A|$E2E_AB|$E2E_TOKEN|$E2E_LOGIN"`
	for _, tc := range []struct{ argv, here, there string }{
		{"", "1|2|secret|", "1|2||login"},
		{"--no-env", "|||", "|||login"},
		{"--no-env -x E2E_TOKEN", "||secret|", "||secret|login"},
		{"--unset-env E2E_A", "|2|secret|", "|2||login"},
		{"--unset-env E2E_A* --unset-env E2E_LOGIN --unset-env E2E_TOKEN", "|||", "|||"},
		{"--no-env --unset-env E2E_LOGIN -x E2E_A*", "1|2||", "1|2||"},
	} {
		args := append(strings.Fields("--prefix none -H localhost,f1 "+tc.argv), "sh", "-c", show)
		r := startIn(t, c, env, args...).want(0)
		got := r.lines()
		slices.Sort(got)
		if want := []string{"f1 " + tc.there, "localhost " + tc.here}; !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tc.argv, got, want)
		}
	}
}
