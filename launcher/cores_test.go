package launcher

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/fake"
)

func TestCoresOfHosts(t *testing.T) {
	d := fake.NewDisk(map[string]string{"/bin/gorun": "build us"})
	machines := map[string]*fake.Machine{"a": {Disk: d, Cores: 16}, "b": {Disk: d},
		"bad": {Disk: fake.NewDisk(nil), PutErr: errors.New("disk full")}}
	opts := Options{Exe: Executable{Path: "/bin/gorun", Build: "us", Hash: func() (string, error) {
		return strings.Repeat("0", 64), nil
	}},
		Dial: func(_ context.Context, h hostfile.Host) (Host, error) { return machines[h.Name], nil }}
	got, err := Cores(t.Context(), []hostfile.Host{{Name: "a"}, {Name: "b"}}, opts)
	if err != nil || len(got) != 2 || got[0] != 16 || got[1] != 1 {
		t.Errorf("%v, %v", got, err)
	}
	for name, m := range machines {
		if m.Mu.Lock(); name != "bad" && (!m.Closed || !m.Left) {
			t.Errorf("%s is still in use", name)
		}
		m.Mu.Unlock()
	}
	var failed *LaunchError
	if _, err := Cores(t.Context(), []hostfile.Host{{Name: "a"}, {Name: "bad"}}, opts); !errors.As(err, &failed) ||
		len(failed.Hosts) != 1 || failed.Hosts[0].Host != "bad" {
		t.Errorf("%v, want an error about one host", err)
	}
}
