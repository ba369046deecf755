package gpu

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func TestPathsOfThePCITree(t *testing.T) {
	devices := must.Get(List(t.Context(), Sources{Root: tree(t, "switches.txt")}))(t)
	var got strings.Builder
	for i, d := range devices {
		fmt.Fprintf(&got, "%s %d %s", d.BusID[5:7], d.NUMANode, d.CPUs)
		for j := range devices {
			if path, known := d.Paths[j]; known != (i != j) {
				t.Errorf("GPU %d: %v", i, d.Paths)
			} else if known {
				fmt.Fprintf(&got, " %v", path)
			} else {
				got.WriteString(" X")
			}
		}
		got.WriteByte('\n')
	}
	const want = `1a 0 0-15,32-47 X PIX PXB PHB NODE SYS
1b 0 0-15,32-47 PIX X PXB PHB NODE SYS
1e 0 0-15,32-47 PXB PXB X PHB NODE SYS
21 0 0-15,32-47 PHB PHB PHB X NODE SYS
5d 0 0-15,32-47 NODE NODE NODE NODE X SYS
b3 1 16-31,48-63 SYS SYS SYS SYS SYS X
`
	check.That(t, got.String() == want, "got\n%swant\n%s", &got, want)
}

func TestBetween(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want Path
	}{
		{"p a b x", "p a c y", SingleSwitch},
		{"p a b x", "p a c d y", MultipleSwitches}, // a bridge below the switch
		{"p a x", "p a y", SingleSwitch},           // two functions of what hangs on the port
		{"p x", "p y", HostBridge},
		{"p a x", "p y", HostBridge},
		{"p x", "q x", Node},
	} {
		a := strings.Fields(tt.a)
		b := strings.Fields(tt.b)
		there := between(a, b, true)
		back := between(b, a, true)
		check.That(t, there == tt.want && back == tt.want,
			"between(%s, %s) = %v, %v, want %v", tt.a, tt.b, there, back, tt.want)
	}
	check.Equal(t, between([]string{"p", "x"}, []string{"q", "y"}, false), System, "other node")
}

// What the library has said of a path stands: it knows of boards, which the tree does not show.
func TestKnownPathsStay(t *testing.T) {
	devices, _ := List(t.Context(), Sources{Root: tree(t, "switches.txt")})
	devices[0].Paths = map[int]Path{1: Internal}
	addPlaces(tree(t, "switches.txt"), devices)
	p := devices[0].Paths
	check.That(t, p[1] == Internal && p[2] == MultipleSwitches, "%v", p)
}

func TestWayTo(t *testing.T) {
	for link, want := range map[string]string{
		"../../../devices/pci0000:00/0000:00:07.0":             "pci0000:00 0000:00:07.0",
		"../../../devices/LNXSYSTM:00/pci0001:00/0001:00:00.0": "pci0001:00 0001:00:00.0",
		"../../../devices/virtual/net/lo":                      "",
		"0000:00:07.0":                                         "",
		"":                                                     "",
	} {
		check.Equal(t, strings.Join(wayTo(link), " "), want, "wayTo of", link)
	}
}
