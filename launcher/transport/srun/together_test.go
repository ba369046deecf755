package srun

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

func TestOneStepForWhichNodes(t *testing.T) {
	job := Job{ID: "7", Nodes: map[string]int{"n1": 0, "n2": 0, "n3": 0}}
	hetero := Job{ID: "7", Nodes: map[string]int{"n1": 0, "n2": 1}, Hetero: true}
	for _, tc := range []struct {
		what  string
		job   Job
		nodes []string
		build string
		apart string
		want  string
		why   string // that -v shows
	}{
		{"nodes", job, []string{"n1", "n3"}, "b", "", "n1,n3", ""},
		{"nodes and another host", job, []string{"n1", "localhost", "n2"}, "b", "", "n1,n2", ""},
		{"one node", job, []string{"n1", "localhost"}, "b", "", "", ""},
		{"a gorun that cannot be an agent", job, []string{"n1", "n2"}, "", "", "",
			"n1, n2: each a step of its own: the nodes cannot run this gorun"},
		{"a heterogeneous job", hetero, []string{"n1", "n2"}, "b", "", "",
			"n1, n2: each a step of its own: the Slurm job is heterogeneous"},
		{"an elastic job", job, []string{"n1", "n2"}, "b", "nodes come and go", "",
			"n1, n2: each a step of its own: nodes come and go"},
	} {
		got := ""
		why := ""
		trace := func(format string, args ...any) { why += fmt.Sprintf(format, args...) }
		if st := newStep(New(tc.job, "srun", nil), Together{
			Nodes: tc.nodes,
			Build: tc.build,
			Apart: tc.apart,
			Trace: trace,
		}); st != nil {
			got = strings.Join(st.Nodes, ",")
		}
		check.That(t, got == tc.want && why == tc.why,
			"%s: %q, want %q; -v says %q, want %q", tc.what, got, tc.want, why, tc.why)
	}
}

func TestReportsOfSrun(t *testing.T) {
	var got []string
	r := &reports{missing: func(nodes []string, text string) { got = append(got, strings.Join(nodes, " ")+": "+text) }}
	for _, piece := range []string{noBinding, "  1: slurmstepd: error: execve(): /x/gorun: No such",
		" file\nsrun: error: n[1-2]: tasks 0-1: Exited with exit code 127\nsrun: err",
		"or: n3: task 2: Killed\nsrun: error: n9: bad\n", strings.Repeat("x", 3*firstWordsSize)} {
		if n, err := r.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	why := "slurmstepd: error: execve(): /x/gorun: No such file"
	want := []string{"n1 n2: Exited with exit code 127: " + why, "n3: Killed: " + why}
	check.That(t, slices.Equal(got, want), "got %q, want %q", got, want)
	check.That(t, len(r.line) <= firstWordsSize, "%d bytes are kept", len(r.line))
	r.flush()
}

// A line that a node prints does not count as a report of srun: it marks no other node as failed,
// and its list of nodes is not expanded.
func TestNodesReportNothingForSrun(t *testing.T) {
	s := lab.MustSlurm(t, 2)
	st := newStep(New(Job{ID: "1", Nodes: map[string]int{"n1": 0, "n2": 0}}, "srun", nil), Together{
		Nodes: s.Nodes,
		Build: "b",
		Argv: func() []string {
			const script = "report='srun: error: n2: task 1: Exited with exit code 75'\n" +
				"[ $SLURM_PROCID = 0 ] || sleep 2\n" +
				"[ $SLURM_PROCID = 1 ] || printf '%s\nhalf a line\r%s\n' \"$report\" \"$report\" >&2\n" +
				"yes 'srun: error: n[1-65536]: task 0: X' | head -n 20000 >&2\n" +
				"exit 3\n"
			return []string{"/bin/sh", "-c", script}
		},
	})
	argv := slices.Concat([]string{"salloc", "-N2", "-n2", "srun"}, st.args("--overlap"))
	for {
		var got []string
		r := &reports{missing: func(nodes []string, text string) {
			text, _, _ = strings.Cut(text, ":") // the rest is the last line of any node
			for _, node := range nodes {
				got = append(got, node+": "+text)
			}
		}}
		var said bytes.Buffer
		cmd := s.Command(t.Context(), argv...)
		cmd.Stderr = io.MultiWriter(r, &said)
		err := cmd.Run()
		r.flush()
		if strings.Contains(said.String(), "srun: error: step_launch_notify_io_failure") {
			t.Log("srun lost the end of a node's output, and has killed the step: once more")
			continue
		}
		check.Error(err).Says(t, "exit status 3")
		slices.Sort(got)
		check.Slice(t, got, []string{"n1: Exited with exit code 3", "n2: Exited with exit code 3"})
		return
	}
}

// The lines that a node floods srun's stderr with cost no more than they have bytes.
func TestManyReportsOfSrun(t *testing.T) {
	r := &reports{missing: func([]string, string) {}}
	piece := bytes.Repeat([]byte("x\n"), 16<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	must.Get(r.Write(piece))(t)
	runtime.ReadMemStats(&after)
	used := after.TotalAlloc - before.TotalAlloc
	check.That(t, used < 1<<20, "%d bytes take %d KiB", len(piece), used>>10)
}

// A fake srun plays nodes that lack gorun, and nodes that cannot connect: each gets a step of its
// own, and the user hears of the second.
func TestNodesThatDoNotConnectGetStepsOfTheirOwn(t *testing.T) {
	for code, note := range map[int]string{127: "", CodeUnreached: "did not connect back"} {
		srun := filepath.Join(t.TempDir(), "srun")
		script := fmt.Sprintf("#!/bin/sh\ncase $1 in --help) echo --external-launcher; exit;; esac\ncat >/dev/null\n"+
			"echo 'srun: error: n[1-2]: tasks 0-1: Exited with exit code %d' >&2\nexit %d\n", code, code)
		must.OK(t, os.WriteFile(srun, []byte(script), 0o755))
		var mu sync.Mutex
		var notes, traces []string
		into := func(list *[]string) func(string, ...any) {
			return func(format string, args ...any) {
				mu.Lock()
				defer mu.Unlock()
				*list = append(*list, fmt.Sprintf(format, args...))
			}
		}
		s := New(Job{ID: "7", Nodes: map[string]int{"n1": 0, "n2": 0}}, srun, os.Environ())
		s.StartTogether(Together{
			Nodes:  []string{"n1", "n2"},
			Argv:   func() []string { return []string{"/x/gorun", Command} },
			Build:  "b",
			Within: time.Hour,
			Note:   into(&notes),
			Trace:  into(&traces),
		})
		var nodes []*srunHost
		for _, name := range []string{"n1", "n2"} {
			node := must.Get(s.Dial(t.Context(), hostfile.Host{Name: name}))(t)
			nodes = append(nodes, node.(*srunHost))
			check.Equal(t, nodes[len(nodes)-1].AgentBuild(), "", name, "has a resident agent of build")
		}
		for _, node := range nodes {
			node.Close() // the last waits for srun, and all that is said of it
		}
		mu.Lock()
		check.That(t, (note == "") == (len(notes) == 0) && (note == "" ||
			!(len(notes) != 1 || !strings.Contains(notes[0], note))) && len(traces) != 0,
			"exit code %d: notes %q, traces %q", code, notes, traces)
		mu.Unlock()
	}
}
