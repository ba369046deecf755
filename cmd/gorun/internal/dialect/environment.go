package dialect

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// EnvironmentSettings translates Open MPI's launcher settings in OMPI_MCA_NAME and PRTE_MCA_NAME.
// Settings of the library go to the ranks unchanged. A default hostfile is a source of hosts and
// not included.
func EnvironmentSettings(environ []string, flags *pflag.FlagSet) (Line, error) {
	var set []string
	for _, kv := range environ {
		if strings.HasPrefix(kv, "OMPI_MCA_") || strings.HasPrefix(kv, "PRTE_MCA_") {
			set = append(set, kv)
		}
	}
	if len(set) == 0 {
		return Line{Typed: map[string]string{}, Dialect: Own}, nil // without reading the table
	}
	t := newTranslator(Own, flags, readTable())
	t.fromEnv = true
	for _, kv := range slices.Sorted(slices.Values(set)) {
		variable, value, _ := strings.Cut(kv, "=")
		name := variable[len("OMPI_MCA_"):] // PRTE_MCA_ has the same length
		if rows := t.table.settings[name]; rows != nil {
			if err := t.apply(meaning{typed: variable, rows: rows, args: 1}, []string{value}); err != nil {
				return t.Line, fmt.Errorf("in the environment: %w", err)
			}
		} else if forLauncher(name) {
			t.ignored = append(t.ignored, kv)
		}
	}
	return t.Line, nil
}

// forLauncher reports whether a setting belongs to Open MPI's launcher, not its library.
func forLauncher(name string) bool {
	for _, framework := range []string{"plm_", "orte_", "prte_", "rmaps_", "ras_", "odls_", "ess_", "routed_", "iof_",
		"rml_"} {
		if strings.HasPrefix(name, framework) {
			return true
		}
	}
	return false
}
