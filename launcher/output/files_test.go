package output

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/plan"
)

// openFiles opens files about which there is nothing to note.
func openFiles(t *testing.T, dir string, as func(rank, fd int) string, p plan.Plan) *Files {
	t.Helper()
	f := must.Get(OpenFiles(dir, as, p, func(text string) { t.Error(text) }))(t)
	return f
}

// readIndex reads the index in dir.
func readIndex(t *testing.T, dir string) (x index) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err == nil {
		err = json.Unmarshal(text, &x)
	}
	must.OK(t, err)
	return x
}

// expectFiles compares files below dir.
func expectFiles(t *testing.T, dir string, want map[string]string) {
	t.Helper()
	for name, text := range want {
		got, err := os.ReadFile(filepath.Join(dir, name))
		check.That(t, err == nil && string(got) == text, "%s has %.100q, want %.100q, %v", name, got, text, err)
	}
}

func TestRankFilesLayout(t *testing.T) {
	for _, tc := range []struct {
		size, rank, fd int
		want           string
	}{
		{1, 0, 1, "rank.0/stdout"},
		{10, 9, 2, "rank.9/stderr"},
		{11, 9, 1, "rank.09/stdout"},
		{11, 10, 1, "rank.10/stdout"},
		{101, 7, 2, "rank.007/stderr"},
	} {
		dir := t.TempDir()
		f := openFiles(t, dir, nil, planOfSize(tc.size))
		f.write(tc.rank, tc.fd, []byte("text"))
		check.OK(t, f.Close(&Ended{}))
		expectFiles(t, dir, map[string]string{tc.want: "text"})
	}
}

func TestRankFilesReportAFullDiskOnce(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(dir, "rank.0"), 0o700))
	must.OK(t, os.Symlink("/dev/full", filepath.Join(dir, "rank.0/stdout")))
	// Nor can a file be made where a file is in the way.
	must.OK(t, os.WriteFile(filepath.Join(dir, "rank.1"), nil, 0o600))
	var notes []string
	f, err := OpenFiles(dir, nil, planOfSize(3), func(text string) { notes = append(notes, text) })
	must.OK(t, err)
	for range 5 {
		for rank := range 3 {
			f.write(rank, 1, []byte("12345"))
		}
	}
	err = f.Close(&Ended{})
	check.That(t, len(notes) == 2 && strings.Contains(notes[0], "rank 0") && strings.Contains(notes[1], "rank 1"),
		"notes: %q", notes)
	check.That(t, err != nil && strings.Count(err.Error(), "25 bytes") == 2 && !strings.Contains(err.Error(), "rank 2"),
		"close: %v", err)
	expectFiles(t, dir, map[string]string{"rank.2/stdout": strings.Repeat("12345", 5)})
}

func TestFilesAndResultsNeedTheirDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	must.OK(t, os.WriteFile(file, nil, 0o600))
	taken := t.TempDir()
	must.OK(t, os.Mkdir(filepath.Join(taken, "index.json"), 0o700))
	for _, dir := range []string{file, filepath.Join(file, "below"), taken} {
		_, err := OpenFiles(dir, nil, planOfSize(1), nil)
		output, is := errors.AsType[*OutputError](err)
		check.That(t, is && output.Hint() != "", "%s: %v", dir, err)
		if dir == taken {
			continue
		}
		_, err = OpenResults(dir, 10)
		output, is = errors.AsType[*OutputError](err)
		check.That(t, is && strings.HasPrefix(output.Hint(), "--result-dir names a folder"),
			"results in %s: %v", dir, err)
	}
}

// planOfSize is a plan for ranks on two hosts, or one.
func planOfSize(size int) plan.Plan {
	p := plan.Plan{Size: size, Hosts: []plan.Host{{Host: hostfile.Host{Name: "f1"}}, {Host: hostfile.Host{Name: "f2"}}}}
	for rank := range size {
		h := &p.Hosts[rank*2/(size+1)]
		h.Ranks = append(h.Ranks, plan.Rank{Rank: rank, LocalRank: len(h.Ranks)})
	}
	return p
}

func TestIndexOfTheFiles(t *testing.T) {
	dir := t.TempDir()
	f := openFiles(t, dir, nil, planOfSize(3))
	x := readIndex(t, dir)
	check.That(t, x.Code == nil && len(x.Ranks) == 3 && x.Ranks[2].Host == "f2" && x.Ranks[1].LocalRank == 1 &&
		x.Ranks[0].Stdout == nil, "while the job runs: %+v", x)
	f.write(0, 1, []byte("12345"))
	f.write(0, 1, []byte("678"))
	f.write(2, 2, []byte("no"))
	ended := &Ended{Code: 3, Ranks: []RankEnd{{Rank: 2, Code: 3, After: 1500 * time.Millisecond},
		{Rank: 0, Signal: 15, Stopped: true, After: 2 * time.Second}}}
	must.OK(t, f.Close(ended))
	x = readIndex(t, dir)
	must.That(t, x.Version == 1 && x.Code != nil && *x.Code == 3 && len(x.Ranks) == 3, "%+v", x)
	zero := x.Ranks[0]
	two := x.Ranks[2]
	check.That(t, *zero.Stdout == (saved{"rank.0/stdout", 8}) && zero.Stderr == nil &&
		*zero.Exit == (exitJSON{0, 15, true, 2}), "rank 0: %+v", zero)
	check.That(t, *two.Stderr == (saved{"rank.2/stderr", 2}) && two.Stdout == nil &&
		*two.Exit == (exitJSON{3, 0, false, 1.5}), "rank 2: %+v", two)
	check.That(t, x.Ranks[1].Exit == nil, "rank 1 did not end: %+v", x.Ranks[1])
	entries, _ := os.ReadDir(dir)
	check.That(t, len(entries) == 3, "the folder has %v", entries)
	for rank, want := range []string{"rank.0/stdout", "", "rank.2/stderr"} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		check.Equal(t, f.Log(rank), want, "the log of rank", rank)
	}
}

// Ranks that were spawned come last in the index, those that have ended.
func TestIndexHasSpawnedRanks(t *testing.T) {
	dir := t.TempDir()
	f := openFiles(t, dir, nil, planOfSize(3).WithSpawn(8, 0))
	f.write(5, 1, []byte("123"))
	must.OK(t, f.Close(&Ended{Ranks: []RankEnd{{Rank: 5, Code: 3}, {Rank: 1}, {Rank: 4}}}))
	x := readIndex(t, dir)
	must.That(t, len(x.Ranks) == 5, "%+v", x)
	five := x.Ranks[4]
	four := x.Ranks[3]
	check.That(t, four.Rank == 4 && four.Host == "f2" && five.Rank == 5 && five.LocalRank == -1 && five.Host == "f1" &&
		five.Exit.Code == 3 && *five.Stdout == (saved{"rank.5/stdout", 3}), "%+v, %+v", four, five)
}

// A stream with a name of its own is saved there alone, and two streams of a rank may share a file.
func TestRankFilesOfOtherNames(t *testing.T) {
	dir := t.TempDir()
	as := func(rank, fd int) string {
		switch {
		case rank == 0:
			return filepath.Join(dir, "both", "0")
		case fd == 1:
			return filepath.Join(dir, "one")
		}
		return ""
	}
	for _, own := range []string{"", filepath.Join(dir, "out")} {
		f := openFiles(t, own, as, planOfSize(2))
		for _, rank := range []int{0, 1} {
			f.write(rank, 1, []byte("out"))
			f.write(rank, 2, []byte("err"))
		}
		check.OK(t, f.Close(&Ended{}))
		want := map[string]string{"both/0": "outerr", "one": "out"}
		if own != "" {
			want["out/rank.1/stderr"] = "err"
		}
		expectFiles(t, dir, want)
		_, err := os.Stat(filepath.Join(dir, "out", "index.json"))
		check.That(t, (err == nil) == (own != ""), "with the folder %q the index is there: %v", own, err == nil)
		check.That(t, f.Log(1) != "" && f.Log(0) == as(0, 2), "logs %q and %q", f.Log(0), f.Log(1))
	}
}

func TestNobodyIsSentToTheNullDevice(t *testing.T) {
	as := func(_, fd int) string { return [...]string{1: filepath.Join(t.TempDir(), "out"), 2: os.DevNull}[fd] }
	f := openFiles(t, "", as, planOfSize(1))
	f.write(0, 2, []byte("err"))
	check.Equal(t, f.Log(0), "", "its output is in")
	check.OK(t, f.Close(&Ended{}))
}

// Ranks that hosts spawn have few files open at a time, and all of their output is saved.
func TestFilesOfManySpawnedRanks(t *testing.T) {
	dir := t.TempDir()
	f := must.Get(OpenFiles(dir, nil, planOfSize(2), func(text string) { t.Error(text) }))(t)
	const most = spareFiles + 2*2
	for _, text := range []string{"first\n", "second\n"} {
		for rank := range 2 * most {
			f.write(rank, 1, []byte(text))
			check.That(t, len(f.files) <= most, "%d files are open", len(f.files))
		}
	}
	check.OK(t, f.Close(nil))
	for _, rank := range []int{0, 1, 2, 2*most - 1} {
		text := must.Get(os.ReadFile(filepath.Join(dir, rankFolder(rank, 2), "stdout")))(t)
		check.Equal(t, string(text), "first\nsecond\n", rank)
	}
}

// A stream that has printed an unfinished line keeps little memory after that.
func TestStreamsKeepLittleMemory(t *testing.T) {
	var l lineBuffer
	shown := 0
	l.add(make([]byte, maxLine-1), func([]byte) { t.Error("a line is shown before its end") })
	l.flush(func(line []byte) { shown += len(line) })
	check.Equal(t, shown, maxLine-1)
	check.That(t, cap(l.partial) <= sparePartial, "%d bytes are kept", cap(l.partial))
}
