package launcher

import (
	"errors"
	"testing"

	"github.com/gorun/gorun/internal/prose"
)

func TestResultCode(t *testing.T) {
	failure := func(e Exit) *Failure { return &Failure{Exit: e} }
	lost := &Failure{Rank: -1, Lost: errors.New("gone")}
	for _, tc := range []struct {
		name   string
		result Result
		want   int
	}{
		{"success", Result{}, 0},
		{"a rank's own code", Result{Cause: failure(Exit{Code: 42})}, 42},
		{"a signal", Result{Cause: failure(Exit{Signal: 9})}, 137},
		{"a signal with a core", Result{Cause: failure(Exit{Signal: 11, Core: true})}, 139},
		{"a program that is not executable", Result{Cause: failure(Exit{Code: 126, Failed: "x"})}, 126},
		{"a program that is not there", Result{Cause: failure(Exit{Code: 127, Failed: "x"})}, 127},
		{"a lost host", Result{Cause: lost}, 125},
		{"a host that never reported", Result{Unconfirmed: []string{"a"}}, 125},
		{"a failure, and a host that never reported", Result{Cause: failure(Exit{Code: 3}), Unconfirmed: []string{"a"}}, 3},
		{"a process that cannot be killed", Result{Unkillable: []Unkillable{{Host: "a"}}}, 123},
		{"that, and a host that never reported", Result{Unkillable: []Unkillable{{Host: "a"}}, Unconfirmed: []string{"b"}}, 125},
		{"a failure, and a process that cannot be killed", Result{Cause: failure(Exit{Code: 3}), Unkillable: []Unkillable{{Host: "a"}}}, 3},
		{"Ctrl-C", Result{Stopped: Interrupted}, 130},
		{"TERM", Result{Stopped: Terminated}, 143},
		{"HUP", Result{Stopped: HungUp}, 129},
		{"a closed pipe", Result{Stopped: OutputClosed}, 141},
		{"a time limit", Result{Stopped: TimedOut}, 124},
		{"Ctrl-C wins over what it caused", Result{Stopped: Interrupted, Cause: failure(Exit{Code: 1}), Unconfirmed: []string{"a"}}, 130},
	} {
		if got := tc.result.Code(); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestLaunchErrorCode(t *testing.T) {
	refused := func(code int) HostError { return HostError{"a", &RefusedError{Code: code, What: "no"}} }
	other := HostError{"b", errors.New("no route")}
	for _, tc := range []struct {
		name  string
		hosts []HostError
		want  int
	}{
		{"not found", []HostError{refused(127)}, 127},
		{"not found anywhere", []HostError{refused(127), refused(127)}, 127},
		{"not executable", []HostError{refused(126)}, 126},
		{"two reasons", []HostError{refused(127), refused(126)}, 125},
		{"two reasons, the first again", []HostError{refused(127), refused(126), refused(127)}, 125},
		{"no connection", []HostError{other}, 125},
		{"not found, and no connection", []HostError{refused(127), other}, 125},
		{"no connection, and not found", []HostError{other, refused(127)}, 125},
	} {
		if got := (&LaunchError{tc.hosts}).Code(); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestErrorsNameTheirHosts(t *testing.T) {
	cause := errors.New("no route")
	err := error(&LaunchError{[]HostError{{"a", cause}, {"b", &RefusedError{Code: 127, What: "no program", Remedy: "copy it"}}}})
	if got, want := err.Error(), "cannot start the job: a: no route; b: no program"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !errors.Is(HostError{"a", cause}, cause) {
		t.Error("a host's error hides its cause")
	}
}

func TestDescribe(t *testing.T) {
	for want, e := range map[string]Exit{
		"exited with code 3":                                 {Code: 3},
		"was killed by signal 9 (SIGKILL)":                   {Signal: 9},
		"was killed by signal 6 (SIGABRT), core dumped":      {Signal: 6, Core: true},
		"did not start: start /x: exec format error":         {Code: 126, Failed: "start /x: exec format error"},
		"was killed by signal 31 (SIGSYS)":                   {Signal: 31},
		"was killed by signal 40 (signal 40)":                {Signal: 40},
		"was killed by signal 24 (SIGXCPU)":                  {Signal: 24},
		"was killed by signal 11 (SIGSEGV)":                  {Signal: 11},
		"did not start: a message, whatever the code may be": {Failed: "a message, whatever the code may be"},
	} {
		if got := describe(e); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"":                        "",
		" \r\n ":                  "",
		"one line\n":              "one line",
		"a\nb\r\n\nc":             "a; b; c",
		"\x1b[31mred\x1b[0m\a":    "?[31mred?[0m?",
		"tab\tdel\x7f":            "tab?del?",
		"c1 \u009b31m":            "c1 ?31m",
		"\x1b]0;title\x07":        "?]0;title?",
		"Grüße \u00a0 日本":         "Grüße \u00a0 日本",
		"\x00gorun-agent nonce\n": "?gorun-agent nonce",
	} {
		if got := prose.Printable(text); got != want {
			t.Errorf("prose.Printable(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzPrintable checks that nothing a host says can move the cursor.
func FuzzPrintable(f *testing.F) {
	f.Add("\x1b[2J\n\x9b\xff\u009b")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range prose.Printable(text) {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q lets %q through", text, r)
			}
		}
	})
}
