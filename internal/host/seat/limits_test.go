package seat

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/usage"
)

// The limits are the kernel's, to the byte, and are checked before anything starts.
func TestTheKernelsLimitsAreKnown(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	many := map[string]string{}
	for i := range 10000 {
		many["V"+strings.Repeat("i", i%7)+string(rune('a'+i%26))+strings.Repeat("9", i/26%97)+strings.Repeat("_",
			i/2500)] = "value"
	}
	type start struct {
		path string
		argv []string
		env  map[string]string
	}
	for _, tc := range []struct {
		name string
		p    start
		says string
	}{
		{"the largest variable", start{env: map[string]string{"BIG": long(maxString - 4)}}, ""},
		{"one byte more", start{env: map[string]string{"BIG": long(maxString - 3), "A": "1"}},
			"the variable BIG has 131072 bytes, and the kernel takes 131071"},
		{"the largest argument", start{argv: []string{long(maxString)}}, ""},
		{"one byte more", start{argv: []string{"", long(maxString + 1)}}, "argument 2 of /bin/true has 131072 bytes"},
		{"thousands of variables", start{env: many}, ""},
		{"a mebibyte of arguments", start{argv: strings.Split(strings.Repeat("0123456,", 64<<10), ",")}, ""},
		{"two of them", start{argv: strings.Split(strings.Repeat("0123456,", 1<<18), ","),
			env: map[string]string{"B": long(20), "A": "1"}}, "262146 arguments and 2 variables have "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.p.path = "/bin/true"
			tc.p.argv = append([]string{"/bin/true"}, tc.p.argv...)
			err := CheckSize(tc.p.path, tc.p.argv, tc.p.env, 8<<20)
			check.That(t, (err == nil) == (tc.says == "") && (err == nil || strings.HasPrefix(err.Error(), tc.says)),
				"%v", err)
			cmd := exec.Cmd{Path: tc.p.path, Args: tc.p.argv, Env: []string{"A=1"}}
			for name, value := range tc.p.env {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			if ran := cmd.Run(); StackLimit() == 8<<20 && (ran == nil) != (err == nil) {
				t.Errorf("CheckSize returns %v, and the kernel %v", err, ran)
			}
		})
	}
	err := CheckSize("", []string{"/bin/true"}, map[string]string{"B": long(100 << 10), "A": long(20 << 10)}, 64<<10)
	check.That(t, err != nil && strings.HasSuffix(err.Error(), "the largest variables are B, A"),
		"with a small stack: %v", err)
}

func TestOpenFilesSuffice(t *testing.T) {
	for _, tc := range []struct {
		ranks, outputs int
		limit          uint64
		hint           string // "": enough
	}{
		{60, 2, 257, ""}, {60, 2, 256, "ulimit -n 257"}, {60, 3, 257, "ulimit -n 317"}, {0, 2, 17, ""},
		{1, 2, FilesLimit(), ""},
	} {
		err := CheckFiles(tc.ranks, tc.outputs, tc.limit)
		check.That(t, (err == nil) == (tc.hint == "") && (err == nil || strings.Contains(usage.Hint(err), tc.hint)),
			"%+v: %v", tc, err)
	}
}
