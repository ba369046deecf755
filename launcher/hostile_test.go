package launcher

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/netip"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// An agent in other hands (S18): whatever it sends, gorun lives on, says whose fault it is, and
// the other hosts are stopped in order.

// evil is text that must not reach a terminal as it is.
const evil = fake.Evil

// slow is a terminal that takes a moment for everything, in which hosts go on printing.
type slow struct{ io.Writer }

func (s slow) Write(p []byte) (int, error) {
	time.Sleep(time.Millisecond)
	return s.Writer.Write(p)
}

// raw sends a frame's header and payload as they are.
func raw(a *fake.Agent, size uint32, kind, reserved byte, payload string) error {
	header := []byte{byte(size >> 24), byte(size >> 16), byte(size >> 8), byte(size), kind, reserved, 0, 0, 0, 0, 0, 0}
	_, err := a.Stdout.Write(append(header, payload...))
	return err
}

func TestHostileAgentIsBlamed(t *testing.T) {
	const noResults = "a result in a job without them"
	message := func(kind wire.Type, m any) func(a *fake.Agent) error {
		return func(a *fake.Agent) error { return a.Out.SendMessage(kind, m) }
	}
	for name, tc := range map[string]struct {
		say  func(a *fake.Agent) error
		want string
	}{
		"ends a rank twice": {func(a *fake.Agent) error {
			return errors.Join(a.Exit(wire.Exit{Rank: 2}), a.Exit(wire.Exit{Rank: 2}))
		}, "says twice that rank 2 has ended"},
		"ends another's rank":      {message(wire.TypeExit, wire.Exit{Rank: 0}), "spoke for rank 0"},
		"ends a rank that is none": {message(wire.TypeExit, wire.Exit{Rank: 1 << 40}), "spoke for rank 1099511627776"},
		"ends rank -1":             {message(wire.TypeExit, wire.Exit{Rank: -1}), "spoke for rank -1"},
		"ends with no possible code": {message(wire.TypeExit, wire.Exit{Rank: 2, Code: 1 << 20}),
			"ended with code 1048576"},
		"ends with a negative code": {message(wire.TypeExit, wire.Exit{Rank: 2, Code: -1}), "ended with code -1"},
		"ends by no signal":         {message(wire.TypeExit, wire.Exit{Rank: 2, Signal: 4000}), "signal 4000"},
		"is done too early": {func(a *fake.Agent) error {
			return a.Out.Send(wire.TypeDone, 0, nil)
		}, "has not said how rank 2 ended"},
		"loses what is not there": {message(wire.TypeLost, wire.Lost{By: 2, Rank: 1 << 30}), "which does not exist"},
		"loses in another's name": {message(wire.TypeLost, wire.Lost{By: 1, Rank: 2}), "spoke for rank 1"},
		"notes in another's name": {message(wire.TypeNote, wire.Note{By: 1, Text: "x"}), "spoke for rank 1"},
		"brings another's value": {message(wire.TypeFence, wire.Fence{Name: "f", Values: map[int][]byte{0: nil}}),
			"spoke for rank 0"},
		"brings a value twice": {func(a *fake.Agent) error {
			f := wire.Fence{Name: "f", Values: map[int][]byte{2: nil}}
			return errors.Join(a.Out.SendMessage(wire.TypeFence, f), a.Out.SendMessage(wire.TypeFence, f))
		}, `fence "f": rank 2 came twice`},
		"brings too large a value": {message(wire.TypeFence,
			wire.Fence{Name: "f", Values: map[int][]byte{2: make([]byte, kv.MaxFence+1)}}), "brings 65537 bytes"},
		"a fence with a long name": {message(wire.TypeFence, wire.Fence{Name: strings.Repeat("f", kv.MaxKey+1)}),
			"a fence's name of 1025 bytes"},
		"a fence without values": {message(wire.TypeFence, wire.Fence{Name: "f"}), `fence "f" without a value`},
		"opens all fences": {func(a *fake.Agent) error {
			var err error
			for i := 0; i < 1024 && err == nil; i++ {
				f := wire.Fence{Name: fmt.Sprint(i), Values: map[int][]byte{2 + i%2: nil}}
				err = a.Out.SendMessage(wire.TypeFence, f)
			}
			return err
		}, "h1 has opened 512 fences already"},
		"fills all fences": {func(a *fake.Agent) error {
			var err error
			for i := 0; i < 512 && err == nil; i++ {
				values := map[int][]byte{2: make([]byte, kv.MaxFence), 3: make([]byte, kv.MaxFence)}
				err = a.Out.SendMessage(wire.TypeFence, wire.Fence{Name: fmt.Sprint(i), Values: values})
			}
			return err
		}, "h1 has opened 256 fences already, and brought 33554432 bytes to open ones"},
		"puts what another's rank says": {message(wire.TypePut, wire.Put{Key: kv.RankKey(0, 1, "ring/stall")}),
			"a key of a rank of another host"},
		"puts what a rank that is none says": {message(wire.TypePut, wire.Put{Key: kv.RankKey(0, 4, "ring/stall")}),
			"a key of a rank of another host"},
		"brings another's value to a world": {message(wire.TypePut,
			wire.Put{Key: kv.WorldKey(0, 1, "pmi/1", 0) + "/0"}), "a key of another host"},
		"meets in another's name": {message(wire.TypePut, wire.Put{Key: kv.MeetingKey(0, "x/1") + "/0"}),
			"a key of another host"},
		"puts a long key": {message(wire.TypePut, wire.Put{Key: strings.Repeat("k", kv.MaxKey+1)}),
			"of 1025 bytes and value of 0"},
		"puts a large value": {message(wire.TypePut, wire.Put{Key: "k", Value: make([]byte, kv.MaxValue+1)}),
			"value of 1048577"},
		"puts line breaks in base64": {func(a *fake.Agent) error {
			text := `{"Key":"k","Value":"` + strings.Repeat(`\n`, 1<<20) + `"}`
			return raw(a, uint32(len(text)), byte(wire.TypePut), 0, text)
		}, "put message: base64 with line breaks"},
		"brings line breaks in base64": {func(a *fake.Agent) error {
			text := `{"Name":"f","Values":{"2":"` + strings.Repeat(`\n`, 1<<20) + `"}}`
			return raw(a, uint32(len(text)), byte(wire.TypeFence), 0, text)
		}, "fence message: base64 with line breaks"},
		"gets a long key": {message(wire.TypeGet, wire.Get{Key: strings.Repeat("k", 1<<20), Wait: time.Hour}),
			"a key of 1048576 bytes"},
		"gets without end": {func(a *fake.Agent) error {
			for i := range 1<<13 + 1 {
				if err := a.Out.SendMessage(wire.TypeGet,
					wire.Get{ID: uint64(i), Key: fmt.Sprint(i), Wait: math.MaxInt64}); err != nil {
					return err
				}
			}
			return nil
		}, "too many requests wait"},
		"prints beyond its credit": {func(a *fake.Agent) error {
			for range 1000 { // nothing of it comes back: the lines are short of a step
				if err := a.Out.Send(wire.TypeOutput, wire.OutputStream(2, 1), make([]byte, wire.MaxData)); err != nil {
					return err
				}
			}
			return nil
		}, "output beyond its credit"},
		"prints for another": {func(a *fake.Agent) error { return a.Print(0, 2, "x") }, "spoke for rank 0"},
		"pauses for another": {func(a *fake.Agent) error { return a.Print(1, 2, "") }, "spoke for rank 1"},
		"brings another's result": {func(a *fake.Agent) error { return a.Print(1, wire.Result, "x") },
			"spoke for rank 1"},
		"a result that pauses": {func(a *fake.Agent) error { return a.Print(2, wire.Result, "") },
			"0 bytes in output stream 3 of rank 2"},
		"prints on no stream": {func(a *fake.Agent) error { return a.Print(2, 0, "x") },
			"1 bytes in output stream 0 of rank 2"},
		noResults: {func(a *fake.Agent) error { return a.Print(2, wire.Result, "x") },
			"1 bytes in output stream 3 of rank 2"},
		"a frame of 4 GiB": {func(a *fake.Agent) error {
			return raw(a, math.MaxUint32, byte(wire.TypeExit), 0, "x")
		}, "frame of 4294967295 bytes"},
		"a message of many values": {func(a *fake.Agent) error {
			text := `{"By":2,"Programs":[` + strings.Repeat("{},", 1<<20) + "{}]}"
			return raw(a, uint32(len(text)), byte(wire.TypeSpawn), 0, text)
		}, "spawn message: more than 262144 values"},
		"output of 64 KiB + 1": {func(a *fake.Agent) error {
			return raw(a, wire.MaxData+1, byte(wire.TypeOutput), 0, "x")
		}, "output frame of 65537 bytes"},
		"an unknown type": {func(a *fake.Agent) error { return raw(a, 0, 200, 0, "") }, "unknown type 200"},
		"reserved bits": {func(a *fake.Agent) error {
			return raw(a, 0, byte(wire.TypeHeartbeat), 1, "")
		}, "reserved bits"},
		"no JSON": {func(a *fake.Agent) error {
			return raw(a, 5, byte(wire.TypeExit), 0, evil[:5])
		}, "exit message: "},
		"deep JSON": {func(a *fake.Agent) error {
			return a.Out.Send(wire.TypeExit, 0, []byte(strings.Repeat("[", 1<<20)))
		}, "exit message: "},
		"ends in a way of its own": {message(wire.TypeExit,
			wire.Exit{Rank: 2, MPI: wire.MPIEnd(strings.Repeat("x", 1<<20))}), "rank 2 ended as"},
		"a number without an end": {func(a *fake.Agent) error {
			return a.Out.Send(wire.TypeExit, 0, []byte(`{"Rank":`+strings.Repeat("9", 1<<22)+`}`))
		}, "exit message: "},
		"ends for want of a memory of its own": {message(wire.TypeExit,
			wire.Exit{Rank: 2, OutOfMemory: wire.OutOfMemory(strings.Repeat("x", 1<<20))}), "used up the memory of"},
		"spawns for another": {message(wire.TypeSpawn,
			wire.SpawnRequest{By: 0, Programs: []wire.SpawnProgram{{Argv: wire.Texts{"a"}, Ranks: 1}}}),
			"spoke for rank 0"},
		"orders ranks":           {message(wire.TypeWorld, wire.World{}), "sent a world frame"},
		"hello again":            {message(wire.TypeHello, wire.Hello{}), "sent a hello frame"},
		"orders":                 {message(wire.TypeStop, wire.Stop{}), "sent a stop frame"},
		"orders others to abort": {message(wire.TypeAbort, wire.Abort{}), "sent a abort frame"},
		"credit for what is not": {func(a *fake.Agent) error {
			return a.Out.SendCredit(0, 100)
		}, "credit for a stream"},
		"credit of a wrong length": {func(a *fake.Agent) error {
			return a.Out.Send(wire.TypeCredit, 0, []byte("12345"))
		}, "credit frame without 4 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			hostile := func(a *fake.Agent) error {
				_ = tc.say(a)
				return a.UntilEOF()
			}
			obeyed := false
			good := func(a *fake.Agent) error {
				if err := a.Print(0, 1, "good work\n"); err != nil {
					return err
				}
				err := obey(a)
				obeyed = err == nil
				return err
			}
			dir := t.TempDir()
			r, err := runOn(t, []*fake.Machine{serving(good), serving(hostile)}, func(o *Options) {
				o.Stdout = slow{o.Stdout}
				if name != noResults {
					o.ResultDir = dir
					o.ResultLimit = 100
				}
			})
			check.That(t, err == nil && r.Code() == CodeLaunch && r.Cause != nil && r.Cause.Host == "h1" &&
				strings.Contains(r.Cause.String(), tc.want), "%v: %.300v, code %d", err, r.Cause, r.Code())
			check.That(t, obeyed && strings.Contains(r.out, "0/1> good work\n") && len(r.Exits) >= 2,
				"the other host: obeyed %v, %.200q, %v", obeyed, r.out, r.Exits)
			if safe := r.Cause.String(); prose.Printable(safe) != safe || len(safe) > 5<<10 {
				t.Errorf("not fit for a terminal: %d bytes, %.1000q", len(safe), safe)
			}
			check.That(t, r.took <= 4*time.Second, "took %v", r.took)
		})
	}
}

// Before the job starts nothing of it must start on a good host either.
func TestHostileAgentBeforeTheStart(t *testing.T) {
	long := strings.Repeat("x", 1<<15)
	gone := func(*fake.Agent) error { return fake.ExitStatus(3) }
	prefixes := make([]wire.Address, wire.MaxAddresses+1)
	for i := range prefixes {
		prefixes[i] = wire.Address{Interface: evil, Prefix: netip.MustParsePrefix("10.0.0.1/8"), Up: true}
	}
	for name, tc := range map[string]struct {
		m    *fake.Machine
		want string
	}{
		"too many addresses": {&fake.Machine{Addresses: prefixes}, "tells of 257 addresses"},
		// the launcher would keep it with each address, and pass an interface's on to all hosts
		"a long boot ID": {&fake.Machine{Boot: long, Serve: gone}, "in 32768 bytes"},
		"a long address": {&fake.Machine{Reached: long, Serve: gone}, "in 32768 bytes"},
		"a long interface": {&fake.Machine{Addresses: []wire.Address{{Interface: long}}, Serve: gone},
			"in 32768 bytes"},
		"garbage after hello": {&fake.Machine{Serve: func(a *fake.Agent) error {
			_ = raw(a, 0x47455420, '/', ' ', "HTTP/1.1")
			return a.UntilEOF()
		}}, "reserved bits set"},
		"output before its start": {&fake.Machine{Serve: func(a *fake.Agent) error {
			_ = a.Print(2, 1, "early")
			return a.UntilEOF()
		}}, "output came where ready was due"},
		"refuses in colours": {&fake.Machine{Serve: func(a *fake.Agent) error {
			_ = a.Out.SendMessage(wire.TypeRefuse, wire.Refuse{Code: -7, What: "no" + evil, Remedy: evil})
			return a.UntilEOF()
		}}, "no?]0;owned"},
		"noise in colours": {&fake.Machine{Noise: evil, Serve: func(a *fake.Agent) error {
			return fake.ExitStatus(3)
		}}, "the agent was killed or failed (exit code 3)"},
	} {
		t.Run(name, func(t *testing.T) {
			started := false
			good := &fake.Machine{Serve: func(a *fake.Agent) error {
				err := a.Ready()
				started = err == nil
				return err
			}}
			var mu sync.Mutex
			var said []string
			_, err := runOn(t, []*fake.Machine{good, tc.m}, func(o *Options) {
				o.Trace = func(format string, args ...any) {
					mu.Lock()
					defer mu.Unlock()
					said = append(said, fmt.Sprintf(format, args...))
				}
			})
			var failed *LaunchError
			must.That(t, errors.As(err, &failed) && len(failed.Hosts) == 1 && failed.Hosts[0].Host == "h1" &&
				strings.Contains(err.Error(), tc.want) && !started, "%v; the good host started: %v", err, started)
			code := failed.Code()
			check.That(t, code >= 1 && code <= 127, "exit code %d", code)
			for _, text := range append(said, err.Error()) {
				check.That(t, prose.Printable(text) == text, "not fit for a terminal: %q", text)
			}
		})
	}
}

// A host's clock can make its own ranks the first to fail, and never before they ran or after now.
func TestHostileClock(t *testing.T) {
	for name, at := range map[string][2]time.Duration{ // of a heartbeat, and of an exit
		"far behind":         {math.MaxInt64, math.MinInt64},
		"far ahead":          {math.MinInt64, math.MaxInt64},
		"before all time":    {0, math.MinInt64},
		"after all time":     {0, math.MaxInt64},
		"a little behind":    {time.Hour, 0},
		"overflow of a sum":  {math.MinInt64 + 1, math.MinInt64},
		"overflow to the up": {math.MaxInt64 - 1, math.MaxInt64},
	} {
		t.Run(name, func(t *testing.T) {
			first := func(a *fake.Agent) error {
				time.Sleep(2 * time.Second)
				if err := errors.Join(a.Out.SendHeartbeat(2*time.Second),
					a.Exit(wire.Exit{Rank: 0, Code: 3, At: 2 * time.Second})); err != nil {
					return err
				}
				if _, err := a.Expect(wire.TypeStop); err != nil {
					return err
				}
				return errors.Join(a.Exit(wire.Exit{Rank: 1, Signal: 15, Stopped: true}),
					a.Out.Send(wire.TypeDone, 0, nil), a.UntilEOF())
			}
			liar := func(a *fake.Agent) error {
				_ = a.Out.SendHeartbeat(at[0])
				time.Sleep(3 * time.Second)
				_ = errors.Join(a.Exit(wire.Exit{Rank: 2, Code: 9, At: at[1]}),
					a.Exit(wire.Exit{Rank: 3, Signal: 15, Stopped: true}), a.Out.Send(wire.TypeDone, 0, nil))
				return a.UntilEOF()
			}
			r, err := runOn(t, []*fake.Machine{serving(first), serving(liar)}, nil)
			must.That(t, err == nil && r.Cause != nil, "%+v, %v", r, err)
			for _, e := range r.Exits {
				check.That(t, e.At >= r.Started && e.At <= r.Ended,
					"rank %d ended at %v, of a job from %v to %v", e.Rank, e.At, r.Started, r.Ended)
			}
			check.That(t, r.Cause.Rank == 0 || r.Cause.Rank == 2, "the cause is rank %d, of neither", r.Cause.Rank)
		})
	}
}

// A host that talks without end and says nothing wrong holds nobody up.
func TestHostileFloods(t *testing.T) {
	const frames = 30_000
	for name, send := range map[string]func(a *fake.Agent, i int) error{
		"heartbeats": func(a *fake.Agent, i int) error { return a.Out.SendHeartbeat(time.Duration(i) * math.MaxInt32) },
		"lost": func(a *fake.Agent, i int) error {
			return a.Out.SendMessage(wire.TypeLost, wire.Lost{By: 2, Rank: i % 4, Cause: evil})
		},
		"notes": func(a *fake.Agent, _ int) error {
			return a.Out.SendMessage(wire.TypeNote, wire.Note{By: 2, Text: evil})
		},
	} {
		t.Run(name, func(t *testing.T) {
			flood := func(a *fake.Agent) error {
				go a.UntilEOF()
				for i := range frames {
					if err := send(a, i); err != nil {
						return err
					}
				}
				err := errors.Join(a.Exit(wire.Exit{Rank: 2}), a.Exit(wire.Exit{Rank: 3}),
					a.Out.Send(wire.TypeDone, 0, nil))
				<-a.Ctx.Done()
				return err
			}
			var told string
			work := func(a *fake.Agent) error {
				for i := range 100 {
					if err := a.Print(0, 1, fmt.Sprintf("line %d\n", i)); err != nil {
						return err
					}
				}
				if name == "lost" {
					f, err := a.Expect(wire.TypeAbort)
					if err != nil {
						return err
					}
					told = string(f.Payload)
				}
				return succeed(a)
			}
			before := heapSize()
			notes := 0
			listen := func(o *Options) {
				o.Note = func(text string) {
					notes++
					check.That(t, !strings.Contains(text, "\x1b"), "the user was told %q", text)
				}
			}
			r, err := runOn(t, []*fake.Machine{serving(work), serving(flood)}, listen)
			check.That(t, err == nil && r.Code() == 0 && strings.Count(r.out, "0/1> line ") == 100,
				"%v, %v, %d lines", err, r.Cause, strings.Count(r.out, "0/1> line "))
			check.That(t, name != "lost" || strings.Contains(told, "owned") && !strings.Contains(told, `\u001b`),
				"ranks were told %q", told)
			check.That(t, name != "notes" || notes == 100, "the user was told %d lines", notes)
			more := heapSize() - before
			check.That(t, more <= 64<<20, "%d MiB more are kept", more>>20)
		})
	}
}

// A host that fills the job's store is lost, and not the next one that puts a value there.
func TestHostileHostLeavesRoomInTheStore(t *testing.T) {
	value := make([]byte, kv.MaxValue)
	hostile := func(a *fake.Agent) error {
		var err error
		for i := 0; i < 255 && err == nil; i++ {
			err = a.Out.SendMessage(wire.TypePut, wire.Put{Key: fmt.Sprint(i), Value: value})
		}
		return errors.Join(err, a.Exit(wire.Exit{Rank: 2}), a.Exit(wire.Exit{Rank: 3}),
			a.Out.Send(wire.TypeDone, 0, nil), a.UntilEOF())
	}
	good := func(a *fake.Agent) error {
		time.Sleep(time.Second)
		err := a.Out.SendMessage(wire.TypePut, wire.Put{Key: "good", Value: value})
		return errors.Join(err, obey(a))
	}
	r, err := runOn(t, []*fake.Machine{serving(good), serving(hostile)}, nil)
	check.That(t, err == nil && r.Cause != nil && r.Cause.Host == "h1" &&
		strings.Contains(r.Cause.String(), "the job's store is full for this host"), "%v, %.300v", err, r.Cause)
}

// A host that asks another without end uses up what it may hold in the job's store itself, and not
// what the host that answers may.
func TestQuestionsUseUpNoOthersShare(t *testing.T) {
	const all = 140 // answers of 1 MiB: more than a host may hold
	hostile := func(a *fake.Agent) error {
		var err error
		for n := 1; n <= all && err == nil; n++ {
			err = a.Out.SendMessage(wire.TypePut, wire.Put{Key: kv.QuestionKey(0, 1, n), Value: []byte("0 0 ")})
		}
		return errors.Join(err, succeed(a))
	}
	good := func(a *fake.Agent) error {
		err := a.Out.SendMessage(wire.TypeGet, wire.Get{ID: 1, Key: kv.QuestionKey(0, 1, all), Wait: time.Minute})
		if err == nil {
			_, err = a.Expect(wire.TypeValue)
		}
		value := make([]byte, kv.MaxValue)
		for n := 1; n <= all && err == nil; n++ {
			err = a.Out.SendMessage(wire.TypePut, wire.Put{Key: kv.AnswerKey(0, 1, n), Value: value})
		}
		return errors.Join(err, succeed(a))
	}
	r, err := runOn(t, []*fake.Machine{serving(good), serving(hostile)}, nil)
	check.That(t, err == nil && r.Cause == nil, "%v, %.300v", err, r.Cause)
}

// A host brings no values of ranks that it may spawn, by which it would end fences without the
// values of other hosts.
func TestFencesAreOfPlannedRanks(t *testing.T) {
	hostile := func(a *fake.Agent) error {
		values := map[int][]byte{2: nil, 3: nil, 5: nil, 7: nil}
		err := a.Out.SendMessage(wire.TypeFence, wire.Fence{Name: "f", Values: values})
		return errors.Join(err, a.UntilEOF())
	}
	r, err := runSpawning(t, []*fake.Machine{serving(obey), serving(hostile)}, 8, nil)
	check.That(t, err == nil && r.Cause != nil && r.Cause.Host == "h1" &&
		regexp.MustCompile("the agent spoke for rank [57]").MatchString(r.Cause.String()), "%v, %.300v", err, r.Cause)
}

// What a host wants the user to know is shown as its words, in one line, and not as gorun's.
func TestNotesNameTheirHosts(t *testing.T) {
	said := func(a *fake.Agent) error {
		return errors.Join(a.Out.SendMessage(wire.TypeNote, wire.Note{By: 2, Text: "error: two\ngorun: error: three"}),
			succeed(a))
	}
	var notes []string
	machine := &fake.Machine{Serve: func(a *fake.Agent) error {
		a.Note = "error: one\ngorun: error: two"
		if err := a.Ready(); err != nil {
			return nil
		}
		return said(a)
	}}
	r, err := runOn(t, []*fake.Machine{serving(succeed), machine}, func(o *Options) {
		o.Note = func(text string) { notes = append(notes, text) }
	})
	must.That(t, err == nil && r.Code() == 0, "%v, %v", err, r.Cause)
	for _, note := range notes {
		host, _, _ := strings.Cut(strings.TrimPrefix(note, "rank 2 on "), ":")
		check.That(t, !strings.Contains(note, "\n") && host == "h1", "the user was told %q", note)
	}
	check.That(t, len(notes) == 2, "the user was told %q", notes)
}

// While a terminal takes nothing, a host can make gorun keep no more than its ranks' credit,
// however small its frames are.
func TestBlockedOutputBoundsTinyFrames(t *testing.T) {
	for name, text := range map[string]string{"no bytes": "", "one byte": "x"} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			flood := func(a *fake.Agent) error {
				go a.UntilEOF()
				if err := a.Print(0, 1, "the terminal does not take this\n"); err != nil {
					return err
				}
				time.Sleep(time.Second)
				for sent < 4*wire.Window {
					for _, rank := range a.Job.Ranks {
						if err := errors.Join(a.Print(rank.Rank, 1, text), a.Print(rank.Rank, 2, text)); err != nil {
							return err
						}
						sent += 2
					}
				}
				return errors.New("all was taken")
			}
			before := heapSize()
			var during int64
			r, err := runOn(t, []*fake.Machine{serving(flood)}, func(o *Options) {
				stuck := &fake.StuckTerminal{Release: make(chan struct{})}
				stops := make(chan Stop, 1)
				o.Stdout = stuck
				o.Stderr = stuck
				o.Stops = stops
				o.Follow = func(e Event) {
					if _, lost := e.(HostLost); lost {
						during = heapSize()
						stops <- Stop{Reason: Terminated} // nobody will take the output
					}
				}
			})
			check.That(t, err == nil && r.Cause != nil && strings.Contains(r.Cause.String(),
				"output beyond its credit"), "%v, %v after %d frames", err, r.Cause, sent)
			more := during - before
			check.That(t, more <= 4*wire.Window, "%d frames made gorun keep %d KiB", sent, more>>10)
		})
	}
}

// While a terminal takes nothing the job's loop may wait for it. A host then makes gorun keep one
// message, not hundreds.
func TestBlockedLoopKeepsFewMessages(t *testing.T) {
	const frames = 32
	var sent atomic.Int32
	flood := func(a *fake.Agent) error {
		go a.UntilEOF()
		err := a.Exit(wire.Exit{Rank: 0}) // of which the user is told
		long := make([]byte, 1<<20)
		for range frames {
			if err == nil {
				err = a.Out.SendMessage(wire.TypeSpawn, wire.SpawnRequest{By: 1, Given: map[string][]byte{"k": long}})
				sent.Add(1)
			}
		}
		return errors.Join(err, a.Exit(wire.Exit{Rank: 1}), a.Out.Send(wire.TypeDone, 0, nil))
	}
	r, err := runOn(t, []*fake.Machine{serving(flood)}, func(o *Options) {
		o.Follow = func(e Event) {
			if e, ended := e.(Exited); ended && e.Exit.Rank == 0 {
				time.Sleep(time.Minute)
				check.That(t, sent.Load() < 4, "%d of %d messages wait", sent.Load(), frames)
			}
		}
	})
	succeeds(t, r.Result, err)
	check.That(t, sent.Load() == frames, "%d messages were sent", sent.Load())
}

// A host may spawn tens of thousands of ranks during a job. Those that it has not spawned print
// nothing: each of them had a credit of its own, 32 GiB together.
func TestRanksThatWereNotSpawnedPrintNothing(t *testing.T) {
	for name, say := range map[string]func(a *fake.Agent) error{
		"prints": func(a *fake.Agent) error { return a.Print(2, 1, "forged") },
		"ends":   func(a *fake.Agent) error { return a.Exit(wire.Exit{Rank: 2}) },
	} {
		r, err := runSpawning(t, []*fake.Machine{serving(func(a *fake.Agent) error {
			check.That(t, a.Job.Spawn.Has(2), "rank 2 can never be spawned")
			return errors.Join(say(a), a.Finish(wire.Exit{}))
		})}, 128, nil)
		check.That(t, err == nil && r.Cause != nil && strings.Contains(r.Cause.String(), "spoke for rank 2"),
			"%s: %v, %v", name, err, r.Cause)
		check.That(t, !strings.Contains(r.out, "forged"), "%s: %q", name, r.out)
	}
}

// A host that ends without the rank that it was to start has failed the job, if another one runs on
// and if it is the last one.
func TestRankThatWasNotSpawnedIsTheCause(t *testing.T) {
	ends := serving(func(a *fake.Agent) error {
		if _, err := spawnOne(a); err != nil {
			return err
		}
		return succeed(a)
	})
	for _, machines := range [][]*fake.Machine{{ends, serving(obey)}, {ends}} {
		r, err := runSpawning(t, machines, 1, nil)
		must.OK(t, err)
		var cause *NotSpawnedError
		must.That(t, r.Cause != nil && errors.As(r.Cause.Lost, &cause), "%d hosts: %v", len(machines), r.Cause)
		check.Equal(t, *cause, NotSpawnedError{Rank: 2 * len(machines), Host: "h0"})
		check.Equal(t, r.Code(), CodeLaunch)
	}
}

// Of ranks that were spawned and have ended little is kept: a host may spawn tens of thousands.
func TestEndsOfSpawnedRanksAreShort(t *testing.T) {
	const ranks = 500
	var kept int64
	long := strings.Repeat("x", 64<<10)
	r, err := runSpawning(t, []*fake.Machine{serving(func(a *fake.Agent) error {
		before := heapSize()
		for range ranks {
			rank, err := spawnOne(a)
			if err != nil {
				return err
			}
			e := wire.Exit{
				Rank:    rank,
				Failed:  long,
				Remedy:  long,
				Program: long,
			}
			if err := errors.Join(a.Print(e.Rank, 2, long[:1<<10]), a.Exit(e)); err != nil {
				return err
			}
		}
		time.Sleep(time.Second)
		kept = heapSize() - before
		return succeed(a)
	})}, 128, func(o *Options) { o.Stdout = io.Discard; o.Stderr = io.Discard })
	succeeds(t, r.Result, err)
	check.That(t, kept/ranks < 6<<10, "%d KiB are kept of each rank", kept/ranks>>10)
}

// A rank that was spawned, and fails, runs none of the job's programs, which may be several.
func TestSpawnedRankThatFails(t *testing.T) {
	r, err := runSpawning(t, []*fake.Machine{serving(func(a *fake.Agent) error {
		rank, err := spawnOne(a)
		if err != nil {
			return err
		}
		if err := a.Exit(wire.Exit{Rank: rank, Code: 3}); err != nil {
			return err
		}
		return obey(a)
	})}, 1, func(o *Options) {
		one := o.Programs[0]
		one.Ranks = 1
		o.Programs = []Program{one, one}
	})
	check.That(t, err == nil && r.Cause != nil && r.Cause.Rank == 2 && r.Cause.Program == "" && r.Code() == 3,
		"%+v, %v", r.Cause, err)
}

// heap is how much memory is in use.
func heapSize() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// An agent that asks and does not read what it gets costs no more than one that asks little.
func TestHostWhoReadsNothingCostsLittle(t *testing.T) {
	before := heapSize()
	var during int64
	deaf := func(a *fake.Agent) error {
		if err := a.Out.SendMessage(wire.TypePut, wire.Put{Key: "k", Value: make([]byte, kv.MaxValue)}); err != nil {
			return err
		}
		for i := range 2000 { // 2 GiB
			if err := a.Out.SendMessage(wire.TypeGet, wire.Get{ID: uint64(i), Key: "k"}); err != nil {
				return err
			}
		}
		time.Sleep(5 * time.Second)
		during = heapSize()
		return succeed(a)
	}
	r, err := runOn(t, []*fake.Machine{serving(succeed), serving(deaf)}, nil)
	succeeds(t, r.Result, err)
	more := during - before
	check.That(t, more <= 100<<20, "%d MiB for answers that nobody reads", more>>20)
}
