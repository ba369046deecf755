package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
)

// B13 and V12, as far as CI has time; `make soak` runs longer.
func TestSoak(t *testing.T) {
	lab.Need(t, "sshd")
	dir := t.TempDir()
	must.OK(t, errors.Join(lab.BuildStatic("../../..", dir, "./cmd/gorun"), os.Chmod(filepath.Dir(dir), 0o755),
		os.Chmod(dir, 0o755)))
	for _, kept := range []bool{false, true} {
		check.OK(t, run(t.Context(), filepath.Join(dir, "gorun"), kept, 50, 50), "hosts kept:", kept)
	}
}

func of(jobs int, name string, count float64) sample {
	return sample{jobs, map[string]float64{name: count}}
}

// kept is a sample of two processes that keep hosts.
func kept(jobs int, kib float64) sample {
	return sample{jobs, map[string]float64{keptProcesses: 2, keptKiB: kib}}
}

func TestGrowth(t *testing.T) {
	for name, tc := range map[string]struct {
		samples []sample
		grows   bool
	}{
		"nothing":      {[]sample{of(1, shmFiles, 2), of(9, shmFiles, 2)}, false},
		"one file":     {[]sample{of(1, shmFiles, 2), of(9, shmFiles, 3)}, true},
		"fewer files":  {[]sample{of(1, tmpFiles, 2), of(9, tmpFiles, 0)}, false},
		"late packets": {[]sample{of(1, timeWait, 2), of(9, timeWait, 99)}, false},
		"memory that grows": {[]sample{of(0, sshdKiB, 0), of(500, sshdKiB, 500), of(1000, sshdKiB, 1000)},
			true},
		"memory that keeping needs": {[]sample{kept(0, 0), kept(50, 8000)}, false},
		"memory that keeping loses": {[]sample{kept(0, 0), kept(50, 5000), kept(100, 9000)}, true},
		"memory that stands": {[]sample{of(0, sshdKiB, 0), of(500, sshdKiB, 900), of(1000, sshdKiB, 900)},
			false},
	} {
		grown := growth(tc.samples)
		check.That(t, (len(grown) > 0) == tc.grows, "%s: %v", name, grown)
	}
	check.Equal(t, slope([]sample{of(0, tmpFiles, 1), of(10, tmpFiles, 21)}, tmpFiles), 2, "slope")
}

func TestCrossTalk(t *testing.T) {
	for out, want := range map[string]string{
		"f1:0: ID 4 0\nf1:1: ID 4 1\n":               "",
		"f1:0: ID 4 0\nf1:1: IE 4 1\n":               "printed",
		"f1:0: ID 4 0\n":                             "rank 1 did not speak",
		"f1:0: ID 4 0\nf1:1: ID 4 1\nf2:0: ID 5 0\n": "not its own",
		"":                                      "rank 0 did not speak",
		"f1:0: ID 4 0\nf1:1: ID 4 1\ngarbage\n": "printed",
	} {
		id, err := crossTalk(4, 2, out)
		check.That(t, (want != "" || err == nil && id == "ID") &&
			(want == "" || err != nil && strings.Contains(err.Error(), want)),
			"%q: %q, %v", out, id, err)
	}
}
