package job

import (
	"context"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/cli/dialect"
	"github.com/gorun/gorun/internal/cli/exitcode"
	"github.com/gorun/gorun/internal/cli/hosts"
	"github.com/gorun/gorun/internal/cli/settings"
	"github.com/gorun/gorun/internal/test/environ"
)

// programsOf returns the programs of a command line and the job's options.
func programsOf(t *testing.T, argv string) ([]program, *settings.Options, error) {
	t.Helper()
	flags, o := settings.NewFlags()
	line, err := dialect.Translate(strings.Fields(argv), dialect.Own, flags, commands())
	if err == nil {
		err = flags.Parse(line.Args)
	}
	if err != nil {
		t.Fatal(err)
	}
	programs, err := Programs(o, flags.Args(), line)
	return programs, o, err
}

func TestProgramsWithTheirOptions(t *testing.T) {
	programs, o, err := programsOf(t, "--grace 7 --no-env -x A -np 1 --wdir /w a 1 : -np 3 -x B -x C=1 b")
	if err != nil || o.NP != 4 || len(programs) != 2 {
		t.Fatalf("%v, %d ranks of %d programs", err, o.NP, len(programs))
	}
	a, b := programs[0], programs[1]
	if a.opts.NP != 1 || a.opts.Wdir != "/w" || !slices.Equal(a.opts.Exports, []string{"A"}) || !slices.Equal(a.argv, []string{"a", "1"}) {
		t.Errorf("a: %+v", a.opts)
	}
	if b.opts.NP != 3 || b.opts.Wdir != "" || !slices.Equal(b.opts.Exports, []string{"B", "C=1"}) || b.opts.Grace != a.opts.Grace || !b.opts.NoEnv {
		t.Errorf("b: %+v", b.opts)
	}
	for argv, want := range map[string]string{
		"-np 1 a : -np two b":                              `-np "two": expected a whole number`,
		"-np 1 a : -np 0 b":                                "-np 0: a job has at least 1 rank",
		"--min-np 5 -np 1 a : -np 3 b":                     "-np 4 is less than --min-np 5",
		"-np 1 -n 1 a : -n 1048576 b":                      "-np 1048577: at most",
		"-np 1 --host-discovery-script s a : -np 1 -H x b": "cannot be combined with -H or --hostfile",
	} {
		if _, _, err := programsOf(t, argv); !exitcode.IsUsage(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", argv, err, want)
		}
	}
}

// A program's own hosts replace hosts that the command line does not name.
func TestHostsOfAProgramWinOverTheEnvironment(t *testing.T) {
	for _, elsewhere := range []settings.Options{{Hosts: "y"}, {Hostfile: "f"}, {Elastic: settings.ElasticOptions{Discovery: "script"}}} {
		flags, o := settings.NewFlags()
		line, err := dialect.Translate(strings.Fields("-np 1 -H x a : -np 1 b"), dialect.Own, flags, commands())
		if err != nil {
			t.Fatal(err)
		}
		o.Hosts, o.Hostfile, o.Elastic.Discovery = elsewhere.Hosts, elsewhere.Hostfile, elsewhere.Elastic.Discovery
		programs, err := Programs(o, nil, line)
		if err != nil {
			t.Fatal(err)
		}
		a, b := programs[0].opts, programs[1].opts
		if a.Hosts != "x" || a.Hostfile+a.Elastic.Discovery != "" || b.Hosts+b.Hostfile+b.Elastic.Discovery != elsewhere.Hosts+elsewhere.Hostfile+elsewhere.Elastic.Discovery {
			t.Errorf("%q, %q, %q and %q, %q, %q", a.Hosts, a.Hostfile, a.Elastic.Discovery, b.Hosts, b.Hostfile, b.Elastic.Discovery)
		}
	}
}

func TestPlanOfSeveralPrograms(t *testing.T) {
	files := map[string]string{"f": "x slots=2\ny slots=2\n", "g": "z slots=4\n"}
	slurmEnv := map[string]string{"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "4", "SLURM_JOB_CPUS_PER_NODE": "2(x2)"}
	for _, tc := range []struct {
		argv string
		env  map[string]string
		want string // hosts and their ranks
	}{
		{"-np 1 a : -np 3 b", nil, "localhost ranks 0-3"},
		{"--hostfile f -np 1 a : -np 3 b", nil, "x ranks 0-1, y ranks 2-3"},
		{"--hostfile f -np 1 -H y a : -np 3 b", nil, "y ranks 0, 3, x ranks 1-2"},
		{"--hostfile f -np 1 a : -np 1 -H y b", nil, "x rank 0, y rank 1"},
		{"--hostfile f -np 1 a : -np 1 --hostfile g b", nil, "x rank 0, z rank 1"},
		{"-H x:2,y:2 -np 1 a : -np 3 b", nil, "x ranks 0-1, y ranks 2-3"},
		{"-np 1 -H x a : -np 2 -H y:2 b", nil, "x rank 0, y ranks 1-2"},
		{"-np 1 a : -np 2 -H y:2 b", nil, "localhost rank 0, y ranks 1-2"},
		{"-np 1 -H n2 a : -np 3 b", slurmEnv, "n2 ranks 0, 3, n1 ranks 1-2"},
	} {
		programs, o, err := programsOf(t, tc.argv)
		if err != nil {
			t.Fatal(err)
		}
		where, plan, err := planJob(context.Background(), o, programs, hostsIn(files, tc.env))
		if err != nil {
			t.Errorf("%s: %v", tc.argv, err)
			continue
		}
		var got []string
		for line := range strings.Lines(plan.String()) {
			if host, ranks, found := strings.Cut(line, ", "); found {
				got = append(got, strings.Fields(host)[0]+" "+strings.TrimSpace(ranks))
			}
		}
		if strings.Join(got, ", ") != tc.want || len(where.Hosts) < len(plan.Hosts) {
			t.Errorf("%s: %s, want %s; %s", tc.argv, strings.Join(got, ", "), tc.want, where.Summary())
		}
	}
	programs, o, err := programsOf(t, "--hostfile f -np 1 a : -np 1 -H z b")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := planJob(context.Background(), o, programs, hostsIn(files, nil)); !exitcode.IsUsage(err) || !strings.Contains(err.Error(), "hostfile f has no host z") {
		t.Errorf("a host that the job's hostfile has not: %v", err)
	}
}

func TestEnvironmentsOfSeveralPrograms(t *testing.T) {
	programs, _, err := programsOf(t, "-np 1 -x A=1 singularity run x.sif : -np 2 -x A=2 -x SECRET_KEY b : -np 1 docker run i")
	if err != nil {
		t.Fatal(err)
	}
	e, err := prepareAll([]string{"PATH=/bin", "B=1", "SECRET_KEY=s"}, programs, 4)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(e.shared, []string{"B=1", "PATH=/bin"}) {
		t.Errorf("shared: %q", e.shared)
	}
	if env := e.programs[0].Env; !slices.Contains(env, "A=1") || !slices.Contains(env, "SINGULARITYENV_A=1") {
		t.Errorf("the first: %q", env)
	}
	if env := e.programs[1].Env; !slices.Equal(env, []string{"A=2", "SECRET_KEY=s"}) {
		t.Errorf("the second: %q", env)
	}
	if e.programs[2].Env != nil || e.programs[1].Ranks != 2 || !slices.Equal(e.exported, []string{"A", "SECRET_KEY"}) || !slices.Equal(e.withheld, []string{"SECRET_KEY"}) {
		t.Errorf("%+v", e)
	}
	if len(e.notices) != 1 || !strings.Contains(e.notices[0], "docker") {
		t.Errorf("notices: %q", e.notices)
	}
}

func TestInCommon(t *testing.T) {
	shared, own := inCommon([][]string{{"A=1", "B=1", "C=1"}, {"C=1", "A=2"}, {"C=1"}})
	if !slices.Equal(shared, []string{"C=1"}) || !slices.Equal(own[0], []string{"A=1", "B=1"}) || !slices.Equal(own[1], []string{"A=2"}) || own[2] != nil {
		t.Errorf("%q, %q", shared, own)
	}
}

func commands() []string { return []string{"help", "version", "completion"} }

// hostsIn returns a Finder with the given files and variables.
func hostsIn(files, env map[string]string) hosts.Finder {
	return hosts.Finder{Lookup: environ.Lookup(env), Hostname: "here", Cores: func() int { return 6 }, Open: func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}
