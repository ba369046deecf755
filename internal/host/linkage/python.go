package linkage

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/files/trust"
)

// isPython reports whether a program is an interpreter of Python, by its name or by that of the
// file it stands for.
func isPython(path string) bool {
	real, _ := filepath.EvalSymlinks(path)
	return slices.ContainsFunc([]string{path, real}, func(path string) bool {
		name := strings.TrimRight(filepath.Base(path), "0123456789.")
		return name == "python" || name == "pypy"
	})
}

// Bounds of what is looked at of a Python that anybody may have made.
const (
	maxExtensions = 16 // of mpi4py, of which a wheel has one for each ABI
	maxVersions   = 32 // of Python below one prefix
)

// ofPython returns what mpi4py uses, the way of Python programs to MPI, if the interpreter has it.
func ofPython(ctx context.Context, path, interpreter string, in start, ask asker) Use {
	if interpreter == "" {
		return Use{}
	}
	for _, folder := range packages(path, in) {
		if ctx.Err() != nil { // folders with thousands of names
			return Use{}
		}
		extensions := filesOf(filepath.Join(folder, "mpi4py"), "MPI", ".so", in)
		if len(extensions) == 0 {
			continue
		}
		extensions = extensions[:min(len(extensions), maxExtensions)]
		if slices.ContainsFunc(extensions, ofWheel) { // a wheel looks for its MPI at import, first beside itself
			if use := beside(ctx, folder, interpreter, in, ask); use.MPI != None {
				return use
			}
		}
		for _, e := range extensions {
			if !in.opens(e) {
				continue
			}
			if use := ask(ctx, interpreter, e, in); use.MPI != None {
				return use
			}
		}
		return Use{}
	}
	return Use{}
}

// ofWheel reports whether an extension of mpi4py is one for any MPI of its ABI, MPI.mpich.*.so or
// MPI.openmpi.*.so.
func ofWheel(extension string) bool {
	return strings.HasPrefix(filepath.Base(extension), "MPI.mpich.") ||
		strings.HasPrefix(filepath.Base(extension), "MPI.openmpi.")
}

// beside returns the MPI that pip has installed into the folder's prefix,
// PREFIX/lib/pythonX.Y/site-packages.
func beside(ctx context.Context, folder, interpreter string, in start, ask asker) Use {
	for _, name := range []string{"libmpi.so.12", "libmpi.so.40"} {
		library := filepath.Join(folder, "..", "..", name)
		if !in.opens(library) {
			continue
		}
		if _, err := os.Stat(library); err == nil {
			return ask(ctx, interpreter, library, in)
		}
	}
	return Use{}
}

// packages lists the folders in which a Python at path looks for packages, in its order.
func packages(path string, in start) []string {
	folders := named(in)
	prefix := filepath.Dir(filepath.Dir(path))
	system := true
	if config, err := openConfig(prefix, in); err == nil { // a virtual environment
		defer config.Close()
		system = false
		for lines := bufio.NewScanner(io.LimitReader(config, maxScript)); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), "=")
			if strings.TrimSpace(name) == "include-system-site-packages" {
				system = strings.TrimSpace(value) == "true"
			}
		}
		folders = append(folders, sites(prefix, in)...)
	}
	if !system {
		return folders
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		prefix = filepath.Dir(filepath.Dir(real))
	}
	if home := in.env["HOME"]; home != "" && in.env["PYTHONNOUSERSITE"] == "" {
		folders = append(folders, sites(filepath.Join(home, ".local"), in)...)
	}
	if prefix == "/usr" {
		folders = append(folders, sites("/usr/local", in)...)
	}
	return append(folders, sites(prefix, in)...)
}

// openConfig opens the file that makes a prefix a virtual environment.
func openConfig(prefix string, in start) (*os.File, error) {
	path := filepath.Join(prefix, "pyvenv.cfg")
	if !in.opens(path) {
		return nil, os.ErrNotExist
	}
	return trust.OpenRegular(path)
}

// named lists the folders of PYTHONPATH. A relative one is in the folder in which Python starts. It
// counts only where no other user can put packages: Python with -I takes none from there.
func named(in start) (folders []string) {
	for _, folder := range filepath.SplitList(in.env["PYTHONPATH"]) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(in.dir, folder)
			if !filepath.IsAbs(folder) || trust.Check(folder) != nil {
				continue
			}
		}
		folders = append(folders, folder)
	}
	return folders
}

// sites lists a prefix's folders of packages. Debian's have another name.
func sites(prefix string, in start) (folders []string) {
	for _, at := range [][2]string{{"lib", "site-packages"}, {"lib", "dist-packages"}, {"lib64", "site-packages"}} {
		versions := filesOf(filepath.Join(prefix, at[0]), "python3", "", in)
		for _, version := range versions[:min(len(versions), maxVersions)] {
			folder := filepath.Join(version, at[1])
			if !in.opens(folder) {
				continue
			}
			if _, err := os.Lstat(folder); err == nil {
				folders = append(folders, folder)
			}
		}
	}
	return folders
}

// filesOf returns the sorted paths of files of a folder, by how their names begin and end. Anybody
// may have made it, so not all names of a huge one are looked at.
func filesOf(folder, prefix, suffix string, in start) (paths []string) {
	const most = 1 << 14
	if !in.opens(folder) {
		return nil
	}
	for name := range trust.Names(folder, most) {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			paths = append(paths, filepath.Join(folder, name))
		}
	}
	slices.Sort(paths)
	return paths
}
