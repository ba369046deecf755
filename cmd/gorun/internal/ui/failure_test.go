package ui

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/core"
)

// failedJob returns a job of four ranks whose rank 1 failed 2.5 s after the start.
func failedJob(e launcher.Exit) launcher.Result {
	e.Rank = 1
	e.At = 3 * time.Second
	r := launcher.Result{Started: 500 * time.Millisecond, Ended: 4 * time.Second, Exits: []launcher.Exit{e}}
	for _, rank := range []int{0, 2} {
		r.Exits = append(r.Exits, launcher.Exit{
			Rank:    rank,
			Signal:  15,
			Stopped: true,
			Cause:   &launcher.StopCause{Rank: 1, Host: "f1"},
			At:      3100 * time.Millisecond,
		})
	}
	r.Exits = append(r.Exits, launcher.Exit{Rank: 3, At: 1500 * time.Millisecond})
	r.Cause = &launcher.Failure{
		Rank: 1,
		Host: "f1",
		Exit: e,
		At:   e.At,
	}
	return r
}

// The hint of an elastic job's end follows the failure that ended it.
func TestElasticEndHasAHint(t *testing.T) {
	var out bytes.Buffer
	r := failedJob(launcher.Exit{Code: 3})
	r.Elastic = &core.ElasticEnd{Code: 3, Cause: "it is over", Hint: "raise the limit"}
	(&UI{W: &out}).Conclude(r, 4, Limits{})
	check.That(t, strings.HasSuffix(out.String(), "hint: raise the limit\n"), "%s", &out)
}

// TestFailureTexts compares the messages of each kind of failure with a golden file.
func TestFailureTexts(t *testing.T) {
	now := time.Date(2026, 11, 21, 20, 51, 32, 0, time.UTC)
	said := []string{"Traceback (most recent call last):", `  File "train.py", line 7`, "ValueError: bad shape"}
	var all strings.Builder
	for _, tc := range []struct {
		name   string
		size   int
		exit   launcher.Exit
		change func(f *launcher.Failure)
	}{
		{"a code", 4, launcher.Exit{Code: 3}, nil},
		{"a code, with stderr", 4, launcher.Exit{Code: 1}, func(f *launcher.Failure) { f.Stderr = said }},
		{"a traceback that has just been printed", 4, launcher.Exit{Code: 1}, func(f *launcher.Failure) {
			f.Stderr = strings.Split(strings.Repeat("said ", 20), " ")
			f.Shown = true
		}},
		{"a known failure", 4, launcher.Exit{Code: 1, Program: "/usr/bin/python3"}, func(f *launcher.Failure) {
			f.ReadStderr([]string{said[0], said[1], "ModuleNotFoundError: No module named 'torch'"})
		}},
		{"and a file", 4, launcher.Exit{Code: 1}, func(f *launcher.Failure) {
			f.Stderr = said
			f.Log = "out/rank.1/stderr"
		}},
		{"killed, with stderr and a log", 4, launcher.Exit{Signal: 9}, func(f *launcher.Failure) {
			f.Stderr = said
			f.Log = "out/rank.1/stderr"
		}},
		{"the only rank, whose stderr is on the terminal", 1, launcher.Exit{Code: 1}, func(f *launcher.Failure) {
			f.Stderr = said
		}},
		{"a crash", 4, launcher.Exit{Signal: 11}, nil},
		{"a crash with a core", 4, launcher.Exit{Signal: 11, Core: true}, nil},
		{"a bus error", 4, launcher.Exit{Signal: 7}, nil},
		{"another CPU", 4, launcher.Exit{Signal: 4}, nil},
		{"a shell that found nothing", 4, launcher.Exit{Code: 127}, nil},
		{"a shell whose command was killed", 4, launcher.Exit{Code: 137}, nil},
		{"out of memory", 4, launcher.Exit{Signal: 9, OutOfMemory: launcher.MemoryOfHost, MaxRSS: 12_900_000_000}, nil},
		{"out of memory at a limit, with stderr and a log", 4, launcher.Exit{
			Signal:      9,
			OutOfMemory: launcher.MemoryOfGroup,
			MemoryLimit: 2 << 30,
			MaxRSS:      2_140_000_000,
		},
			func(f *launcher.Failure) {
				f.Stderr = said
				f.Log = "out/rank.1/stderr"
			}},
		{"out of memory, it seems, below a shell", 4, launcher.Exit{Code: 137, OutOfMemory: launcher.MemoryLikely,
			MaxRSS: 12_900_000_000}, nil},
		{"no start", 4, launcher.Exit{Code: 127, Failed: "no such file or directory"}, nil},
		{"a victim", 4, launcher.Exit{Code: 1}, func(f *launcher.Failure) { f.Victim = true }},
		{"told to abort", 4, launcher.Exit{Code: 1, Aborted: true}, func(f *launcher.Failure) {
			f.Victim = true
			f.AbortCause = "rank 2 on f2: rank 0 lost it: reset"
		}},
		{"a host", 4, launcher.Exit{}, func(f *launcher.Failure) {
			f.Rank = -1
			f.Lost = errors.New("lost the connection to the agent")
		}},
		{"a host by a connection of gorun up", 4, launcher.Exit{}, func(f *launcher.Failure) {
			f.Rank = -1
			f.Lost = fmt.Errorf("lost the connection to the agent: %w", usage.Errorf("gorun up keeps the hosts again",
				"up-g7k2, which kept the connection, has ended, or has lost the host"))
		}},
		{"a server of ranks", 4, launcher.Exit{}, func(f *launcher.Failure) {
			f.Rank = -1
			f.Lost = &launcher.ServerError{Reason: "gorun-pmix, which serves the ranks of this host: it has ended: EOF"}
		}},
		{"an agent", 4, launcher.Exit{}, func(f *launcher.Failure) {
			f.Rank = -1
			f.Lost = &launcher.AgentEndedError{Code: 137}
		}},
		{"a very long line", 4, launcher.Exit{Code: 1}, func(f *launcher.Failure) {
			f.Stderr = []string{strings.Repeat("é", 1000)}
		}},
	} {
		var out bytes.Buffer
		r := failedJob(tc.exit)
		if tc.change != nil {
			tc.change(r.Cause)
		}
		if tc.size == 1 {
			r.Exits = r.Exits[:1]
		}
		(&UI{W: &out}).failure(r, tc.size, now)
		check.That(t, strings.Count(out.String(), "\n") <= 7,
			"%s: %d lines", tc.name, strings.Count(out.String(), "\n"))
		fmt.Fprintf(&all, "# %s\n%s\n", tc.name, &out)
		out.Reset()
		(&UI{W: &out, Quiet: true}).failure(r, tc.size, now)
		check.That(t, strings.Count(out.String(), "\n") == 1 && strings.HasPrefix(out.String(), "gorun: error: "),
			"%s: with --quiet %q", tc.name, &out)
	}
	golden.File(t, filepath.Join("testdata", "failures.txt"), all.String())
}

func TestFailedHostsAreGroupedByReason(t *testing.T) {
	at := func(host, trouble string) launcher.HostError {
		return launcher.HostError{Host: host, Err: errors.New(host + trouble)}
	}
	var out bytes.Buffer
	(&UI{W: &out}).Report(&launcher.LaunchError{Hosts: []launcher.HostError{
		at("f1", ": no route"), at("f2", " (port 2222): connection refused"), at("f3", ": no route"),
		at("f4", " (port 2222): connection refused")}})
	want := "gorun: error: f1, f3: no route\ngorun: error: f2, f4 (port 2222): connection refused\n"
	check.That(t, out.String() == want, "got\n%swant\n%s", &out, want)
}

// Ten thousand hosts that fail, each for a reason of its own, fit on a screen.
func TestFailuresOfManyHostsAreShort(t *testing.T) {
	var failed []launcher.HostError
	for i := range 10_000 {
		why := fmt.Errorf("port %d is closed", i)
		if i%2 == 1 {
			why = errors.New("no route")
		}
		failed = append(failed, launcher.HostError{Host: fmt.Sprintf("n%05d", i),
			Err: usage.Errorf(fmt.Sprintf("hint %d", i), "%w", why)})
	}
	var out bytes.Buffer
	u := &UI{W: &out}
	u.ReportHosts(failed)
	lines := strings.Split(out.String(), "\n")
	if len(lines) != mostReasons+1+mostReasons+1 ||
		lines[0] != "gorun: error: n00001, n00003, n00005, n00007, n00009, n00011 and 4994 more hosts: no route" ||
		lines[1] != "gorun: error: n00000: port 0 is closed" ||
		lines[mostReasons] != "gorun: error: n00062, n00064, n00066, n00068, n00070, n00072 and 4963 more hosts: "+
			"failed for other reasons" {
		t.Errorf("got\n%s", &out)
	}
	cause := (Outcome{Err: &launcher.LaunchError{Hosts: failed}}).Reason()
	check.That(t, len(cause) < 310, "a cause of %d bytes", len(cause))
	out.Reset()
	r := launcher.Result{Lost: failed, Cause: &launcher.Failure{Rank: 7, Host: "n00000", Lost: failed[0].Err}}
	for i := range failed {
		r.Unconfirmed = append(r.Unconfirmed, failed[i].Host)
		r.Unkillable = append(r.Unkillable, launcher.Unkillable{Host: failed[i].Host})
	}
	u.Conclude(r, 80_000, Limits{})
	if text := out.String(); strings.Count(text, "\n") > mostReasons+16 ||
		!strings.Contains(text, "error: host n00001, n00003, n00005, n00007, n00009, n00011 and 4994 more hosts: no "+
			"route\n") {
		t.Errorf("%d lines:\n%s", strings.Count(text, "\n"), text)
	}
}

func TestSecondsHasThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.00 s", 20 * time.Millisecond: "0.02 s", 1250 * time.Millisecond: "1.25 s",
		12340 * time.Millisecond: "12.3 s", time.Hour: "3600 s",
	} {
		check.Equal(t, Seconds(d), want, d)
	}
}

func TestSummary(t *testing.T) {
	r := failedJob(launcher.Exit{Code: 3, CPU: 2400 * time.Millisecond, MaxRSS: 1_640_000_000})
	r.Exits[3].Failed = "x"
	got := Summary(planOf(t, "f1:2,node2.example.org:3"), r, nil)
	want := `rank  host               ended                                 time    cpu     peak memory
0     f1                 stopped by gorun after rank 1 failed  2.60 s  0.00 s  0 MiB
1     f1                 code 3, the first to fail             2.50 s  2.40 s  1.53 GiB
2     node2.example.org  stopped by gorun after rank 1 failed  2.60 s  0.00 s  0 MiB
3     node2.example.org  did not start                         1.00 s  -       -
4     node2.example.org  not known                             -       -       -
started in 0.50 s, ran 3.50 s, exit code 3
`
	check.That(t, got == want, "got:\n%swant:\n%s", got, want)
	got = Summary(planOf(t, "f1:1"), launcher.Result{}, map[int]float64{0: 0.166})
	want = `rank  host  ended      time  cpu  peak memory  waited for
0     f1    not known  -     -    -            17 %
started in 0.00 s, ran 0.00 s, exit code 0
`
	check.That(t, got == want, "got:\n%swant:\n%s", got, want)
	check.Equal(t, endOf(launcher.Exit{Code: 127, Failed: "x"}), "did not start")
	check.Equal(t, endOf(launcher.Exit{Signal: 9, OutOfMemory: launcher.MemoryOfHost}), "SIGKILL, out of memory")
	check.Equal(t, endOf(launcher.Exit{Signal: 64}), "signal 64")
}

func TestSummaryOfManyRanksIsShort(t *testing.T) {
	r := launcher.Result{Started: time.Second, Ended: 9 * time.Second}
	for rank := range 80000 - 1 { // the last is not known
		r.Exits = append(r.Exits, launcher.Exit{
			Rank:   rank,
			At:     4*time.Second + time.Duration(rank)*time.Microsecond,
			CPU:    time.Second,
			MaxRSS: 64 << 20,
		})
	}
	r.Exits[12345].Code = 3
	r.Exits[12345].At = 2 * time.Second
	r.Exits[777].MaxRSS = 2 << 30
	for _, rank := range []int{5, 7, 9, 11, 13, 15} {
		r.Exits[rank].Signal = 15
		r.Exits[rank].Stopped = true
	}
	r.Cause = &launcher.Failure{
		Rank: 12345,
		Host: "n1544",
		Exit: r.Exits[12345],
		At:   2 * time.Second,
	}
	hosts := make([]string, 10000)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("n%05d:8", i+1)
	}
	want := `ranks                  hosts        ended                      time                           most cpu         peak memory
79992: 0-4,6,8,10,...  10000 hosts  code 0                     3.00 s to 3.08 s (rank 79998)  1.00 s (rank 0)  2 GiB (rank 777)
6: 5,7,9,11,...        2 hosts      stopped by gorun           3.00 s (rank 15)               1.00 s (rank 5)  64 MiB (rank 5)
12345                  n01544       code 3, the first to fail  1.00 s                         1.00 s           64 MiB
79999                  n10000       not known                  -                              -                -
started in 1.00 s, ran 8.00 s, exit code 3
`
	plan := planOf(t, strings.Join(hosts, ","))
	got := Summary(plan, r, nil)
	check.That(t, got == want, "got:\n%swant:\n%s", got, want)
	got = Summary(plan, r, map[int]float64{4711: 0.75})
	check.That(t, strings.Contains(got, "most waited for\n") && strings.Contains(got, "75 % (rank 4711)\n"),
		"got:\n%s", got)
}
