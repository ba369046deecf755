package agent

import (
	"os/exec"
	"strings"
	"testing"
)

// What is refused is what the kernel refuses, to the byte; and all of it is said before anything starts.
func TestTheKernelsLimitsAreKnown(t *testing.T) {
	long := func(n int) string { return strings.Repeat("x", n) }
	many := map[string]string{}
	for i := range 10000 {
		many["V"+strings.Repeat("i", i%7)+string(rune('a'+i%26))+strings.Repeat("9", i/26%97)+strings.Repeat("_", i/2500)] = "value"
	}
	for _, tc := range []struct {
		name string
		p    program
		says string
	}{
		{"the largest variable", program{env: map[string]string{"BIG": long(maxString - 4)}}, ""},
		{"one byte more", program{env: map[string]string{"BIG": long(maxString - 3), "A": "1"}}, "the variable BIG has 131072 bytes, and the kernel takes 131071"},
		{"the largest argument", program{argv: []string{long(maxString)}}, ""},
		{"one byte more", program{argv: []string{"", long(maxString + 1)}}, "argument 2 of /bin/true has 131072 bytes"},
		{"thousands of variables", program{env: many}, ""},
		{"a mebibyte of arguments", program{argv: strings.Split(strings.Repeat("0123456,", 64<<10), ",")}, ""},
		{"two of them", program{argv: strings.Split(strings.Repeat("0123456,", 1<<18), ","), env: map[string]string{"B": long(20), "A": "1"}}, "262146 arguments and 2 variables have "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.p.path, tc.p.argv = "/bin/true", append([]string{"/bin/true"}, tc.p.argv...)
			err := tc.p.checkSize(8 << 20)
			if (err == nil) != (tc.says == "") || err != nil && !strings.HasPrefix(err.Error(), tc.says) {
				t.Errorf("%v", err)
			}
			cmd := exec.Cmd{Path: tc.p.path, Args: tc.p.argv, Env: []string{"A=1"}}
			for name, value := range tc.p.env {
				cmd.Env = append(cmd.Env, name+"="+value)
			}
			if ran := cmd.Run(); stackLimit() == 8<<20 && (ran == nil) != (err == nil) {
				t.Errorf("we say %v, and the kernel %v", err, ran)
			}
		})
	}
	if err := (program{argv: []string{"/bin/true"}, env: map[string]string{"B": long(100 << 10), "A": long(20 << 10)}}).checkSize(64 << 10); err == nil || !strings.HasSuffix(err.Error(), "the largest variables are B, A") {
		t.Errorf("with a small stack: %v", err)
	}
}
