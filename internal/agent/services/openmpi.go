package services

import (
	"debug/elf"
	"os"
	"slices"
	"strings"
)

// LinksOpenMPI reports whether a program is linked with Open MPI: its ranks would not find each other. A library that an interpreter
// loads later is not seen.
func LinksOpenMPI(path string) bool { return slices.ContainsFunc(librariesOf(path), ofOpenMPI) }

// librariesOf lists the libraries that a program is linked with, none for a script.
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
