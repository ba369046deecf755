package linkage

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// Open MPI 4 loads a libpmix by a component, which stands in one of several folders; one with a
// PMIx of its own loads none.
func TestLibpmixOfOpenMPI4(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs cc")
	}
	for component, loads := range map[string]bool{"openmpi/mca_pmix_ext3x.so": true,
		"openmpi/lib/openmpi3/mca_pmix_ext3x.so": true, "openmpi/mca_pmix_pmix3x.so": false} {
		dir := t.TempDir()
		build := func(name string, args ...string) string {
			t.Helper()
			path := filepath.Join(dir, name)
			source := filepath.Join(dir, "source.c")
			must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
			must.OK(t, os.WriteFile(source, []byte("int main(void) { return 0; }\n"), 0o644))
			args = append([]string{"-Wl,--no-as-needed", "-Wl,-rpath," + dir, "-o", path, source}, args...)
			must.Run(t, exec.Command(cc, args...))
			return path
		}
		shared := func(name string, args ...string) string {
			return build(name, append([]string{"-shared", "-fPIC", "-Wl,-soname," + filepath.Base(name)}, args...)...)
		}
		pmix := shared("libpmix.so.2")
		rte := shared("libopen-rte.so.40")
		mpi := shared("libmpi.so.40.30.4", "-Wl,-soname,libmpi.so.40", rte)
		must.OK(t, os.Symlink(mpi, filepath.Join(dir, "libmpi.so.40")))
		shared(component, pmix)
		want := Use{MPI: OpenMPI4}
		if loads {
			want.PMIx = pmix
		}
		check.Equal(t, Find(t.Context(), build("program", mpi), "/", nil), want, component)
	}
}
