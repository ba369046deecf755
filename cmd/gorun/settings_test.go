package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/dialect"
	"github.com/gorun/gorun/internal/cli/usage"
)

// shown is what a file says: flags with values, then the command.
func listing(s settings) string {
	var parts []string
	for _, v := range s.list {
		for _, value := range v.values {
			parts = append(parts, v.flag+"="+value)
		}
	}
	if s.command != nil {
		parts = append(parts, fmt.Sprintf("%q", s.command))
	}
	return strings.Join(parts, " ")
}

func TestParseSettings(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		"# nothing\n":               "",
		"np: 4\n":                   "np=4",
		"hosts: a:2,b:2\n":          "hosts=a:2,b:2",
		"hosts: [a:2, b]\n":         "hosts=a:2,b",
		"hosts:\n- a:2\n- ada@b\n":  "hosts=a:2,ada@b",
		"grace: 2.5\ndry-run: true": "grace=2.5 dry-run=true",
		"start_timeout: 90s\n":      "start-timeout=90s",
		"{np: 4, hosts: \"a\"}":     "np=4 hosts=a",
		"wdir: ''\n":                "wdir=",
		"verbose: true\nquiet: off": "verbose=1 quiet=false",
		"show: [0, 8-11]":           "show=0,8-11",
		"network_interface: [eth0, ^docker0]\nssh-identity-file: [a, b]": "network-interface=eth0,^docker0 ssh-identity-file=a ssh-identity-file=b",
		"env: {A: 1.10, B: yes, C: , D: 'x y', E: ''}":                   "export=A=1.10 export=B=yes export=C export=D=x y export=E=",
		"env:\n- A=1\n- B\n- NCCL_*":                                     "export=A=1 export=B export=NCCL_*",
		"env_file: e\nenv: [A]":                                          "env-file=e export=A",
		"env_file: [e, f]":                                               "env-file=e env-file=f",
		"command: python  train.py --name 'a b' $HOME":                   `["python" "train.py" "--name" "a b" "$HOME"]`,
		"command: [./train, --lr, 0.10, '*']":                            `["./train" "--lr" "0.10" "*"]`,
		"program: my train\nargs: --lr 1":                                `["my train" "--lr" "1"]`,
		"args: [a b]\nprogram: ./train":                                  `["./train" "a b"]`,
		"program: ./train":                                               `["./train"]`,
		"x: &h [a, b]":                                                   "",
		"hosts: &h [a, b]\nenv: {A: &v 1, B: *v}":                        "hosts=a,b export=A=1 export=B=1",
		"params:\n  fusion_threshold_mb: 32\n  cycle-time-ms: 3.5":       "export=HOROVOD_FUSION_THRESHOLD=33554432 export=HOROVOD_CYCLE_TIME=3.5",
		"stall-check: {enabled: no}\ntimeline: {}\ncontroller: gloo":     "export=HOROVOD_STALL_CHECK_DISABLE=1",
		"logging: {level: DEBUG, with_timestamp: false}":                 "export=HOROVOD_LOG_LEVEL=DEBUG export=HOROVOD_LOG_HIDE_TIME=1",
	} {
		flags, _ := flagSet()
		got, err := parseSettings("f", []byte(text), flags)
		if strings.HasPrefix(text, "x:") {
			if err == nil {
				t.Errorf("%q was read", text)
			}
			continue
		}
		if err != nil || listing(got) != want {
			t.Errorf("%q: %s, %v; want %s", text, listing(got), err, want)
		}
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	for _, tc := range []struct{ text, want, hint string }{
		{"np: 2\nhostfle: x", `f:2: there is no setting "hostfle"`, "did you mean hostfile?"},
		{"comand: x", `f:1: there is no setting "comand"`, "did you mean command?"},
		{"zzzzzzzz: x", `f:1: there is no setting "zzzzzzzz"`, "the keys are env, command, and the long names of the flags: see gorun --help"},
		{"params:\n  a: 1", `f:2: there is no setting "params.a"`, "params has fusion_threshold_mb, "},
		{"params:\n  cycle_time: 1", `f:2: there is no setting "params.cycle_time"`, "did you mean cycle_time_ms?"},
		{"params: 3", "f:1: params: want names with values", ""},
		{"params: {cycle_time_ms: fast}", `f:1: params.cycle_time_ms: "fast": want a number, 0 or more`, ""},
		{"params: {cycle_time_ms: -1}", `f:1: params.cycle_time_ms: "-1": want a number, 0 or more`, ""},
		{"params: {fusion_threshold_mb: 1.5}", `f:1: params.fusion_threshold_mb "1.5": want a whole number of megabytes`, ""},
		{"autotune:\n  enabled: 3", `f:2: autotune.enabled: "3": want true or false`, ""},
		{"controller: smoke", `f:1: controller: "smoke": it must be gloo or mpi`, ""},
		{"dialect: srun", "f:1: dialect has no effect here", "set GORUN_DIALECT, or start gorun by another name"},
		{"\nconfig_file: x", "f:2: config_file has no effect here", "give it on the command line"},
		{"np: [4]", "f:1: np: want one value, not a list", ""},
		{"np:\n  a: 4", "f:2: np: want one value, not a map", ""},
		{"np:", "f:1: np: it has no value", "write one"},
		{"np: ~", "f:1: np: it has no value", ""},
		{"np: 4\nnum_proc: 5", "f:2: num_proc: it is set twice, first in line 1", "leave one of them out"},
		{"env: A=1", "f:1: env: want a map or a list", "write NAME: value"},
		{"env:\n  A: 1\n  B: [2]", "f:3: env.B: want one value, not a list", ""},
		{"env:\n  A=B: 1", "f:2: env.A=B: this is no name of a variable", ""},
		{"command: ''", "f:1: command: no program is named", ""},
		{"command: a 'b", "f:1: command: a quote is not closed", "write a list"},
		{"command: {a: b}", "f:1: command: want one value, not a map", ""},
		{"np: 1\nargs: [a]", "f:2: args: these are arguments of no program", "write program: ./train beside it"},
		{"command: a\nprogram: b", "f:2: program: command says it too", ""},
		{"program: ''", "f:1: program: it is empty", ""},
		{"np", "f:1: want names with values", "write one `name: value` a line"},
		{"- np", "f:1: want names with values", ""},
		{"a: b: c", "f: this is no YAML: mapping values", "write one `name: value` a line"},
		{"np: 1\na: b: c", "f:2: this is no YAML: mapping values", "write one `name: value` a line"},
		{"np: 1\n---\nnp: 2", "f: the file holds more than one document", ""},
		{"? [a]\n: b", "f:1: this is no name", ""},
		{"a: &a [*a]", `f:1: there is no setting "a"`, ""},
		{"<<: {np: 1}", `f:1: there is no setting "<<"`, ""},
		{"\x00", "f: this is no YAML: ", ""},
	} {
		flags, _ := flagSet()
		got, err := parseSettings("f", []byte(tc.text), flags)
		if !isUsage(err) || !strings.HasPrefix(err.Error(), tc.want) || !strings.HasPrefix(usage.Hint(err), tc.hint) || exitCode(err) != 2 {
			t.Errorf("%q: %s, %v, hint %q; want %s", tc.text, listing(got), err, usage.Hint(err), tc.want)
		}
	}
}

// Every variable that a flag of horovodrun's sets can be set in a file, and no key of a file is without its flag.
func TestHorovodsFileSaysWhatItsFlagsSay(t *testing.T) {
	reached := map[string]bool{}
	for _, s := range horovodSections() {
		for _, key := range s.keys {
			for _, value := range []string{"true", "false", "1"} {
				flags, _ := flagSet()
				got, err := parseSettings("f", []byte(s.name+": {"+key+": "+value+"}"), flags)
				if err != nil {
					continue
				}
				reached[listing(got)] = true
			}
			if _, known := dialect.Horovod.Takes(s.word(key)); !known {
				t.Errorf("%s.%s is no flag of horovodrun's", s.name, key)
			}
		}
	}
	for _, row := range dialect.Rows(dialect.Horovod) {
		sets, found := strings.CutPrefix(row[1], "--export HOROVOD_")
		if strings.Contains(sets, " ") {
			continue // it is calculated
		}
		if found && !reached["export=HOROVOD_"+strings.ReplaceAll(sets, "VALUE", "1")] {
			t.Errorf("%s cannot be said in a file", row[0])
		}
	}
	text, err := os.ReadFile("../../docs/job-files.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range horovodSections() {
		for _, key := range append(s.keys, s.name) {
			if !strings.Contains(string(text), "`"+strings.ReplaceAll(key, "-", "_")+"`") {
				t.Errorf("docs/job-files.md lacks %s.%s", s.name, key)
			}
		}
	}
	if len(reached) < 30 {
		t.Errorf("%d settings", len(reached))
	}
}

// TestJobFilePrecedence: the command line wins, and what adds up comes after the file's.
func TestJobFilePrecedence(t *testing.T) {
	const text = "np: 4\nhosts: [a, b]\nppn: 2\nenv: {A: file, B: file}\nwdir: w\nhostfile: h\nparams: {cycle_time_ms: 3}\ntimeout: 5"
	for _, tc := range []struct{ argv, want string }{
		{"", "np=4 hosts=a,b hostfile=jobs/h wdir=jobs/w timeout=5s export=A=file B=file HOROVOD_CYCLE_TIME=3"},
		{"--np=8 --wdir=x", "np=8 hosts=a,b hostfile=jobs/h wdir=x timeout=5s export=A=file B=file HOROVOD_CYCLE_TIME=3"},
		{"--hosts=c --export=A=line", "np=4 hosts=c hostfile= wdir=jobs/w timeout=5s export=A=file B=file HOROVOD_CYCLE_TIME=3 A=line"},
		{"--timeout=1 --export=HOROVOD_CYCLE_TIME=9", "np=4 hosts=a,b hostfile=jobs/h wdir=jobs/w timeout=1s export=A=file B=file HOROVOD_CYCLE_TIME=3 HOROVOD_CYCLE_TIME=9"},
	} {
		flags, o := flagSet()
		if err := flags.Parse(strings.Fields(tc.argv)); err != nil {
			t.Fatal(err)
		}
		job, err := parseSettings("jobs/j.yaml", []byte(text), flags)
		if err == nil {
			err = job.relativeTo("jobs", "/home/ada").apply(flags)
		}
		if err == nil {
			err = setDefaults(flags, lookupIn(map[string]string{"GORUN_NP": "7", "GORUN_EXPORT": "C"}), nil, fileOf(map[string]string{"grace": "1", "np": "9"}))
		}
		got := fmt.Sprintf("np=%d hosts=%s hostfile=%s wdir=%s timeout=%v export=%s", o.np, o.hosts, o.hostfile, o.wdir, &o.timeout, strings.Join(o.exports, " "))
		if err != nil || got != tc.want || o.grace.String() != "1s" || o.ppn != 2 {
			t.Errorf("%s: %s, %v\nwant %s", tc.argv, got, err, tc.want)
		}
	}
}

func TestPathsOfAJobFile(t *testing.T) {
	for _, tc := range []struct{ flag, value, want string }{
		{"wdir", "w", "jobs/w"}, {"wdir", ".", "jobs"}, {"wdir", "../w", "w"}, {"wdir", "/w", "/w"}, {"wdir", "~/w", "/home/ada/w"}, {"wdir", "", ""},
		{"stage", "data/", "jobs/data/"}, {"stage", "a:b", "jobs/a:b"}, {"json-events", "e", "jobs/e"}, {"json-events", "fd:3", "fd:3"},
		{"hosts", "h", "h"}, {"env-file", "e", "jobs/e"}, {"ssh-identity-file", "~/.ssh/k", "/home/ada/.ssh/k"},
	} {
		if got := pathFrom("jobs", "/home/ada", tc.flag, tc.value); got != tc.want {
			t.Errorf("%s: %s is %s, want %s", tc.flag, tc.value, got, tc.want)
		}
	}
}

// FuzzSettings checks that no file breaks gorun, and that what is read can be set or is
// refused as a mistake of the user's.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("np: 4\nhosts: a:2\ngrace: 1e3\nno_oversubscribe: yes\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a"))
	f.Add([]byte("np: 0x10\ntimeout: .inf\nverbose: -1"))
	f.Add([]byte("env: &e {A: *e}\ncommand: [a]\nparams: {cycle_time_ms: NaN}\nprogram: x\nargs: y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		flags, o := flagSet()
		file, err := parseSettings("f", text, flags)
		if err == nil {
			err = setDefaults(flags, lookupIn(nil), nil, file.relativeTo("d", ""))
		}
		var mistake *usage.Error
		if err != nil && !errors.As(err, &mistake) {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil {
			_ = o.check(flags.Changed("np"))
		}
	})
}

// TestJobFileRuns runs jobs that a file describes.
func TestJobFileRuns(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("vars", "E2E_C=from the file\n")
	job := write("job.yaml", "np: 2\nenv: {E2E_A: one, E2E_B: two}\nenv_file: vars\nwdir: .\nprefix: rank\nparams: {cycle_time_ms: 3}\n"+
		"command: [sh, -c, 'echo $E2E_A $E2E_B $E2E_C $HOROVOD_CYCLE_TIME $(basename $PWD) $0', a b]\n")
	base := filepath.Base(dir)
	for _, tc := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"[0] one two from the file 3 " + base + " a b", "[1] one two from the file 3 " + base + " a b"}},
		{[]string{"-np", "1", "-x", "E2E_B=2"}, []string{"[0] one 2 from the file 3 " + base + " a b"}},
		{[]string{"--prefix", "none", "sh", "-c", "echo mine"}, []string{"mine", "mine"}},
	} {
		r := startIn(t, nil, []string{"GORUN_NP=3", "HOROVOD_CYCLE_TIME=8"}, append([]string{"--config-file", job}, tc.args...)...).want(0)
		if got := r.lines(); !slices.Equal(slices.Sorted(slices.Values(got)), tc.want) {
			t.Errorf("%q: %q, want %q; stderr %s", tc.args, got, tc.want, &r.err)
		}
	}
	r := start(t, nil, "bench", "allreduce", "--config-file", job, "--transport", "tcp", "--json", "--max", "8", "--time", "0.001").want(0)
	if rows := benchRows(t, r); len(rows) == 0 || rows[0].Ranks != 2 {
		t.Errorf("%+v", rows)
	}
	start(t, nil, "--config-file", write("bad.yaml", "np: 2\n\nnpp: 3\n")).want(2, "bad.yaml:3: there is no setting \"npp\"", "did you mean ")
	start(t, nil, "--config-file", write("launcher.yaml", "np: 2\nlauncher: telnet\ncommand: 'true'\n")).want(2, `launcher.yaml:2: --launcher "telnet": it must be`)
	r = start(t, nil, "--config-file", filepath.Join(dir, "launcher.yaml"), "--launcher", "ssl").want(2, `--launcher "ssl": it must be`)
	if strings.Contains(r.err.String(), "launcher.yaml") {
		t.Errorf("%s", &r.err)
	}
	start(t, nil, "--config-file", write("none.yaml", "np: 2\n")).want(2, "none.yaml names no program", "write command: ./train in it")
	start(t, nil, "--config-file", filepath.Join(dir, "gone.yaml"), "true").want(2, "gone.yaml")
	r = startPath(t, nil, binary("gorun"), nil, "--dialect", "horovodrun", "-np", "1", "--config-file", write("h.yaml", "controller: mpi\nstall_check: {enabled: false}\n"),
		"sh", "-c", "echo $HOROVOD_STALL_CHECK_DISABLE").want(0, "gorun: controller mpi is not needed: gorun starts the ranks itself, without mpirun or jsrun, and they use Gloo")
	if r.out.String() != "localhost:0: 1\n" {
		t.Errorf("%q", &r.out)
	}
}
