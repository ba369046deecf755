package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// warmLab is two kept hosts, and a folder of modules.
type warmLab struct {
	*keptLab
	modules string
	env     []string
}

func newWarmLab(t *testing.T) *warmLab {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		lab.Skip(t, "needs /usr/bin/python3")
	}
	w := &warmLab{keptLab: newKeptLab(t), modules: t.TempDir()}
	w.env = []string{"HOME=" + w.home, "XDG_RUNTIME_DIR=", "PATH=/usr/bin:/bin", "PYTHONPATH=" + w.modules,
		"PYTHONDONTWRITEBYTECODE=1"}
	return w
}

func (w *warmLab) module(name, text string) {
	must.OK(w.T, os.WriteFile(filepath.Join(w.modules, name+".py"), []byte(text), 0o644))
}

func (w *warmLab) run(env []string, args ...string) *command.Run {
	return command.StartIn(w.T, w.hosts, slices.Concat(w.env, env), args...)
}

const (
	forked  = "it was forked by the warm interpreter"
	started = "it was started, not forked by the warm interpreter: "
)

// alike removes what differs between any two jobs from a line.
func alike(line string) string {
	varying := regexp.MustCompile(`(JOB_ID|RUN_ID|TOKEN|GUARD|AGENT|SESSION_ID)=[^']*|[0-9]{3,}|gorun-[-0-9]+`)
	return varying.ReplaceAllString(line, "#")
}

// A rank that a warm interpreter has forked sees, prints and ends as one that was started.
func TestWarmRanksAreAsStarted(t *testing.T) {
	w := newWarmLab(t)
	probe := must.Get(os.ReadFile(filepath.Join(root, "internal/test/e2e/testdata/warm.py")))(t)
	w.module("probe", string(probe))
	w.module("kept", "import json, random, decimal\n")
	folder := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(folder, "script.py"), probe, 0o644))
	input := filepath.Join(folder, "input")
	must.OK(t, os.WriteFile(input, probe, 0o644))
	must.Equal(t, w.run(nil, "up", "-H", "f1:2,f2:2", "--preload", "kept,multiprocessing").Wait(), 0,
		"gorun up ended with")
	for name, tc := range map[string]struct {
		flags, words []string
		input        bool // the probe is its standard input
	}{
		"script":      {words: []string{"python3", "script.py", "0", "é"}},
		"named":       {words: []string{"/usr/bin/python3", "-u", "./script.py", "3"}},
		"module":      {words: []string{"python3", "-m", "probe", "fail"}},
		"command":     {words: []string{"python3", "-c", string(probe), "words"}},
		"fails":       {words: []string{"python3", "script.py", "fail"}},
		"interrupted": {words: []string{"python3", "script.py", "interrupt"}},
		"of a module": {words: []string{"python3", "-m", "probe", "interrupt"}},
		"killed":      {words: []string{"python3", "script.py", "kill"}},
		"no module":   {words: []string{"python3", "-m", "nosuch"}},
		"no syntax":   {words: []string{"python3", "-c", "print(1"}},
		"input":       {input: true, words: []string{"python3", "-", "7"}},
		"confined":    {flags: []string{"--no-new-privileges"}, words: []string{"python3", "script.py"}},
	} {
		var got [2][]string
		var said [2]string
		var codes [2]int
		for i, way := range []string{"--no-kept", "-v"} {
			args := slices.Concat([]string{way, "-np", "2", "-H", "f1:2,f2:2", "--prefix", "rank", "--wdir", folder,
				"--keep-going"}, tc.flags, tc.words)
			argv := append([]string{command.Binary("gorun"), "-F", w.hosts.ConfigFile}, args...)
			r := command.New(t, w.hosts, command.Limit, command.NewMark(t), argv...)
			r.Cmd.Env = append(r.Cmd.Env, w.env...)
			if tc.input {
				file := must.Get(os.Open(input))(t)
				defer file.Close()
				r.Cmd.Stdin = file
			}
			must.OK(t, r.Start())
			codes[i] = r.Wait()
			said[i] = r.Err.String()
			for _, line := range slices.Concat(r.Lines(), strings.Split(said[i], "\n")) {
				if strings.HasPrefix(line, "[") {
					got[i] = append(got[i], alike(line))
				}
			}
			slices.Sort(got[i])
		}
		check.That(t, strings.Contains(said[1], forked), "%s: gorun -v says\n%s", name, said[1])
		check.Equal(t, codes[1], codes[0], name, "exit code")
		for i := range max(len(got[0]), len(got[1])) {
			if i >= len(got[0]) || i >= len(got[1]) || got[0][i] != got[1][i] {
				t.Errorf("%s: started and forked differ:\n%q\n%q", name, got[0][i:min(i+2, len(got[0]))],
					got[1][i:min(i+2, len(got[1]))])
				break
			}
		}
	}
}

// A program that would differ from one that is started is started, and gorun -v says why. Random
// numbers are a rank's own.
func TestWarmInterpreterStartsWhatWouldDiffer(t *testing.T) {
	w := newWarmLab(t)
	w.module("kept", "import os, json, random, multiprocessing.process\nSETTING = os.environ.get('SETTING')\n"+
		"os.environ.setdefault('CHANGED', 'yes')\n")
	w.module("plain", "print('plain')\n")
	hidden := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(hidden, "json.py"), nil, 0o644))
	must.Equal(t, w.run(nil, "up", "-H", "f1:2", "--preload", "kept").Wait(), 0, "gorun up ended with")
	for name, tc := range map[string]struct {
		env, words []string // words: python3 -c "", unless given
		why        string
	}{
		"as kept":     {words: []string{"python3", "-c", "import kept"}, why: forked},
		"other":       {env: []string{"OTHER=1"}, why: forked},
		"of C":        {env: []string{"OMP_WAIT_POLICY=active"}, why: "OMP_WAIT_POLICY differs"},
		"hash":        {env: []string{"PYTHONHASHSEED=1"}, why: "PYTHONHASHSEED differs"},
		"read":        {env: []string{"SETTING=1"}, why: "SETTING differs"},
		"option":      {words: []string{"python3", "-O", "-c", ""}, why: "the option -O"},
		"isolated":    {words: []string{"python3", "-I", "-c", ""}, why: "the option -I"},
		"shadow":      {words: []string{"--wdir", hidden, "python3", "-c", ""}, why: "json.py in "},
		"imported":    {words: []string{"python3", "-m", "json"}, why: "json is imported already"},
		"program":     {words: []string{"true"}, why: "its program is not /usr/bin/python3"},
		"threads set": {words: []string{"--bind-to", "core", "python3", "-c", ""}, why: "CPU"},
	} {
		if tc.words == nil {
			tc.words = []string{"python3", "-c", ""}
		}
		r := w.run(tc.env, slices.Concat([]string{"-v", "-np", "2", "-H", "f1:2"}, tc.words)...)
		r.Wait()
		check.That(t, strings.Contains(r.Err.String(), tc.why), "%s: gorun -v says\n%s", name, &r.Err)
	}
	const draws = "import os, random, multiprocessing as m\n" +
		"print(random.random(), m.current_process().authkey, os.environ['CHANGED'])"
	r := w.run(nil, "-np", "2", "-H", "f1:2", "--prefix", "none", "python3", "-c", draws)
	check.Equal(t, r.Wait(), 0, r.Err.String())
	lines := r.Lines()
	check.That(t, len(lines) == 2 && lines[0][:20] != lines[1][:20], "random numbers of two ranks: %q", lines)
	w.module("kept", "# changed since\n")
	r = w.run(nil, "-v", "-np", "2", "-H", "f1:2", "python3", "-c", "")
	check.That(t, r.Wait() == 0 && strings.Contains(r.Err.String(), "kept.py has changed"), "gorun -v says\n%s", &r.Err)
}

// A job of warm ranks ends as any other, and leaves nothing.
func TestWarmJobsEnd(t *testing.T) {
	w := newWarmLab(t)
	must.Equal(t, w.run(nil, "up", "-H", "f1:2,f2:2", "--preload", "json").Wait(), 0, "gorun up ended with")
	kill := func(pid int) { _ = syscall.Kill(pid, syscall.SIGKILL) }
	const sleeps = "import time; print('ready'); time.sleep(1000)"
	for name, tc := range map[string]struct {
		code int
		end  func(r *command.Run, rank int)
	}{
		"Ctrl-C":            {130, func(r *command.Run, _ int) { _ = r.Cmd.Process.Signal(os.Interrupt) }},
		"a killed rank":     {137, func(_ *command.Run, rank int) { kill(rank) }},
		"a killed agent":    {125, func(_ *command.Run, rank int) { kill(lab.Parent(rank)) }},
		"a killed guard":    {125, func(_ *command.Run, rank int) { kill(lab.Parent(lab.Parent(rank))) }},
		"a killed launcher": {137, func(r *command.Run, _ int) { _ = r.Cmd.Process.Kill() }},
	} {
		r := w.run(nil, "-v", "-np", "4", "-H", "f1:2,f2:2", "python3", "-c", sleeps)
		must.Until(t, "the ranks", func() bool { return strings.Count(r.Out.String(), "ready") == 4 })
		ranks := slices.DeleteFunc(lab.Processes(r.Mark), func(pid int) bool {
			return !strings.HasPrefix(command.ProcFile(pid, "cmdline"), "python3\x00-c")
		})
		check.That(t, len(ranks) == 4 && strings.Contains(r.Err.String(), forked), "%s: ranks %v; gorun -v says\n%s",
			name, ranks, &r.Err)
		if len(ranks) == 4 {
			tc.end(r, ranks[0])
		}
		check.Equal(t, r.Wait(), tc.code, name, r.Err.String())
		for _, pid := range ranks {
			w.none(name+": ranks", func() int {
				if strings.Contains(command.ProcFile(pid, "cmdline"), "sleep(1000)") {
					return 1
				}
				return 0
			})
		}
	}
	r := w.run(nil, "-np", "4", "-H", "f1:2,f2:2", "--timeout", "1", "python3", "-c", sleeps)
	check.Equal(t, r.Wait(), 124, "timeout")
	check.Equal(t, w.run(nil, "down").Wait(), 0, "gorun down ended with")
	w.none("keepers", func() int { return len(w.keepers()) })
	w.none("warm interpreters", func() int { return len(w.interpreters()) })
}

// interpreters lists the warm interpreters of this machine that belong to the lab's home.
func (w *warmLab) interpreters() (pids []int) {
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		text, _ := os.ReadFile(name)
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
		if strings.Contains(string(text), "/proc/self/fd/4") && strings.Contains(string(environ), w.modules) {
			pids = append(pids, 1)
		}
	}
	return pids
}

// Modules of which a fork would not be a copy are refused, and no host is kept.
func TestPreloadRefuses(t *testing.T) {
	w := newWarmLab(t)
	for name, tc := range map[string]struct{ text, why string }{
		"threads": {"import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n",
			"m has started threads"},
		"files":   {"file = open('/dev/zero')\n", "m has opened /dev/zero"},
		"memory":  {"import mmap\nmemory = mmap.mmap(-1, 4096)\n", "m has made memory"},
		"locks":   {"import multiprocessing\nlock = multiprocessing.Lock()\n", "m has made memory"},
		"copies":  {"import os\ncopy = os.environ.copy()\n", "m copies the whole environment"},
		"fails":   {"1 / 0\n", "import m: ZeroDivisionError"},
		"exits":   {"raise SystemExit\n", "import m: SystemExit"},
		"crashes": {"import os\nos.kill(os.getpid(), 11)\n", "import m with /usr/bin/python3: "},
	} {
		w.module("m", tc.text)
		r := w.run(nil, "up", "-H", "f1", "--preload", "m")
		check.Equal(t, r.Wait(), 125, name)
		check.That(t, strings.Contains(r.Err.String(), tc.why), "%s: gorun up says\n%s", name, &r.Err)
	}
	r := w.run(nil, "up", "-H", "f1", "--preload", "a b")
	check.That(t, r.Wait() == 2, "two words: gorun up says\n%s", &r.Err)
	w.none("keepers", func() int { return len(w.keepers()) })
}

// The interpreter starts in /, where relative paths would lead it to folders such as /tmp, which
// others write to.
func TestPreloadTakesNoModulesOfOthers(t *testing.T) {
	w := newWarmLab(t)
	theirs := filepath.Join(t.TempDir(), "theirs")
	w.module("sitecustomize", "open("+strconv.Quote(theirs)+", 'w')\n")
	fromTop := strings.TrimPrefix(w.modules, "/")
	for value, why := range map[string]string{
		"PYTHONPATH=" + fromTop:      "a path in PYTHONPATH is relative",
		"PYTHONPATH=/lib:":           "an empty entry of PYTHONPATH",
		"LD_LIBRARY_PATH=" + fromTop: "a path in LD_LIBRARY_PATH is relative",
	} {
		r := w.run([]string{"PYTHONPATH=/lib", value}, "up", "-H", "f1", "--preload", "json")
		check.That(t, r.Wait() == 125 && strings.Contains(r.Err.String(), why), "%s: gorun up says\n%s", value, &r.Err)
		_, err := os.Stat(theirs)
		check.That(t, os.IsNotExist(err), "%s: a module there has run", value)
	}
	w.none("keepers", func() int { return len(w.keepers()) })
}
