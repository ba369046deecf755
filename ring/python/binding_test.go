package python

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// The binding knows each function of ring.h, with the same number of arguments.
func TestBindingIsTheHeaders(t *testing.T) {
	header := must.Get(os.ReadFile("../capi/ring.h"))(t)
	binding := must.Get(os.ReadFile("gorun/_ring.py"))(t)
	functions := regexp.MustCompile(`(?m)^\w[\w ]*[ *](ring_\w+)\(([^)]*)\);`).FindAllStringSubmatch(string(header), -1)
	must.That(t, len(functions) >= 30, "%d functions in ring.h", len(functions))
	for _, f := range functions {
		line := regexp.MustCompile(`"` + f[1] + `": \(\w+, \[(.*)\]\),`).FindSubmatch(binding)
		if line == nil {
			t.Errorf("the binding lacks %s", f[1])
			continue
		}
		want := strings.Count(f[2], ",") + 1
		if f[2] == "void" {
			want = 0
		}
		got := strings.Count(string(line[1]), ",") + 1
		if len(line[1]) == 0 {
			got = 0
		}
		if got != want {
			t.Errorf("%s has %d arguments in ring.h, %d in the binding", f[1], want, got)
		}
	}
}

// Ranks on two hosts sum, gather and split.
func TestBinding(t *testing.T) {
	needs(t, "numpy")
	c := lab.MustNamespaces(t, lab.Specs(2)...)
	out := succeed(t, c, "-np", "4", "-H", "f1:2,f2:2", "--prefix", "none", interpreter, script(t, "binding.py"))
	check.Equal(t, strings.Count(strings.Join(out, "\n"), "all right"), 4,
		"of 4 ranks were right:", strings.Join(out, "\n"))
	n := strings.Count(fmt.Sprint(succeed(t, nil, "-np", "1", interpreter, script(t, "binding.py"))), "all right")
	check.That(t, n == 1, "alone it is not right")
}
