package top

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/internal/sight/control"
	"github.com/gorun/gorun/internal/sight/recorder"
	"github.com/gorun/gorun/internal/sight/stacks"
	"github.com/gorun/gorun/internal/sight/watch"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/golden"
	"github.com/gorun/gorun/internal/test/must"
)

func sampleOf(ranks int) watch.Sample {
	s := watch.Sample{Seconds: 3723, Size: ranks}
	busy := 87.4
	used := int64(70 << 30)
	for i := range ranks {
		r := watch.Rank{
			Rank:      i,
			Host:      fmt.Sprintf("node%d", i/8),
			PID:       1000 + i,
			State:     "R",
			Processes: 3,
			Threads:   64,
			CPU:       float64(i%9) + .5,
			CPUTotal:  3700,
			Memory:    int64(i) << 24,
			Read:      float64(i * 1000),
			Lines:     12,
			GPUs:      []int{i % 8},
			GPUBusy:   &busy,
			GPUMemory: &used,
		}
		if i%10 == 3 {
			r.State = watch.Ended
			r.Exit = &watch.Exit{Signal: 9}
		}
		s.Ranks = append(s.Ranks, r)
		if i%8 == 0 {
			s.Hosts = append(s.Hosts, watch.Host{
				Host:     r.Host,
				CPUs:     64,
				CPU:      31.5,
				Memory:   512 << 30,
				Used:     300 << 30,
				Received: 1 << 30,
				Sent:     3 << 20,
				GPUs:     []watch.GPU{{Busy: 50, Used: 1 << 30}, {Busy: -1}},
			})
		}
	}
	return s
}

// seen is a screen without styles.
func seen(m *model) string {
	text := strings.Join(m.screen(), "\n")
	for _, style := range []string{"\x1b[m", "\x1b[1m", "\x1b[2m", "\x1b[7m"} {
		text = strings.ReplaceAll(text, style, "")
	}
	return text
}

func TestScreens(t *testing.T) {
	m := newModel(control.Job{ID: "g7k2", Name: "train"})
	m.sample = sampleOf(12)
	m.tail = []string{"epoch 7", "loss 0.123"}
	var b strings.Builder
	for _, keys := range []string{"", "> > > r", "< < < r down down enter", "esc h", "? h", "/ 3 , 5 - 6 enter",
		"esc / n o d e 1 enter", "/ x"} {
		for _, key := range strings.Fields(keys) {
			m.key(key)
		}
		if m.detail >= 0 {
			m.tail = []string{"epoch 7", "loss 0.123"}
			m.stacks = look{report: &stacks.Rank{
				Rank: m.detail,
				Host: "node0",
				Record: &recorder.Snapshot{Joined: true, Comms: []recorder.Comm{{ID: 1, Size: 12,
					Calls: []recorder.Call{{Number: 41, Kind: 4, Bytes: 8, Name: "loss", Took: time.Second,
						Began: 7 * time.Second, Over: true}}}}},
				Processes: []stacks.Process{{PID: 77, Name: "python3 train.py", State: "S", Waits: "in openat",
					Threads: []stacks.Thread{{Frames: []stacks.Frame{
						{Func: "read_shard", File: "data.py", Line: 13}, {Func: "load", File: "data.py", Line: 6},
						{Func: "next"}, {Func: "epoch"}, {Func: "<module>", File: "train.py", Line: 11}}}}}},
			}}
		}
		fmt.Fprintf(&b, "=== %s\n", keys)
		for _, line := range strings.Split(seen(m), "\n") {
			if line = strings.TrimRight(line, " "); line != "" {
				fmt.Fprintln(&b, line)
			}
		}
	}
	golden.File(t, "testdata/screens.txt", b.String())
}

// A column is shown where some rank has something in it, and where there is room.
func TestColumns(t *testing.T) {
	s := sampleOf(12)
	names := func(width int) (all string) {
		m := newModel(control.Job{})
		m.sample = s
		m.width = width
		for _, c := range m.rankColumns() {
			all += c.name + " "
		}
		n := need(m.rankColumns())
		check.That(t, n <= width, "%d wide: %s need %d", width, all, n)
		return all
	}
	got := names(80)
	check.That(t, !strings.Contains(got, "ring") && strings.Contains(got, "gmem") && strings.Contains(got, "thr"),
		"without ring: %s", got)
	s.Ranks[4].Ring = &watch.Ring{Share: .5}
	s.Ranks[5].Ring = &watch.Ring{Bytes: 3 << 30, Share: .456}
	if got := names(80); !strings.Contains(got, "ring/s ring% gpu% gmem") || strings.Contains(got, "thr") {
		t.Errorf("with ring and GPUs: %s", got)
	}
	got = names(100)
	check.That(t, strings.Contains(got, "thr"), "with room: %s", got)
	for i := range s.Ranks {
		s.Ranks[i].GPUBusy = nil
		s.Ranks[i].GPUMemory = nil
	}
	got = names(80)
	check.That(t, !strings.Contains(got, "gpu") && strings.Contains(got, "ring/s ring%") &&
		strings.Contains(got, "thr"), "with ring alone: %s", got)
	m := newModel(control.Job{})
	m.sample = s
	for m.sort[0] != "ring%" {
		m.key(">")
	}
	row := m.rows()[0]
	check.That(t, row.rank == 5 && strings.Contains(row.text(), "3.0G     46"), "%s", row.text())
}

// Whatever is typed, the screen has its size, and shows the row under the cursor.
func TestScreenFits(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {200, 60}, {80, 5}, {20, 2}} {
		m := newModel(control.Job{ID: "g7k2"})
		m.width = size[0]
		m.height = size[1]
		m.sample = sampleOf(2000)
		m.sample.Ranks[0].Host = strings.Repeat("long.name.", 20) + "\x1b[2Jé"
		for i, key := range strings.Fields("down end up pgup > > > end G pgdn h end enter esc home / 9 backspace 1 " +
			"enter down ? q") {
			m.key(key)
			must.That(t, !m.quit || key == "q", "%s quits", key)
			lines := m.screen()
			must.That(t, len(lines) == m.height, "%v, after %d keys, %s: %d lines", size, i, key, len(lines))
			for _, line := range strings.Split(seen(m), "\n") {
				if n := utf8.RuneCountInString(line); n > m.width || strings.ContainsRune(line, 0x1b) {
					t.Errorf("%v, %s: %d wide: %q", size, key, n, line)
				}
			}
			rows := m.rows()
			if c := m.cursor(rows); m.detail < 0 && !m.help && len(rows) > 0 && (c < m.top || c >= m.top+m.page()) {
				t.Errorf("%v, %s: cursor %d, rows %d to %d", size, key, c, m.top, m.top+m.page())
			}
		}
	}
}

// The cursor stays on its rank when others change places.
func TestCursorFollowsItsRank(t *testing.T) {
	m := newModel(control.Job{})
	m.sample = sampleOf(20)
	for range 4 {
		m.key("down")
	}
	m.key("<") // another order
	m.key("enter")
	check.Equal(t, m.detail, 4, "rank")
}

func TestKeys(t *testing.T) {
	for text, want := range map[string][]string{
		"q":                  {"q"},
		"\x1b":               {"esc"},
		"\x1b[A\x1b[6~\x1bj": {"up", "pgdn", "esc", "j"},
		"\x1b[15~x":          {"x"},
		"\x1b[1;5":           nil,
		"é\r\x03\x01":        {"é", "enter", "ctrl-c"},
		"\xff/":              {"/"},
	} {
		got := keysOf(text)
		check.That(t, reflect.DeepEqual(got, want), "%q: %q", text, got)
	}
}

func TestShortNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.01: "0", 0.3: "0.3", 3: "3", 999: "999", 1000: "1.0K",
		1 << 20: "1.0M", 15.4 * (1 << 30): "15G", 1e30: "lots"} {
		got := short(v)
		check.That(t, got == want && len(got) <= 5, "%v: %s", v, got)
	}
}

func TestOneJobNeedsNoName(t *testing.T) {
	place := control.Place{Runtime: filepath.Join(t.TempDir(), "run"), State: filepath.Join(t.TempDir(), "state"),
		Host: "here"}
	check.Error(find(t.Context(), place, "")).Says(t, "no job of yours runs")
	open := func() *control.Server {
		s := control.New(control.Options{Place: place, Job: control.Job{Size: 1}})
		must.OK(t, s.Listen())
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	s := open()
	f, err := find(t.Context(), place, "")
	check.That(t, err == nil && f.ID == s.ID(), "%+v, %v", f, err)
	open()
	check.Error(find(t.Context(), place, "")).Says(t, "2 jobs run")
}

// openPTY returns both ends of a terminal.
func openPTY(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user = must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(int(user.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: 80})
	}
	must.OK(t, err)
	terminal = must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	t.Cleanup(func() { terminal.Close() })
	return user, terminal
}

// A user looks at a rank, goes back, and leaves. The terminal is then as it was before.
func TestKeysOnATerminal(t *testing.T) {
	place := control.Place{Runtime: filepath.Join(t.TempDir(), "run"), State: filepath.Join(t.TempDir(), "state"),
		Host: "here"}
	s := control.New(control.Options{Place: place, Job: control.Job{Size: 12}, Actions: control.Actions{
		Stream: func(w http.ResponseWriter, r *http.Request, path string) bool {
			if path == "stacks" {
				var want control.Stacks
				_ = json.NewDecoder(r.Body).Decode(&want)
				_ = json.NewEncoder(w).Encode(map[string]any{"ranks": []stacks.Rank{{Rank: want.Ranks[0], Host: "node0",
					Processes: []stacks.Process{{PID: 77, Name: "prog\x1b", State: "S",
						Threads: []stacks.Thread{{Frames: []stacks.Frame{{Func: fmt.Sprint("spin_forever_",
							want.Ranks[0])}}}}}}}}})
				return true
			}
			_ = json.NewEncoder(w).Encode(sampleOf(12))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return path == "watch"
		}}})
	must.OK(t, s.Listen())
	t.Cleanup(func() { _ = s.Close() })
	s.Add(1, 1, time.Now(), []byte("step 1\nbar 1%\rbar 2%\rloss\x1b[2J 0.5\n"))
	s.Add(2, 1, time.Now(), []byte("another\n"))
	user, terminal := openPTY(t)
	before := must.Get(unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS))(t)
	done := make(chan error, 1)
	go func() {
		done <- Run(context.Background(), place, "", Options{Every: time.Second}, terminal, terminal,
			&ui.UI{W: io.Discard})
	}()
	var seen []byte
	await := func(text string) {
		t.Helper()
		for buf := make([]byte, 4096); !bytes.Contains(seen, []byte(text)); {
			n, err := user.Read(buf)
			must.That(t, err == nil, "%v, before %q in %q", err, text, seen)
			seen = append(seen, buf[:n]...)
		}
		seen = seen[bytes.Index(seen, []byte(text))+len(text):]
	}
	for _, step := range [][2]string{{"", "12 ranks on 2 hosts"}, {"j\r", "loss?[2J 0.5"}, {"", "spin_forever_1"},
		{"s", "spin_forever_1"}, {"\x1b", "enter one rank"}, {"/node1\r", "filter: node1\x1b"}, {"q", "\x1b[?1049l"}} {
		must.Get(user.WriteString(step[0]))(t)
		await(step[1])
	}
	check.OK(t, <-done)
	after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	check.That(t, err == nil && *after == *before, "%+v, %v", after, err)
}

func TestStragglerIsShown(t *testing.T) {
	m := newModel(control.Job{})
	for second := range 60 {
		s := sampleOf(4)
		s.At = time.Unix(int64(second), 0)
		for i := range s.Ranks {
			s.Ranks[i].PID = 100 + i
			s.Ranks[i].Exit = nil
			s.Ranks[i].Ring = &watch.Ring{Share: 0.5}
		}
		s.Ranks[2].Ring.Share = 0.2
		m.take(s)
	}
	text := m.totals()
	check.That(t, strings.HasPrefix(text, "slow: rank 2 costs 30%  cpu "), "%q", text)
}

func TestSilentGorunIsNotAwaited(t *testing.T) {
	place := control.Place{Runtime: filepath.Join(t.TempDir(), "gorun"), Host: "here"}
	must.OK(t, os.Mkdir(place.Runtime, 0o700))
	socket := net.UnixAddr{Name: filepath.Join(place.Runtime, "a2b3@here.sock"), Net: "unix"}
	silent := must.Get(net.ListenUnix("unix", &socket))(t)
	t.Cleanup(func() { silent.Close() })
	for _, name := range []string{"", "a2b3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			check.Error(find(ctx, place, name)).Says(t, "cannot be reached: its gorun does not answer")
		})
	}
}
