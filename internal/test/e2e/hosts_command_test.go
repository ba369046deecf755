package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/lab"
)

// Inside an allocation gorun needs no host list, and -v names the source of its hosts.
func TestAllocationIsUsed(t *testing.T) {
	env := []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=localhost", "SLURM_TASKS_PER_NODE=3", "SLURM_NTASKS=2"}
	r := startIn(t, nil, env, "-v", "--prefix", "rank", "sh", "-c", "echo $GORUN_SIZE").want(0, "hosts: 1 with 3 slots, from Slurm job 7 (SLURM_JOB_NODELIST), which requests 2 ranks")
	if got := r.lines(); len(got) != 2 || !strings.HasSuffix(got[0], " 2") {
		t.Errorf("%q", got)
	}
	nodes := filepath.Join(t.TempDir(), "nodes")
	if err := os.WriteFile(nodes, []byte("localhost\nlocalhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r = startIn(t, nil, []string{"PBS_NODEFILE=" + nodes}, "--prefix", "none", "sh", "-c", "echo $GORUN_SIZE").want(0)
	if r.out.String() != "2\n2\n" {
		t.Errorf("%q", &r.out)
	}
	startIn(t, nil, []string{"PBS_NODEFILE=" + nodes + ".gone"}, "true").want(2, "PBS_NODEFILE", "no such file")
}

func TestHostsCommandShowsWhereARunWouldRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts.txt")
	if err := os.WriteFile(file, []byte("f1 slots=2 max_slots=4\nada@f2:3 port=2222\nf3\nlocalhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const all = `host       slots  max  user  port  by
f1         2      4    -     -     ssh
f2         3      -    ada   2222  ssh
f3         1      -    -     -     ssh
localhost  1      -    -     -     local
4 hosts, 7 slots, from hostfile `
	for _, tc := range []struct{ argv, want string }{
		{"--hostfile " + file, all + file + "\n"},
		{"-hostfile=" + file + " -H ^f1,^f2,^localhost --ssh-port 22", "host  slots  max  user  port  by\nf3    1      -    -     22    ssh\n1 host, 1 slot, from -H among hostfile " + file + "\n"},
		{"-np 3", "host       slots  max  user  port  by\nlocalhost  3      -    -     -     local\n1 host, 3 slots, from nothing: this machine\n"},
		{"-H a,b --ppn 2 --launcher local", "host  slots  max  user  port  by\na     2      -    -     -     local\nb     2      -    -     -     local\n2 hosts, 4 slots, from -H\n"},
		{"--json -H ada@f2:3", `{"source":"-H","slots":3,"hosts":[{"host":"f2","slots":3,"user":"ada","by":"ssh"}]}` + "\n"},
	} {
		r := start(t, nil, append([]string{"hosts"}, strings.Fields(tc.argv)...)...).want(0)
		if r.out.String() != tc.want || r.err.Len() > 0 {
			t.Errorf("%s:\n%s%s\nwant\n%s", tc.argv, &r.out, &r.err, tc.want)
		}
	}
	start(t, nil, "hosts", "f1", "f2").want(2, `takes no program: "f1"`, "gorun hosts -H f1,f2")
	start(t, nil, "hosts", "-H", "a:0").want(2, `-H:1: "a:0"`)
	start(t, nil, "hosts", "--hostfile", file, "-H", "f4").want(2, "has no host f4", "did you mean f1?")
	start(t, nil, "hosts", "--hostfle", file).want(2, "unknown flag --hostfle", "did you mean --hostfile?")
}

func TestHostsCommandChecks(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(3)...)
	hosts := func(args ...string) *run {
		return startPath(t, nil, binary("gorun"), nil, append([]string{"hosts", "-F", c.ConfigFile}, args...)...)
	}
	r := hosts("--check", "-H", "f1:2,localhost").want(0)
	want := regexp.MustCompile(`(?m)^f1 +2 +- +- +- +ssh +ok +\d+\.\d+ s +127\.[0-9.]+:\d+ +\S+\nlocalhost +1 +- +- +- +local +ok +\d+\.\d+ s +- +\S+\n2 hosts`)
	if !want.MatchString(r.out.String()) || r.err.Len() > 0 {
		t.Errorf("%s%s", &r.out, &r.err)
	}
	spoilHostKey(t, c, "f2")
	if err := syscall.Kill(c.Host("f3").PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	r = hosts("--check", "--json", "-H", "f1,f2,f3").want(1, "error: f2 (", "host key", "error: f3 (", "refused", "hint: ")
	var all struct {
		Hosts []struct {
			Host  string
			Check struct {
				OK                bool
				Seconds           float64
				Sshd, Error, Hint string
			}
		}
	}
	if err := json.Unmarshal(r.out.Bytes(), &all); err != nil || len(all.Hosts) != 3 {
		t.Fatalf("%v: %s", err, &r.out)
	}
	for i, ok := range []bool{true, false, false} {
		h := all.Hosts[i]
		if h.Check.OK != ok || (h.Check.Error == "") != ok || h.Check.Seconds <= 0 || ok && h.Check.Sshd == "" || !ok && h.Check.Hint == "" {
			t.Errorf("%+v", h)
		}
	}
}
