package dialect

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
)

func TestTableRowsAreComplete(t *testing.T) {
	for _, w := range readTable().rows {
		switch {
		case len(w.names)+len(w.vars) == 0 || w.of == 0 || w.to == "" || w.does == refuse &&
			!strings.HasPrefix(w.right, "refused: "):
			t.Errorf("%+v lacks something", w)
		case w.does == means && strings.Contains(w.value, "VALUE") != (w.args != 0) && w.is == nil && w.args == 1 &&
			w.to != "no-oversubscribe" && w.to != "keep-going":
			t.Errorf("%s takes %d values, and %q uses them otherwise", w.left, w.args, w.right)
		case w.does == reads && new(translator).reader(w.to) == nil:
			t.Errorf("%s: there is no reader %q", w.left, w.to)
		}
	}
}

// onlyVariables returns the variables that are no flags.
func onlyVariables(t table) map[string][]*word {
	only := map[string][]*word{}
	for name, rows := range t.variables {
		if len(rows[0].names) == 0 {
			only[name] = rows
		}
	}
	return only
}

// Of a launcher's rows of a word, the last accepts all values, and all take the same number.
func TestTableCoversEveryValue(t *testing.T) {
	table := readTable()
	for _, byName := range []map[string][]*word{table.flags, table.settings, onlyVariables(table)} {
		for name, all := range byName {
			for _, launcher := range []Dialect{OpenMPI, Hydra, Horovod, Slurm, Torch, DeepSpeed, Accelerate, Flux, Own,
				mca} {
				of := rowsOf(all, launcher)
				for i, w := range of {
					check.That(t, w.args == of[0].args && (w.is == nil) == (i == len(of)-1),
						"%s of %v: row %d of %d is %+v", name, launcher, i, len(of), w)
				}
			}
		}
	}
}
