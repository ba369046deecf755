package probe

import (
	"bytes"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/json"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gorun/gorun/internal/doctor"
	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/internal/test/ringtest"
)

// late is a connection whose writes come late.
type late struct {
	net.Conn
	by time.Duration
}

func (c late) Write(p []byte) (int, error) {
	time.Sleep(c.by)
	return c.Conn.Write(p)
}

type lateListener struct {
	net.Listener
	by time.Duration
}

func (l lateListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil && l.by > 0 {
		conn = late{conn, l.by}
	}
	return conn, err
}

// examined runs probes on hosts of which the last one is far and has a wrong clock, and returns
// what they say.
func examined(t *testing.T, hosts int, far, ahead time.Duration) doctor.Measured {
	t.Helper()
	job := ringtest.NewJob(t, hosts)
	plan := doctor.NewPlan("default")
	plan.Speed = 10 * time.Millisecond
	text := must.Get(json.Marshal(plan))(t)
	m := doctor.Measured{Hosts: map[string]doctor.Host{}}
	for range hosts {
		m.Names = append(m.Names, string(rune('a'+len(m.Names))))
	}
	var mu sync.Mutex
	ringtest.All(t, hosts, func(rank int) error {
		sick := rank == hosts-1
		in := Surroundings{
			Lookup:  ringtest.Lookup(job.Environ(rank)),
			Now:     time.Now,
			Machine: func() doctor.Machine { return doctor.Machine{ID: "m", Cores: 2} },
			Facts: func(context.Context, doctor.Plan, []doctor.Machine) doctor.Facts {
				return doctor.Facts{Machine: "m", MainMemory: doctor.MainMemory{Memory: 1, Available: 1}}
			},
			Listen: func(ctx context.Context, addr string) (net.Listener, error) {
				l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
				if sick {
					return lateListener{l, far}, err
				}
				return l, err
			},
			Patience: patience,
		}
		if sick {
			in.Now = func() time.Time { return time.Now().Add(ahead) }
		}
		var out bytes.Buffer
		if err := Run(t.Context(), []string{string(text)}, &out, in); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		h := doctor.Host{}
		for decoder := json.NewDecoder(&out); ; {
			var line Line
			switch err := decoder.Decode(&line); {
			case err == io.EOF:
				m.Hosts[m.Names[rank]] = h
				return nil
			case err != nil:
				return err
			case line.Link != nil:
				m.Links = append(m.Links, *line.Link)
			case line.Facts != nil:
				h.Facts = line.Facts
			case line.Speed != nil:
				h.Speed = line.Speed
			}
			h.Finished = h.Finished || line.Finished
		}
	})
	return m
}

// attempts is how often a busy machine may be too slow for a round.
const attempts = 5

func TestProbesMeasureEachOther(t *testing.T) {
	for n := 1; ; n++ {
		m := examined(t, 4, 0, 0)
		for name, h := range m.Hosts {
			check.That(t, h.Finished && h.Facts != nil && h.Speed != nil && h.Speed.Copy > 0 && h.Speed.Flops > 0,
				"%s: %+v", name, h)
		}
		whole := 0
		for _, l := range m.Links {
			if l.Error == "" && l.Stalled == "" && l.RTT > 0 && l.Out > 0 && l.In > 0 && l.Over == "lo" &&
				l.Into == "lo" && l.Back == "lo" {
				whole++
			}
		}
		if len(m.Links) == 6 && whole == 6 {
			return
		}
		if t.Logf("attempt %d: %+v", n, m.Links); n == attempts {
			t.Fatalf("%d of 6 links are measured", whole)
		}
	}
}

// The clock of one host is 3 s ahead, and it answers 20 ms late.
func TestWrongClockAndSlowHostAreNamed(t *testing.T) {
	for n := 1; ; n++ {
		kinds := map[string]string{}
		for _, f := range doctor.Judge(examined(t, 4, 20*time.Millisecond, 3*time.Second)) {
			if f.Kind == "clock" || f.Kind == "latency" {
				kinds[f.Kind] += f.Host + " " + f.Text
			}
		}
		if strings.HasPrefix(kinds["clock"], "d its clock is 3 s ahead") && strings.HasPrefix(kinds["latency"], "d ") {
			return
		}
		if t.Logf("attempt %d: %v", n, kinds); n == attempts {
			t.Fatal("the clock or the host is not named")
		}
	}
}

// A host that other programs keep from its cores until the turns are over measures less, and is not
// bad for it.
func TestHostThatSleepsThroughItsTurnsIsNotBad(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must.OK(t, err)
	closed := "127.0.0.1:1"
	p := &party{
		now:       time.Now,
		listener:  listener,
		states:    map[int]*transfer{},
		cards:     []card{{Addr: listener.Addr().String()}, {Addr: closed}},
		timetable: doctor.Timetable{Turn: time.Millisecond, Turns: slices.Repeat([][][2]int{{{0, 1}}}, 20)},
	}
	self := secure.Identity{Job: "doctor", Size: 2}
	p.group = must.Get(secure.NewPlainAuthenticator(self, purposes, [][]byte{nil, []byte("secret")}))(t)
	turns := 0
	err = p.meet(t.Context(), func(Line) {
		turns++
		time.Sleep(p.timetable.Length() + 2*settling)
	})
	check.That(t, err == nil && turns != 0, "after %d turns: %v", turns, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.listener = must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	check.Error(p.meet(ctx, func(Line) {})).Any(t, "an examination that was called off is said to be whole")
}

// Threads that waited for a core are added up.
func TestWaitForACoreIsRead(t *testing.T) {
	root := fstest.MapFS{"task/7/schedstat": {Data: []byte("5 2000000 1\n")},
		"task/8/schedstat": {Data: []byte("5 1000000 1\n")}, "task/9/comm": {Data: []byte("x")}}
	check.Equal(t, waited(root), 3*time.Millisecond)
	if w := startWait(time.Now().Add(-time.Second)); w.share() < 0.5 { // it woke late
		t.Errorf("%+v", w)
	}
}

func TestFullDiskIsSeen(t *testing.T) {
	dir := t.TempDir()
	d := tryDisk(doctor.Disk{Name: "tmp", Path: dir})
	check.That(t, d.Error == "" && d.Size > 0 && d.Fsync > 0, "%+v", d)
	left, _ := os.ReadDir(dir)
	check.That(t, len(left) == 0, "left %v", left)
	d = tryDisk(doctor.Disk{Name: "tmp", Path: filepath.Join(dir, "absent")})
	check.That(t, d.Error == "no such file or directory", "%+v", d)
}

func TestSystemIsRead(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		"proc/cpuinfo": file("model name\t: Fast 9000\ncpu MHz\t\t: 3000.0\nmodel name\t: Fast 9000\ncpu MHz\t\t: " +
			"1000.0\n"),
		"proc/meminfo": file("MemTotal: 1000 kB\nMemAvailable: 10 kB\nSwapTotal: 30 kB\nSwapFree: 10 " +
			"kB\nHugePages_Total: 4\n"),
		"proc/loadavg": file("3.00 1 1 1/2 3\n"),
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor":              file("powersave\n"),
		"sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count":  file("2\n"),
		"sys/devices/system/cpu/cpu11/thermal_throttle/core_throttle_count": file("3\n"),
		"sys/kernel/mm/transparent_hugepage/enabled":                        file("always [madvise] never\n"),
		"proc/sys/kernel/yama/ptrace_scope":                                 file("1\n"),
		"sys/class/infiniband/mlx5_0":                                       file(""),
		"proc/sys/kernel/numa_balancing":                                    file("1\n"),
		"sys/devices/system/node/node0/meminfo": file("Node 0 MemTotal:  600 kB\nNode 0 " +
			"MemFree:  10 kB\nNode 0 FilePages: 5 kB\n"),
		"sys/devices/system/node/node1/meminfo": file("Node 1 MemTotal:  400 kB\nNode 1 " + "MemFree:  0 kB\n"),
	}
	f := doctor.Facts{Processor: doctor.Processor{Cores: 2}}
	system(root, &f)
	f.Kernel = ""
	want := doctor.Facts{
		Processor: doctor.Processor{
			Cores:     2,
			CPU:       "Fast 9000",
			MHz:       2000,
			Governor:  "powersave",
			Throttles: 5,
			Load:      1.5,
		},
		MainMemory: doctor.MainMemory{
			Memory:      1000 << 10,
			Available:   10 << 10,
			Swap:        30 << 10,
			SwapUsed:    20 << 10,
			Nodes:       2,
			NodeMemory:  []doctor.NodeMemory{{Size: 600 << 10, Free: 15 << 10}, {Size: 400 << 10}},
			Balancing:   "1",
			HugePages:   4,
			Transparent: "madvise",
		},
		Ptrace:     "1",
		Infiniband: true,
	}
	got := asJSON(t, f)
	expected := asJSON(t, want)
	check.Equal(t, got, expected)
	system(fstest.MapFS{}, &doctor.Facts{}) // a system without /proc
}

func asJSON(t *testing.T, v any) string {
	text := must.Get(json.Marshal(v))(t)
	return string(text)
}

// A host is connected to at an address, and to no service of the dialling host or of the system.
func TestAddressesOfHostsAreChecked(t *testing.T) {
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	for text, good := range map[string]bool{"127.0.0.1:40000": true, "10.0.0.1:40000": true, "127.0.0.1:22": false,
		"localhost:40000": false, "metadata.internal:40000": false, "0.0.0.0:40000": false, "": false} {
		p := &party{listener: listener, cards: []card{{Addr: text}}}
		_, err := p.address(0)
		check.That(t, (err == nil) == good, "%q: %v", text, err)
	}
}

// lineWriter decodes a probe's lines, and calls done at the last one.
type lineWriter struct {
	lines []Line
	done  func()
}

func (w *lineWriter) Write(p []byte) (int, error) {
	var line Line
	err := json.Unmarshal(p, &line)
	w.lines = append(w.lines, line)
	if line.Finished {
		w.done()
	}
	return len(p), err
}

// A host that gives the others no address, or does not come to meet them, ends no other host's
// probe, and none of these fails.
func TestProbesSurviveHostsThatDoNotMeet(t *testing.T) {
	for _, name := range []string{"cards", "missing"} {
		t.Run(name, func(t *testing.T) {
			job := ringtest.NewJob(t, 3)
			plan := doctor.NewPlan("quick")
			plan.Speed = time.Millisecond
			text := must.Get(json.Marshal(plan))(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var finished sync.WaitGroup
			finished.Add(2)
			go func() { finished.Wait(); cancel() }()
			in := Surroundings{
				Now:     time.Now,
				Machine: machine,
				Facts:   func(context.Context, doctor.Plan, []doctor.Machine) doctor.Facts { return doctor.Facts{} },
				Listen: func(context.Context, string) (net.Listener, error) {
					return net.Listen("tcp", "127.0.0.1:0")
				},
				Patience: patience,
			}
			if name == "missing" {
				in.Patience = 50 * time.Millisecond
			}
			var said [2]lineWriter
			ringtest.All(t, 3, func(rank int) error {
				own := in
				own.Lookup = ringtest.Lookup(job.Environ(rank))
				if rank < len(said) {
					said[rank].done = finished.Done
					return Run(ctx, []string{string(text)}, &said[rank], own)
				}
				self, _, err := rankenv.FromEnviron(own.Lookup)
				if err != nil || name == "missing" {
					return err
				}
				for _, what := range []string{"cards", "speeds", "turns"} {
					if _, err := fence(t.Context(), self, what, "no card"); err != nil {
						return err
					}
				}
				return nil
			})
			for rank, w := range said {
				alone := slices.ContainsFunc(w.lines, func(l Line) bool { return l.Alone })
				check.Equal(t, alone, name == "missing", rank, "is alone")
			}
			met := slices.ContainsFunc(said[0].lines, func(l Line) bool { return l.Link != nil && l.Link.To == 1 })
			check.Equal(t, met, name == "cards", "the other two have met")
		})
	}
}

// A host that dials again for what it has had ends no other host's probe.
func TestDataPassesOnce(t *testing.T) {
	p := &party{
		now:       time.Now,
		window:    time.Millisecond,
		timetable: doctor.Timetable{Turn: 50 * time.Millisecond},
		states:    map[int]*transfer{},
	}
	for _, why := range []int{deliver, fetch} {
		for range 2 {
			here, there := net.Pipe()
			p.answer(t.Context(), here, 1, why)
			here.Close()
			there.Close()
		}
	}
}

// Strangers who connect to a host may crowd out another host's connection. It is made again.
func TestCrowdedOutConnectionIsMadeAgain(t *testing.T) {
	l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	cards := []card{{}, {Addr: l.Addr().String()}}
	secrets := [][]byte{[]byte("secret"), []byte("secret")}
	var parties []*party
	for rank := range cards {
		self := secure.Identity{Job: "doctor", Rank: rank, Size: len(cards)}
		group := must.Get(secure.NewPlainAuthenticator(self, purposes, secrets))(t)
		parties = append(parties, &party{listener: l, cards: cards, group: group})
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.Close()
	serving.Go(func() {
		if crowded, err := l.Accept(); err == nil {
			_, _ = crowded.Read(make([]byte, 1)) // the rest of the first bytes is there
			crowded.Close()
		}
		parties[1].group.Serve(l, time.Minute, func(net.Conn, int, int) {})
	})
	conn := must.Get(parties[0].dial(t.Context(), 1, messages, time.Now().Add(time.Minute)))(t)
	conn.Close()
}

// Two hosts share a secret that no third one has, which may give keys that are none, that are
// another's or from which no secret follows.
func TestEachPairOfHostsHasItsSecret(t *testing.T) {
	var own []*ecdh.PrivateKey
	var cards []card
	for range 3 {
		key := must.Get(ecdh.X25519().GenerateKey(rand.Reader))(t)
		own = append(own, key)
		cards = append(cards, card{Key: key.PublicKey().Bytes()})
	}
	var of [][][]byte
	for _, key := range own {
		of = append(of, secrets(key, cards))
	}
	seen := map[string]bool{}
	for a := range own {
		for b := range a {
			check.That(t, len(of[a][b]) > 0 && bytes.Equal(of[a][b], of[b][a]), "%d and %d share nothing", a, b)
			check.That(t, !seen[string(of[a][b])], "%d and %d share what others know", a, b)
			seen[string(of[a][b])] = true
		}
	}
	all := secrets(own[0], []card{{}, {Key: []byte("short")}, {Key: make([]byte, 32)}, cards[1]})
	for rank, secret := range all[:3] {
		check.That(t, secret == nil, "there is a secret with %d", rank)
	}
	check.Slice(t, all[3], of[0][1])
}

// Of PATH only programs are run that nobody else can change, none of them in the current folder,
// from which Python takes modules. Relative paths of variables lead them to no folder below /.
// Only the beginning of what they print is read.
func TestVersionsAreNotAskedOfProgramsOfOthers(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	ask := func() map[string]string {
		found := map[string]string{}
		versions(t.Context(), fstest.MapFS{}, found)
		return found
	}
	script("python3", `echo '{"python": "9"}'`)
	script("mpirun", `[ -e "$OPAL_PREFIX" ] || echo Open MPI 9; head -c 100000000 /dev/zero`)
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	t.Setenv("OPAL_PREFIX", strings.TrimPrefix(dir, "/"))
	must.OK(t, os.Chmod(dir, 0o755))
	check.That(t, maps.Equal(ask(), map[string]string{"python": "9", "mpi": "Open MPI 9"}), "%v", ask())
	must.OK(t, os.Chmod(dir, 0o777))
	found := ask()
	check.That(t, found["python"] != "9" && found["mpi"] != "Open MPI 9", "programs of others say %v", found)
	t.Chdir(dir)
	must.OK(t, os.Chmod(dir, 0o755))
	t.Setenv("PATH", ":/usr/bin:/bin")
	found = ask()
	check.That(t, found["python"] != "9" && found["mpi"] != "Open MPI 9", "programs of the folder say %v", found)
	// Relative paths for Python lead to no folder below /.
	must.OK(t, os.WriteFile("sitecustomize.py", []byte("open('"+dir+"/theirs', 'w')\n"), 0o644))
	t.Setenv("PATH", "/usr/bin:/bin")
	t.Setenv("PYTHONPATH", strings.TrimPrefix(dir, "/"))
	ask()
	_, err := os.Stat("theirs")
	check.That(t, os.IsNotExist(err), "a module of theirs has run")
}
