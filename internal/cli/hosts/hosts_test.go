package hosts

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/cli/usage"
	"github.com/gorun/gorun/internal/test/environ"
)

// around returns a Finder with the given files and variables.
func around(files, env map[string]string) Finder {
	open := func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
	return Finder{Lookup: environ.Lookup(env), Open: open, Hostname: "here", Cores: func() int { return 6 }}
}

func TestFindHosts(t *testing.T) {
	files := map[string]string{
		"hosts": "a slots=4\nb slots=2\n", "odd": "a slots=2 color=red\n", "first": "+n0\n", "/etc/mpi/hostfile": "w0 slots=8\n", "no": "^x\n",
		"nodes": "n1\nn1\nn2\n",
	}
	slurm := map[string]string{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "f[1-2]", "SLURM_TASKS_PER_NODE": "2,1", "SLURM_NTASKS": "3"}
	pbs := map[string]string{"PBS_NODEFILE": "nodes"}
	for _, tc := range []struct {
		hosts, file string
		env         map[string]string
		want        string // hosts, np
		source      string
		warning     string
	}{
		{"", "", nil, "localhost slots=3", "nothing: this machine", ""},
		{"a:2,b", "", nil, "a slots=2;b slots=1", "-H", ""},
		{"a:2,b", "", slurm, "a slots=2;b slots=1", "-H", ""},
		{"", "hosts", slurm, "a slots=4;b slots=2", "hostfile hosts", ""},
		{"b,a:1", "hosts", nil, "b slots=2;a slots=1", "-H among hostfile hosts", ""},
		{"^b", "hosts", slurm, "a slots=4", "-H among hostfile hosts", ""},
		{"+n1", "hosts", slurm, "b slots=2", "-H among hostfile hosts", ""},
		{"", "odd", nil, "a slots=2", "hostfile odd", `odd:1:11: "color=red": gorun does not know`},
		{"a", "odd", nil, "a slots=2", "-H among hostfile odd", `odd:1:11: "color=red": gorun does not know`},
		{"", "", slurm, "f1 slots=2;f2 slots=1 np=3", "Slurm job 7 (SLURM_JOB_NODELIST)", ""},
		{"^f1", "", slurm, "f2 slots=1", "-H among Slurm job 7 (SLURM_JOB_NODELIST)", ""},
		{"+n1,f1:1", "", slurm, "f2 slots=1;f1 slots=1", "-H among Slurm job 7 (SLURM_JOB_NODELIST)", ""},
		{"", "first", pbs, "n1 slots=2", "hostfile first among PBS_NODEFILE (nodes)", ""},
		{"", "no", map[string]string{"K_MPI_JOB_ROLE": "launcher"}, "w0 slots=8", "hostfile no among K_MPI_JOB_ROLE (/etc/mpi/hostfile)", ""},
		{"here:auto,localhost:*", "", nil, "here slots=auto;localhost slots=auto", "-H", ""},
		{"a:auto,here:auto,b:auto", "", nil, "a slots=auto;here slots=auto;b slots=auto", "-H", ""},
	} {
		p, err := findHosts(&settings.Options{Hosts: tc.hosts, Hostfile: tc.file, NP: 3}, around(files, tc.env))
		got := strings.ReplaceAll(strings.TrimSpace(hostfile.Format(p.Hosts)), "\n", ";")
		if p.NP != 0 {
			got += fmt.Sprint(" np=", p.NP)
		}
		warned := strings.Join(p.Warnings, "\n")
		if err != nil || got != tc.want || p.Source != tc.source || !strings.HasPrefix(warned, tc.warning) || tc.warning == "" && warned != "" {
			t.Errorf("-H %q --hostfile %q: %q from %q, warnings %q, %v\nwant %+v", tc.hosts, tc.file, got, p.Source, warned, err, tc)
		}
	}
}

func TestFindHostsErrors(t *testing.T) {
	files := map[string]string{"hosts": "node1.example.com slots=4\nnode2 slots=2\nnode3\nnode3\n", "bad": "a\nb slots=x\n", "none": "+n0\n"}
	for _, tc := range []struct {
		hosts, file string
		env         map[string]string
		want, hint  string
	}{
		{"a:0", "", nil, `-H:1: "a:0": the slots after the colon`, "for example -H f1:2,ada@f2:2, without blanks"},
		{"", "bad", nil, `bad:2:3: "slots=x": slots must be`, "a line names one host, for example: f1 slots=2"},
		{"a", "bad", nil, `bad:2:3: "slots=x": slots must be`, "a line names one host, for example: f1 slots=2"},
		{"a:x", "hosts", nil, `-H:1: "a:x"`, "for example -H f1:2,ada@f2:2, without blanks"},
		{"", "gone", nil, "open the hostfile: open gone", "check the name after --hostfile"},
		{"node1", "hosts", nil, `-H:1: "node1": hostfile hosts has no host node1`, "did you mean node1.example.com or node2?"},
		{"node4", "hosts", nil, `hostfile hosts has no host node4`, "did you mean node2?"},
		{"NODE2", "hosts", nil, `has no host NODE2`, "did you mean node2?"},
		{"elsewhere", "hosts", nil, `has no host elsewhere`, "it has node1.example.com, node2, node3"},
		{"node2:3", "hosts", nil, `3 slots asked for, but hostfile hosts has 2 for this host`, "for example -H f1:2,ada@f2:2, without blanks"},
		{"^a", "", nil, `-H:1: "^a": it chooses from an allocation or a hostfile, and there is none`, "for example -H f1:2,ada@f2:2, without blanks"},
		{"", "none", nil, `none:1:1: "+n0": it chooses from an allocation`, "a line names one host, for example: f1 slots=2"},
		{"", "", map[string]string{"PBS_NODEFILE": "/gone"}, "find the hosts of PBS_NODEFILE: open /gone", "give the hosts with -H or --hostfile, or unset the variable"},
		{"", "", map[string]string{"SLURM_JOB_NODELIST": "f[1"}, `SLURM_JOB_NODELIST:1: "f[1": the bracket is not closed`, "give the hosts with -H or --hostfile, or unset the variable"},
		{"+n0", "", map[string]string{"LSB_HOSTS": "!"}, `LSB_HOSTS:1: "!"`, "give the hosts with -H or --hostfile, or unset the variable"},
		{"f3", "none", map[string]string{"LSB_HOSTS": "f1 f2"}, `hostfile none among LSB_HOSTS has no host f3`, "did you mean f1?"},
	} {
		_, err := findHosts(&settings.Options{Hosts: tc.hosts, Hostfile: tc.file}, around(files, tc.env))
		var mistake *usage.Error
		if !errors.As(err, &mistake) || !strings.Contains(err.Error(), tc.want) || mistake.Hint() != tc.hint || exitcode.Of(err) != 2 {
			t.Errorf("-H %q --hostfile %q: %v, hint %q\nwant %q, %q", tc.hosts, tc.file, err, usage.Hint(err), tc.want, tc.hint)
		}
	}
}
