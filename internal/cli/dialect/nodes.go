package dialect

import (
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/cli/usage"
)

// nodeRange is torchrun's --nnodes: a number of hosts, or MIN:MAX. The zero value is not given.
type nodeRange struct {
	typed       string
	least, most int
}

// readNodes parses N or MIN:MAX.
func (t *translator) readNodes(typed, text string) error {
	low, high, ranged := strings.Cut(text, ":")
	if !ranged {
		high = low
	}
	least, err1 := strconv.ParseUint(low, 10, 20)
	most, err2 := strconv.ParseUint(high, 10, 20)
	if err1 != nil || err2 != nil || least == 0 || least > most {
		return usage.Errorf("for example "+typed+" 2, or "+typed+" 2:4", "%s %q: expected N or MIN:MAX hosts", typed, text)
	}
	t.nodes = nodeRange{typed, int(least), int(most)}
	return nil
}

// emitNodes translates --nnodes, which depends on other flags: with discovered hosts or restarts the job is elastic,
// and the bounds become numbers of ranks.
func (t *translator) emitNodes() error {
	n := t.nodes
	if n.typed == "" {
		return nil
	}
	discovered := t.Typed["host-discovery-script"] != ""
	switch elastic := t.Typed["max-restarts"] != "" || discovered; {
	case !elastic && n.least == n.most:
		return t.emit("nodes", n.typed, []string{strconv.Itoa(n.least)})
	case !elastic:
		return usage.Errorf("add --max-restarts 3, or say how many hosts there are: "+n.typed+" "+strconv.Itoa(n.most),
			"%s %d:%d: hosts come and go only where ranks may be started again", n.typed, n.least, n.most)
	}
	each, err := t.ranksPerHost(discovered)
	for _, bound := range []struct {
		flag  string
		hosts int
	}{{"min-np", n.least}, {"max-np", n.most}} {
		if err == nil {
			err = t.emit(bound.flag, n.typed, []string{strconv.Itoa(bound.hosts * each)})
		}
	}
	return err
}

// ranksPerHost returns --ppn, or torchrun's default of 1. Discovered hosts get as many slots.
func (t *translator) ranksPerHost(discovered bool) (each int, err error) {
	flag := "ppn"
	if discovered {
		flag = "slots-per-host"
	}
	for i, arg := range t.Args {
		text, is := strings.CutPrefix(arg, "--ppn=")
		if !is {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 20)
		if err != nil || n == 0 {
			return 0, usage.Errorf("for example "+t.Typed["ppn"]+" 4", "%s %q: expected a number of ranks", t.Typed["ppn"], text)
		}
		each, t.Args[i], t.Typed[flag] = int(n), "--"+flag+"="+text, t.Typed["ppn"]
	}
	if each == 0 {
		return 1, t.emit(flag, t.nodes.typed, []string{"1"})
	}
	return each, nil
}
