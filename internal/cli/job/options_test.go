package job

import (
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/cli/settings"
)

func TestRingSendsOverAllNetworksThatAreNamed(t *testing.T) {
	for _, tc := range []struct {
		asked string
		env   []string
		want  string // the last variable; "": none is added
	}{
		{"", nil, ""},
		{"eth0", nil, ""},
		{"^docker0", nil, ""},
		{"eth0,eth1", nil, "RING_RAILS=2"},
		{"ib*", []string{"A=1"}, "RING_RAILS=8"},
		{"eth0,eth1", []string{"RING_RAILS=1"}, ""},
	} {
		var o settings.Options
		if err := o.Network.Set(tc.asked); err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(tc.env)
		if tc.want != "" {
			want = append(want, tc.want)
		}
		if got := sendOverAll(tc.env, o.Network.Network); !slices.Equal(got, want) {
			t.Errorf("%q with %q: %q, want %q", tc.asked, tc.env, got, want)
		}
	}
}
