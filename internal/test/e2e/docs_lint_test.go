package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/documents"
)

// A line of a fenced block that begins with "$ " is a command; the lines up to the next one are its
// output. "..." alone on a line matches any lines, and within a line any text. The test of the
// world that a document has here runs its commands.
func documentWorlds() map[string]string {
	return map[string]string{
		"CHANGELOG.md":                  "no commands",
		"CONTRIBUTING.md":               "no commands",
		"README.md":                     "two hosts",
		"SECURITY.md":                   "no commands",
		"docs/benchmarks.md":            "no commands",
		"docs/c.md":                     "libring", // TestDocsOfC
		"docs/compat.md":                "two hosts",
		"docs/debugging.md":             "two hosts",
		"docs/dependencies.md":          "no commands",
		"docs/design.md":                "no commands",
		"docs/doctor.md":                "two hosts",
		"docs/elastic.md":               "two hosts",
		"docs/environment.md":           "two hosts",
		"docs/exit-codes.md":            "two hosts",
		"docs/from-accelerate.md":       "two hosts",
		"docs/from-deepspeed.md":        "two hosts",
		"docs/from-horovodrun.md":       "two hosts",
		"docs/from-mpirun.md":           "two hosts",
		"docs/from-srun.md":             "two hosts",
		"docs/from-torchrun.md":         "two hosts",
		"docs/go.md":                    "two hosts",
		"docs/gpu-checks.md":            "two hosts",
		"docs/gpu.md":                   "two hosts",
		"docs/hangs.md":                 "no commands",
		"docs/hosts.md":                 "two hosts",
		"docs/job-files.md":             "two hosts",
		"docs/jobs.md":                  "two hosts",
		"docs/kept.md":                  "two hosts",
		"docs/kubernetes.md":            "two hosts",
		"docs/mapping.md":               "two hosts",
		"docs/metrics.md":               "two hosts",
		"docs/migrating.md":             "two hosts",
		"docs/mpi-matrix.md":            "no commands",
		"docs/output.md":                "two hosts",
		"docs/protocol.md":              "no commands",
		"docs/python.md":                "two hosts",
		"docs/pytorch.md":               "two hosts",
		"docs/quickstart.md":            "a fresh clone", // TestQuickStart
		"docs/packages.md":              "no commands",
		"docs/platforms.md":             "no commands",
		"docs/reliability.md":           "no commands",
		"docs/resilient.md":             "two hosts",
		"docs/ring.md":                  "no commands",
		"docs/scale.md":                 "no commands",
		"docs/security.md":              "no commands",
		"docs/signals.md":               "two hosts",
		"docs/singularity.md":           "containers", // TestScripts/containers
		"docs/slurm.md":                 "slurm",      // TestSlurm
		"docs/ssh.md":                   "two hosts",
		"docs/staging.md":               "two hosts",
		"docs/tasks.md":                 "no commands",
		"docs/trouble.md":               "two hosts",
		"examples/kubernetes/README.md": "two hosts",
		"examples/mnist/data/README.md": "no commands",
		"internal/test/e2e/testdata/script/README.md": "no commands",
		"ring/python/README.md":                       "no commands",
	}
}

// notRun lists the commands that no test can run, by prefix, and why.
func notRun() []struct{ file, command, why string } {
	return []struct{ file, command, why string }{
		{"README.md", "make demo", "it installs packages; internal/test/lab/hosts has its test"},
		{"README.md", "make test", "it is what runs this"},
		{"docs/c.md", "make build", "the test builds the same"},
		{"docs/compat.md", "gorun -np 4 -H f1:2,f2:2 python pytorch_synthetic_benchmark.py", "TestHorovod runs it"},
		{"docs/debugging.md", "gorun -np 2 -H f1,f2 --debug=1 ./train",
			"it waits; TestScripts/tools attaches a debugger"},
		{"docs/debugging.md", "gorun -np 2 -H f1,f2 --debug ./train", "it waits; TestScripts/tools reads the table"},
		{"docs/elastic.md", "gorun -np 4 --m", "TestElastic runs such jobs"},
		{"docs/gpu.md", "gorun bench allreduce -np 4 -H f1:2,f2:2 --device cuda",
			"TestBenchDevice runs it on stand-ins for the libraries of GPUs"},
		{"docs/gpu-checks.md", "make gpu-test",
			"it needs a GPU; internal/tools/gpucheck has the tests of what does not"},
		{"docs/kept.md", "gorun up -H f1:2,f2:2 --preload torch",
			"it needs PyTorch; TestWarmRanksAreAsStarted keeps other modules"},
		{"docs/kubernetes.md", "kubectl", "it needs a cluster; examples/kubernetes/check checks the manifests"},
		{"docs/kubernetes.md", "gorun -np 4 --min-np 2 --slots-per-host 2",
			"it needs pods; TestElastic has hosts without slots"},
		{"docs/kubernetes.md", "gorun -H worker-0:2",
			"it needs pods; TestKubernetes runs it, and TestScripts/remote_shells with a stand-in for kubectl"},
		{"docs/kubernetes.md", "helm", "it needs a cluster; TestKubernetes installs the chart"},
		{"docs/mapping.md", "gorun -np 2 -H f1:2 --cpus-per-rank 2", "it needs four cores"},
		{"examples/kubernetes/README.md", "make build", "TestMain builds the same"},
		{"examples/kubernetes/README.md", "docker", "it needs docker"},
		{"examples/kubernetes/README.md", "kubectl", "it needs a cluster"},
		{"examples/kubernetes/README.md", "helm", "it needs a cluster; TestKubernetes installs the chart"},
		{"docs/python.md", "make wheel", "TestWheel of ring/python runs it"},
		{"docs/python.md", "pip install", "TestWheel of ring/python installs the wheel"},
		{"docs/python.md", "gorun -np 4 -H f1:2,f2:2 python3 examples/", "TestExamples of ring/python runs it"},
		{"docs/python.md", "gorun -np 2 --min-np 1 -H f1,f2 python3 examples/elastic/",
			"TestElasticExample of ring/python runs it, on one host"},
		{"docs/pytorch.md", "gorun", "TestExamples of ring/python runs it"},
		{"docs/singularity.md", "apptainer build", "it takes minutes; .ci/apptainer builds the same"},
		{"docs/singularity.md", "gorun cp", "the hosts share the folder; TestFilesArePassedOn copies files"},
		{"docs/resilient.md", "gorun -np 4 --min-np 4",
			"TestResilientTraining of ring/python runs it, with PyTorch 2.15"},
		{"docs/resilient.md", "gorun -np 4 --spares 1",
			"it needs PyTorch 2.15; TestSlowRankIsReplaced of ring/python has its flags"},
		{"docs/quickstart.md", "ssh-copy-id", "the lab's hosts have the key, and no password"},
	}
}

// writesForAll matches a command that makes or removes a fixed name in a folder of all users.
var writesForAll = regexp.MustCompile(`(\b(mkdir|touch|tee|cp|mv|rm)\b[^;&|]*\s|>\s*)(/var)?/(tmp|dev/shm)/`)

// TestEveryDocumentIsRun finds documents and commands that no test runs, and rows without a
// document.
func TestEveryDocumentIsRun(t *testing.T) {
	worlds := documentWorlds()
	names := documents.Names(t, root)
	for name := range worlds {
		check.That(t, slices.Contains(names, name), "%s is gone: take its row out of documentWorlds()", name)
	}
	used := map[string]bool{}
	for _, name := range names {
		world, found := worlds[name]
		check.That(t, found, "%s has no world: give it a row in documentWorlds(), so that its commands are run", name)
		text := documents.Text(t, root, name)
		commands := documents.Commands(text)
		check.That(t, world != "no commands" || len(commands) == 0,
			"%s has commands: give it a world in documentWorlds()", name)
		for _, c := range commands {
			check.That(t, !writesForAll.MatchString(c.Line),
				"%s: %s\nanother user may have made that first: name a folder below ~", name, c.Line)
			used[exempt(name, c.Line)] = true
		}
		for _, line := range unmarked(text) {
			t.Errorf("%s: %q looks like a command: begin it with \"$ \", so that it is run", name, line)
		}
	}
	for _, n := range notRun() {
		check.That(t, used[n.why+n.command], "%s has no command %q: take it out of notRun()", n.file, n.command)
	}
}

// exempt returns the row of notRun that a command has, or "".
func exempt(file, command string) string {
	for _, n := range notRun() {
		if n.file == file && strings.HasPrefix(command, n.command) {
			return n.why + n.command
		}
	}
	return ""
}

// unmarked returns lines that look like commands but lack the "$ ", in blocks without a language.
func unmarked(text string) (lines []string) {
	programs := strings.Fields("gorun bin/gorun make mpirun mpiexec horovodrun torchrun srun sbatch salloc ssh " +
		"ssh-keygen ssh-copy-id kubectl docker sudo apt go git ln export")
	block := "outside"
	for line := range strings.Lines(text) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case strings.HasPrefix(line, "```") && block == "outside":
			block = strings.TrimSpace(line)
		case strings.HasPrefix(line, "```"):
			block = "outside"
		case strings.HasPrefix(line, "$ "):
			block = "marked"
		case block == "```" && slices.Contains(programs, first):
			lines = append(lines, line)
		}
	}
	return lines
}

// linesOf splits output into lines, without empty ones and without the warning that the lab's hosts
// are one machine.
func linesOf(text string) []string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return slices.DeleteFunc(lines, func(line string) bool {
		return strings.Contains(line, " are one machine (") || line == ""
	})
}

// holds reports whether got are the lines of want in any order, since the order of ranks is not
// fixed.
func holds(got, want []string) bool {
	got = slices.Clone(got)
	want = slices.Clone(want)
	want = slices.DeleteFunc(want, func(line string) bool { return line == "" })
	// Exact lines choose first, so that a pattern does not take their match.
	slices.SortStableFunc(want, func(a, b string) int { return strings.Count(a, "...") - strings.Count(b, "...") })
	open := false
	for _, line := range want {
		if line == "..." {
			open = true
			continue
		}
		i := slices.IndexFunc(got, func(g string) bool { return stands(line, g) })
		if i < 0 {
			return false
		}
		got = slices.Delete(got, i, i+1)
	}
	return open || len(got) == 0
}

// stands reports whether a line matches a documented one.
func stands(pattern, line string) bool {
	if !strings.Contains(pattern, "...") {
		return pattern == line
	}
	quoted := strings.ReplaceAll(regexp.QuoteMeta(pattern), `\.\.\.`, ".*")
	return regexp.MustCompile("^" + quoted + "$").MatchString(line)
}

func TestHoldsCanFail(t *testing.T) {
	for _, tc := range []struct {
		got, want []string
		ok        bool
	}{
		{[]string{"b", "a"}, []string{"a", "b"}, true},
		{[]string{"a"}, []string{"a", "b"}, false},
		{[]string{"a", "b"}, []string{"a"}, false},
		{[]string{"a", "b"}, []string{"b", "..."}, true},
		{[]string{"a", "x", "b"}, []string{"a", "...", "b"}, true},
		{[]string{"a", "x"}, []string{"a", "...", "b"}, false},
		{[]string{"took 3 s", "took 4 s"}, []string{"took ... s", "took 3 s"}, true},
		{[]string{"took 3 m"}, []string{"took ... s"}, false},
		{[]string{}, []string{"a"}, false},
	} {
		check.That(t, holds(tc.got, tc.want) == tc.ok, "%q %q", tc.got, tc.want)
	}
}

// TestTypedIn defines what counts as a command.
func TestTypedIn(t *testing.T) {
	text := "$ outside\n```\ndiagram\n```\n```\n$ one \\\n  more\nout\n\n$ two\n```\ntext\n```\nfigure\n```\n"
	got := documents.Commands(text)
	check.That(t, len(got) == 2 && got[0].Line == "one   more" && strings.Join(got[0].Want, "|") == "out|" &&
		got[1].Line == "two" && len(got[1].Want) == 0,
		"%+v", got)
	lines := unmarked("```\ngorun -np 2 x\n```\n```sh\ngorun x\n```\n```\n$ a\ngorun: b\n```\ngorun x\n")
	check.That(t, len(lines) == 1, "%q", lines)
}

// TestLinks follows every link within the repository to its file and heading.
func TestLinks(t *testing.T) {
	links := regexp.MustCompile(`\]\(([^)\s]*)\)`)
	linked := map[string]bool{}
	for _, name := range documents.Names(t, root) {
		for _, link := range links.FindAllStringSubmatch(documents.Prose(documents.Text(t, root, name)), -1) {
			target, heading, _ := strings.Cut(link[1], "#")
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path := filepath.Join(filepath.Dir(name), target)
			if target == "" {
				path = name
			}
			if name == "README.md" {
				linked[path] = true
			}
			if _, err := os.Stat(filepath.Join(root, path)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, link[1])
			} else if heading != "" && !slices.Contains(headings(documents.Text(t, root, path)), heading) {
				t.Errorf("%s: %s has no heading %q", name, path, heading)
			}
		}
	}
	for name := range documentWorlds() {
		check.That(t, !strings.HasPrefix(name, "docs/") || linked[name], "README.md does not lead to %s", name)
	}
}

// headings returns the anchors of a document's headings, as GitHub forms them.
func headings(text string) (anchors []string) {
	for line := range strings.Lines(documents.Prose(text)) {
		if title := strings.TrimLeft(line, "#"); title != line {
			title = regexp.MustCompile(`[^\p{L}\p{N}_ -]`).ReplaceAllString(strings.ToLower(strings.TrimSpace(title)),
				"")
			anchors = append(anchors, strings.ReplaceAll(title, " ", "-"))
		}
	}
	return anchors
}
