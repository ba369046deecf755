package linkage

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// withPMIx adds to the use of Open MPI 4 the libpmix that its component for PMIx loads. It stays ""
// if Open MPI was built with a copy of PMIx of its own: nothing says then which servers the copy
// gets along with.
func withPMIx(ctx context.Context, use Use, interpreter string, paths []string, in start) Use {
	if use.MPI != OpenMPI4 || use.PMIx != "" {
		return use
	}
	for _, path := range paths {
		if !strings.HasPrefix(filepath.Base(path), "libmpi.so.") {
			continue
		}
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		for _, component := range components(filepath.Dir(path), in) {
			libraries := list(ctx, interpreter, component, in)
			if i := slices.IndexFunc(libraries, isPMIx); i >= 0 {
				use.PMIx = libraries[i]
				return use
			}
		}
	}
	return use
}

// components lists Open MPI's components that use a libpmix outside of it, for a libmpi in folder.
func components(folder string, in start) (found []string) {
	for _, below := range []string{"openmpi", "openmpi3", "openmpi/lib/openmpi3"} { // Debian has two of its own
		found = append(found, filesOf(filepath.Join(folder, below), "mca_pmix_ext", ".so", in)...)
	}
	return found
}

func isPMIx(path string) bool {
	name, _, _ := strings.Cut(filepath.Base(path), ".so")
	return name == "libpmix"
}
