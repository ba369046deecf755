package main

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

const abiFile = "testdata/abi.txt"

// Programs that were built with the last release, of which testdata/abi.txt has the interface, run
// with this library: no function, number or member of a struct has changed or is missing. UPDATE=1
// writes the file, for a release; RELEASE=1 requires that it is complete.
func TestProgramsOfTheLastReleaseStillRun(t *testing.T) {
	lab.Need(t, "gcc", "nm")
	have := interfaceOf(t)
	if os.Getenv("UPDATE") != "" {
		must.OK(t, os.WriteFile(abiFile, []byte(strings.Join(have, "\n")+"\n"), 0o644))
	}
	text := must.Get(os.ReadFile(abiFile))(t)
	released := strings.Split(strings.TrimSpace(string(text)), "\n")
	check.That(t, len(released) >= 100, "%s has only %d lines", abiFile, len(released))
	for _, line := range released {
		if !slices.Contains(have, line) {
			t.Errorf("the last release has %q, and this library has not: keep it, or raise RING_ABI, the soname and "+
				"the version in exports.map", line)
		}
	}
	for _, line := range have {
		check.That(t, slices.Contains(released, line) || os.Getenv("RELEASE") == "",
			"%s lacks %q: UPDATE=1 go test ./ring/capi adds it", abiFile, line)
	}
}

// interfaceOf returns what programs depend on: the soname, versions of functions and their
// declarations, numbers, the sizes of handles, and the members of structs.
func interfaceOf(t *testing.T) (lines []string) {
	t.Helper()
	library := filepath.Join(bin(), "libring.so.1")
	file := must.Get(elf.Open(library))(t)
	defer file.Close()
	soname, err := file.DynString(elf.DT_SONAME)
	must.That(t, err == nil && len(soname) == 1, "%v, %v", soname, err)
	lines = append(lines, "soname "+soname[0])

	out, err := exec.Command("nm", "-D", "--defined-only", library).Output()
	must.OK(t, err)
	for line := range strings.Lines(string(out)) {
		if words := strings.Fields(line); len(words) == 3 && words[1] != "A" {
			lines = append(lines, "symbol "+words[2])
		}
	}
	text := regexp.MustCompile(`(?s)/\*.*?\*/`).ReplaceAllString(header(t), "")
	for _, f := range regexp.MustCompile(`(?m)^\w[\w ]*[ *]ring_\w+\([^;]*\);`).FindAllString(text, -1) {
		lines = append(lines, "function "+strings.Join(strings.Fields(f), " "))
	}
	lines = append(lines, layout(t, text)...)
	slices.Sort(lines)
	return lines
}

// layout returns the numbers of the header, and where members of its structs are, in the words of
// the C compiler.
func layout(t *testing.T, header string) []string {
	t.Helper()
	var program strings.Builder
	program.WriteString("#include \"ring.h\"\n#include <stdio.h>\nint main(void) {\n")
	for _, n := range regexp.MustCompile(`\bRING_[A-Z0-9_]+\b`).FindAllString(header, -1) {
		if n != "RING_H" {
			fmt.Fprintf(&program, "\tprintf(\"number %s %%lld\\n\", (long long)%s);\n", n, n)
		}
	}
	for _, s := range regexp.MustCompile(`typedef \w+ (\w+);`).FindAllStringSubmatch(header, -1) {
		fmt.Fprintf(&program, "\tprintf(\"type %s of %%zu bytes, signed %%d\\n\", sizeof(%s), (%s)-1 < 1);\n", s[1],
			s[1], s[1])
	}
	for _, s := range regexp.MustCompile(`(?s)typedef struct (\w+) \{(.*?)\}`).FindAllStringSubmatch(header, -1) {
		for declaration := range strings.SplitSeq(s[2], ";") {
			for i, member := range strings.Split(declaration, ",") {
				name := regexp.MustCompile(`(\w+)\s*(\[\w+\])?\s*$`).FindStringSubmatch(member)
				if name == nil || i == 0 && len(strings.Fields(member)) < 2 {
					continue
				}
				fmt.Fprintf(&program, "\tprintf(\"member %s.%s at %%zu of %%zu\\n\", offsetof(%s, %s), sizeof ((%s "+
					"*)0)->%s);\n", s[1], name[1], s[1], name[1], s[1], name[1])
			}
		}
	}
	program.WriteString("\treturn 0;\n}\n")
	source := filepath.Join(t.TempDir(), "layout.c")
	built := filepath.Join(t.TempDir(), "layout")
	must.OK(t, os.WriteFile(source, []byte(program.String()), 0o600))
	must.Run(t, exec.Command("gcc", "-Wall", "-Werror", "-I", bin(), source, "-o", built))
	out := must.Get(exec.Command(built).Output())(t)
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	slices.Sort(lines)
	return slices.Compact(lines)
}
