package mpir

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/lab"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher"
)

// helper builds gorun-mpir below AddressSanitizer and UBSan.
func helper(t *testing.T) string {
	lab.Need(t, "cc")
	dir := t.TempDir()
	must.OK(t, lab.BuildMPIR("../../../..", dir, "-fsanitize=address,undefined", "-fno-sanitize-recover"))
	return filepath.Join(dir, "gorun-mpir")
}

func TestTable(t *testing.T) {
	got := string(Table([]Process{{"f1", "/bin/a b", 7}, {"", "", 0}, {"f\x00", strings.Repeat("x", 9000), 1 << 30}}))
	want := "f1\x00/bin/a b\x007\x00?\x00\x000\x00f?\x00" + strings.Repeat("x", maxWord) + "\x001073741824\x00\x00"
	check.Equal(t, got, want)
}

// A host whose ranks have ended may answer no more. The others' processes are shown all the same.
func TestRowsOfEndedRanks(t *testing.T) {
	p := launcher.Plan{Size: 3, Hosts: []launcher.PlannedHost{{Host: hostfile.Host{Name: "f1"},
		Ranks: []launcher.Rank{{Rank: 0}, {Rank: 1}}},
		{Host: hostfile.Host{Name: "f2"}, Ranks: []launcher.Rank{{Rank: 2}}}}}
	programs := []launcher.Program{{Argv: []string{"/a"}, Ranks: 3}}
	got := Rows(t.Context(), p, programs, func(_ context.Context, ranks []int) (map[int]int, error) {
		if ranks[0] == 2 {
			return nil, errors.New("rank 2 does not run")
		}
		return map[int]int{1: 7}, nil
	})
	want := []Process{{"f1", "/a", 0}, {"f1", "/a", 7}, {"f2", "/a", 0}}
	check.That(t, slices.Equal(got, want), "%v", got)
}

func TestPathOf(t *testing.T) {
	t.Setenv("PATH", "/bin")
	for name, want := range map[string]string{"/opt/train": "/opt/train", "./train": "/work/train",
		"bin/train": "/work/bin/train", "sh": "/bin/sh", "nosuch": "nosuch"} {
		check.Equal(t, PathOf(launcher.Program{Argv: []string{name}, Wdir: "/work"}), want, name, "is at")
	}
}

// The program runs, with the table, until it is closed.
func TestServerEndsWhenItIsClosed(t *testing.T) {
	s := must.Get(Start(t.Context(), helper(t), make([]Process, 3000)))(t)
	exe, err := os.Readlink("/proc/" + strconv.Itoa(s.PID()) + "/exe")
	check.That(t, err == nil && filepath.Base(exe) == "gorun-mpir", "%s, %v", exe, err)
	s.Close()
	check.Error(os.Stat("/proc/"+strconv.Itoa(s.PID()))).Any(t, "it runs on")
}

// A table that is cut off, or has words that are too long, is none.
func TestHelperRefusesBrokenTables(t *testing.T) {
	path := helper(t)
	for _, input := range []string{"", "f1", "f1\x00", "f1\x00/bin/a\x00", "f1\x00/bin/a\x007\x00",
		strings.Repeat("x", 5000) + "\x00", "f1\x00" + strings.Repeat("x", 5000) + "\x007\x00\x00"} {
		cmd := exec.Command(path)
		cmd.Stdin = strings.NewReader(input)
		cmd.Env = []string{"ASAN_OPTIONS=detect_leaks=0"} // the program ends
		out, err := cmd.CombinedOutput()
		check.That(t, err != nil && string(out) == "gorun-mpir: the table of processes is not complete\n",
			"%.40q: %v, %s", input, err, out)
	}
}
