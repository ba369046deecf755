package e2e

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/documents"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// world is an environment in which the commands of documents run.
type world struct {
	name string
	// where the commands start; "": each document has one of its own
	dir   string
	shell func(ctx context.Context, dir, line string) *exec.Cmd // with the world's environment
	// before and after, if set, wait for what a command needs and for what it leaves running.
	before, after func(t *testing.T, line string)
}

// run runs every command of the documents of this world and compares the output.
func (w world) run(t *testing.T) {
	for name, of := range documentWorlds() {
		if of == w.name {
			t.Run(filepath.Base(name), func(t *testing.T) { w.document(t, name) })
		}
	}
}

func (w world) document(t *testing.T, name string) {
	commands := documents.Commands(documents.Text(t, root, name))
	dir := w.dir
	status := 0
	if dir == "" {
		dir = furnished(t)
	}
	for i, c := range commands {
		if exempt(name, c.Line) != "" {
			continue
		}
		if w.before != nil {
			w.before(t, c.Line)
		}
		ctx, cancel := context.WithTimeout(t.Context(), command.Limit)
		cmd := w.shell(ctx, dir, exitWith(status)+c.Line)
		var said command.Output
		cmd.Dir = dir
		cmd.Stdout = &said
		cmd.Stderr = &said
		cmd.WaitDelay = 5 * time.Second
		err := cmd.Run()
		cancel()
		status = cmd.ProcessState.ExitCode()
		asked := i+1 < len(commands) && strings.Contains(commands[i+1].Line, "$?")
		check.That(t, err == nil || asked, "%s: $ %s\n%v\n%s", name, c.Line, err, said.String())
		if w.after != nil {
			w.after(t, c.Line)
		}
		if got := linesOf(said.String()); len(c.Want) > 0 && !holds(got, c.Want) {
			t.Errorf("%s: $ %s\ngot\n%s\nwant\n%s", name, c.Line, strings.Join(got, "\n"), strings.Join(c.Want, "\n"))
		}
	}
}

// exitWith sets $? of a command to the exit code of the one before it.
func exitWith(status int) string {
	if status == 0 {
		return ""
	}
	return "(exit " + strconv.Itoa(status) + "); "
}

// TestDocs runs the documents that need only two SSH hosts.
func TestDocs(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	home := homeFor(t, c)
	w := world{name: "two hosts", shell: func(ctx context.Context, dir, line string) *exec.Cmd {
		cmd := c.Command(ctx, "bash", "-c", line)
		// This machine's own environment could make gorun print more.
		cmd.Env = []string{"PATH=" + dir + "/bin:" + dir + "/shims:" + os.Getenv("PATH"), "HOME=" + home,
			"LANG=C.UTF-8", "GORUN_SSH_CONFIG=" + c.ConfigFile}
		return cmd
	}}
	w.run(t)
}

// TestQuickStart types the quick start as a newcomer does: in one shell, in a fresh clone of this
// repository, with nothing of it in PATH.
func TestQuickStart(t *testing.T) {
	c := lab.MustLoopback(t, lab.Specs(2)...)
	home := homeFor(t, c)
	top := must.Get(filepath.Abs(root))(t)
	clones := "[url \"file://" + top + "\"]\n\tinsteadOf = https://github.com/gorun/gorun\n[safe]\n\tdirectory = *\n"
	must.OK(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(clones), 0o600))
	goEnv := must.Get(exec.Command("go", "env", "GOCACHE", "GOMODCACHE", "GOPROXY", "GOSUMDB").Output())(t)
	places := strings.Split(string(goEnv), "\n")
	state := filepath.Join(home, "state")
	must.OK(t, os.WriteFile(state, nil, 0o600))
	w := world{name: "a fresh clone", dir: t.TempDir(), shell: func(ctx context.Context, _, line string) *exec.Cmd {
		script := `. "$STATE"; trap '{ printf "cd %q\n" "$PWD"; declare -px PATH; } >"$STATE"' EXIT` + "\n" + line
		cmd := c.Command(ctx, "bash", "-c", script)
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "LANG=C.UTF-8", "STATE=" + state,
			"GORUN_SSH_CONFIG=" + c.ConfigFile, "GOCACHE=" + places[0], "GOMODCACHE=" + places[1],
			"GOPROXY=" + places[2], "GOSUMDB=" + places[3]}
		return cmd
	}}
	w.run(t)
}

// homeFor returns a home directory whose ssh configuration and key are those of the cluster.
func homeFor(t *testing.T, c *lab.Cluster) string {
	t.Helper()
	home := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(home, ".ssh"), 0o700))
	for file, target := range map[string]string{"config": c.ConfigFile, "known_hosts": c.KnownHosts,
		"id_ed25519": c.Identity} {
		must.OK(t, os.Symlink(target, filepath.Join(home, ".ssh", file)))
	}
	return home
}

// furnished returns a directory with the files that documents name: gorun and the examples in bin,
// programs to start, and stand-ins for programs that a machine may lack.
func furnished(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, folder := range []string{"bin", "shims"} {
		must.OK(t, os.Mkdir(filepath.Join(dir, folder), 0o755))
	}
	links := map[string]string{"bin/gorun": command.Binary("gorun"),
		"bin/examples": filepath.Dir(command.Binary("gorun")), "examples": filepath.Join(root, "examples")}
	if python, err := exec.LookPath("python3"); err == nil {
		links["shims/python"] = python
	}
	for name, target := range links {
		must.OK(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	for name, text := range map[string]string{
		"hosts.txt":    "f[01-16,20]:2\n",
		"train":        train,
		"save.sh":      "trap 'echo \"rank $RANK saved\"; exit 0' TERM\nwhile :; do sleep 0.05; done 2>/dev/null\n",
		".gorunignore": "bin\nshims\nexamples\n", // links that lead out of the folder
		"train.py": "import os\n\nprint(f\"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']} on " +
			"{os.environ['GORUN_HOSTNAME']}\")\n",
	} {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	if links["shims/python"] == "" {
		must.OK(t, os.WriteFile(filepath.Join(dir, "shims/python"), []byte(train), 0o755))
	}
	return dir
}

// Some document runs every example that is more than a program to build.
func TestExamplesAreInDocuments(t *testing.T) {
	ran := ""
	for name := range documentWorlds() {
		for _, c := range documents.Commands(documents.Text(t, root, name)) {
			ran += c.Line + "\n"
		}
	}
	jobs := must.Get(filepath.Glob(root + "/examples/jobs/*.yaml"))(t)
	for _, job := range jobs { // which documents name in their turn
		text := must.Get(os.ReadFile(job))(t)
		ran += strings.ReplaceAll(string(text), "./", "examples/jobs/")
	}
	files, err := filepath.Glob(root + "/examples/*/*.s*")
	must.That(t, err == nil && len(files) >= 4, "%q %v", files, err)
	for _, file := range files {
		name := strings.TrimPrefix(file, root+"/")
		check.That(t, slices.ContainsFunc(strings.Fields(ran), func(word string) bool { return word == name }),
			"no document runs %s", name)
	}
}
