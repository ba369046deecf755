package wire

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// C14: clocks of hosts differ and are set, so no message has a time of day, and nothing here looks
// at one.
func TestNoTimeOfDayOnTheWire(t *testing.T) {
	files := must.Get(filepath.Glob("*.go"))(t)
	durations := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" {
				if s.Sel.Name == "Duration" {
					durations++
				} else {
					t.Errorf("package wire uses time.%s", s.Sel.Name)
				}
			}
			return true
		})
	}
	check.That(t, durations != 0, "no time.Duration was found either: this test looks in the wrong place")
}
