package launcher

import (
	"slices"
	"testing"

	"github.com/gorun/gorun/internal/wire"
)

func TestAddresses(t *testing.T) {
	remote := func(reached, caller string, own ...string) *session {
		return &session{conn: &machine{}, hello: wire.Hello{Reached: reached, Caller: caller, Addrs: own}}
	}
	local := func(own ...string) *session { return &session{conn: Local{}, hello: wire.Hello{Addrs: own}} }
	for name, tc := range map[string]struct {
		sessions []*session
		want     []string
	}{
		"this machine alone":                 {[]*session{local("10.0.0.9")}, []string{"127.0.0.1"}},
		"one host over SSH":                  {[]*session{remote("10.0.0.1", "10.0.0.9", "10.0.0.1", "192.168.0.1")}, []string{"10.0.0.1"}},
		"hosts where SSH reached them":       {[]*session{remote("10.0.0.1", "10.0.0.9"), remote("10.0.0.2", "10.0.0.9")}, []string{"10.0.0.1", "10.0.0.2"}},
		"this machine, as the others see it": {[]*session{local("192.168.0.9", "10.0.0.9"), remote("10.0.0.1", "10.0.0.9")}, []string{"10.0.0.9", "10.0.0.1"}},
		"SSH hosts on this machine":          {[]*session{local("10.0.0.9"), remote("127.0.0.1", "127.0.0.1")}, []string{"127.0.0.1", "127.0.0.1"}},
		"seen through NAT":                   {[]*session{local("192.168.0.9"), remote("10.0.0.1", "1.2.3.4")}, []string{"192.168.0.9", "10.0.0.1"}},
		"not over SSH, and no address":       {[]*session{remote("", ""), remote("", "", "10.0.0.2")}, []string{"127.0.0.1", "10.0.0.2"}},
	} {
		if got := addresses(tc.sessions); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
