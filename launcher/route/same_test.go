package route

import (
	"fmt"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/launcher/plan"
)

func TestSameMachine(t *testing.T) {
	type host struct {
		hostfile.Host
		boot, hostname string
	}
	named := func(name string) hostfile.Host { return hostfile.Host{Name: name} }
	many := make([]host, 9)
	for i := range many {
		many[i] = host{named(fmt.Sprint("h", i)), "x", "n"}
	}
	for name, tc := range map[string]struct {
		hosts []host
		want  []string
	}{
		"all different":            {[]host{{named("a"), "x", "n1"}, {named("b"), "y", "n1"}}, nil},
		"containers of one kernel": {[]host{{named("a"), "x", "c1"}, {named("b"), "x", "c2"}}, nil},
		"nobody knows the boot":    {[]host{{named("a"), "", "n"}, {named("b"), "", "n"}}, nil},
		"two names": {[]host{{named("a"), "x", "n1"}, {named("b"), "y", "n2"}, {named("c"), "x", "n1"}},
			[]string{"a and c are one machine (n1): their ranks share its cores and GPUs"}},
		"two machines": {[]host{{named("a"), "x", "n1"}, {named("b"), "y", "n\n2"}, {named("c"), "y", "n\n2"},
			{named("d"), "x", "n1"}, {named("e"), "y", "n\n2"}},
			[]string{"b, c and e are one machine (n; 2): their ranks share its cores and GPUs",
				"a and d are one machine (n1): their ranks share its cores and GPUs"}},
		"one name, two logins": {[]host{{hostfile.Host{Name: "a", User: "u"}, "x", "n"},
			{hostfile.Host{Name: "a", Port: 22}, "x", "n"}},
			[]string{"u@a and a port 22 are one machine (n): their ranks share its cores and GPUs"}},
		"many names": {many, []string{"h0, h1, h2, h3, h4, h5 and 3 more hosts are one machine (n): their ranks " +
			"share its cores and GPUs"}},
	} {
		var hosts []plan.Host
		var contacts []Contact
		for _, h := range tc.hosts {
			hosts = append(hosts, plan.Host{Host: h.Host})
			contacts = append(contacts, Contact{Boot: h.boot, Hostname: h.hostname})
		}
		check.Slice(t, SameMachine(hosts, contacts), tc.want, name)
	}
}
