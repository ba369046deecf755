package job

import (
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/settings"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/environ"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
)

// programsOf returns the programs of a command line and the job's options.
func programsOf(typed string) ([]program, *settings.Options, error) {
	line, o, err := optionsOf(typed)
	if err != nil {
		return nil, nil, err
	}
	programs, err := Programs(o, line.Args[slices.Index(line.Args, "--")+1:], line)
	return programs, o, err
}

func TestProgramsWithTheirOptions(t *testing.T) {
	programs, o, err := programsOf("--grace 7 --no-env -x A -np 1 --wdir /w a 1 : -np 3 -x B -x C=1 b")
	must.That(t, err == nil && o.NP == 4 && len(programs) == 2, "%v, %d ranks of %d programs", err, o.NP, len(programs))
	a := programs[0]
	b := programs[1]
	check.That(t, a.opts.NP == 1 && a.opts.Wdir == "/w" && slices.Equal(a.opts.Exports, []string{"A"}) &&
		slices.Equal(a.argv, []string{"a", "1"}),
		"a: %+v", a.opts)
	check.That(t, b.opts.NP == 3 && b.opts.Wdir == "" && slices.Equal(b.opts.Exports, []string{"B", "C=1"}) &&
		b.opts.Grace == a.opts.Grace && b.opts.NoEnv,
		"b: %+v", b.opts)
}

// A program's own hosts replace hosts that the command line does not name.
func TestHostsOfAProgramWinOverTheEnvironment(t *testing.T) {
	for _, elsewhere := range []settings.Options{{Hosts: "y"}, {Hostfile: "f"},
		{Elastic: settings.ElasticOptions{Discovery: "script"}}} {
		line, o := must.GetTwo(optionsOf("-np 1 -H x a : -np 1 b"))(t)
		o.Hosts = elsewhere.Hosts
		o.Hostfile = elsewhere.Hostfile
		o.Elastic.Discovery = elsewhere.Elastic.Discovery
		programs := must.Get(Programs(o, nil, line))(t)
		a := programs[0].opts
		b := programs[1].opts
		check.That(t, a.Hosts == "x" && a.Hostfile+a.Elastic.Discovery == "" &&
			b.Hosts+b.Hostfile+b.Elastic.Discovery == elsewhere.Hosts+elsewhere.Hostfile+elsewhere.Elastic.Discovery,
			"%q, %q, %q and %q, %q, %q", a.Hosts, a.Hostfile, a.Elastic.Discovery, b.Hosts, b.Hostfile,
			b.Elastic.Discovery)
	}
}

func TestPlanOfSeveralPrograms(t *testing.T) {
	files := map[string]string{"f": "x slots=2\ny slots=2\n", "g": "z slots=4\n"}
	open := func(name string) (io.ReadCloser, error) {
		text, ok := files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(text)), nil
	}
	slurmEnv := map[string]string{"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2",
		"SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_JOB_NUM_NODES": "2", "SLURM_NTASKS": "4",
		"SLURM_JOB_CPUS_PER_NODE": "2(x2)"}
	golden.Cases(t, "testdata/plans.txt", func(typed string) (string, error) {
		argv, inSlurm := strings.CutPrefix(typed, "slurm ")
		env := map[string]string{}
		if inSlurm {
			env = slurmEnv
		}
		programs, o, err := programsOf(argv)
		var where hosts.Selection
		var plan launcher.Plan
		if err == nil {
			where, plan, err = planJob(t.Context(), o, programs, hosts.Finder{
				Lookup:   environ.Lookup(env),
				Hostname: "here",
				Here:     func(unit string) int { return map[string]int{"auto": 6, "socket": 2}[unit] },
				Open:     open,
			})
		}
		if err != nil {
			check.That(t, usage.Is(err), "%s: %v is no usage error", typed, err)
			return "", err
		}
		var got []string
		for line := range strings.Lines(plan.String()) {
			if host, ranks, found := strings.Cut(line, ", "); found {
				got = append(got, strings.Fields(host)[0]+" "+strings.TrimSpace(ranks))
			}
		}
		check.That(t, len(where.Hosts) >= len(plan.Hosts), "%s: %s", typed, where.Summary())
		return strings.Join(got, ", "), nil
	})
}

func TestEnvironmentsOfSeveralPrograms(t *testing.T) {
	programs, _, err := programsOf("-np 1 -x A=1 singularity run x.sif : -np 2 -x A=2 -x SECRET_KEY b : -np 1 docker " +
		"run i")
	must.OK(t, err)
	e := must.Get(prepareAll([]string{"PATH=/bin", "B=1", "SECRET_KEY=s"}, programs, 4))(t)
	check.That(t, slices.Equal(e.shared, []string{"B=1", "PATH=/bin"}), "shared: %q", e.shared)
	env := e.programs[0].Env
	check.That(t, slices.Contains(env, "A=1") && slices.Contains(env, "SINGULARITYENV_A=1"), "the first: %q", env)
	check.Slice(t, e.programs[1].Env, []string{"A=2", "SECRET_KEY=s"}, "the second")
	check.That(t, e.programs[2].Env == nil && e.programs[1].Ranks == 2 &&
		slices.Equal(e.exported, []string{"A", "SECRET_KEY"}) && slices.Equal(e.withheld, []string{"SECRET_KEY"}),
		"%+v", e)
	check.That(t, len(e.notices) == 1 && strings.Contains(e.notices[0], "docker"), "notices: %q", e.notices)
}

func TestInCommon(t *testing.T) {
	shared, own := splitShared([][]string{{"A=1", "B=1", "C=1"}, {"C=1", "A=2"}, {"C=1"}})
	check.That(t, slices.Equal(shared, []string{"C=1"}) && slices.Equal(own[0], []string{"A=1", "B=1"}) &&
		slices.Equal(own[1], []string{"A=2"}) && own[2] == nil,
		"%q, %q", shared, own)
}
