package spawn

import (
	"testing"

	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/session"
)

// What a host gives the ranks that it spawns on itself does not fill the queues of other hosts.
func TestOtherHostsGetOutlines(t *testing.T) {
	large := make([]byte, 1<<20)
	r := request("a", 1, 2)
	r.Given = map[string][]byte{"k": large}
	for i := range r.Programs {
		r.Programs[i].Argv = append(r.Programs[i].Argv, string(large))
	}
	w, err := placementsOf(t, 9).Open(0, r)
	must.OK(t, err)
	if n := len(session.Encode(outline(w))); n > 1<<10 {
		t.Errorf("%d bytes for hosts without a rank of it", n)
	}
	if p := outline(w).Programs; len(p) != 2 || p[1].Ranks != 2 || len(w.Programs[1].Argv) != 2 || w.Given == nil {
		t.Errorf("%+v of %+v", p, w)
	}
}
