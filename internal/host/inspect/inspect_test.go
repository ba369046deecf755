package inspect

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/host/process"
	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func show(threads []stacks.Thread) (text string) {
	for _, t := range threads {
		text += t.Name + ":"
		for _, f := range t.Frames {
			text += " " + f.String()
		}
		text += "\n"
	}
	return text
}

func TestParsersPutTheMainThreadFirst(t *testing.T) {
	spy,
		err := parsePySpy([]byte(`[{"thread_name":"Thread-1","os_thread_id":8,"frames":[{"name":"run","filename":"/x/a.py","line":1}]},
		{"thread_name":"MainThread","os_thread_id":7,"frames":[{"name":"main","filename":"/x/b.py","line":2}]}]`), 7)
	must.OK(t, err)
	for name, c := range map[string]struct {
		threads []stacks.Thread
		want    string
	}{
		"py-spy": {spy, "MainThread: main (x/b.py:2)\nThread-1: run (x/a.py:1)\n"},
		"faulthandler": {parseFaults("Thread 0x00007f (most recent call first):\n  File \"/x/a.py\", line 3 in " +
			"run\n\nCurrent thread 0x00008f (most recent call first):\n" +
			"  File \"/x/b.py\", line 9 in f\n  File \"/x/b.py\", line ??? in <module>\n"),
			"Current thread 0x00008f: f (x/b.py:9) <module> (x/b.py)\nThread 0x00007f: run (x/a.py:3)\n"},
		"gdb": {parseGDB("Thread 2 (Thread 0x7f (LWP 12) \"w\"):\n#0  0x00007f in poll () from /lib/libc.so.6\n#1  " +
			"0x00aa in worker (arg=0x0) at /x/w.c:7\n\n" +
			"Thread 1 (Thread 0x7e (LWP 11) \"w\"):\n" +
			"#0  spin (n=3, f=0x40 <f(int)>) at w.c:9\n#1  main () at w.c:20\n"),
			"thread 1: spin (w.c:9) main (w.c:20)\nthread 2: poll worker (x/w.c:7)\n"},
		"eu-stack": {parseEuStack("PID 11 - process\nTID 12:\n#0  0x00007f5a poll\nTID 11:\n#0  0x000055d0 spin - "+
			"1\n    /x/w.c:9:3\n#1  0x000055d8 main@@V_1\n#2  0x0000aaaa\n#3  0x0000aaab\n", 11,
			func(uint64, *stacks.Frame) {}),
			"thread 11: spin (x/w.c:9) main ??\nthread 12: poll\n"},
		"goroutines": {parseGoroutines("goroutine 7 gp=0x1 m=3 " +
			"[running]:\nexample.com/x/y.(*T).serve(0xc0)\n\t/x/t.go:4 +0x1d\ncreated by main.main in goroutine " +
			"1\n\t/x/m.go:2 +0x2\n\n" +
			"goroutine 1 [chan receive, 2 minutes]:\n" +
			"main.wait(...)\n\t/x/m.go:9 +0x1\nmain.main()\n\t/x/m.go:3 +0x2\n"),
			"goroutine: chan receive: main.wait (x/m.go:9) main.main (x/m.go:3)\ngoroutine: running: y.(*T).serve " +
				"(x/t.go:4)\n"},
	} {
		check.Equal(t, show(c.threads), c.want, name)
	}
}

// Of a C program, the lines of eu-stack's addresses are those of the calls.
func TestLinesOfAProgram(t *testing.T) {
	lab.Need(t, "cc", "eu-stack")
	dir := t.TempDir()
	source := "#include <unistd.h>\n\nstatic void inner(void)\n{\n\tfor (;;) pause();\n}\n\nint " +
		"main(void)\n{\n\twrite(1, \"\\n\", 1);\n\tinner();\n\treturn 0;\n}\n"
	must.OK(t, os.WriteFile(dir+"/p.c", []byte(source), 0o600))
	must.Run(t, exec.Command("cc", "-g", "-O0", "-o", dir+"/p", dir+"/p.c"))
	own := must.Get(contain.ReadProcess(lab.StartProcess(t, dir+"/p")))(t)
	s := newSubject(own, &sources{})
	defer s.close()
	text := ""
	// it may not have come to inner, and the tool has a time limit
	for end := time.Now().Add(2 * time.Minute); !strings.Contains(text, "inner (") && time.Now().Before(end); {
		threads, err := s.euStack(t.Context(), s.find("eu-stack"))
		text = fmt.Sprint(show(threads), err)
	}
	check.That(t, strings.Contains(text, "/p.c:5)") && strings.Contains(text, "/p.c:11)"), "%v", text)
}

// A rank whose report is long has none, and those of the host's other ranks are read.
func TestLongReportsHideNoOtherRank(t *testing.T) {
	const ranks = 1024
	frames := make([]stacks.Frame, stacks.MaxFrames)
	for i := range frames {
		frames[i].Func = strings.Repeat("\x01", stacks.MaxText)
	}
	for _, n := range []int{1, stacks.MaxProcesses} {
		report := stacks.Rank{Rank: 7}
		for range n {
			report.Processes = append(report.Processes, stacks.Process{Threads: []stacks.Thread{{Frames: frames}}})
		}
		kept := bounded(report, 1)
		check.Equal(t, len(kept.Processes), n)
		kept = bounded(report, ranks)
		text, err := json.Marshal(kept)
		check.OK(t, err)
		check.That(t, ranks*len(text) < stacks.MaxReports, "%d bytes each", len(text))
		check.That(t, kept.Rank == 7 && strings.HasPrefix(kept.Error, "a report of more than"), "%.100q", kept.Error)
	}
}

// A tool in PATH that another user can change is passed over.
func TestToolsOfOthersAreNotRun(t *testing.T) {
	lab.NeedRoot(t)
	dir := t.TempDir()
	open := filepath.Join(dir, "open")
	own := filepath.Join(dir, "own")
	for _, path := range []string{open, own} {
		must.OK(t, errors.Join(os.Mkdir(path, 0o755), os.WriteFile(path+"/eu-stack", nil, 0o755)))
	}
	s := &subject{environment: process.Environment{"PATH=" + open + ":" + own}}
	for _, c := range []struct {
		name string
		mode os.FileMode
		want string
	}{{"own", 0o755, open}, {"others'", 0o777, own}} {
		must.OK(t, os.Chmod(open, c.mode))
		check.Equal(t, s.find("eu-stack"), c.want+"/eu-stack", c.name)
	}
}

// Tools do not look for files in the current folder, which may be another user's.
func TestToolsRunInNoFolderOfOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	out, err := (&subject{}).tool(t.Context(), "/bin/sh", "-c", "[ -e tmp ] || pwd -P")
	check.That(t, err == nil && strings.HasPrefix(string(out), "/proc/"), "a tool runs in %q, %v", out, err)
}

// No tool is run on a process that has become another user's since it was opened.
func TestProcessThatChangesItsUserIsLeftAlone(t *testing.T) {
	lab.NeedRoot(t)
	lab.Need(t, "setpriv")
	dir := t.TempDir()
	proof := filepath.Join(dir, "proof")
	for _, name := range []string{"eu-stack", "gdb"} {
		tool := fmt.Sprintf("#!/bin/sh\n: >%s\n", proof)
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(tool), 0o755))
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c",
		`echo; read x; exec setpriv --reuid 65533 --regid 65533 --clear-groups sh -c 'echo; read x'`)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	must.OK(t, errors.Join(err1, err2, cmd.Start()))
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	said := bufio.NewReader(out)
	await := func() { must.Get(said.ReadString('\n'))(t) }
	await()
	p, err := contain.ReadProcess(cmd.Process.Pid)
	must.OK(t, err)
	s := newSubject(p, &sources{})
	defer s.close()
	s.environment = process.Environment{"PATH=" + dir}
	s.trace(t.Context(), true)
	must.That(t, exists(proof), "no tool was run on a process of this user's, so nothing is shown")
	_, err = io.WriteString(in, "\n")
	must.OK(t, errors.Join(err, os.Remove(proof)))
	await()
	if s.trace(t.Context(), true); exists(proof) || !strings.Contains(s.report.Unknown, "user 65533") {
		t.Errorf("a tool was run on another user's process: %v; %q", exists(proof), s.report.Unknown)
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
