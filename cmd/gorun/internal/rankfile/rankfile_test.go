package rankfile

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/usage"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"rank 1=b slot=0\nrank 0=a slot=1:0-2\n":             "[{a 0 1:0-2} {b 0 0}]",
		"# all\n\nrank 0=+n1 slot=\"0:*\" // the second\r\n": "[{ 1 0:*}]",
		"rank 0=a\nRANK 1=a slots=0,2-3":                     "[{a 0 } {a 0 0,2-3}]",
		"rank 0=ada@a.example.com slot=0:1,1:0":              "[{ada@a.example.com 0 0:1,1:0}]",
		"":                                                   "ranks: it places no rank",
		"rank 0=a slot=0\nrank 0=b slot=0":                   "ranks:2: rank 0 is placed twice",
		"rank 0=a slot=0\nrank 2=b slot=0": "ranks: rank 1 has no line, and there are lines for 2 " +
			"ranks",
		"a slots=4":             `ranks:1: "a": expected rank N=HOST`,
		"rank x=a slot=0":       `ranks:1: "x=a": expected N=HOST`,
		"rank 1048576=a slot=0": `ranks:1: "1048576=a": expected N=HOST`,
		"rank 0= slot=0":        `ranks:1: "0=": expected N=HOST`,
		"rank 0=+nx slot=0":     `ranks:1: "+nx": expected +n0 for the first host`,
		"rank 0=a slot=p3": "ranks:1: gorun counts cores in the order of sockets, " +
			"not as the system does: leave the p out and count so",
		"rank 0=a slot=x":        `ranks:1: "slot=x": expected cores such as 0-3, or 1:0-3 for those of socket 1`,
		"rank 0=a core=1":        `ranks:1: "core=1": expected slot=CORES`,
		"rank 0=a slot=1 slot=2": `ranks:1: "slot=2": nothing may follow slot=`,
		"rank 0=a slot=" + strings.Repeat("1,", 64*1024) + "1": "read ranks: bufio.Scanner: token too long",
	} {
		places, err := Parse("ranks", strings.NewReader(text))
		got := fmt.Sprint(places)
		if err != nil {
			got = err.Error()
		}
		check.That(t, got == want && (err == nil || usage.Is(err)), "%.40q: %s, want %s", text, got, want)
	}
}
