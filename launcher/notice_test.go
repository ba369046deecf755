package launcher

import (
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
)

type noticed struct {
	Local
	text string
}

func (n noticed) Notice() string { return n.text }

func TestNoticesAreToldOnce(t *testing.T) {
	var planned []PlannedHost
	var hosts []Host
	for _, h := range [][2]string{{"f1", "by x"}, {"f2", ""}, {"f3", "by y"}, {"f4", "by x"}, {"f5", "none"}} {
		planned = append(planned, PlannedHost{Host: hostfile.Host{Name: h[0]}})
		if h[1] == "none" {
			hosts = append(hosts, Local{})
			continue
		}
		hosts = append(hosts, noticed{text: h[1]})
	}
	check.Slice(t, notices(planned, hosts), []string{"f1, f4: by x", "f3: by y"})
	for i := range 8 {
		planned = append(planned, PlannedHost{Host: hostfile.Host{Name: string(rune('a' + i))}})
		hosts = append(hosts, noticed{text: "by y"})
	}
	got := notices(planned, hosts)
	check.That(t, len(got) == 2 && got[1] == "f3, a, b, c, d, e and 3 more hosts: by y", "%q", got)
}
