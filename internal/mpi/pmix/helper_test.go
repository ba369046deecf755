package pmix

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// builtHelper returns the path of gorun-pmix below AddressSanitizer and UBSan.
func builtHelper(t *testing.T) string {
	t.Helper()
	return plainHelper(t, "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover")
}

// plainHelper returns the path of gorun-pmix, compiled with more flags.
func plainHelper(t *testing.T, flags ...string) string {
	t.Helper()
	if exec.Command("pkg-config", "--exists", "pmix").Run() != nil {
		lab.Skip(t, "needs libpmix-dev")
	}
	dir := t.TempDir()
	must.OK(t, lab.BuildPMIx("../../..", dir, flags...))
	return filepath.Join(dir, "gorun-pmix")
}

// builtClient returns the path of the program of testdata/client.c.
func builtClient(t *testing.T) string {
	t.Helper()
	client := filepath.Join(t.TempDir(), "client")
	must.Run(t, exec.Command("sh", "-c", `cc -o "$0" testdata/client.c $(pkg-config --cflags --libs pmix)`, client))
	return client
}

// begin describes a job of one rank here, and returns the rank's variables.
func (s *sanitized) begin(layout *Layout) []string {
	s.t.Helper()
	must.OK(s.t, layout.frame(layout.byHost()).send(s))
	context := s.next(environment)
	context.number()
	context.number()
	env := strings.Split(strings.TrimSuffix(string(context.text()), "\x00"), "\x00")
	s.next(ready)
	return env
}

// ask sends the question of another host for what rank 0 commits by a name.
func (s *sanitized) ask(id int, name string) {
	s.t.Helper()
	f := newFrame(want)
	f.number(id)
	f.number(0)
	f.number(0)
	f.texts(name)
	must.OK(s.t, f.send(s))
}

// sanitized is gorun-pmix, of which the test is the agent.
type sanitized struct {
	net.Conn
	t    *testing.T
	cmd  *exec.Cmd
	said bytes.Buffer
}

func startSanitized(t *testing.T, program string) *sanitized {
	t.Helper()
	ours, theirs := must.GetTwo(socketpair())(t)
	defer theirs.Close()
	s := &sanitized{Conn: ours, t: t, cmd: exec.CommandContext(t.Context(), program, "")}
	s.cmd.ExtraFiles = []*os.File{theirs}
	s.cmd.Stderr = &s.said
	// libpmix keeps memory to its end.
	s.cmd.Env = append(os.Environ(), "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1")
	must.OK(t, s.cmd.Start())
	_ = ours.SetDeadline(time.Now().Add(time.Minute))
	s.next(loaded)
	return s
}

// next returns the next message, of a kind.
func (s *sanitized) next(k kind) *message {
	s.t.Helper()
	m, err := receive(s)
	if err != nil || m.kind != k {
		s.end()
		s.t.Fatalf("a message of type %q, %q, %v; want %q; it said %s", m.kind, m.rest, err, k, &s.said)
	}
	return &m
}

// end closes the agent's end and returns what the sanitizers say.
func (s *sanitized) end() string {
	s.Conn.Close()
	_ = s.cmd.Wait() // it ends with the agent, or has failed
	for _, mark := range []string{"Sanitizer", "runtime error"} {
		if strings.Contains(s.said.String(), mark) {
			return s.said.String()
		}
	}
	return ""
}

// layoutOf describes a job of ranks on one host.
func layoutOf(t *testing.T, ranks int) *Layout {
	return &Layout{
		Job:      "sanitized",
		Folder:   t.TempDir(),
		Hosts:    []string{"a"},
		HostOf:   make([]int, ranks),
		Programs: make([]int, ranks),
	}
}

// The helper refuses what a hostile agent, or another host through it, may send, and touches no
// memory that is not its own.
func TestHelperTakesNoBrokenMessage(t *testing.T) {
	program := builtHelper(t)
	good := layoutOf(t, 2)
	whole := good.frame(good.byHost())
	numbers := func(values ...int) frame { // the numbers of BEGIN, after its texts
		f := newFrame(begin)
		f.texts("j", "a", good.Folder, "a", "0", "0")
		for _, n := range values {
			f.number(n)
		}
		return f
	}
	for name, f := range map[string]frame{
		"a job without end":       numbers(0, 0, 0, 1, 0, math.MaxInt64, 1, 1, 1),
		"ranks without end":       numbers(0, 0, 0, 1, 0, -1, 1, 1, -1),
		"ranks that overflow":     numbers(0, 0, 0, 1, 0, -1, 1, 1, math.MaxInt64/4),
		"a job that overflows":    numbers(0, 0, 0, 1, 0, -22, 1, 1, 0),
		"a billion ranks":         numbers(0, 0, 0, 1, 0, 1<<30, 1, 1, 1<<30),
		"a world before the job":  numbers(1, 0, 0, 1, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0),
		"a job that is cut off":   whole[:len(whole)-9],
		"texts that are cut off":  whole[:20],
		"a text without end":      append(newFrame(begin), 0xff, 0xff, 0xff, 0xff),
		"nothing of a job":        newFrame(begin),
		"an answer without an id": newFrame(answer),
		"an unknown type":         newFrame('?'),
		"data of no world":        append(newFrame(want), make([]byte, 24)...),
	} {
		s := startSanitized(t, program)
		must.OK(t, f.send(s))
		m, err := receive(s)
		check.That(t, err == nil && m.kind == failed, "%s: a message of type %q, %v", name, m.kind, err)
		check.Equal(t, s.end(), "", name)
	}
}

// startRankOfTwo starts a helper and a client, which is one of two ranks on different hosts.
func startRankOfTwo(t *testing.T, what string) (*sanitized, *exec.Cmd) {
	t.Helper()
	s := startSanitized(t, builtHelper(t))
	layout := layoutOf(t, 2)
	layout.Hosts = []string{"a", "b"}
	layout.HostOf[1] = 1
	rank := exec.CommandContext(t.Context(), builtClient(t), what)
	rank.Env = append(os.Environ(), s.begin(layout)...)
	rank.Stderr = os.Stderr
	must.OK(t, rank.Start())
	return s, rank
}

// A rank may send NULL in place of a text or of bytes.
func TestHelperTakesRanksTextsThatAreNone(t *testing.T) {
	s, rank := startRankOfTwo(t, "nothing")
	asked := map[kind]int{}
	for asked[left] == 0 {
		m, err := receive(s)
		if err != nil {
			t.Fatalf("the helper: %v; %s", err, s.end())
		}
		asked[m.kind]++
		if slices.Contains([]kind{publish, fetch, spawn, abort, fence}, m.kind) {
			f := newFrame(answer)
			f.number(m.number())
			f.number(1)
			f.texts("")
			must.OK(t, f.send(s))
		}
	}
	check.OK(t, rank.Wait())
	check.That(t, asked[fetch] == 1 && asked[spawn] == 2 && asked[abort] == 1, "the rank has asked %v", asked)
	check.Equal(t, s.end(), "")
}

// libpmix asks for the data of a rank of this host, too, after another process of that rank has
// ended. It frees the request when the rank commits: a later answer would be about freed memory.
func TestHelperAsksNobodyForRanksHere(t *testing.T) {
	s, rank := startRankOfTwo(t, "twice")
	asked := map[kind]int{}
	for asked[left] == 0 {
		m, err := receive(s)
		if err != nil {
			t.Fatalf("the helper: %v; %s", err, s.end())
		}
		if asked[m.kind]++; m.kind == fetch {
			time.Sleep(time.Second) // the rank commits before the answer
			f := newFrame(answer)
			f.number(m.number())
			f.number(0)
			f.texts("")
			must.OK(t, f.send(s))
		}
	}
	check.OK(t, rank.Wait())
	check.Equal(t, asked[fetch], 0, "requests for the rank's data")
	check.Equal(t, s.end(), "")
}

// valueOf is a published value as names.c writes it.
func valueOf(kind int, value string) string {
	var f frame
	f.number(0)
	f.number(kind)
	f.texts(value)
	return string(f)
}

// pmixString is libpmix's number of a text's type.
const pmixString = 3

// A published value of another host is plain, whatever that host has put into the store, and
// questions of another host do not cost a thread each.
func TestHelperUnpacksPlainValuesOnly(t *testing.T) {
	program := builtHelper(t)
	client := builtClient(t)
	s := startSanitized(t, program)
	env := s.begin(layoutOf(t, 1))

	const questions = 2000
	for id := range questions {
		s.ask(id, "never")
	}

	values := map[string]string{"good": valueOf(pmixString, "ocean"), "empty": "", "garbage": "\xff\xff\xff\xff",
		"cut off": valueOf(pmixString, "ocean")[:20], "more": valueOf(pmixString, "ocean") + "x",
		"short number": valueOf(10, "1234567")}
	for kind := range 80 {
		if !slices.Contains([]int{1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 27}, kind) {
			values[fmt.Sprint("type ", kind)] = valueOf(kind, strings.Repeat("A", 64))
		}
	}
	values["type 65535"] = valueOf(65535, strings.Repeat("A", 64))
	var names []string
	for name := range values {
		names = append(names, name)
	}
	var out bytes.Buffer
	rank := exec.CommandContext(t.Context(), client, names...)
	rank.Env = append(os.Environ(), env...)
	rank.Stdout = &out
	rank.Stderr = &out
	must.OK(t, rank.Start())
	published, threads := serveClient(s, values)
	err := rank.Wait()
	check.That(t, err == nil, "the rank: %v: %s", err, &out)
	check.That(t, threads <= 20, "%d questions cost %d threads", questions, threads)
	for _, line := range strings.Split(strings.TrimSpace(out.String()), "\n") {
		name, status, _ := strings.Cut(line, ": ")
		found := !strings.HasPrefix(status, "-")
		check.That(t, found == (name == "good" || slices.Contains([]string{"publish 3", "publish 10", "publish 1"},
			name)), "%s", line)
	}
	check.That(t, strings.Contains(out.String(), "good: 0 ocean\n") && len(published) == 3,
		"%d values are published, %s", len(published), &out)
	check.Equal(t, s.end(), "")
}

// However often another host asks for what a rank has committed, the helper keeps no more memory.
func TestQuestionsTakeNoMemory(t *testing.T) {
	s := startSanitized(t, plainHelper(t)) // a sanitizer keeps what was freed
	rank := exec.CommandContext(t.Context(), builtClient(t), "commit")
	rank.Env = append(os.Environ(), s.begin(layoutOf(t, 1))...)
	stay := must.Get(rank.StdinPipe())(t)
	must.OK(t, rank.Start())
	s.next(entered)
	resident := func() int {
		text := must.Get(os.ReadFile(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "statm")))(t)
		return must.Get(strconv.Atoi(strings.Fields(string(text))[1]))(t) * os.Getpagesize()
	}
	before := 0
	for id := range 600 {
		if id == 100 {
			before = resident()
		}
		s.ask(id, "big")
		answer := s.next(held)
		must.That(t, answer.number() == id && answer.number() == 0 && len(answer.text()) > 100<<10, "answer %d", id)
	}
	grown := resident() - before
	check.That(t, grown < 10<<20, "500 questions for 100 KiB took %d KiB", grown>>10)
	stay.Close()
	check.OK(t, rank.Wait())
	check.Equal(t, s.end(), "")
}

// serveClient answers the requests of one rank until it leaves. It returns the published values,
// and the most threads that the helper had.
func serveClient(s *sanitized, values map[string]string) (published []string, threads int) {
	for {
		m, err := receive(s)
		if err != nil {
			s.t.Errorf("the helper: %v", err)
			return published, threads
		}
		tasks, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(s.cmd.Process.Pid), "task"))
		threads = max(threads, len(tasks))
		f := newFrame(answer)
		switch m.kind {
		case left:
			return published, threads
		case publish:
			f.number(m.number())
			f.number(0)
			m.count()
			m.text()
			published = append(published, string(m.text()))
			f.texts("")
		case lookup:
			f.number(m.number())
			f.number(0)
			m.number()
			var list frame
			list.texts(values[m.names()[0]])
			f.text(list)
		case fence:
			f.number(m.number())
			f.number(0)
			f.text(m.text())
		default:
			continue
		}
		err = f.send(s)
		check.That(s.t, err == nil || err == io.EOF, "%v", err)
	}
}
