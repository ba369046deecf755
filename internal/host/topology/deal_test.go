package topology

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestReadCaches(t *testing.T) {
	text := must.Get(os.ReadFile(filepath.Join("testdata", "epyc.txt")))(t)
	m := must.Get(Read(tree(string(text))))(t)
	var got []string
	for _, u := range []Unit{Thread, Core, L2, L3, Node, Socket} {
		got = append(got, fmt.Sprint(m.Count(u)))
	}
	if want := "16 8 8 4 1 2"; strings.Join(got, " ") != want {
		t.Errorf("it has %s units, want %s", strings.Join(got, " "), want)
	}
	sets, err := m.Bind(Policy{Unit: L3, Over: L3}, 4)
	check.That(t, fmt.Sprint(sets) == "[0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15]" && err == nil,
		"L3 caches: %v, %v", sets, err)
	bare := box(2, 2, 2, 1)
	bare.readCaches(tree(""))
	check.That(t, bare.Count(L2) == 8 && bare.Count(L3) == 2,
		"without caches: %d of level 2, %d of level 3; want cores and sockets", bare.Count(L2), bare.Count(L3))
}

func TestPickCores(t *testing.T) {
	m := box(2, 1, 4, 2)
	for text, want := range map[string]string{
		"2": "2,10", "2-3": "2-3,10-11", "1:0-1": "4-5,12-13", "0:0,1": "0-1,8-9", "0:0,1:0": "0,4,8,12",
		"0,1:2": "0,6,8,14", "1:*": "4-7,12-15", "*": "0-15", "*:1": "1,9",
		"0-1:*": "0-15",
		"8":     `there is no core 8 to use for "8"`, "1:4": `there is no core 4 to use for "1:4"`,
		"2:0": "there is no core to use in socket 2",
		"x":   `"x" is no list such as 0-3, or 1:0-3 for the cores of socket 1`, "x:0": `"x" is no number of a socket`,
		"": `"" names no core`,
	} {
		got, err := m.Pick(text)
		check.That(t, (err == nil || err.Error() == want) && (err != nil || got.String() == want),
			"%q: %v, %v; want %s", text, got, err, want)
	}
}

func TestCoresInOrder(t *testing.T) {
	m := box(2, 1, 4, 2)
	for list, want := range map[string]string{
		"4,0-1": "[4,12 0,8 1,9]", "1,1": "[1,9]",
		"8": "there is no core 8 to use; there are cores 0-7", "": `"" is no list of cores such as 0-3,8`,
		"a": `"a" is no list of cores such as 0-3,8`,
	} {
		chosen, err := m.Cores(list)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			sets, bindErr := chosen.Bind(Policy{Unit: Core}, len(chosen)/2)
			got = fmt.Sprint(sets)
			err = bindErr
		}
		check.That(t, got == want, "%q: %s, %v; want %s", list, got, err, want)
	}
}
