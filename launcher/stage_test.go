package launcher

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestStagerTriesOnePathAfterTheOther(t *testing.T) {
	exe := executable()
	for _, tc := range []struct {
		name  string
		files map[string]string
		ran   []string
		puts  int
	}{
		{"the launcher's own path", map[string]string{exe.Path: "build one", cachedPath: "build one"}, []string{exe.Path}, 0},
		{"the cache", map[string]string{cachedPath: "build one"}, []string{exe.Path, cachedPath}, 0},
		{"another build at the launcher's path", map[string]string{exe.Path: "build two", cachedPath: "build one"}, []string{exe.Path, cachedPath}, 0},
		{"nowhere", nil, []string{exe.Path, cachedPath, "/bin/sh", cachedPath}, 1},
		{"a broken file in the cache", map[string]string{cachedPath: "build two"}, []string{exe.Path, cachedPath, "/bin/sh", cachedPath}, 1},
		{"other programs", map[string]string{exe.Path: "usage: gorun", cachedPath: "?"}, []string{exe.Path, cachedPath, "/bin/sh", cachedPath}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &machine{disk: newDisk(tc.files), noise: "motd\n"}
				s, err := stagerOf(exe).agent(t.Context(), m)
				if err != nil {
					t.Fatal(err)
				}
				s.close()
				if fmt.Sprint(m.ran) != fmt.Sprint(tc.ran) || m.disk.puts != tc.puts {
					t.Errorf("ran %q with %d uploads, want %q with %d", m.ran, m.disk.puts, tc.ran, tc.puts)
				}
			})
		})
	}
}

// stageAll stages all machines at once.
func stageAll(t *testing.T, exe Executable, machines []*machine) []error {
	t.Helper()
	stager := stagerOf(exe)
	errs := make([]error, len(machines))
	var wg sync.WaitGroup
	for i, m := range machines {
		wg.Go(func() {
			s, err := stager.agent(t.Context(), m)
			if errs[i] = err; err == nil {
				s.close()
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
				var all []*disk
				for range disks {
					all = append(all, newDisk(nil))
				}
				var machines []*machine
				for i := range 8 {
					machines = append(machines, &machine{disk: all[i%disks]})
				}
				began := time.Now()
				for i, err := range stageAll(t, exe, machines) {
					if err != nil {
						t.Errorf("host %d: %v", i, err)
					}
				}
				packed, err := packText()
				if err != nil {
					t.Fatal(err)
				}
				for i, d := range all {
					if d.puts != 1 || d.sent != len(packed) {
						t.Errorf("disk %d got %d uploads, %d bytes; the executable has %d, compressed", i, d.puts, d.sent, len(packed))
					}
				}
				if took := time.Since(began); took != time.Second {
					t.Errorf("took %v, and one upload takes a second", took)
				}
			})
		})
	}
}

func TestStagerUploadsWithoutGzip(t *testing.T) {
	exe := executable()
	synctest.Test(t, func(t *testing.T) {
		m := &machine{disk: newDisk(nil)}
		m.disk.noGzip = true
		if errs := stageAll(t, exe, []*machine{m}); errs[0] != nil || m.disk.puts != 1 || m.disk.sent != 0 {
			t.Errorf("%d uploads, %d bytes by the shell: %v", m.disk.puts, m.disk.sent, errs[0])
		}
	})
}

func TestStagerDoesNotDependOnTheFirstHost(t *testing.T) {
	exe := executable()
	synctest.Test(t, func(t *testing.T) {
		full := errors.New("no space left on device")
		machines := []*machine{{disk: newDisk(nil), put: full}, {disk: newDisk(nil)}, {disk: newDisk(nil)}}
		failures := 0
		for _, err := range stageAll(t, exe, machines) {
			if err == nil {
				continue
			}
			failures++
			if !errors.Is(err, full) || !strings.HasPrefix(err.Error(), "upload gorun to ~/"+cachedPath) {
				t.Error(err)
			}
		}
		if failures != 1 {
			t.Errorf("%d hosts failed, want the one without space", failures)
		}
	})
}

func TestStagerReportsAnUploadThatDoesNotRun(t *testing.T) {
	exe := executable()
	exe.Build = "three" // as if the file were another machine's
	synctest.Test(t, func(t *testing.T) {
		_, err := stagerOf(exe).agent(t.Context(), &machine{disk: newDisk(nil)})
		if err == nil || !strings.HasPrefix(err.Error(), "after the upload: start "+cachedPath) || !errors.Is(err, errOtherBuild) {
			t.Error(err)
		}
	})
}

func TestStagerStopsWaitingWithItsContext(t *testing.T) {
	exe := executable()
	synctest.Test(t, func(t *testing.T) {
		stager := stagerOf(exe)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("not wanted any more")
		time.AfterFunc(time.Second, func() { cancel(why) })
		m := &machine{disk: newDisk(nil)}
		m.disk.taken = stager.uploads.mark // somebody leads and never comes back
		if _, err := stager.agent(ctx, m); !errors.Is(err, why) {
			t.Error(err)
		}
		if m.disk.puts != 0 {
			t.Error("uploaded all the same")
		}
	})
}

func TestStagerGoesOnWithoutItsLeader(t *testing.T) {
	exe := executable()
	synctest.Test(t, func(t *testing.T) {
		stager := stagerOf(exe)
		m := &machine{disk: newDisk(nil)}
		m.disk.taken = stager.uploads.mark
		began := time.Now()
		s, err := stager.agent(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		s.close()
		if took := time.Since(began); took != leaderTime || m.disk.puts != 1 {
			t.Errorf("%d uploads after %v", m.disk.puts, took)
		}
	})
}
