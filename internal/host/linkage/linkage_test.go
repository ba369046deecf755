package linkage

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
)

func TestParseList(t *testing.T) {
	got := parseList("\tlinux-vdso.so.1 (0x00007ffd)\n\tlibmpi.so.40 => /opt/with space/libmpi.so.40 (0x00007f2d)\n" +
		"\tlibgone.so.1 => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x0000)\n\tlibc.so.6 => /lib/libc.so.6 (0x1)\n")
	want := []string{"/opt/with space/libmpi.so.40", "/lib/libc.so.6"}
	check.That(t, slices.Equal(got, want), "%q, want %q", got, want)
}

func TestClassify(t *testing.T) {
	for name, tt := range map[string]struct {
		paths []string
		want  Use
	}{
		"none":           {[]string{"/lib/libc.so.6", "/lib/libmpfr.so.6"}, Use{}},
		"mpich":          {[]string{"/lib/libmpi.so.12"}, Use{MPI: MPICH}},
		"debian's mpich": {[]string{"/lib/libmpich.so.12", "/lib/libpmix.so.2"}, Use{MPI: MPICH}},
		"open mpi 4": {[]string{"/lib/libmpi.so.40", "/lib/libopen-rte.so.40", "/lib/libopen-pal.so.40",
			"/lib/libpmix.so.2"}, Use{OpenMPI4, "/lib/libpmix.so.2"}},
		"its fortran": {[]string{"/lib/libmpi_mpifh.so.40", "/lib/libopen-rte.so.40"}, Use{MPI: OpenMPI4}},
		"open mpi 5": {[]string{"/v/libmpi.so.40", "/v/libopen-pal.so.80", "/v/openmpi/libpmix.so.2"},
			Use{MPI: OpenMPI, PMIx: "/v/openmpi/libpmix.so.2"}},
		"pmix without mpi":  {[]string{"/lib/libpmix.so.2"}, Use{}},
		"an indirect mpich": {[]string{"/lib/libpetsc.so.3", "/lib/libmpi.so.12.1.8"}, Use{MPI: MPICH}},
	} {
		check.Equal(t, classify(tt.paths), tt.want, name)
	}
}

// Programs of everyday use name no library that the linker is asked about.
func TestKnownLibraries(t *testing.T) {
	for name, want := range map[string]bool{"libc.so.6": false, "libstdc++.so.6": false, "libpython3.11.so.1.0": false,
		"libmpi.so.40": true, "liblammps.so.0": true} {
		check.That(t, unknown(name) == want, "unknown(%s) is %v", name, !want)
	}
}

func TestWhatHasNoLinker(t *testing.T) {
	script := filepath.Join(t.TempDir(), "script")
	must.OK(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o755))
	for _, path := range []string{script, "/dev/null", "/nowhere", t.TempDir()} {
		check.Equal(t, Find(t.Context(), path, "/", nil), (Use{}), path)
	}
}

// A long command line is searched no longer than a short one. Without a bound each of its words is
// looked up in each folder.
func TestSearchOfALongCommandLineIsBounded(t *testing.T) {
	words := make([]string, 100_000)
	for i := range words {
		words[i] = strconv.Itoa(i)
	}
	text := strings.Join(words, " ")
	paths := strings.Fields("/bin/sh" + strings.ReplaceAll(" "+text, " ", " ./"))
	dir := files.Make(t, map[string]string{"long.sh": "+#!/bin/sh\necho " + text + "\n"})
	env := map[string]string{"PATH": strings.Repeat("/nowhere:", 500) + "/bin"}
	for name, argv := range map[string][]string{
		"arguments of a shell":    append([]string{"/bin/sh", "-c", "echo $#", "x"}, words...),
		"arguments of a program":  append([]string{"/bin/true"}, words...),
		"paths":                   paths,
		"the script of a shell":   {"/bin/sh", "-c", "echo " + text},
		"a script":                {dir + "/long.sh"},
		"a script of a shell":     {"/bin/sh", "long.sh"},
		"a script after a script": {"/bin/sh", "-c", "./long.sh; ./long.sh"},
	} {
		began := time.Now()
		use, _ := FindCommand(t.Context(), argv[0], argv, dir, env)
		check.That(t, use == (Use{}), "%s: %+v", name, use)
		took := time.Since(began)
		check.That(t, took <= 5*time.Second, "%s: the search took %v", name, took)
	}
}

// A program is listed, and not run.
func TestFindOfALinkedProgram(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs cc")
	}
	dir := files.Make(t, map[string]string{
		"p.c": "#include <stdio.h>\nint mpi(void); int pal(void);\n#ifdef MAIN\nint main(void) { " +
			"fclose(fopen(\"ran\", \"w\")); return mpi(); }\n#else\nint NAME(void) { return 0; }\n#endif\n",
		"run.sh":  "+#!/usr/bin/env bash\n# ./other\nN=2 ./program --x\n",
		"plain":   "+exec program\n",
		"outer":   "+#!/bin/sh\n. ./run.sh\n",
		"comment": "+#!/bin/sh\n# ./program\n",
		"perl":    "+#!/usr/bin/perl\nsystem './program'\n",
		"python3": "+#!/bin/sh\n",

		"env/pyvenv.cfg": "home = /usr/bin\ninclude-system-site-packages = false\n",
		"env/bin/x":      "",
		"env/lib/python3.11/site-packages/mpi4py/__init__.py": "",
	})
	build := func(args ...string) {
		t.Helper()
		must.Run(t, exec.Command(cc, args...))
	}
	source := filepath.Join(dir, "p.c")
	pal := filepath.Join(dir, "libopen-pal.so.80")
	mpi := filepath.Join(dir, "libmpi.so.40")
	program := filepath.Join(dir, "program")
	pmix := filepath.Join(dir, "libpmix.so.2")
	build("-shared", "-fPIC", "-DNAME=fence", "-Wl,-soname,libpmix.so.2", "-o", pmix, source)
	build("-shared", "-fPIC", "-DNAME=pal", "-Wl,-soname,libopen-pal.so.80", "-Wl,--no-as-needed", "-Wl,-rpath,$ORIGIN",
		"-o", pal, source, pmix)
	build("-shared", "-fPIC", "-DNAME=mpi", "-Wl,-soname,libmpi.so.40", "-Wl,--no-as-needed", "-o", mpi, source, pal)
	build("-DMAIN", "-o", program, source, mpi, "-Wl,-rpath-link,"+dir)
	check.Equal(t, Find(t.Context(), program, "/", map[string]string{"LD_LIBRARY_PATH": dir}), (Use{OpenMPI, pmix}))
	check.Error(os.Stat("ran")).Any(t, "the program ran")
	// Programs that a command line or a script names.
	env2 := map[string]string{"LD_LIBRARY_PATH": dir, "PATH": dir + ":/usr/bin:/bin"}
	for _, tt := range []struct {
		argv []string
		want bool
	}{
		{[]string{"/usr/bin/env", "A=1", "./program"}, true},
		{[]string{"/bin/sh", "-c", "true; " + program + "; exit $?"}, true},
		{[]string{"/bin/sh", "-c", "true;(program 3 >log)"}, true}, {[]string{dir + "/run.sh"}, true},
		{[]string{"/bin/sh", "plain"}, true}, {[]string{"/bin/sh", "-e", "run.sh", "x"}, true},
		{[]string{dir + "/outer"}, true},
		{append([]string{"/usr/bin/env", "./program"}, slices.Repeat([]string{"x", "y"}, maxWords)...), true},
		{append(slices.Repeat([]string{"/usr/bin/env"}, maxWords), "./program"), false},
		{[]string{dir + "/comment"}, false}, {[]string{"/bin/cat", "plain"}, false}, {[]string{dir + "/perl"}, false},
		{[]string{"/bin/true"}, false}, {[]string{"/bin/sh", "-c", "gone"}, false},
	} {
		use, guess := FindCommand(t.Context(), tt.argv[0], tt.argv, dir, env2)
		found := use == (Use{OpenMPI, pmix})
		check.That(t, found == tt.want && guess == tt.want, "%q: %+v, a guess: %v", tt.argv, use, guess)
	}
	use, guess := FindCommand(t.Context(), program, []string{program}, dir, env2)
	check.That(t, use == (Use{OpenMPI, pmix}) && !guess, "the program itself: %+v, a guess: %v", use, guess)
	// mpi4py's extension, found as an interpreter of that prefix would.
	env := filepath.Join(dir, "env")
	packages := filepath.Join(env, "lib/python3.11/site-packages/mpi4py")
	build("-shared", "-fPIC", "-DNAME=extension", "-Wl,--no-as-needed", "-o",
		filepath.Join(packages, "MPI.cpython-311.so"), source, mpi)
	interpreter := filepath.Join(env, "bin/python3")
	build("-DNAME=main", "-o", interpreter, source)
	check.Equal(t, Find(t.Context(), interpreter, "/", map[string]string{"LD_LIBRARY_PATH": dir}), (Use{OpenMPI, pmix}),
		"python")
	shim := filepath.Join(dir, "python3")
	check.Equal(t, Find(t.Context(), shim, "/", map[string]string{"LD_LIBRARY_PATH": dir,
		"PYTHONPATH": filepath.Dir(packages)}), (Use{OpenMPI, pmix}), "a script that starts python")
	// Wheels load what is installed beside them.
	must.OK(t, os.Remove(filepath.Join(packages, "MPI.cpython-311.so")))
	build("-shared", "-fPIC", "-DNAME=extension", "-o", filepath.Join(packages, "MPI.openmpi.cpython-311.so"), source)
	build("-shared", "-fPIC", "-DNAME=mpi", "-Wl,-soname,libmpi.so.40", "-Wl,--no-as-needed", "-o",
		filepath.Join(env, "lib/libmpi.so.40"), source, pal, "-Wl,-rpath,"+dir)
	check.Equal(t, Find(t.Context(), interpreter, "/", nil), (Use{OpenMPI, pmix}), "beside mpi4py")
}

// A program that a command names, and that others can change, is listed by no dynamic linker: it
// says itself which one that is. The MPI that it imports by name is looked for as for any program
// of the user's.
func TestProgramsOfOthersAreNotListed(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs cc")
	}
	dir := files.Make(t, map[string]string{
		"linker":     "+#!/bin/sh\necho \"$@\" >>\"${0%/*}/ran\"\n",
		"p.c":        "int mpi(void) { return 0; }\nint main(void) { return 0; }\n",
		"shared/.in": "",
	})
	shared := filepath.Join(dir, "shared")
	program := filepath.Join(shared, "program")
	library := filepath.Join(dir, "libx.so")
	source := filepath.Join(dir, "p.c")
	must.Run(t, exec.Command(cc, "-shared", "-fPIC", "-o", library, source))
	must.Run(t, exec.Command(cc, "-o", program, source, "-Wl,--no-as-needed", library,
		"-Wl,--dynamic-linker="+filepath.Join(dir, "linker")))
	for mode, want := range map[os.FileMode]string{0o777: "", 0o755: "--list " + program + "\n"} {
		must.OK(t, os.Chmod(shared, mode))
		for _, argv := range [][]string{{"/bin/cat", program}, {"/bin/sh", "-c", "cat " + program}} {
			FindCommand(t.Context(), argv[0], argv, dir, map[string]string{"PATH": "/bin"})
			ran, _ := os.ReadFile(filepath.Join(dir, "ran"))
			check.Equal(t, string(ran), want, argv, mode)
			_ = os.Remove(filepath.Join(dir, "ran"))
		}
	}
	must.OK(t, os.Chmod(shared, 0o777))
	mpi := filepath.Join(dir, "libmpi.so.40")
	must.Run(t, exec.Command(cc, "-shared", "-fPIC", "-Wl,-soname,libmpi.so.40", "-o", mpi, source))
	must.Run(t, exec.Command(cc, "-o", program, source, "-Wl,--no-as-needed", mpi))
	use, guess := FindCommand(t.Context(), "/usr/bin/env", []string{"env", program}, dir,
		map[string]string{"LD_LIBRARY_PATH": dir, "PATH": "/bin"})
	check.Equal(t, use.MPI, OpenMPI)
	check.That(t, guess, "it is no guess")
}

// A program of the user's that a command only names may look for libraries in a folder of others.
// gorun loads no libpmix from there for it.
func TestLibpmixOfOthersIsNotLoadedForNamedFiles(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs cc")
	}
	dir := files.Make(t, map[string]string{"p.c": "int main(void) { return 0; }\n", "shared/openmpi/.in": ""})
	shared := filepath.Join(dir, "shared")
	build := func(path string, args ...string) string {
		t.Helper()
		args = append([]string{"-Wl,--no-as-needed", "-Wl,-rpath," + shared, "-o", path, filepath.Join(dir, "p.c")},
			args...)
		must.Run(t, exec.Command(cc, args...))
		return path
	}
	library := func(name string, args ...string) string {
		t.Helper()
		soname := "-Wl,-soname," + filepath.Base(name)
		return build(filepath.Join(shared, name), append([]string{"-shared", "-fPIC", soname}, args...)...)
	}
	pmix := library("libpmix.so.2")
	library("openmpi/mca_pmix_ext3x.so", pmix)
	for mpi, libraries := range map[MPI][]string{OpenMPI: {pmix}, OpenMPI4: {library("libopen-rte.so.40")}} {
		program := build(filepath.Join(dir, "program"), library("libmpi.so.40", libraries...))
		for mode, want := range map[os.FileMode]string{0o777: "", 0o755: pmix} {
			must.OK(t, os.Chmod(shared, mode))
			use, _ := FindCommand(t.Context(), "/bin/cat", []string{"cat", program}, dir, nil)
			check.Equal(t, use, Use{MPI: mpi, PMIx: want}, mode)
		}
	}
}

// Relative folders of a program's variables, such as empty entries, are in the program's folder. In
// the one in which gorun was started others may have put an MPI. Those for packages of Python count
// only where others cannot have put any.
func TestRelativeFoldersAreOfTheProgram(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs cc")
	}
	dir := files.Make(t, map[string]string{
		"p.c":               "int main(void) { return 0; }\n",
		"own/.in":           "",
		"bin/.in":           "",
		"shared/mpi4py/.in": "",
	})
	own := filepath.Join(dir, "own")
	shared := filepath.Join(dir, "shared")
	build := func(name string, args ...string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		args = append([]string{"-Wl,--no-as-needed", "-o", path, filepath.Join(dir, "p.c")}, args...)
		must.Run(t, exec.Command(cc, args...))
		return path
	}
	library := func(name string, args ...string) string {
		t.Helper()
		args = append([]string{"-shared", "-fPIC", "-Wl,-soname," + filepath.Base(name), "-Wl,--disable-new-dtags",
			"-Wl,-rpath," + shared}, args...) // before LD_LIBRARY_PATH
		return build(name, args...)
	}
	pmix := library("shared/libpmix.so.2")
	mpi := library("shared/libmpi_x.so.40", pmix)
	program := build("bin/program", library("shared/libx.so", mpi), "-Wl,-rpath-link,"+shared)
	library("shared/mpi4py/MPI.so", mpi)
	python := build("bin/python3")
	t.Chdir(shared)
	theirs := Use{OpenMPI, pmix}
	for _, tc := range []struct {
		program, variable, in string
		mode                  os.FileMode
		want                  Use
	}{
		{program, "LD_LIBRARY_PATH", own, 0o777, Use{}},
		{program, "LD_LIBRARY_PATH", shared, 0o777, theirs}, // it loads them itself
		{python, "PYTHONPATH", own, 0o777, Use{}},
		{python, "PYTHONPATH", shared, 0o777, Use{}},
		{python, "PYTHONPATH", shared, 0o755, theirs},
	} {
		must.OK(t, os.Chmod(shared, tc.mode))
		got := Find(t.Context(), tc.program, tc.in, map[string]string{tc.variable: ":/none"})
		check.Equal(t, got, tc.want, tc.variable, tc.in, tc.mode)
	}
}

// Packages of Python that others have put beside a program of the user are not listed either, and
// no pipe there makes gorun wait.
func TestPackagesOfOthersAreNotListed(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("needs cc")
	}
	const packages = "shared/lib/python3.9/site-packages/mpi4py/"
	dir := files.Make(t, map[string]string{
		"linker":            "+#!/bin/sh\necho \"$@\" >>\"${0%/*}/ran\"\n",
		"p.c":               "int mpi(void) { return 0; }\nint main(void) { return 0; }\n",
		"shared/own/.in":    "",
		packages + "MPI.so": "not theirs yet",
		"shared/pyvenv.cfg": "",
	})
	own := filepath.Join(dir, "shared/own/python3")
	must.Run(t, exec.Command(cc, "-o", own, filepath.Join(dir, "p.c"),
		"-Wl,--dynamic-linker="+filepath.Join(dir, "linker")))
	argv := []string{"/bin/cat", own}
	for mode, want := range map[os.FileMode]string{
		0o777: "",
		0o755: "--list " + filepath.Join(dir, packages, "MPI.so") + "\n",
	} {
		must.OK(t, os.Chmod(filepath.Join(dir, packages), mode))
		FindCommand(t.Context(), argv[0], argv, dir, map[string]string{"PATH": "/bin"})
		ran, _ := os.ReadFile(filepath.Join(dir, "ran"))
		check.Equal(t, string(ran), want, mode)
		_ = os.Remove(filepath.Join(dir, "ran"))
	}
	config := filepath.Join(dir, "shared/pyvenv.cfg")
	must.OK(t, os.Remove(config))
	must.OK(t, syscall.Mkfifo(config, 0o600))
	FindCommand(t.Context(), argv[0], argv, dir, map[string]string{"PATH": "/bin"})
}

// A file that a command only names, and that somebody else has made, takes little memory, however
// many libraries or sections of long names it says it has.
func TestNamedFilesTakeLittleMemory(t *testing.T) {
	const most = 64 << 20
	name := "\x00" + strings.Repeat("a", 1<<20) + "\x00"
	for what, kind := range map[string]elf.SectionType{"libraries": elf.SHT_DYNAMIC, "sections": elf.SHT_PROGBITS} {
		const count = 200
		var file bytes.Buffer
		write := func(value any) { must.OK(t, binary.Write(&file, binary.LittleEndian, value)) }
		entries := 64 + len(name)
		sections := entries + 16*(count+1)
		head := elf.Header64{
			Type:      uint16(elf.ET_DYN),
			Machine:   uint16(elf.EM_X86_64),
			Version:   1,
			Shoff:     uint64(sections),
			Phentsize: 56,
			Shentsize: 64,
			Shnum:     3,
			Shstrndx:  1,
		}
		if kind == elf.SHT_PROGBITS {
			head.Shnum = count
		}
		copy(head.Ident[:], elf.ELFMAG+"\x02\x01\x01")
		write(head)
		file.WriteString(name)
		for range count {
			write(elf.Dyn64{Tag: int64(elf.DT_NEEDED), Val: 1})
		}
		write(elf.Dyn64{})
		write(elf.Section64{})
		write(elf.Section64{Type: uint32(elf.SHT_STRTAB), Off: 64, Size: uint64(len(name))})
		for range head.Shnum - 2 {
			write(elf.Section64{
				Name: uint32(head.Shnum / count),
				Type: uint32(kind),
				Off:  uint64(entries),
				Size: 16 * (count + 1),
				Link: 1,
			})
		}
		path := filepath.Join(t.TempDir(), "named")
		must.OK(t, os.WriteFile(path, file.Bytes(), 0o755))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		use, _ := FindCommand(t.Context(), "/bin/cat", []string{"cat", path}, "/", nil)
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		check.That(t, use == (Use{}) && took < most, "%s: %+v, with %d bytes", what, use, took)
	}
}

// Of a folder that somebody else has filled not all names are kept.
func TestHugeFoldersAreNotReadToTheirEnd(t *testing.T) {
	dir := t.TempDir()
	const many = 20000
	for i := range many {
		must.OK(t, syscall.Mknod(filepath.Join(dir, fmt.Sprint("MPI", i, ".so")), syscall.S_IFREG|0o600, 0))
	}
	must.OK(t, os.WriteFile(filepath.Join(dir, "other.so"), nil, 0o600))
	found := filesOf(dir, "MPI", ".so", start{})
	check.That(t, len(found) > 16000 && len(found) < many, "%d files of %d", len(found), many)
}

// Whoever has made a Python that a command names chooses how many versions of packages are beside
// it, of which each may be one folder with thousands of names. The search looks at few of them, and
// at none when its time is over.
func TestPackagesOfANamedPythonAreBounded(t *testing.T) {
	prefix := t.TempDir()
	lib := filepath.Join(prefix, "lib")
	must.OK(t, os.MkdirAll(filepath.Join(lib, "real/site-packages/mpi4py"), 0o755))
	for i := range 10 * maxVersions {
		must.OK(t, os.Symlink("real", filepath.Join(lib, fmt.Sprintf("python3.%d", i))))
	}
	must.OK(t, os.WriteFile(filepath.Join(prefix, "pyvenv.cfg"), nil, 0o644)) // no packages of the system
	in := start{dir: "/", named: true}
	check.Equal(t, len(packages(filepath.Join(prefix, "bin/python3"), in)), maxVersions)

	asked := 0
	ask := func(context.Context, string, string, start) Use {
		asked++
		return Use{}
	}
	must.OK(t, os.WriteFile(filepath.Join(lib, "real/site-packages/mpi4py/MPI.so"), nil, 0o644))
	ctx, cancel := context.WithCancel(t.Context())
	ofPython(ctx, filepath.Join(prefix, "bin/python3"), "/bin/sh", in, ask)
	check.Equal(t, asked, 1, "extensions")
	cancel()
	ofPython(ctx, filepath.Join(prefix, "bin/python3"), "/bin/sh", in, ask)
	check.Equal(t, asked, 1, "extensions after the end of the search")
}
