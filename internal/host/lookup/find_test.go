package lookup

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/files"
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
			"add its folder to PATH, which ranks get from here: /no/such"},
		{"a name that is in the working directory", "prog", "/no/such", "", 127, "was not found", "write ./prog"},
		{"a name that is found but not executable", "denied", dir + "/noexec:/no/such", "", 126,
			dir + "/noexec/denied is not executable", "chmod +x"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Find(tc.program, dir, tc.path)
			if tc.want != "" {
				if err != nil || got != filepath.Join(dir, tc.want) {
					t.Errorf("%s, %v; want %s", got, err, tc.want)
				}
				return
			}
			var no *wire.Refuse
			if !errors.As(err, &no) || no.Code != tc.code || !strings.Contains(no.What, tc.what) ||
				!strings.Contains(no.Remedy, tc.hint) {
				t.Errorf("%s, %+v", got, err)
			}
		})
	}
	if got, err := Find("sh", dir, ""); err != nil || !strings.HasSuffix(got, "/bin/sh") {
		t.Errorf("without any PATH sh is %q, %v", got, err)
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
		if got := [2]string{name, words}; got != want {
			t.Errorf("shebang of %.40q is %.40q, want %.40q", text, got, want)
		}
	}
	if got, _ := read("/no/such/file").shebang(); got != "" {
		t.Errorf("shebang of no file is %q", got)
	}
}

func TestCheckDir(t *testing.T) {
	dir := files.Make(t, map[string]string{"file": "x"})
	for name, want := range map[string]string{
		dir:               "",
		dir + "/nope":     "the working directory " + dir + "/nope does not exist",
		dir + "/file":     "the working directory " + dir + "/file is not a directory",
		dir + "/file/sub": "the working directory " + dir + "/file/sub cannot be used: not a directory",
	} {
		err := CheckDir(name)
		if want == "" && err == nil {
			continue
		}
		var no *wire.Refuse
		if !errors.As(err, &no) || no.What != want || no.Code != wire.CodeHostFailed ||
			!strings.Contains(no.Remedy, "--wdir") {
			t.Errorf("%s: %+v, want %q", name, err, want)
		}
	}
}
