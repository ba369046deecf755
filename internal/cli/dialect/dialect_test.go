package dialect

import (
	"os"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/usage"
)

// TestDialects translates command lines of every launcher.
func TestDialects(t *testing.T) {
	text, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(string(text), "\n$ ")[1:]
	if len(cases) < 50 {
		t.Errorf("%d command lines", len(cases))
	}
	for _, c := range cases {
		lines := append(strings.Split(strings.TrimSpace(c), "\n"), "")
		var argv []string
		for w := range strings.FieldsSeq(lines[0]) {
			argv = append(argv, strings.ReplaceAll(w, "·", " "))
		}
		dialect, _ := Named(argv[0])
		got, err := Translate(argv[1:], dialect, flagSet(t), nil)
		shown := strings.ReplaceAll(strings.ReplaceAll(strings.Join(got.Args, "\x00"), " ", "·"), "\x00", " ")
		if err != nil || shown != lines[1] || got.Notice() != lines[2] {
			t.Errorf("%q: %v\n got %q\nwant %q\nnotice %q, want %q", argv, err, shown, lines[1], got.Notice(), lines[2])
		}
	}
}

func TestWhichDialect(t *testing.T) {
	variable := func(value string) func(string) (string, bool) {
		return func(name string) (string, bool) { return value, name == "GORUN_DIALECT" && value != "" }
	}
	for _, tc := range []struct {
		program, variable string
		want              Dialect
	}{
		{"gorun", "", Own}, {"/usr/bin/gorun-1.2", "", Own}, {"/opt/bin/mpirun", "", OpenMPI}, {"mpiexec", "", OpenMPI},
		{"mpiexec.hydra", "", Hydra}, {"horovodrun", "", Horovod}, {"srun", "", Slurm}, {"torchrun", "", Torch},
		{"gorun", "srun", Slurm}, {"mpirun", "gorun", Own}, {"mpirun", "hydra", Hydra},
	} {
		got, err := Choose(tc.program, variable(tc.variable))
		if err != nil || got != tc.want {
			t.Errorf("%s, GORUN_DIALECT=%s: %v, %v", tc.program, tc.variable, got, err)
		}
	}
	if _, err := Choose("gorun", variable("mpich3")); err == nil || usage.Hint(err) == "" {
		t.Errorf("a dialect that is none: %v", err)
	}
}

func TestSrunTimes(t *testing.T) {
	for text, want := range map[string]string{
		"90": "1h30m0s", "1:30": "1m30s", "1:2:3": "1h2m3s", "2-0": "48h0m0s", "1-2:30": "26h30m0s", "1-0:0:5": "24h0m5s", "0": "",
	} {
		flags := flagSet(t)
		got, err := Translate([]string{"-t", text, "a"}, Slurm, flags, nil)
		if limit := strings.TrimPrefix(got.Args[0], "--timeout="); err != nil || limit != want && (want != "" || got.Args[0] != "--") {
			t.Errorf("%s: %q, %v", text, got.Args, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1:2:3:4", "1-", "1-2:3:4:5", "99999999-0", ":"} {
		flags := flagSet(t)
		if got, err := Translate([]string{"-t", text, "a"}, Slurm, flags, nil); !usage.Is(err) {
			t.Errorf("%q was read as %q", text, got.Args)
		}
	}
}
