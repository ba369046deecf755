package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/sockets"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/documents"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// A door is something that a process of gorun listens on, or a file that it keeps open:
// "agent tcp loopback", "gorun file OUTPUT/*".
type door string

// doorRow is a row of the table of doors in docs/security.md.
type doorRow struct {
	door  door
	shape *regexp.Regexp
	seen  bool
}

// documentedDoors returns the table of doors.
func documentedDoors(t *testing.T) (rows []*doorRow) {
	t.Helper()
	for _, doors := range documents.TableOfDoors(documents.Text(t, root, "docs/security.md")) {
		for _, name := range doors.Names {
			shape := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(name), `\*`, ".*") + "$")
			rows = append(rows, &doorRow{door: door(name), shape: shape})
		}
	}
	return rows
}

// root is the repository, named before TestMain enters the folder of the programs.
var root = func() string {
	dir, err := filepath.Abs("../../..")
	if err != nil {
		panic(err)
	}
	return dir
}()

// role returns which process of gorun this is, or "" for others.
func role(pid int) string {
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	words := strings.Split(command.ProcFile(pid, "cmdline"), "\x00")
	name := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(exe), " (deleted)"), "memfd:")
	switch {
	case name == "allreduce":
		return "rank"
	case name == "gorun-pmix":
		return name
	case name != "gorun" || len(words) < 2:
		return ""
	}
	hidden := map[string]string{"__agent": "guard", "__serve": "agent", "__resident": "resident", "__bench": "rank",
		"__doctor": "rank"}
	switch {
	case hidden[words[1]] != "":
		return hidden[words[1]]
	case words[1] == "__detached" && len(words) > 2 && words[2] == "up":
		return "keeper"
	}
	return "gorun"
}

// doorsOf returns the doors of a process, its folders named by names.
func doorsOf(pid int, names *strings.Replacer) (doors []door) {
	of := role(pid)
	if of == "" {
		return nil
	}
	places := map[string]string{} // by what a descriptor refers to
	for _, table := range []string{"tcp", "tcp6", "udp", "udp6"} {
		kind := strings.TrimSuffix(table, "6")
		for s := range sockets.Table(command.ProcFile(pid, "net/"+table)) {
			if kind == "tcp" && s.State != sockets.Listen {
				continue
			}
			place := "network"
			switch {
			case s.Local.Addr().Unmap().IsLoopback():
				place = "loopback"
			case s.Local.Addr().IsUnspecified():
				place = "any"
			}
			places[fmt.Sprintf("socket:[%d]", s.Inode)] = kind + " " + place
		}
	}
	for line := range strings.Lines(command.ProcFile(pid, "net/unix")) {
		const accepts = "00010000"
		if f := strings.Fields(line); len(f) > 7 && f[3] == accepts {
			places["socket:["+f[6]+"]"] = "unix " + filepath.Base(f[7])
		}
	}
	descriptors, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, fd := range descriptors {
		target, err := os.Readlink(fd)
		base := filepath.Base(target)
		name, isMemory := strings.CutPrefix(target, "/memfd:")
		switch place := places[target]; {
		case err != nil:
		case place != "":
			doors = append(doors, door(of+" "+place))
		case isMemory:
			doors = append(doors, door(of+" memory "+strings.TrimSuffix(name, " (deleted)")))
		case strings.HasPrefix(target, "/sys/fs/cgroup/") && strings.HasPrefix(base, "gorun-"):
			doors = append(doors, door(of+" cgroup gorun-ID"))
		case target == "/dev/null" || strings.HasPrefix(target, "/sys/") || strings.HasPrefix(target+"/", "/proc/"):
		case target[0] == '/':
			doors = append(doors, door(of+" file "+names.Replace(strings.TrimSuffix(target, " (deleted)"))))
		}
	}
	return doors
}

// keptTime is how long a file is open that gorun keeps open, and does not only read.
const keptTime = 300 * time.Millisecond

// sight is a door of a process.
type sight struct {
	pid  int
	door door
}

func (d door) isFile() bool { return strings.Contains(string(d), " file ") }

// mark notes in the rows of a door that it was seen, and reports whether there are any.
func mark(rows []*doorRow, d door) (known bool) {
	for _, row := range rows {
		if row.shape.MatchString(string(d)) {
			row.seen = true
			known = true
		}
	}
	return known
}

// processesIn returns the processes in network namespaces.
func processesIn(spaces map[string]bool) (pids []int) {
	folders, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range folders {
		if space, _ := os.Readlink(folder + "/ns/net"); spaces[space] {
			pid, _ := strconv.Atoi(filepath.Base(folder))
			pids = append(pids, pid)
		}
	}
	return pids
}

// Jobs with all features have no listener and no open file that docs/security.md does not name, and
// the table names none that is never seen.
func TestEveryDoorHasARow(t *testing.T) {
	c := lab.MustNamespaces(t, lab.Specs(3)...)
	rows := documentedDoors(t)
	runtime := t.TempDir()
	work := t.TempDir()
	names := strings.NewReplacer(command.Binary("gorun"), "PROGRAM", runtime, "$XDG_RUNTIME_DIR",
		c.Dir+"/home", "$HOME", work, "FOLDER")
	must.OK(t, os.WriteFile(work+"/sent", make([]byte, 64<<20), 0o600))
	spaces := map[string]bool{}
	for _, host := range []string{"f0", "f1", "f2", "f3"} {
		link := must.Get(c.On(t.Context(), host, "readlink", "/proc/self/ns/net").Output())(t)
		spaces[strings.TrimSpace(string(link))] = true
	}
	unknown := map[sight]time.Time{}
	look := func() {
		now := map[sight]time.Time{}
		for _, pid := range processesIn(spaces) {
			for _, d := range doorsOf(pid, names) {
				if mark(rows, d) {
					continue
				}
				at := sight{pid, d}
				now[at] = time.Now()
				if first, again := unknown[at]; again {
					now[at] = first
				}
				if !d.isFile() || time.Since(now[at]) > keptTime {
					t.Errorf("docs/security.md has no row for %q", d)
					shape := regexp.MustCompile("^" + regexp.QuoteMeta(string(d)) + "$")
					rows = append(rows, &doorRow{
						door:  d,
						shape: shape,
						seen:  true,
					})
				}
			}
		}
		unknown = now
	}
	late := `[ $RANK != 3 ] || sleep 0.5; exec "$0"`
	for _, words := range [][]string{
		{"--metrics", "127.0.0.1:0", "--record", work + "/record", "--output-filename", work + "/out", "--json-events",
			work + "/events", "--stdout-file", work + "/o.%r", "--result-dir", work + "/results", "-np", "4",
			"-H", "f1:2,f2:2", "sleep", "1"},
		{"--metrics", work + "/metrics.prom", "--stage", work, "--mpi", "pmix", "-np", "2", "-H", "f1,f2",
			"sleep", "1"},
		{"--detach", "-np", "2", "-H", "f1,f2", "sleep", "2"},
		{"up", "-H", "f1,f2", "--preload", "json"},
		{"down"},
		{"-np", "4", "-H", "f1:2,f2:2", "sh", "-c", late, command.Binary("allreduce")},
		{"--min-np", "2", "--encrypt", "-np", "4", "-H", "f1:2,f2:2", "sh", "-c", late, command.Binary("allreduce")},
		{"--spares", "1", "--on-end", "sleep 0.5", "--fold", "-np", "2", "-H", "f1:2,f2:2", "sh", "-c", late,
			command.Binary("allreduce")},
		{"bench", "allreduce", "-np", "4", "-H", "f1:2,f2:2", "--max", "1KiB"},
		{"doctor", "-H", "f1,f2,f3"},
		{"cp", work + "/sent", "f1,f2,f3:" + work + "/copy/"},
	} {
		words = append([]string{command.Binary("gorun")}, words...)
		r := command.New(t, c, command.Limit, command.NewMark(t), words...)
		r.Cmd.Env = append(r.Cmd.Env, "GORUN_SSH_CONFIG="+c.ConfigFile, "XDG_RUNTIME_DIR="+runtime)
		must.OK(t, r.Start())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = r.Cmd.Wait()
		}()
		for open := true; open; time.Sleep(5 * time.Millisecond) {
			look()
			select {
			case <-ended:
				open = false
			default:
			}
		}
		check.That(t, r.Cmd.ProcessState.ExitCode() == 0, "%q: %v\n%s%s", words, r.Cmd.ProcessState, &r.Out, &r.Err)
		look()
	}
	unseen := map[door]bool{
		"gorun tcp any":                 true, // only Slurm's jobs have it
		"agent tcp any":                 true, // it does not listen, and /proc/net/tcp lists listeners
		"gorun memory *":                true, // these are open for a moment
		"agent memory gorun-*":          true,
		"resident memory warm":          true,
		"rank memory gorun-ring":        true,
		"rank memory gorun-copy":        true, // of ranks in Python
		"rank file /tmp/.gorun-doctor*": true,
	}
	for _, row := range rows {
		check.That(t, row.seen || unseen[row.door],
			"nothing was seen of %q: take its row out, or begin a job that has it", row.door)
	}
}
