// Package linkage finds out which MPI a program will use, so that it is served in that MPI's
// language.
package linkage

import (
	"bytes"
	"context"
	"debug/elf"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/files/trust"
	"github.com/gorun/gorun/internal/host/elfhead"
)

// MPI is an implementation, as far as its launcher matters.
type MPI string

// The implementations.
const (
	None     MPI = ""         // none, or one that is found only later, such as by a script's child
	MPICH    MPI = "mpich"    // MPICH and its derivatives, which speak PMI-1
	OpenMPI4 MPI = "ompi4"    // Open MPI up to 4.1
	OpenMPI  MPI = "open mpi" // Open MPI from 5.0 on, which speaks PMIx
)

// Use is what a program uses.
type Use struct {
	MPI  MPI
	PMIx string // the path of the libpmix that an Open MPI loads; "": the system's, or none
}

// listTime bounds the dynamic linker, which reads files that may be on a network.
const listTime = 5 * time.Second

// start is how a program starts. Relative folders of its variables, such as the empty entries of
// LD_LIBRARY_PATH and PYTHONPATH, are in dir for the program, wherever this process is.
type start struct {
	dir   string
	env   map[string]string
	named bool // whether a command only names the program, of which anybody may have made what is beside it
}

// opens reports whether gorun looks at what is at a path: where the program is only named, not at
// what is missing, nor where another user's file system (FUSE) would have to be asked.
func (s start) opens(path string) bool {
	if !s.named {
		return true
	}
	_, err := trust.Stat(path)
	return err == nil
}

// Find returns what the program at path will use in the folder dir with the environment env, a map
// of names to values. It asks the program's dynamic linker, and for an interpreter of Python looks
// for the extension of mpi4py. It reads files and runs nothing of the program.
func Find(ctx context.Context, path, dir string, env map[string]string) Use {
	return find(ctx, path, start{dir: dir, env: env}, askLinker)
}

// asker returns what a program or library at path uses, or the program of which it is a library.
// That program names the dynamic linker.
type asker func(ctx context.Context, linker, path string, in start) Use

func find(ctx context.Context, path string, in start, ask asker) Use {
	names, interpreter := imports(path)
	if interpreter != "" && slices.ContainsFunc(names, unknown) {
		if use := ask(ctx, interpreter, path, in); use.MPI != None {
			return use
		}
	}
	if !isPython(path) {
		return Use{}
	}
	if interpreter == "" { // a script that starts Python, such as pyenv's
		_, interpreter = imports("/bin/sh")
	}
	return ofPython(ctx, path, interpreter, in, ask)
}

// imports returns the libraries that an ELF file names itself, and its dynamic linker, which is ""
// for a static program or a script.
func imports(path string) (names []string, interpreter string) {
	file, err := trust.OpenRegular(path)
	if err != nil {
		return nil, ""
	}
	defer file.Close()
	f, err := elfhead.Segments(file)
	if err != nil {
		return nil, ""
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			text := make([]byte, p.Filesz)
			if _, err := p.ReadAt(text, 0); err == nil {
				interpreter = string(bytes.TrimRight(text, "\x00"))
			}
		}
	}
	return elfhead.Needed(f), interpreter
}

// unknown reports whether a library may load an MPI library. The common system libraries do not,
// and to ask the linker about a program that has only those would cost a millisecond.
func unknown(library string) bool {
	name, _, _ := strings.Cut(library, ".so")
	return !slices.Contains([]string{"libc", "libm", "libdl", "libpthread", "librt", "libutil", "libstdc++", "libgcc_s",
		"libz", "libexpat", "libtinfo", "libselinux",
		"libcrypt", "libcrypto", "libssl", "libresolv", "libbz2", "liblzma", "libpcre2-8", "libcap", "libreadline",
		"ld-linux-x86-64", "ld-linux-aarch64"}, name) &&
		!strings.HasPrefix(name, "libpython")
}

// askLinker is an asker by the dynamic linker's list.
func askLinker(ctx context.Context, linker, path string, in start) Use {
	paths := append(list(ctx, linker, path, in), path)
	return withPMIx(ctx, classify(paths), linker, paths, in)
}

// askJudged is an asker for a program that others cannot change, and that a command perhaps only
// reads. They may still have put packages of Python beside it, about which no linker is asked.
func askJudged(ctx context.Context, linker, path string, in start) Use {
	if trust.Check(path) != nil {
		return askByName(ctx, linker, path, in)
	}
	return askLinker(ctx, linker, path, in)
}

// askByName is an asker for files that other users can change, and that a command perhaps reads but
// does not run. It takes the name of an MPI from the file, and looks for that MPI where env and the
// system's dynamic linker say. So nothing that the file names itself is run or loaded.
func askByName(ctx context.Context, _, path string, in start) Use {
	const system = "/bin/sh"
	names, _ := imports(path)
	_, linker := imports(system)
	for _, name := range names {
		isPath := strings.Contains(name, "/")
		if isPath || classify([]string{name}).MPI == None {
			continue
		}
		env := maps.Collect(maps.All(in.env))
		env["LD_PRELOAD"] = name
		return askLinker(ctx, linker, system, start{dir: in.dir, env: env})
	}
	return Use{}
}

// list returns the paths of all libraries that the dynamic linker would load for a program or
// library, directly and indirectly. It does not run the program.
func list(ctx context.Context, interpreter, path string, in start) []string {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, interpreter, "--list", path)
	cmd.Dir = in.dir
	for name, value := range in.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	text, _ := cmd.Output() // with a library that is missing it fails, and lists the others
	return parseList(string(text))
}

// parseList reads lines such as "libmpi.so.40 => /usr/lib/libmpi.so.40 (0x00007f…)".
func parseList(text string) (paths []string) {
	for line := range strings.Lines(text) {
		_, found, arrow := strings.Cut(line, " => ")
		path, _, address := strings.Cut(strings.TrimSpace(found), " (0x")
		if arrow && address && filepath.IsAbs(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// classify tells the MPI by the names of all libraries that a program loads.
func classify(paths []string) Use {
	var use Use
	var early bool // Open MPI up to 4.1 has a run-time layer of its own
	for _, path := range paths {
		name, version, _ := strings.Cut(filepath.Base(path), ".so.")
		version, _, _ = strings.Cut(version, ".")
		switch {
		case name == "libopen-rte":
			early = true
		case name == "libpmix":
			use.PMIx = path
		case name == "libmpi" || strings.HasPrefix(name, "libmpi_"):
			switch version {
			case "40", "20":
				use.MPI = OpenMPI
			case "12":
				use.MPI = MPICH
			}
		case name == "libmpich" || name == "libmpichcxx":
			use.MPI = MPICH
		}
	}
	if use.MPI == OpenMPI && early {
		use.MPI = OpenMPI4
	}
	if use.MPI != OpenMPI && use.MPI != OpenMPI4 {
		use.PMIx = "" // a PMIx of another library
	}
	return use
}

// Loaded returns what a running process uses, by the libraries in its memory. maps is its
// /proc/PID/maps.
func Loaded(maps string) Use {
	var paths []string
	for line := range strings.Lines(maps) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			if path := strings.TrimSpace(line[at:]); len(paths) == 0 || paths[len(paths)-1] != path {
				paths = append(paths, path)
			}
		}
	}
	return classify(paths)
}
