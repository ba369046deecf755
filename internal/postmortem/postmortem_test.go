package postmortem

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
)

// TestKnownFailures reads what programs have printed. Each row of the table has a case.
func TestKnownFailures(t *testing.T) {
	seen := map[int]bool{}
	golden.Cases(t, "testdata/seen.txt", func(text string) (string, error) {
		lines := strings.Split(text, "\n")
		if _, row, _ := find(lines); row >= 0 {
			seen[row] = true
		}
		_, hint := Read(lines, Rank{Host: "f1", Program: "/usr/bin/python3"})
		return hint, nil
	})
	for row, k := range known() {
		check.That(t, seen[row], "no case has %s", k.pattern)
	}
}

// Nothing has to be brought to ranks of this machine.
func TestHintsForThisMachine(t *testing.T) {
	for line, want := range map[string]string{
		"python3: can't open file 'train.py': [Errno 2] No such file": "check the name of " +
			"train.py; ranks start in the current directory, or in that of --wdir",
		"FATAL:   could not open image /w/a.sif: lstat": "the image /w/a.sif is not on localhost: check " +
			"its name, or keep it in a folder that all hosts share",
		"FATAL:   could not open image /w/a.sif: image format not recognized": "/w/a.sif on localhost is no image: " +
			"check its name",
	} {
		_, hint := Read([]string{line}, Rank{Host: "localhost"})
		check.Equal(t, hint, want)
	}
}

// TestInstalledPrograms runs programs that fail, and looks for their words in the table.
func TestInstalledPrograms(t *testing.T) {
	for _, tc := range []struct {
		program, failing string
		hint             string // part of it
	}{
		{"python3", "import nosuch", "has no module nosuch: --stage-env"},
		{"python3", "open('nosuch')", "check the name of nosuch"},
		{"python3", "import ctypes; ctypes.CDLL('libnosuch.so.7')", "libnosuch.so.7 is not where"},
		{"python3", "import socket as s; a = s.create_server(('127.0.0.1', 0)); s.create_server(a.getsockname())",
			"ss -ltnp"},
		{"python3", "import os, resource as r; r.setrlimit(r.RLIMIT_NOFILE, (9, 9)); [os.dup(0) for _ in range(9)]",
			"ulimit -n"},
		{"python3", "f = open('/dev/full', 'w'); f.write('x'); f.flush()", "df -h"},
		{"/usr/bin/python3", "import torch.distributed as d, datetime as t; d.init_process_group('gloo', " +
			"init_method='tcp://127.0.0.1:9', rank=1, world_size=2, timeout=t.timedelta(seconds=1))",
			"nobody listens on port 9 of 127.0.0.1"},
		{"/usr/bin/python3", "import torch; torch.ones(1).cuda()", "on f1"},
		{"sh", "exec nosuch", "nosuch is not in PATH on f1"},
		{"sh", ". ./nosuch.sh", "check the name of ./nosuch.sh"},
		{"bash", "nosuch", "nosuch is not in PATH on f1"},
	} {
		t.Run(tc.program+" "+tc.failing, func(t *testing.T) {
			if _, err := exec.LookPath(tc.program); err != nil {
				t.Skip(err)
			}
			cmd := exec.Command(tc.program, "-c", tc.failing)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "CUDA_VISIBLE_DEVICES=")
			out, err := cmd.CombinedOutput()
			must.That(t, errors.As(err, new(*exec.ExitError)), "%v\n%s", err, out)
			if strings.Contains(string(out), "No module named 'torch'") {
				t.Skip("PyTorch is not installed")
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			_, hint := Read(lines, Rank{Host: "f1"})
			check.That(t, strings.Contains(hint, tc.hint), "hint %q, want %q, for\n%s", hint, tc.hint, out)
		})
	}
}

func TestQuotedLines(t *testing.T) {
	noise := func(n int) (lines []string) {
		for i := range n {
			lines = append(lines, fmt.Sprintf("step %d", i))
		}
		return lines
	}
	const begin = "Traceback (most recent call last):"
	trace := []string{begin, `  File "a.py", line 7, in f`, "    g()", "ValueError: x"}
	between := []string{"During handling of the above exception, another exception occurred:"}
	chained := slices.Concat(trace, between, trace)
	deep := slices.Concat([]string{begin}, noise(40), []string{"ValueError: x"})
	tests := []struct {
		name        string
		lines, want []string
	}{
		{"nothing", nil, nil},
		{"a few lines", noise(2), noise(2)},
		{"many lines", noise(9), noise(9)[6:]},
		{"a traceback", slices.Concat(noise(50), trace), trace},
		{"chained tracebacks", slices.Concat(noise(50), chained), chained},
		{"one of torch's ranks", []string{"step 1", "[rank0]: " + begin, "[rank0]: ValueError: x"},
			[]string{"[rank0]: " + begin, "[rank0]: ValueError: x"}},
		{"a panic of Go", []string{"step 1", "panic: x", "", "goroutine 1 [running]:", "main.main()", "exit status 2"},
			[]string{"panic: x", "", "goroutine 1 [running]:", "main.main()", "exit status 2"}},
		{"a deep traceback", slices.Concat(noise(5), deep), slices.Concat(
			[]string{begin, "  ... (13 lines left out)"}, deep[len(deep)-28:])},
		{"a known failure above the end", slices.Concat([]string{"CUDA error: out of memory"}, noise(9)),
			slices.Concat([]string{"CUDA error: out of memory"}, noise(9)[6:])},
	}
	for _, tc := range tests {
		got, _ := Read(tc.lines, Rank{Host: "f1"})
		check.That(t, slices.Equal(got, tc.want) && len(got) <= mostQuoted,
			"%s: got\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
	}
}
