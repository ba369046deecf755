package agent

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/internal/host/seat"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
)

func TestBaseEnv(t *testing.T) {
	inherited := []string{"PATH=/bin", "HOME=/root", "A=agent", "SSH_CONNECTION=1 2 3 4", "RANK=9",
		"OMPI_COMM_WORLD_RANK=1", "GORUN_TOKEN=old", "EMPTY=", "=bad", "bad", "X=a=b"}
	job := wire.Job{Drop: []string{"SSH_CONNECTION", "NOT_THERE"},
		Env: wire.Texts{"A=job", "RANK=8", "SSH_CONNECTION=asked for",
			"RAW=\xff\n", "B==", "no value"}}
	got := baseEnv(inherited, job, wire.Program{})
	want := map[string]string{"PATH": "/bin", "HOME": "/root", "A": "job", "RANK": "8", "SSH_CONNECTION": "asked for",
		"EMPTY": "", "X": "a=b",
		"RAW": "\xff\n", "B": "=", "PYTHONUNBUFFERED": "1"}
	for name, value := range want {
		v, ok := got[name]
		check.That(t, ok && v == value, "%s is %q, %v; want %q", name, v, ok, value)
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s=%q is there", name, got[name])
		}
	}
	for _, env := range []struct{ inherited, job, want string }{{"PYTHONUNBUFFERED=", "A=1", ""},
		{"A=1", "PYTHONUNBUFFERED=0", "0"}} {
		got := baseEnv([]string{env.inherited}, wire.Job{Env: wire.Texts{env.job}}, wire.Program{})
		v, set := got["PYTHONUNBUFFERED"]
		check.That(t, set && v == env.want, "PYTHONUNBUFFERED is %q, want the user's %q", v, env.want)
	}
}

// environment returns a rank's environment by name. No name may occur twice.
func environment(t *testing.T, p program, r rankenv.Rank) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, kv := range p.rankEnv(r) {
		name, value, _ := strings.Cut(kv, "=")
		old, twice := env[name]
		check.That(t, !twice, "%s is %q and %q", name, old, value)
		env[name] = value
	}
	return env
}

func TestRankEnv(t *testing.T) {
	for name, tc := range map[string]struct {
		env  map[string]string
		rank rankenv.Rank
		want map[string]string
	}{
		"the rank's own values": {map[string]string{"RANK": "lie", "GORUN_TOKEN": "lie", "A": "1", "MASTER_PORT": "1"},
			rankenv.Rank{
				Rank:       3,
				Size:       4,
				Token:      "secret",
				Rendezvous: rankenv.Rendezvous{MasterAddr: "10.0.0.1", MasterPort: 5},
			},
			map[string]string{"RANK": "3", "GORUN_TOKEN": "secret", "A": "1", "MASTER_PORT": "1",
				"MASTER_ADDR": "10.0.0.1"}},
		"the user's choice for Horovod, also an empty one": {map[string]string{"NCCL_SOCKET_IFNAME": "",
			"HOROVOD_GLOO_IFACE": "ib0", "HOROVOD_GLOO_RENDEZVOUS_PORT": "1"},
			rankenv.Rank{Size: 1, Rendezvous: rankenv.Rendezvous{GlooPort: 4711},
				Network: rankenv.Network{Interface: "eth0"}},
			map[string]string{"NCCL_SOCKET_IFNAME": "", "HOROVOD_GLOO_IFACE": "ib0", "HOROVOD_CONTROLLER": "gloo",
				"HOROVOD_CPU_OPERATIONS": "gloo", "HOROVOD_GLOO_RENDEZVOUS_ADDR": "127.0.0.1",
				"HOROVOD_GLOO_RENDEZVOUS_PORT": "4711"}},
		"all networks": {nil, rankenv.Rank{Size: 1, Network: rankenv.Network{All: true}},
			map[string]string{"RING_RAILS": "8"}},
		"the user's number of networks": {map[string]string{"RING_RAILS": "1"},
			rankenv.Rank{Size: 1, Network: rankenv.Network{All: true}}, map[string]string{"RING_RAILS": "1"}},
	} {
		got := environment(t, program{env: tc.env}, tc.rank)
		for variable, want := range tc.want {
			value, set := got[variable]
			check.That(t, set && value == want, "%s: %s is %q, %v; want %q", name, variable, value, set, want)
		}
	}
}

func TestPrepareSeveralPrograms(t *testing.T) {
	dir := files.Make(t, map[string]string{"one": "+x", "sub/two": "+x"})
	program := func(name, wdir string) wire.Program {
		return wire.Program{Argv: wire.Texts{name}, Wdir: wire.Text(wdir)}
	}
	job := wire.Job{
		Env:      wire.Texts{"A=job", "B=job"},
		Shares:   []int{2, 1},
		Programs: []wire.Program{program("./one", dir), program("./two", dir+"/sub")},
		Ranks:    []wire.Rank{{Rank: 0}, {Rank: 2, Program: 1}},
	}
	job.Programs[1].Env = wire.Texts{"A=two"}
	job.Programs[1].Drop = []string{"C"}
	p := must.Get(prepare(job, []string{"C=agent", "PATH=/bin"}))(t)
	check.That(t, p[0].path == dir+"/one" && p[0].env["A"] == "job" && p[0].env["C"] == "agent" &&
		p[0].env["PWD"] == dir, "the first: %+v", p[0])
	_, has := p[1].env["C"]
	check.That(t, !has && p[1].path == dir+"/sub/two" && p[1].env["A"] == "two" && p[1].env["B"] == "job" &&
		p[1].env["PWD"] == dir+"/sub", "the second: %+v", p[1])
	var no *wire.Refuse
	job.Programs[1].Wdir = "/no/such"
	_, err := prepare(job, nil)
	check.That(t, errors.As(err, &no) && no.What == "./two: the working directory /no/such does not exist",
		"a directory that is not there: %v", err)
	job.Programs = job.Programs[:1]
	if _, err := prepare(job, nil); !errors.As(err, &no) || no.What != "rank 2 is to run program 1 of 1" {
		t.Errorf("a program that is not there: %v", err)
	}
}

func TestPrepare(t *testing.T) {
	dir := files.Make(t, map[string]string{"bin/tool": "+x", "prog": "+x"})
	job := wire.Job{Programs: []wire.Program{{Argv: wire.Texts{"tool", "\xff", ""}, Wdir: wire.Text(dir)}},
		Env: wire.Texts{"PATH=" + dir + "/bin"}}
	programs, err := prepare(job, []string{"PATH=/no/such", "PWD=/elsewhere"})
	must.OK(t, err)
	p := programs[0]
	check.That(t, p.path == dir+"/bin/tool" && slices.Equal(p.argv, []string{"tool", "\xff", ""}) &&
		p.place.Dir == dir && p.env["PWD"] == dir, "%+v, %v", p, err)
	for name, argv := range map[string]wire.Texts{"none": nil, "an empty name": {"", "x"}} {
		job.Programs[0].Argv = argv
		var no *wire.Refuse
		_, err := prepare(job, nil)
		check.That(t, errors.As(err, &no) && no.Code == 2, "%s: %v", name, err)
	}
}

// OMP_NUM_THREADS is set only where the user has not set it.
func TestThreadsOfARank(t *testing.T) {
	for _, tc := range []struct {
		inherited, sent string
		singularity     bool
		argv            string
		want            []string
	}{
		{"A=1", "B=1", false, "env OMP_NUM_THREADS=9 a", []string{"OMP_NUM_THREADS=2"}},
		{"A=1", "OMP_NUM_THREADS=7", false, "env OMP_NUM_THREADS=9 a", []string{"OMP_NUM_THREADS=7"}},
		{"OMP_NUM_THREADS=3", "A=1", false, "env OMP_NUM_THREADS=9 a", []string{"OMP_NUM_THREADS=3"}},
		{"OMP_NUM_THREADS=", "A=1", false, "env OMP_NUM_THREADS=9 a", []string{"OMP_NUM_THREADS="}},
		{"A=1", "B=1", true, "env A=1 singularity", []string{"APPTAINERENV_OMP_NUM_THREADS=2", "OMP_NUM_THREADS=2",
			"SINGULARITYENV_OMP_NUM_THREADS=2"}},
		{"A=1", "B=1", true, "env OMP_NUM_THREADS=9 singularity", nil},
		{"A=1", "SINGULARITYENV_OMP_NUM_THREADS=5", true, "env A=1 singularity",
			[]string{"SINGULARITYENV_OMP_NUM_THREADS=5"}},
	} {
		job := wire.Job{Env: wire.Texts{tc.sent}, Ranks: make([]wire.Rank, 2)}
		p := program{env: baseEnv([]string{tc.inherited}, job, wire.Program{}), singularity: tc.singularity,
			argv: strings.Fields(tc.argv)}
		p.assign([]seat.Seat{{Threads: 2}, {Threads: 2}})
		got := slices.DeleteFunc(p.rankEnv(rankenv.Rank{LocalRank: 1}), func(kv string) bool {
			return !strings.Contains(kv, "OMP_NUM")
		})
		slices.Sort(got)
		check.That(t, slices.Equal(got, tc.want), "%+v: %q", tc, got)
	}
}

// A job may have a program for each rank, so seats for each rank of each program would be as many
// as the square of the ranks' number.
func TestProgramsShareTheSeats(t *testing.T) {
	seats := []seat.Seat{{Threads: 2}, {Threads: 2}}
	for variables, want := range map[string]int{"": 2, "OMP_NUM_THREADS": 0} {
		p := program{env: map[string]string{variables: "7"}}
		p.assign(seats)
		check.That(t, &p.seats[0] == &seats[0] && p.seatOf(1).Threads == want && seats[1].Threads == 2,
			"with %q: %+v", variables, p.seatOf(1))
	}
}

func TestNoProxyForLoopback(t *testing.T) {
	const local = "127.0.0.1,localhost"
	for have, want := range map[string]string{
		"A=1":                                "A=1",
		"no_proxy=a":                         "no_proxy=a",
		"http_proxy=":                        "http_proxy=",
		"http_proxy=p":                       "NO_PROXY=" + local + " http_proxy=p no_proxy=" + local,
		"ALL_PROXY=p no_proxy=a":             "ALL_PROXY=p no_proxy=a," + local,
		"HTTPS_PROXY=p NO_PROXY=":            "HTTPS_PROXY=p NO_PROXY=" + local,
		"http_proxy=p no_proxy=*":            "http_proxy=p no_proxy=*",
		"http_proxy=p no_proxy=a NO_PROXY=b": "NO_PROXY=b," + local + " http_proxy=p no_proxy=a," + local,
	} {
		env := map[string]string{}
		for _, kv := range strings.Fields(have) {
			name, value, _ := strings.Cut(kv, "=")
			env[name] = value
		}
		spareLoopback(env)
		var got []string
		for _, name := range slices.Sorted(maps.Keys(env)) {
			got = append(got, name+"="+env[name])
		}
		check.That(t, strings.Join(got, " ") == want, "%s became %s, want %s", have, got, want)
	}
}

// JAX's coordinator listens where the user wants rank 0 to.
func TestJAXFollowsTheUsersMaster(t *testing.T) {
	for _, tt := range []struct{ env, want string }{
		{"", "10.0.0.1:7"}, {"MASTER_PORT=29400", "10.0.0.1:29400"}, {"MASTER_ADDR=f1", "f1:7"},
		{"JAX_COORDINATOR_ADDRESS=f2:9", "f2:9"}, {"MASTER_PORT=x", "10.0.0.1:7"},
	} {
		p := program{env: map[string]string{}}
		if name, value, set := strings.Cut(tt.env, "="); set {
			p.env[name] = value
		}
		got := environment(t, p, rankenv.Rank{Size: 1,
			Rendezvous: rankenv.Rendezvous{MasterAddr: "10.0.0.1", MasterPort: 7}})
		check.Equal(t, got["JAX_COORDINATOR_ADDRESS"], tt.want, tt.env)
	}
}

func TestRanksInSingularityGetPrefixedVariables(t *testing.T) {
	dir := files.Make(t, map[string]string{"singularity": "+x"})
	elastic := false
	launcher := ""
	env := func(inherited string, argv ...string) map[string]string {
		job := wire.Job{Programs: []wire.Program{{Argv: argv, Wdir: wire.Text(dir)}},
			Env: wire.Texts{"PATH=" + dir + ":/usr/bin:/bin", "A=1", "SINGULARITYENV_RANK=lie"}}
		p := must.Get(prepare(job, strings.Fields(inherited)))(t)
		own := gpu.Share{Visible: "1", Seen: 1, Order: "PCI_BUS_ID"}
		p[0].assign(slices.Repeat([]seat.Seat{{Threads: 1, GPUs: own}}, 4))
		return environment(t, p[0], rankenv.Rank{
			Rank:       3,
			Size:       4,
			LocalSize:  4,
			Elastic:    elastic,
			Launcher:   launcher,
			Addr:       "10.0.0.2",
			Rendezvous: rankenv.Rendezvous{MasterAddr: "10.0.0.1", GlooPort: 4711},
			MPI:        rankenv.MPI{FD: 3, Port: "127.0.0.1:1"},
			Network: rankenv.Network{
				Encrypt:   true,
				All:       true,
				Interface: "eth0",
				NCCL:      "eth0",
			},
		})
	}
	container := []string{"env", "B=1", "singularity", "exec", "-e", "image", "true"}
	got := env("SINGULARITYENV_HOROVOD_SIZE=9", container...)
	elastic = true // the rest of the variables
	others := []map[string]string{got}
	for _, launcher = range []string{"srun", "flux"} {
		others = append(others, env("SINGULARITYENV_HOROVOD_SIZE=9", container...))
	}
	for _, name := range rankenv.Names() {
		has := func(of map[string]string) bool { _, has := of[name]; return has }
		from := others[max(slices.IndexFunc(others, has), 0)]
		for _, prefix := range []string{"APPTAINERENV_", "SINGULARITYENV_"} {
			value, set := from[prefix+name]
			check.That(t, set && value == from[name], "%s%s is %q, %v; want %q", prefix, name, value, set, from[name])
		}
	}
	for name, want := range map[string]string{"APPTAINERENV_RANK": "3", "SINGULARITYENV_HOROVOD_SIZE": "4",
		"APPTAINERENV_PYTHONUNBUFFERED": "1", "A": "1"} {
		check.Equal(t, got[name], want, name)
	}
	_, set := got["APPTAINERENV_A"]
	check.That(t, !set, "APPTAINERENV_A is set, which nobody asked for")
	for name, chosen := range map[string]string{"PYTHONUNBUFFERED": "", "NCCL_SOCKET_IFNAME": "ib0"} {
		got = env("SINGULARITYENV_"+name+"="+chosen, "./singularity")
		if value, set := got["APPTAINERENV_"+name]; set || got["SINGULARITYENV_"+name] != chosen {
			t.Errorf("%s is %q in containers, and the user chose %q", name, value, chosen)
		}
	}
	got = env("A=1", "true")
	for _, name := range slices.Concat(rankenv.Names(), []string{"A"}) {
		_, set := got["APPTAINERENV_"+name]
		check.That(t, !set, "APPTAINERENV_%s is set although there is no container", name)
	}
}
