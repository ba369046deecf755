package layers

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/must"
)

// root is the module's root, seen from this folder.
const root = "../../.."

func TestSourcesKeepTheRules(t *testing.T) {
	files := 0
	lines := map[string]int{}
	eachSource(t, func(name, text string) {
		files++
		if !strings.HasSuffix(name, "_test.go") {
			lines[path.Dir(name)] += strings.Count(text, "\n")
		}
		for _, fault := range check(name, text) {
			t.Error(fault)
		}
	})
	for _, fault := range tooLarge(lines, layers()) {
		t.Error(fault)
	}
	if files < 5 {
		t.Errorf("found %d Go files below %s: the walk looks in the wrong place", files, root)
	}
}

// eachSource calls what for each Go file of the repository, with its name and text.
func eachSource(t *testing.T, what func(name, text string)) {
	t.Helper()
	must.OK(t, filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && rel != "." && ignored(rel):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(rel) != ".go":
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil {
			what(filepath.ToSlash(rel), string(text))
		}
		return err
	}))
}

// ignored reports whether the go tool ignores a folder, or it is a build output.
func ignored(rel string) bool {
	base := filepath.Base(rel)
	return base[0] == '.' || base[0] == '_' || base == "testdata" ||
		slices.Contains([]string{"bin", "lib", "dist"}, rel)
}

func TestTopLevelNames(t *testing.T) {
	entries := must.Get(os.ReadDir(root))(t)
	for _, e := range entries {
		if !topLevelAllows(e.Name()) {
			t.Errorf("%s at the top of the repository: a newcomer reads that list first, so it stays short; find it "+
				"a place below", e.Name())
		}
	}
}

func topLevelAllows(name string) bool { return name[0] == '.' || slices.Contains(topLevel(), name) }

func TestTopLevelCanFail(t *testing.T) {
	for name, want := range map[string]bool{"cmd": true, ".ci": true, "bin": true, "utils": false, "main.go": false,
		"NOTES.md": false} {
		if got := topLevelAllows(name); got != want {
			t.Errorf("topLevelAllows(%q) = %v", name, got)
		}
	}
}

func TestCheckerCanFail(t *testing.T) {
	ours := func(folders ...string) string {
		var b strings.Builder
		b.WriteString("package x\n")
		for _, f := range folders {
			b.WriteString("import \"" + module + "/" + f + "\"\n")
		}
		return b.String()
	}

	tests := []struct{ name, text, want string }{ // want "" means that the file keeps the rules
		{"hostfile/x.go", ours("gpu"), "hostfile/x.go:2:8: hostfile must not import gpu: it is a leaf"},
		{"hostfile/x.go", "package x\nimport \"strings\"\n", ""},
		{"hostfile/x.go", "package x\ntype t struct { n int; *bytes.Buffer }\n", "a struct embeds bytes.Buffer"},
		{"hostfile/x.go", "package x\ntype t struct { n int; b bytes.Buffer }\n", ""},
		{"ssh/x.go", ours("internal/rankenv"), "ssh must not import internal/rankenv"},
		{"ssh/x.go", ours("internal/test/lab"), "ssh must not import internal/test/lab"},
		{"ssh/x_test.go", ours("internal/test/lab"), ""},
		{"ssh/x_test.go", ours("launcher"), "ssh must not import launcher"},
		{"gpu/x.go", ours("gpu/nvml"), "gpu must not import gpu/nvml"},
		{"gpu/nvml/x.go", ours("gpu"), ""},
		{"gpu/nvml/x.go", ours("hostfile"), "gpu/nvml must not import hostfile"},
		{"internal/rankenv/x.go", ours("hostfile"), "internal/rankenv must not import hostfile"},
		{"internal/net/wire/x.go", ours("internal/net/frames"), ""},
		{"internal/net/wire/x.go", ours("internal/net/kv"), "internal/net/wire must not import internal/net/kv"},
		{"internal/net/kv/x.go", ours("internal/net/wire"), "internal/net/kv must not import internal/net/wire"},
		{"ring/x.go", ours("internal/rankenv", "ring/internal/tcp"), ""},
		{"ring/x.go", ours("launcher"), "ring must not import launcher: programs link ring"},
		{"ring/internal/tcp/x.go", ours("ring/internal/link", "internal/rankenv"), ""},
		{"ring/internal/tcp/x.go", ours("ring"), "ring/internal must not import ring"},
		{"ring/internal/tcp/x.go", ours("internal/net/wire"), "ring/internal must not import internal/net/wire"},
		{"internal/host/agent/x.go", ours("internal/net/wire", "internal/rankenv", "internal/host/seat",
			"internal/host/topology"), ""},
		{"internal/host/agent/x.go", ours("launcher"), "internal/host/agent must not import launcher"},
		{"internal/host/agent/x.go", ours("gpu/nvml"), "internal/host/agent must not import gpu/nvml"},
		{"launcher/x.go", ours("hostfile", "internal/net/wire"), ""},
		{"launcher/x.go", ours("ssh"), "launcher must not import ssh"},
		{"launcher/x.go", ours("internal/host/agent"), "launcher must not import internal/host/agent"},
		{"launcher/x_test.go", ours("internal/host/agent"), ""},
		{"launcher/x_test.go", ours("ring"), "launcher must not import ring"},
		{"cmd/gorun/x.go", ours("ssh", "launcher", "internal/host/agent"), ""},
		{"cmd/gorun/x.go", ours("internal/test/ringtest"), "cmd/gorun must not import internal/test/ringtest"},
		{"cmd/gorun/x.go", ours("internal/test/lab"), "cmd/gorun must not import internal/test/lab"},
		{"cmd/gorun/x.go", ours("gpu/nvml"), "cmd/gorun must not import gpu/nvml"},
		{"cmd/gorun/x_test.go", ours("internal/test/lab"), ""},
		{"cmd/gorun-gpu/x.go", ours("gpu", "gpu/nvml"), ""},
		{"cmd/gorun-gpu/x.go", ours("launcher"), "cmd/gorun-gpu must not import launcher"},
		{"internal/test/lab/hosts/x.go", ours("internal/test/lab"), ""},
		{"internal/test/lab/x.go", ours("ssh"), "internal/test/lab must not import ssh"},
		{"examples/a/x.go", ours("ring", "examples/a/sub"), ""},
		{"examples/a/x.go", ours("examples/b"), "examples must not import examples/b"},
		{"examples/a/x.go", ours("hostfile"), "examples must not import hostfile"},
		{"internal/new/x.go", ours(), "folder internal/new has no row"},
		{"x.go", ours(), "folder . has no row"},

		{"cmd/gorun/x.go", "package x\nimport \"github.com/spf13/cobra\"\n", ""},
		{"launcher/x.go", "package x\nimport \"github.com/spf13/cobra\"\n",
			"launcher must not import github.com/spf13/cobra: libraries"},
		{"launcher/x_test.go", "package x\nimport \"github.com/spf13/pflag\"\n",
			"must not import github.com/spf13/pflag"},
		{"ssh/x.go", "package x\nimport xssh \"golang.org/x/crypto/ssh\"\nimport \"golang.org/x/crypto/ssh/agent\"\n",
			""},
		{"ssh/x.go", "package x\nimport \"golang.org/x/crypto/ssh\"\n",
			"import golang.org/x/crypto/ssh under the name xssh"},
		{"ssh/x.go", "package x\nimport gossh \"golang.org/x/crypto/ssh\"\n", "under the name xssh"},
		{"cmd/gorun/x.go", "package x\nimport \"golang.org/x/crypto/ssh/agent\"\n",
			"must not import golang.org/x/crypto/ssh/agent"},
		{"launcher/x.go", "package x\nimport \"golang.org/x/crypto/sha3\"\n", ""},
		{"gpu/nvml/x.go", "package x\nimport \"C\"\nimport \"github.com/NVIDIA/go-nvml/pkg/nvml\"\n", ""},
		{"ring/x.go", "package x\nimport \"C\"\n", "ring must not import C: cgo"},
		{"gpu/x.go", "package x\nimport \"github.com/NVIDIA/go-nvml/pkg/nvml\"\n",
			"gpu must not import github.com/NVIDIA/go-nvml/pkg/nvml"},

		{"cmd/gorun/internal/examine/x.go", "package x\nimport \"html/template\"\n",
			"must not import html/template: the linker"},
		{"cmd/gorun/internal/examine/x.go", "package x\nimport \"html\"\n", ""},

		{"gpu/x.go", "package x\nfunc init() {}\n", "gpu/x.go:2:1: function init: init runs unasked"},
		{"gpu/x.go", "package x\ntype t int\nfunc (t) init() {}\n", ""},
		{"gpu/x.go", "package x\nvar n int\n", "gpu/x.go:2:5: variable n: "},
		{"gpu/x.go", "package x\nvar (\n\ta = map[string]int{}\n)\n", "variable a"},
		{"gpu/x.go", "package x\nvar e, n = errors.New(\"e\"), 1\n", "variable e"},
		{"gpu/x.go", "package x\nvar e = fmt.Errorf(\"e\")\n", "variable e"},
		{"gpu/x.go", "package x\nvar (\n\te = errors.New(\"e\")\n\tf = errors.New(\"f\")\n)\nvar _ I = " +
			"(*T)(nil)\nconst c = 1\n", ""},
		{"gpu/x.go", "package x\nimport _ \"embed\"\n//go:embed x.txt\nvar text string\n", ""},
		{"gpu/x_test.go", "package x\nvar update = flag.Bool(\"update\", false, \"\")\n", ""},

		{"gpu/x.go", "package", "expected"},
	}
	for _, tt := range tests {
		got := check(tt.name, tt.text)
		switch {
		case tt.want == "" && len(got) > 0:
			t.Errorf("%s\n%s\nkeeps the rules, yet: %q", tt.name, tt.text, got)
		case tt.want != "" && (len(got) != 1 || !strings.Contains(got[0], tt.want)):
			t.Errorf("%s\n%.300s\ngot %q\nwant %q", tt.name, tt.text, got, tt.want)
		}
	}
}

func TestPackageSizes(t *testing.T) {
	table := []layer{{folder: "ring", large: "a reason"}, {folder: "ssh"}, {folder: "gpu"}}
	for _, tt := range []struct {
		lines map[string]int
		want  []string
	}{
		{map[string]int{"ring": maxPackage + 1, "ssh": maxPackage}, nil},
		{map[string]int{"ring": maxPackage + 1, "ssh": maxPackage + 1}, []string{"ssh has 4001 lines"}},
		{map[string]int{"ring": maxPackage}, []string{`row "ring" has a reason`}},
	} {
		got := tooLarge(tt.lines, table)
		if len(got) != len(tt.want) || len(got) > 0 && !strings.HasPrefix(got[0], tt.want[0]) {
			t.Errorf("%v: got %q, want %q", tt.lines, got, tt.want)
		}
	}
}

// A row that names a folder twice, or allows one without a row, would switch a rule off.
func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range layers() {
		if seen[l.folder] || l.why == "" {
			t.Errorf("row %q is there twice or has no reason", l.folder)
		}
		seen[l.folder] = true
	}
	for _, l := range layers() {
		for _, m := range slices.Concat(l.may, l.tests) {
			if folder := strings.TrimSuffix(m, "/..."); !seen[folder] {
				t.Errorf("row %q allows %q, which has no row", l.folder, m)
			}
		}
	}
}
