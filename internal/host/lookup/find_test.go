package lookup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

func TestFind(t *testing.T) {
	dir := files.Make(t, map[string]string{
		"prog": "+x", "data": "x", "sub/prog": "+x", "sub/only": "+x", "sub2/only": "+x", "noexec/only": "x",
		"noexec/denied": "x", "bin/tool/inner": "x", "bin2/tool": "+x",
	})
	tests := []struct {
		name, program, path string
		want                string // below dir; "": refused
		code                int
		what, hint          string // parts of them
	}{
		{"an absolute path", dir + "/prog", "", "prog", 0, "", ""},
		{"a path below the working directory", "./prog", "", "prog", 0, "", ""},
		{"a path without a dot", "sub/prog", "", "sub/prog", 0, "", ""},
		{"a path out of it and back", "sub/../prog", "", "prog", 0, "", ""},
		{"a name in PATH", "only", "/no/such:" + dir + "/sub:" + dir + "/sub2", "sub/only", 0, "", ""},
		{"what cannot be executed is passed over", "only", dir + "/noexec:" + dir + "/sub2", "sub2/only", 0, "", ""},
		{"a directory is passed over", "tool", dir + "/bin:" + dir + "/bin2", "bin2/tool", 0, "", ""},
		{"a relative PATH is below the working directory", "only", "sub", "sub/only", 0, "", ""},
		{"an empty part of PATH is the working directory", "prog", "/no/such::/other", "prog", 0, "", ""},
		{"an absolute path that is not there", dir + "/nope", "", "", 127, "the program " + dir +
			"/nope does not exist", "check its path"},
		{"a path that is not there", "./nope", "", "", 127, "/nope does not exist", "check its path"},
		{"a path through a file", "./prog/x", "", "", 126, "cannot be used: not a directory", ""},
		{"a file that is not executable", "./data", "", "", 126, "is not executable", "chmod +x " + dir + "/data"},
		{"a directory", "./sub", "", "", 126, "is a directory, not a program", dir + "/sub/train"},
		{"a name in no PATH", "nope", "/no/such", "", 127, `the program "nope" was not found in PATH`,
			"give its path, or add its folder to PATH"},
		{"a mistyped name", "tol", "/no/such:" + dir + "/bin2:" + dir + "/sub", "", 127, "was not found in PATH",
			"did you mean tool?"},
		{"a name that is like one of no program", "onl", dir + "/noexec:" + dir + "/bin", "", 127,
			"was not found in PATH", "give its path"},
		{"a mistyped name of the working directory", "prgo", "/no/such", "", 127, "was not found in PATH",
			"did you mean ./prog?"},
		{"a mistyped path", "./sub/onyl", "", "", 127, "/sub/onyl does not exist",
			"did you mean " + dir + "/sub/only?"},
		{"a name that is in the working directory", "prog", "/no/such", "", 127, "was not found", "write ./prog"},
		{"a name that is found but not executable", "denied", dir + "/noexec:/no/such", "", 126,
			dir + "/noexec/denied is not executable", "chmod +x"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Place{Dir: dir}.Find(tc.program, tc.path)
			if tc.want != "" {
				check.That(t, err == nil && got == filepath.Join(dir, tc.want), "%s, %v; want %s", got, err, tc.want)
				return
			}
			var no *wire.Refuse
			check.That(t, errors.As(err, &no) && no.Code == tc.code && strings.Contains(no.What, tc.what) &&
				strings.Contains(no.Remedy, tc.hint), "%s, %+v", got, err)
		})
	}
	got, err := (Place{Dir: dir}).Find("sh", "")
	check.That(t, err == nil && strings.HasSuffix(got, "/bin/sh"), "without any PATH sh is %q, %v", got, err)
}

// Hints about this machine alone do not speak of hosts.
func TestHintsForHosts(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.Symlink("/no/such", filepath.Join(dir, "link")))
	find := func(name string) func(Place) error {
		return func(p Place) error {
			_, err := p.Find(name, "/no/such")
			return err
		}
	}
	for _, c := range []struct {
		refusal func(Place) error
		dir     string
		host    string // part of the hint about a host
	}{
		{find("./nope"), dir, "every host; --stage ."},
		{find("./link"), dir, "that all hosts share"},
		{find("nope"), dir, "which ranks get from here"},
		{Place.CheckDir, dir + "/nope", "exists on every host with --wdir"},
	} {
		host := usage.Hint(c.refusal(Place{Dir: c.dir, Hosts: true}))
		alone := usage.Hint(c.refusal(Place{Dir: c.dir}))
		check.That(t, strings.Contains(host, c.host), "of a host: %s, want %s", host, c.host)
		check.That(t, alone != "" && !strings.Contains(alone, "host") && !strings.Contains(alone, "from here"),
			"of this machine alone: %s", alone)
	}
}

func TestShebang(t *testing.T) {
	long := "#!/" + strings.Repeat("x", 600)
	for text, want := range map[string][2]string{
		"#!/bin/sh\necho":              {"/bin/sh", ""},
		"#!/bin/sh":                    {"/bin/sh", ""},
		"#! /bin/sh -e\n":              {"/bin/sh", "-e"},
		"#!\t/usr/bin/env\tpython3 \n": {"/usr/bin/env", "python3"},
		"#!/bin/sh\r\n":                {"/bin/sh\r", ""},
		"#!\n/bin/sh":                  {},
		"":                             {},
		"#":                            {},
		"echo\n#!/bin/sh\n":            {},
		"\x7fELF#!/bin/sh\n":           {},
		long + "\n":                    {long[2:512], ""},
	} {
		dir := files.Make(t, map[string]string{"f": text})
		name, words := read(dir + "/f").shebang()
		got := [2]string{name, words}
		check.That(t, got == want, "shebang of %.40q is %.40q, want %.40q", text, got, want)
	}
	got, _ := read("/no/such/file").shebang()
	check.Equal(t, got, "", "shebang of no file is")
}

func TestCheckDir(t *testing.T) {
	dir := files.Make(t, map[string]string{"file": "x"})
	for name, want := range map[string]string{
		dir:               "",
		dir + "/nope":     "the working directory " + dir + "/nope does not exist",
		dir + "/file":     "the working directory " + dir + "/file is not a directory",
		dir + "/file/sub": "the working directory " + dir + "/file/sub cannot be used: not a directory",
	} {
		err := Place{Dir: name}.CheckDir()
		if want == "" && err == nil {
			continue
		}
		var no *wire.Refuse
		check.That(t, errors.As(err, &no) && no.What == want && no.Code == wire.CodeHostFailed &&
			strings.Contains(no.Remedy, "--wdir"), "%s: %+v, want %q", name, err, want)
	}
}
