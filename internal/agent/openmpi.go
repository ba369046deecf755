package agent

import (
	"debug/elf"
	"os"
	"slices"
	"strings"
)

// openMPI is the first program that is linked with Open MPI, or "": its ranks would not find each other.
// Programs that load it later, as interpreters do, are not seen through.
func openMPI(programs []program) string {
	i := slices.IndexFunc(programs, func(p program) bool { return slices.ContainsFunc(librariesOf(p.path), ofOpenMPI) })
	if i < 0 {
		return ""
	}
	return programs[i].argv[0]
}

// librariesOf are those that a program names; none if it is a script.
func librariesOf(path string) []string {
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	f, err := elf.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.ImportedLibraries()
	return names
}

// ofOpenMPI reports names like libmpi.so.40 and libmpi_mpifh.so.40, which Open MPI has had since 2.0; MPICH's is libmpi.so.12.
func ofOpenMPI(library string) bool {
	name, version, _ := strings.Cut(library, ".so.")
	version, _, _ = strings.Cut(version, ".")
	return (name == "libmpi" || strings.HasPrefix(name, "libmpi_")) && (version == "20" || version == "40")
}
