package settings

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/dialect"
	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/test/environ"
)

// shown is what a file says: flags with values, then the command.
func listing(s settings) string {
	var parts []string
	for _, v := range s.list {
		for _, value := range v.values {
			parts = append(parts, v.flag+"="+value)
		}
	}
	if s.Command != nil {
		parts = append(parts, fmt.Sprintf("%q", s.Command))
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
		flags, _ := NewFlags()
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
		{"np: 2\nhostfle: x", `f:2: unknown setting "hostfle"`, "did you mean hostfile?"},
		{"comand: x", `f:1: unknown setting "comand"`, "did you mean command?"},
		{"zzzzzzzz: x", `f:1: unknown setting "zzzzzzzz"`, "the keys are env, command, and the long names of the flags: see gorun --help"},
		{"params:\n  a: 1", `f:2: unknown setting "params.a"`, "params has fusion_threshold_mb, "},
		{"params:\n  cycle_time: 1", `f:2: unknown setting "params.cycle_time"`, "did you mean cycle_time_ms?"},
		{"params: 3", "f:1: params: expected names with values", ""},
		{"params: {cycle_time_ms: fast}", `f:1: params.cycle_time_ms: "fast": expected a number, 0 or more`, ""},
		{"params: {cycle_time_ms: -1}", `f:1: params.cycle_time_ms: "-1": expected a number, 0 or more`, ""},
		{"params: {fusion_threshold_mb: 1.5}", `f:1: params.fusion_threshold_mb "1.5": expected a whole number of megabytes`, ""},
		{"autotune:\n  enabled: 3", `f:2: autotune.enabled: "3": expected true or false`, ""},
		{"controller: smoke", `f:1: controller: "smoke": it must be gloo or mpi`, ""},
		{"dialect: srun", "f:1: dialect has no effect here", "set GORUN_DIALECT, or start gorun by another name"},
		{"\nconfig_file: x", "f:2: config_file has no effect here", "give it on the command line"},
		{"np: [4]", "f:1: np: expected one value, not a list", ""},
		{"np:\n  a: 4", "f:2: np: expected one value, not a map", ""},
		{"np:", "f:1: np: it has no value", "write one"},
		{"np: ~", "f:1: np: it has no value", ""},
		{"np: 4\nnum_proc: 5", "f:2: num_proc: set twice, first in line 1", "leave one of them out"},
		{"env: A=1", "f:1: env: expected a map or a list", "write NAME: value"},
		{"env:\n  A: 1\n  B: [2]", "f:3: env.B: expected one value, not a list", ""},
		{"env:\n  A=B: 1", "f:2: env.A=B: not a variable name", ""},
		{"command: ''", "f:1: command: no program named", ""},
		{"command: a 'b", "f:1: command: a quote is not closed", "write a list"},
		{"command: {a: b}", "f:1: command: expected one value, not a map", ""},
		{"np: 1\nargs: [a]", "f:2: args: args without a program", "write program: ./train beside it"},
		{"command: a\nprogram: b", "f:2: program: command already names the program", ""},
		{"program: ''", "f:1: program: it is empty", ""},
		{"np", "f:1: expected names with values", "write one `name: value` a line"},
		{"- np", "f:1: expected names with values", ""},
		{"a: b: c", "f: not valid YAML: mapping values", "write one `name: value` a line"},
		{"np: 1\na: b: c", "f:2: not valid YAML: mapping values", "write one `name: value` a line"},
		{"np: 1\n---\nnp: 2", "f: the file holds more than one document", ""},
		{"? [a]\n: b", "f:1: not a name", ""},
		{"a: &a [*a]", `f:1: unknown setting "a"`, ""},
		{"<<: {np: 1}", `f:1: unknown setting "<<"`, ""},
		{"\x00", "f: not valid YAML: ", ""},
	} {
		flags, _ := NewFlags()
		got, err := parseSettings("f", []byte(tc.text), flags)
		if !exitcode.IsUsage(err) || !strings.HasPrefix(err.Error(), tc.want) || !strings.HasPrefix(usage.Hint(err), tc.hint) || exitcode.Of(err) != 2 {
			t.Errorf("%q: %s, %v, hint %q; want %s", tc.text, listing(got), err, usage.Hint(err), tc.want)
		}
	}
}

// Files can set every variable that horovodrun's flags set, and each key has a flag.
func TestHorovodsFileSaysWhatItsFlagsSay(t *testing.T) {
	reached := map[string]bool{}
	for _, s := range horovodSections() {
		for _, key := range s.keys {
			for _, value := range []string{"true", "false", "1"} {
				flags, _ := NewFlags()
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
			continue // computed, not set by the user
		}
		if found && !reached["export=HOROVOD_"+strings.ReplaceAll(sets, "VALUE", "1")] {
			t.Errorf("%s cannot be said in a file", row[0])
		}
	}
	text, err := os.ReadFile("../../../docs/job-files.md")
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

// TestJobFilePrecedence: the command line wins, and its list values follow the file's.
func TestJobFilePrecedence(t *testing.T) {
	const text = "np: 4\nhosts: [a, b]\nppn: 2\nenv: {A: file, B: file}\nwdir: w\nhostfile: h\nparams: {cycle_time_ms: 3}\ntimeout: 5"
	for _, tc := range []struct{ argv, want string }{
		{"", "np=4 hosts=a,b hostfile=jobs/h wdir=jobs/w timeout=5s export=A=file B=file HOROVOD_CYCLE_TIME=3"},
		{"--np=8 --wdir=x", "np=8 hosts=a,b hostfile=jobs/h wdir=x timeout=5s export=A=file B=file HOROVOD_CYCLE_TIME=3"},
		{"--hosts=c --export=A=line", "np=4 hosts=c hostfile= wdir=jobs/w timeout=5s export=A=file B=file HOROVOD_CYCLE_TIME=3 A=line"},
		{"--timeout=1 --export=HOROVOD_CYCLE_TIME=9", "np=4 hosts=a,b hostfile=jobs/h wdir=jobs/w timeout=1s export=A=file B=file HOROVOD_CYCLE_TIME=3 HOROVOD_CYCLE_TIME=9"},
	} {
		flags, o := NewFlags()
		if err := flags.Parse(strings.Fields(tc.argv)); err != nil {
			t.Fatal(err)
		}
		job, err := parseSettings("jobs/j.yaml", []byte(text), flags)
		if err == nil {
			err = job.relativeTo("jobs", "/home/ada").Apply(flags)
		}
		if err == nil {
			err = SetDefaults(flags, environ.Lookup(map[string]string{"GORUN_NP": "7", "GORUN_EXPORT": "C"}), nil, fileOf(map[string]string{"grace": "1", "np": "9"}))
		}
		got := fmt.Sprintf("np=%d hosts=%s hostfile=%s wdir=%s timeout=%v export=%s", o.NP, o.Hosts, o.Hostfile, o.Wdir, &o.Timeout, strings.Join(o.Exports, " "))
		if err != nil || got != tc.want || o.Grace.String() != "1s" || o.Ppn != 2 {
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

// FuzzSettings checks that no file causes a panic, and that settings are valid or are
// rejected by a usage error.
func FuzzSettings(f *testing.F) {
	f.Add([]byte("np: 4\nhosts: a:2\ngrace: 1e3\nno_oversubscribe: yes\n"))
	f.Add([]byte("a: &a [*a]\n<<: *a"))
	f.Add([]byte("np: 0x10\ntimeout: .inf\nverbose: -1"))
	f.Add([]byte("env: &e {A: *e}\ncommand: [a]\nparams: {cycle_time_ms: NaN}\nprogram: x\nargs: y"))
	f.Fuzz(func(t *testing.T, text []byte) {
		flags, o := NewFlags()
		file, err := parseSettings("f", text, flags)
		if err == nil {
			err = SetDefaults(flags, environ.Lookup(nil), nil, file.relativeTo("d", ""))
		}
		var mistake *usage.Error
		if err != nil && !errors.As(err, &mistake) {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil {
			_ = o.Check(flags.Changed("np"))
		}
	})
}

// TestTranslatedWordsParse checks that the flag parser accepts translated words.
func TestTranslatedWordsParse(t *testing.T) {
	for _, argv := range []string{
		"-np 4 -H a:2,b:2 -x A prog -np 9 --hosts no",
		"-np=4 -host a:2,b:2 -x=A prog -np 9 --hosts no",
		"--num-proc 4 --host=a:2,b:2 --export A -- prog -np 9 --hosts no",
		"-n4 -vHa:2,b:2 -xA prog -np 9 --hosts no",
		"--num_proc=4 -hosts=a:2,b:2 -x A prog -np 9 --hosts no",
	} {
		flags, o := NewFlags()
		line, err := dialect.Translate(strings.Fields(argv), dialect.Own, flags, []string{"help", "version", "completion"})
		if err == nil {
			err = flags.Parse(line.Args)
		}
		if err != nil {
			t.Errorf("%s: %v", argv, err)
			continue
		}
		if o.NP != 4 || o.Hosts != "a:2,b:2" || !slices.Equal(o.Exports, []string{"A"}) || strings.Join(flags.Args(), " ") != "prog -np 9 --hosts no" {
			t.Errorf("%s: np %d, hosts %q, export %q, program %q", argv, o.NP, o.Hosts, o.Exports, flags.Args())
		}
	}
}

// Open MPI's environment settings act as flags of lower precedence than the command line.
func TestOpenMPISettingsInTheEnvironment(t *testing.T) {
	variables := []string{
		"OMPI_MCA_plm_rsh_agent=/etc/mpi/kubexec.sh", "OMPI_MCA_plm_rsh_args=-p 2222", "OMPI_MCA_btl_tcp_if_include=eth0", "PRTE_MCA_rmaps_default_mapping_policy=ppr:2:node", "OMPI_MCA_mca_base_env_list=A;B=1",
		"OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile", "OMPI_MCA_orte_set_default_slots=2", "OMPI_MCA_orte_keep_fqdn_hostnames=true",
		"OMPI_MCA_pml=ob1", "OMPI_MCA_plm_base_verbose=5", "OMPI_MCA_orte_timestamp_output=1", "OMPI_COMM_WORLD_RANK=1", "PATH=/bin",
	}
	flags, o := NewFlags()
	mca, err := dialect.EnvironmentSettings(variables, flags)
	if err != nil {
		t.Fatal(err)
	}
	if err := flags.Parse([]string{"--ssh-port=7"}); err != nil {
		t.Fatal(err)
	}
	if err := SetDefaults(flags, environ.Lookup(map[string]string{"GORUN_PPN": "5"}), mca.Args, fileOf(map[string]string{"network-interface": "eth9", "grace": "1"})); err != nil {
		t.Fatal(err)
	}
	if o.SSHPort != 7 || o.Ppn != 5 || o.Network.String() != "eth0" || !slices.Equal(o.Exports, []string{"A", "B=1"}) || o.Hostfile != "" || o.Grace.String() != "1s" || !o.Timestamp ||
		o.RSHAgent != "/etc/mpi/kubexec.sh" || !slices.Equal(o.RSHArgs, []string{"-p 2222"}) {
		t.Errorf("%+v", *o)
	}
	if want := "ignored Open MPI settings: OMPI_MCA_plm_base_verbose=5"; mca.Notice() != want {
		t.Errorf("notice %q, want %q", mca.Notice(), want)
	}
	flags, _ = NewFlags()
	mca, err = dialect.EnvironmentSettings([]string{"OMPI_MCA_odls_base_sigkill_timeout=soon"}, flags)
	if err == nil {
		err = SetDefaults(flags, environ.Lookup(nil), mca.Args, settings{})
	}
	if !exitcode.IsUsage(err) || !strings.Contains(err.Error(), "soon") {
		t.Errorf("a value that makes no sense: %v", err)
	}
}
