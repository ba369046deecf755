package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/must"
)

// A file that is written means what the flags meant.
func TestFilesAreReadAsWritten(t *testing.T) {
	for typed, want := range map[string]string{
		"--hosts f1:2,ada@f[2-8]:4":               "hosts=f1:2,ada@f[2-8]:4",
		"--hostfile hosts.txt --stage .":          "hostfile=/at/hosts.txt stage=.",
		"--np 4 --timeout 10m -i key":             "np=4 ssh-identity-file=/at/key timeout=10m0s",
		"--quiet --host-keys accept-new":          "host-keys=accept-new quiet=true",
		"-x A=1 -x B=yes -x C= --unset-env 007":   "export=A=1 export=B=yes export=C= unset-env=007",
		"--network-interface ib0,10.0.0.0/8 -v":   "network-interface=ib0,10.0.0.0/8 verbose=1",
		"--prefix null --gpus-per-rank none":      "gpus-per-rank=none prefix=null",
		"--host-discovery-script ./up.sh":         "host-discovery-script=/at/up.sh",
		"--timeout 1h --config other --grace 0.5": "grace=500ms timeout=1h0m0s",
	} {
		flags, _ := NewFlags()
		must.OK(t, flags.Parse(strings.Fields(typed)))
		var names []string
		for name := range Given(flags) {
			names = append(names, name)
		}
		text := must.Get(FileOf(flags, names, "/at"))(t)
		fresh, _ := NewFlags()
		got, err := parseSettings("f", text, fresh)
		must.OK(t, err, string(text))
		must.OK(t, got.Apply(fresh), string(text))
		read := strings.Fields(listing(got))
		slices.Sort(read)
		check.Equal(t, strings.Join(read, " "), want)
	}
}

// A command of a file finds its program beside the file, wherever a run is started, as other paths
// of the file are found. What a shell would make something else of stays as it is.
func TestCommandsOfFilesAreBesideThem(t *testing.T) {
	for _, tc := range []struct{ flag, value, want string }{
		{"host-discovery-script", "./up.sh --all ./x", "/at/up.sh --all ./x"},
		{"host-discovery-script", "../up.sh|sort", "/up.sh|sort"},
		{"host-discovery-script", " tools/up.sh", "/at/tools/up.sh"},
		{"host-discovery-script", "/opt/up.sh", "/opt/up.sh"},
		{"host-discovery-script", "cat hosts", "cat hosts"},
		{"host-discovery-script", "$HOME/up.sh", "$HOME/up.sh"},
		{"host-discovery-script", "~/up.sh", "~/up.sh"},
		{"on-end", "./done", "/at/done"},
		{"on-end", "A=./b  ./done", "A=./b  /at/done"},
		{"on-end", `A="$HOME; x" B= exec 'my bin/done' ./x`, `A="$HOME; x" B= exec '/at/my bin/done' ./x`},
		{"on-end", "'./done'$X", "'./done'$X"},
		{"on-end", `A="\" ./b \"" ./done`, `A="\" ./b \"" /at/done`},
		{"on-end", `A="\" ./done`, `A="\" ./done`},
		{"on-end", "A=`cat ./b ./c` ./done", "A=`cat ./b ./c` ./done"},
		{"on-end", "A=1;./done", "A=1;./done"},
		{"on-end", "A=1 ; ./done", "A=1 ; ./done"},
		{"on-end", "./done`hostname`", "./done`hostname`"},
		{"on-end", "./done; ./more", "/at/done; ./more"},
		{"on-end", "'done' && ./x", "'done' && ./x"},
		{"launch-agent", "ssh : ./shell -x : bin/rsh", "ssh : /at/shell -x : /at/bin/rsh"},
		{"setup", "./setup.sh", "./setup.sh"},
	} {
		check.Equal(t, pathFrom("/at", "/home/ada", tc.flag, tc.value), tc.want)
	}
	check.Equal(t, pathFrom("a b", "", "on-end", "./done"), "'a b/done'")
	check.Equal(t, pathFrom(".", "", "on-end", "./done"), "./done")
}

// What else a command of a job file runs is not beside the file if gorun is started elsewhere:
// others may have put something of that name there.
func TestCommandsOfFilesRunNothingOfTheCurrentFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "job.yaml")
	for text, refused := range map[string]string{
		"on_end: sh done.sh":                         "done.sh",
		"on_end: ./done; ./more":                     "./more",
		"on_end: timeout 5 bin/done":                 "bin/done",
		"on_end: . ./done.sh":                        "./done.sh",
		"host_discovery_script: date && tools/up.sh": "tools/up.sh",
		"launch_agent: 'sh rsh.sh : ./rsh'":          "rsh.sh",
		"on_end: ./done ./log":                       "",
		"on_end: sh ~/done.sh":                       "",
		"setup: tools/setup.sh":                      "",
		"tool: [./wrap:0]":                           "",
	} {
		must.OK(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		for where, allowed := range map[string]bool{dir: true, filepath.Dir(dir): refused == ""} {
			t.Chdir(where)
			name := must.Get(filepath.Rel(where, path))(t)
			flags, _ := NewFlags()
			_, err := ReadJobFile(name, flags, environ.Lookup(nil))
			check.That(t, allowed && err == nil || !allowed && err != nil &&
				strings.Contains(err.Error(), refused+" would be"), "%s in %s: %v", text, where, err)
		}
	}
}

// The user's defaults hold in every folder, so no command there may be a path that starts at the
// current one.
func TestDefaultsRunNoProgramsOfOtherFolders(t *testing.T) {
	for _, tc := range []struct{ flag, value, refused string }{
		{"host-discovery-script", "./up.sh", ""},
		{"host-discovery-script", "sh ./up.sh", "./up.sh"},
		{"host-discovery-script", "'./up.sh'", ""},
		{"host-discovery-script", "'./up.sh'$X", "./up.sh"},
		{"on-end", "~/done && mail ada", ""},
		{"on-end", "date && ../done", "../done"},
		{"on-end", "A=1 bin/done", ""},
		{"on-end", "date;bin/done", "bin/done"},
		{"on-end", "date && env A=b/c bin/done", "bin/done"},
		{"on-end", "sh -e bin/done", "bin/done"},
		{"on-end", "sh done.sh", "done.sh"},
		{"on-end", "bash -e -o pipefail done.sh", "done.sh"},
		{"on-end", "sh -c 'date; bin/done'", "bin/done"},
		{"on-end", "sh -c '/bin/date; sh done.sh'", "done.sh"},
		{"on-end", "python3 -u done.py", "done.py"},
		{"on-end", "/usr/bin/python3 -m done && perl -e 'print 1/2' -- a/b", ""},
		{"on-end", ". done.sh", "done.sh"},
		{"on-end", "timeout -s KILL 5 bin/done", "bin/done"},
		{"on-end", "nice -n 5 sh done.sh", "done.sh"},
		{"on-end", "timeout 5 /opt/done 1 && mail -s a/b ada", ""},
		{"on-end", "timeout 5 curl -o/dev/null -d A=b/c https://example.org/done", ""},
		{"on-end", "nice -n 5 rsync --rsync-path=/opt/rsync -a ~/out ada@b:out/1", ""},
		{"on-end", "timeout 5 mail -s 'job a/b is done' ada", ""},
		{"on-end", "flock /tmp/lock -c 'bin/done now'", "bin/done"},
		{"on-end", "bash --norc done.sh", "done.sh"},
		{"on-end", "bash --rcfile ~/rc -c date", ""},
		{"on-end", "python3.12 done.py", "done.py"},
		{"on-end", "/bin/ksh93 done.sh", "done.sh"},
		{"on-end", "tcsh done.csh", "done.csh"},
		{"on-end", "exec -a done bin/done", "bin/done"},
		{"on-end", "time -f %e bin/done", "bin/done"},
		{"on-end", "date; eval bin/done", "bin/done"},
		{"on-end", `echo "at $(bin/done)"`, "bin/done"},
		{"on-end", `mail -s "at $(date)" ada`, ""},
		{"on-end", "echo \"at `date; sh done.sh`\"", "done.sh"},
		{"on-end", "echo 'it is $(bin/done)'", ""},
		{"on-end", "echo $(bin/done)", "bin/done"},
		{"on-end", "echo `bin/done`", "bin/done"},
		{"on-end", "date && \\\n bin/done", "bin/done"},
		{"on-end", `echo 'a; b/c' \; b/c`, ""},
		{"on-end", "mail -s a/b ada", ""},
		{"tool", "bin/wrap -x:0,8", "bin/wrap"},
		{"tool", "/opt/wrap:0", ""},
		{"launch-agent", "ssh : ./shell", ""},
		{"setup", "modprobe x", ""},
		{"setup", "tools/setup.sh", "tools/setup.sh"},
		{"teardown", "/opt/end", ""},
		{"launch-agent-args", "-F ./ssh_config", "./ssh_config"},
		{"launch-agent-args", "-F /opt/ssh_config", ""},
	} {
		flags, _ := NewFlags()
		must.OK(t, flags.Set(tc.flag, tc.value))
		err := CheckCommands(flags, []string{tc.flag}, "/at")
		check.That(t, tc.refused == "" && err == nil || tc.refused != "" && err != nil &&
			strings.Contains(err.Error(), tc.refused), "--%s %s: %v", tc.flag, tc.value, err)
	}
	// Nor where a user has written the file.
	for _, tc := range []struct{ text, refused string }{
		{"on_end: ./done", "./done"},
		{"on_end: mail ada && sh ./done", "./done"},
		{"on_end: sh done.sh", "done.sh"},
		{"on_end: date | xargs tools/done", "tools/done"},
		{"on_end: ~/done ./log", ""},
		{"host_discovery_script: up.sh --all", ""},
		{"launch_agent: 'ssh : ./rsh'", "./rsh"},
		{"setup: tools/setup.sh", "tools/setup.sh"},
		{"tool: [/opt/wrap:0, ./wrap:1]", "./wrap:1"},
	} {
		path := filepath.Join(t.TempDir(), "config.yaml")
		must.OK(t, os.WriteFile(path, []byte("np: 1\n"+tc.text+"\n"), 0o600))
		flags, _ := NewFlags()
		_, err := ReadDefaults(path, flags, environ.Lookup(nil))
		check.That(t, tc.refused == "" && err == nil || tc.refused != "" && err != nil &&
			strings.Contains(err.Error(), "config.yaml:2: ") && strings.Contains(err.Error(), tc.refused+" would"),
			"%s: %v", tc.text, err)
	}
}
