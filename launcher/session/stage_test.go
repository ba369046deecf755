package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

func TestStagerTriesAllPathsByOneCommand(t *testing.T) {
	exe := executable()
	both := exe.Path + " or " + fake.CachedPath
	for _, tc := range []struct {
		name  string
		files map[string]string
		ran   []string
		puts  int
	}{
		{"the launcher's own path", map[string]string{exe.Path: "build one", fake.CachedPath: "build one"},
			[]string{both}, 0},
		{"the cache", map[string]string{fake.CachedPath: "build one"}, []string{both}, 0},
		{"another build at the launcher's path", map[string]string{exe.Path: "build two", fake.CachedPath: "build one"},
			[]string{both, fake.CachedPath}, 0},
		{"nowhere", nil, []string{both, "/bin/sh", fake.CachedPath}, 1},
		{"a broken file in the cache", map[string]string{fake.CachedPath: "build two"},
			[]string{both, fake.CachedPath, "/bin/sh", fake.CachedPath}, 1},
		{"other programs", map[string]string{exe.Path: "usage: gorun", fake.CachedPath: "?"},
			[]string{both, fake.CachedPath, "/bin/sh", fake.CachedPath}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &fake.Machine{Disk: fake.NewDisk(tc.files), Noise: "motd\n"}
				s := must.Get(stagerOf(exe).Agent(t.Context(), m, Identity{}))(t)
				s.Close()
				check.That(t, fmt.Sprint(m.Ran) == fmt.Sprint(tc.ran) && m.Disk.Puts == tc.puts,
					"ran %q with %d uploads, want %q with %d", m.Ran, m.Disk.Puts, tc.ran, tc.puts)
			})
		})
	}
}

// stageAll stages all machines at once.
func stageAll(t *testing.T, exe Executable, machines []*fake.Machine) []error {
	t.Helper()
	stager := stagerOf(exe)
	errs := make([]error, len(machines))
	var wg sync.WaitGroup
	for i, m := range machines {
		wg.Go(func() {
			s, err := stager.Agent(t.Context(), m, Identity{})
			if errs[i] = err; err == nil {
				s.Close()
			}
		})
	}
	wg.Wait()
	return errs
}

func TestStagerUploadsOncePerFileSystem(t *testing.T) {
	exe := executable()
	for _, disks := range []int{1, 2, 8} {
		t.Run(fmt.Sprintf("%d disks for 8 hosts", disks), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all []*fake.Disk
				for range disks {
					all = append(all, fake.NewDisk(nil))
				}
				var machines []*fake.Machine
				for i := range 8 {
					machines = append(machines, &fake.Machine{Disk: all[i%disks]})
				}
				began := time.Now()
				for i, err := range stageAll(t, exe, machines) {
					check.OK(t, err, "host", i)
				}
				packed := must.Get(packText())(t)
				for i, d := range all {
					check.That(t, d.Puts == 1 && d.Sent == len(packed),
						"disk %d got %d uploads, %d bytes; the executable has %d, compressed",
						i, d.Puts, d.Sent, len(packed))
				}
				took := time.Since(began)
				check.That(t, took == time.Second, "took %v, and one upload takes a second", took)
			})
		})
	}
}

func TestStagerUploadsWithoutGzip(t *testing.T) {
	exe := executable()
	synctest.Test(t, func(t *testing.T) {
		m := &fake.Machine{Disk: fake.NewDisk(nil)}
		m.Disk.NoGzip = true
		if errs := stageAll(t, exe, []*fake.Machine{m}); errs[0] != nil || m.Disk.Puts != 1 || m.Disk.Sent != 0 {
			t.Errorf("%d uploads, %d bytes by the shell: %v", m.Disk.Puts, m.Disk.Sent, errs[0])
		}
	})
}

func TestStagerDoesNotDependOnTheFirstHost(t *testing.T) {
	exe := executable()
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		machines := []*fake.Machine{{Disk: fake.NewDisk(nil), PutErr: full}, {Disk: fake.NewDisk(nil)},
			{Disk: fake.NewDisk(nil)}}
		failures := 0
		for _, err := range stageAll(t, exe, machines) {
			if err == nil {
				continue
			}
			failures++
			check.That(t, errors.Is(err, full) && strings.HasPrefix(err.Error(), "upload gorun to ~/"+fake.CachedPath),
				"%v", err)
		}
		check.That(t, failures == 1, "%d hosts failed, want the one without space", failures)
	})
}

func TestStagerReportsAnUploadThatDoesNotRun(t *testing.T) {
	exe := executable()
	exe.Build = "three" // as if the file were another machine's
	synctest.Test(t, func(t *testing.T) {
		_, err := stagerOf(exe).Agent(t.Context(), &fake.Machine{Disk: fake.NewDisk(nil)}, Identity{})
		check.That(t, err != nil && strings.HasPrefix(err.Error(), "after the upload: start "+exe.Paths().Cached) &&
			errors.Is(err, ErrOtherBuild), "%v", err)
	})
}

func TestStagerStopsWaitingWithItsContext(t *testing.T) {
	exe := executable()
	synctest.Test(t, func(t *testing.T) {
		stager := stagerOf(exe)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("not wanted any more")
		time.AfterFunc(time.Second, func() { cancel(why) })
		m := &fake.Machine{Disk: fake.NewDisk(nil)}
		m.Disk.Taken = stager.uploads.mark // somebody leads and never comes back
		check.Error(stager.Agent(ctx, m, Identity{})).Is(t, why)
		check.That(t, m.Disk.Puts == 0, "uploaded all the same")
	})
}

func TestStagerGoesOnWithoutItsLeader(t *testing.T) {
	exe := executable()
	synctest.Test(t, func(t *testing.T) {
		stager := stagerOf(exe)
		m := &fake.Machine{Disk: fake.NewDisk(nil)}
		m.Disk.Taken = stager.uploads.mark
		began := time.Now()
		s := must.Get(stager.Agent(t.Context(), m, Identity{}))(t)
		s.Close()
		took := time.Since(began)
		check.That(t, took == leaderTime && m.Disk.Puts == 1, "%d uploads after %v", m.Disk.Puts, took)
	})
}

// D20: a longer --start-timeout gives slow login shells more time.
func TestHelloTimeGrowsWithTheStartTimeout(t *testing.T) {
	for start, want := range map[time.Duration]time.Duration{0: helloTime, time.Minute: helloTime,
		3 * time.Minute: 30 * time.Second} {
		check.Equal(t, NewStager(Executable{}, start, nil, relay.NoMeter{}).hello, want, start)
	}
}

// An account that runs no command is asked once, and gets no upload.
func TestAccountThatRunsNoCommandIsAskedOnce(t *testing.T) {
	for _, tc := range []struct {
		name  string
		code  fake.ExitStatus
		noise string
		want  string
	}{
		{"a forced command that refuses", 1, "This service allows sftp connections only.\n",
			`exit status 1, and it says "This service allows sftp connections only."`},
		{"a start file that exits", 0, "no quota\nleft\n", `exit status 0, and it says "no quota; left"`},
		{"a login shell that only fails", 1, "", "exit status 1, and it says nothing"},
		{"a status of the start script", codeAbsent, "\x1b[2Jno", `exit status 85, and it says "?[2Jno"`},
		{"endless text", 254, strings.Repeat("x", stderrSize+5), "exit status 254, and it says \"" +
			strings.Repeat("x", stderrSize) + `"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &fake.Machine{Disk: fake.NewDisk(nil), Noise: tc.noise, Forced: &tc.code}
				_, err := stagerOf(executable()).Agent(t.Context(), m, Identity{})
				var no *NoShellError
				check.That(t, errors.As(err, &no) && err.Error() == "the account does not run commands: "+tc.want,
					"%v, want %s", err, tc.want)
				check.That(t, len(m.Ran) == 1 && m.Disk.Puts == 0, "ran %q with %d uploads", m.Ran, m.Disk.Puts)
			})
		})
	}
}

// executable describes gorun itself; its build is "one".
func executable() Executable {
	return Executable{Path: "/opt/gorun", Build: "one", Hash: func() (string, error) {
		return "0123456789abcdef0123", nil
	}}
}

// stagerOf is a stager whose gorun is smaller than this one.
func stagerOf(exe Executable) *Stager {
	s := NewStager(exe, 0, func(string, ...any) {}, relay.NoMeter{})
	s.uploads.packed = packText
	return s
}

func packText() ([]byte, error) { return packed("gorun itself") }

func packed(text string) ([]byte, error) { return pack(strings.NewReader(text), int64(len(text))) }

// other describes the gorun of build two, for hosts of another machine.
func other(t *testing.T, wanted *[]string) func(string) (Executable, error) {
	theirs := must.Get(packed("gorun for others"))(t)
	return func(machine string) (Executable, error) {
		*wanted = append(*wanted, machine)
		if machine != "aarch64" {
			return Executable{}, errors.New("there is no gorun for it")
		}
		return Executable{
			Path:   "/opt/gorun",
			Build:  "two",
			Hash:   func() (string, error) { return "ffff0123456789abcdef", nil },
			Packed: func() ([]byte, error) { return theirs, nil },
		}, nil
	}
}

func TestStagerChoosesGorunByTheMachineOfTheHost(t *testing.T) {
	shared := map[string]string{"/opt/gorun": "build one"} // which is for this machine
	for name, tc := range map[string]struct {
		exe  Executable
		here map[string]string
		sent int
	}{
		"nothing there":    {executable(), nil, 1},
		"ours there":       {executable(), shared, 0},
		"theirs installed": {executable(), map[string]string{"/opt/gorun": "build two"}, 0},
		"theirs in the cache": {executable(), map[string]string{".cache/gorun/3fc4ccfe745870e2/gorun": "build two"},
			0},
		"a launcher that is no agent": {Executable{Path: "/opt/gorun"}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var wanted []string
				exe := tc.exe
				exe.Other = other(t, &wanted)
				m := &fake.Machine{Disk: fake.NewDisk(tc.here), Foreign: "aarch64"}
				s := stagerOf(exe)
				for range 2 {
					opened := must.Get(s.Agent(t.Context(), m, Identity{}))(t)
					check.That(t, opened.Hello.Build == "one" == (name == "ours there"),
						"build %s answers", opened.Hello.Build)
					opened.Close()
				}
				check.That(t, len(wanted) <= 1 && m.Disk.Puts == tc.sent,
					"asked for %q, and sent gorun %d times, want %d", wanted, m.Disk.Puts, tc.sent)
			})
		})
	}
}

func TestStagerNamesTheMachineForWhichThereIsNoGorun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		exe := executable()
		exe.Other = other(t, new([]string))
		m := &fake.Machine{Disk: fake.NewDisk(nil), Foreign: "s390x"}
		_, err := stagerOf(exe).Agent(t.Context(), m, Identity{})
		check.That(t, err != nil && strings.Contains(err.Error(), "uname says s390x: there is no gorun for it") &&
			m.Disk.Puts == 0, "%v; sent %d times", err, m.Disk.Puts)
	})
}

func TestLauncherThatIsNoAgentRefusesLocalRanks(t *testing.T) {
	_, err := NewStager(Executable{Path: "/opt/gorun"}, 0, nil, relay.NoMeter{}).Agent(t.Context(), Local{}, Identity{})
	var hinted interface{ Hint() string }
	check.That(t, errors.As(err, &hinted) && strings.Contains(hinted.Hint(), "-H"), "%v", err)
}

// A program that is not gorun starts an installed gorun as the agent, here too.
func TestInstalledGorunIsTheAgentHere(t *testing.T) {
	agent := must.Get(Installed("/bin/false"))(t)
	check.Equal(t, agent.Path, "/bin/false")
	packed := must.Get(agent.Packed())(t)
	check.That(t, agent.Build != "" && len(packed) > 0, "build %q, %d bytes", agent.Build, len(packed))
	_, err := NewStager(agent, 0, nil, relay.NoMeter{}).Agent(t.Context(), Local{}, Identity{})
	check.That(t, err != nil && strings.Contains(err.Error(), "/bin/false"), "%v", err)
}
