// Package environ gives tests an environment of their own.
package environ

import (
	"os"
	"strings"
	"testing"
)

// Lookup returns a function like os.LookupEnv that knows only env.
func Lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// Quiet removes from the environment, for the time of the test, the
// settings of this machine that gorun would read.
func Quiet(t *testing.T) {
	t.Helper()
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		for _, prefix := range []string{"OMPI_", "PRTE_", "SLURM_", "PBS_", "LSB_", "HYDRA_", "I_MPI_"} {
			if strings.HasPrefix(name, prefix) {
				t.Setenv(name, "") // to have it put back
				os.Unsetenv(name)
			}
		}
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("GORUN_DIALECT", "")
}
