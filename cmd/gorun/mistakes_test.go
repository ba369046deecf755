package main

import (
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/ui"
	"github.com/gorun/gorun/internal/cli/usage"
)

func TestUnknownMark(t *testing.T) {
	for template, want := range map[string]string{"%r%h%l%s%t%%": "", "": "", "%%q": "", "%q%r": "%q", "%r %é": "%é", "100%": "%"} {
		if got := ui.UnknownMark(template); got != want {
			t.Errorf("%q: %q, want %q", template, got, want)
		}
	}
}

func TestProgramHint(t *testing.T) {
	commands := []string{"bench", "version"}
	for _, tc := range []struct {
		typed, hosts, export, want string
	}{
		{"train", "", "", ""},
		{"./train data", "f1", "", ""},
		{"train.py 'a b'", "", "", "python train.py 'a b'"},
		{"a/train.py", "", "", ""},
		{"bench allreduce", "", "", "gorun bench allreduce"},
		{"f2 ./train", "f1:2", "", "-H f1:2,f2"},
		{"f2 true", "f0,f1:2", "", "-H f0,f1:2,f2"},
		{"pyhton train.py", "f1:2", "", ""},
		{"pyhton ./train.py", "f1:2", "", ""},
		{"benhc allreduce", "", "", "gorun bench"},
		{"8 ./train", "", "", "-np 8"},
		{"8", "", "", ""},
		{"B=2 ./train", "", "A=1", "-x A=1 -x B=2"},
		{"B=2 ./train", "", "", "-x B=2"},
		{"'echo hi'", "", "", "sh -c 'echo hi'"},
		{`'it'\''s here'`, "", "", `sh -c 'it'\''s here'`},
	} {
		program, err := usage.SplitShell(tc.typed)
		if err != nil {
			t.Fatal(err)
		}
		o := &settings.Options{Hosts: tc.hosts}
		if tc.export != "" {
			o.Exports = []string{tc.export}
		}
		if got := programHint(program, true, o, commands); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", tc.typed, got, tc.want)
		}
	}
}
