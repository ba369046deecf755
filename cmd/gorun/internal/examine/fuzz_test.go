package examine

import (
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/test/check"
)

// A host says anything of itself and of its links.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"facts":{"cores":-1}}` + "\n" + `{"link":{"from":0,"to":1,"error":"\u001b"}}` + "\n"))
	f.Add([]byte(`{"waited":{"from":1,"share":1e308}}` + "\n" + `{"link":{"from":0,"to":7}}` + "\n" + `{"finished":true}`))
	f.Fuzz(func(t *testing.T, said []byte) {
		hosts := []hostfile.Host{{Name: "f1"}, {Name: "f2"}}
		m := &doctor.Measured{Names: []string{"f1", "f2"}, Hosts: map[string]doctor.Host{}}
		c := newCollector(len(hosts))
		c.take(0, 1, time.Time{}, said)
		c.into(hosts, m)
		for _, l := range m.Links {
			check.That(t, l.From == 0 && l.To == 1, "it has a link from %d to %d", l.From, l.To)
		}
		check.That(t, m.Hosts["f2"].Facts == nil, "it speaks for another host")
	})
}
