package output

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

// playSteps hands the words of steps to a printer: "rank:bytes" on stdout, "rank!bytes" on stderr,
// and "idle": all of them pause.
func playSteps(t *testing.T, how Printing, steps string) (text string, p *Printer) {
	t.Helper()
	var w fake.Terminal
	synctest.Test(t, func(t *testing.T) {
		how.W = &w
		how.Failed = func(err error) { t.Error(err) }
		p = NewPrinter(how)
		for _, step := range strings.Fields(steps) {
			if step == "idle" {
				for stream := range wire.OutputStream(4, 1) {
					p.Pause(stream, ignore)
				}
				time.Sleep(200 * time.Millisecond)
				continue
			}
			fd := 1
			if step[1] == '!' {
				fd = 2
			}
			bytes := strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\e`, "\x1b", `_`, " ").Replace(step[2:])
			p.Add(wire.OutputStream(int(step[0]-'0'), fd), []byte(bytes), ignore)
		}
		p.Close()
	})
	return w.String(), p
}

func TestPrinterProgressBars(t *testing.T) {
	const erase = eraseLine
	for _, tc := range []struct{ name, steps, file, screen string }{
		{"ending in \\r", `0:1%\r 0:2%\r 0:done\n`, "0> 1%\r0> 2%\r0> done\n", "0> 1%\r" + erase + "0> 2%\r" + erase +
			"0> done\n"},
		{"beginning with \\r", `0:\r1% idle 0:\r2% idle 0:\n`, "0> 1%\r0> 2%\n", "0> 1%\r" + erase + "0> 2%\n"},
		{"another rank's line", `0:1%\r idle 1:b\n 0:2%\r`, "0> 1%\r\n1> b\n0> 2%\r\n", "0> 1%\r" + erase + "1> b\n" +
			erase + "0> 2%\r\n"},
		{"beginning with \\r, another rank's line", `0:\r1% idle 1:b\n 0:\r2% idle 0:\n`, "0> 1%\n1> b\n0> 2%\n",
			"0> 1%" + erase + "1> b\n0> 2%\n"},
		{"two bars", `0:\r1% idle 1:\r7% idle 0:\r2% idle`, "0> 1%\n1> 7%\n0> 2%\n", "0> 1%" + erase + "1> 7%" + erase +
			"0> 2%\n"},
		{"\\r\\n that another rank parts", `0:a\r idle 1:b\n 0:\nc\n`, "0> a\r\n1> b\n0> c\n", "0> a\r" + erase +
			"1> b\n0> c\n"},
		{"\\r\\n across a pause", `0:a\r idle 0:\nb\n`, "0> a\r\n0> b\n", "0> a\r\n0> b\n"},
		{"stderr's bar and stdout's line", `0!1%\r idle 0:b\n`, "0> 1%\r\n0> b\n", "0> 1%\r" + erase + "0> b\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			how := Printing{Format: Format{Prefix: rankPrefix, CutMark: "~", LastMark: "~\n"}}
			got, _ := playSteps(t, how, tc.steps)
			check.Equal(t, got, tc.file, "in a file")
			how.Screen = true
			got, _ = playSteps(t, how, tc.steps)
			check.Equal(t, got, tc.screen, "on a terminal")
		})
	}
}

func TestPrinterShowsSomeRanks(t *testing.T) {
	dir := t.TempDir()
	files := openFiles(t, dir, nil, planOfSize(3))
	got, p := playSteps(t, Printing{Files: files, Format: Format{Prefix: rankPrefix, Show: func(rank, fd int) bool {
		return rank == 1 && fd == 1
	}}}, `0:a\n 1:b\n 1!hidden\n 2:c\n 2!bad\n`)
	check.Equal(t, got, "1> b\n")
	check.Equal(t, files.saved[wire.OutputStream(2, 1)], 2, "bytes of a rank that is not shown are in its file, want 2")
	lines := p.lastLines(2)
	check.That(t, len(lines) == 1 && lines[0] == "bad", "its last lines are %q", lines)
	check.OK(t, files.Close(&Ended{}))
}

func TestPrinterPassesTheTimeOfALine(t *testing.T) {
	began := time.Time{}
	prefix := func(_, _ int, at time.Time) []byte {
		if began.IsZero() {
			began = at
		}
		return []byte(at.Sub(began).String() + " ")
	}
	got, _ := playSteps(t, Printing{Format: Format{Prefix: prefix}}, `0:a\n idle 0:b\nc\n`)
	check.Equal(t, got, "0s a\n200ms b\n200ms c\n", "got")
}

func TestLastLines(t *testing.T) {
	for _, tc := range []struct{ name, steps, want string }{
		{"none", `0:out\n`, ""},
		{"few", `0!a\nb\n`, "a|b"},
		{"many", `0!a\nb\nc\nd\ne`, "a|b|c|d|e"},
		{"an indented traceback", `0!Trace:\n__File_a.py\n`, "Trace:|  File a.py"},
		{"empty ones do not count", `0!a\n\n_\nb\r\n\n`, "a|b"},
		{"colours and control bytes", `0!\e[31;1mred\e[0m\x07\n`, `red\x07`},
		{"the end of a bar", `0!1%\r2%\r3%\nError\n`, "3%|Error"},
		{"in pieces", `0!Tra 1!x\n 0!ce\n`, "Trace"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, p := playSteps(t, Printing{}, tc.steps)
			check.Equal(t, strings.Join(p.lastLines(0), "|"), tc.want)
		})
	}
}

func TestLastLinesOfMuchOutput(t *testing.T) {
	s := &stream{fd: 2}
	for i := range 1000 {
		s.keep(bytes.Repeat([]byte{byte('a' + i%26)}, i%100))
		s.keep([]byte("\n"))
	}
	s.keep([]byte("the last line\n"))
	p := &Printer{streams: map[uint32]*stream{wire.OutputStream(0, 2): s}}
	got := p.lastLines(0)
	if n := len(got); n < 2 || got[n-1] != "the last line" || got[n-2] != strings.Repeat("l", 99) ||
		len(s.tail) != tailSize {
		t.Errorf("%q of %d bytes", got, len(s.tail))
	}
	s.keep(bytes.Repeat([]byte("long "), tailSize))
	if got := p.lastLines(0); len(got) != 1 || len(got[0]) > tailSize {
		t.Errorf("a line longer than what is kept: %q", got)
	}
	line := []byte("a warning that comes again and again\n")
	check.Equal(t, testing.AllocsPerRun(100, func() { s.keep(line) }), 0, "allocations to remember a line")
}

// Last lines are kept of all ranks that a job starts with, and of some that it starts later.
func TestLastLinesOfManyRanks(t *testing.T) {
	const more = 2 * maxTails
	p := NewPrinter(Printing{W: io.Discard, Ranks: 2})
	for rank := range 2 + more {
		p.Add(wire.OutputStream(rank, 2), []byte("some words\n"), func(int) {})
	}
	p.Close()
	kept := 0
	for rank := range 2 + more {
		kept += len(p.lastLines(rank))
	}
	check.That(t, kept == 2+maxTails && len(p.lastLines(0)) == 1 && len(p.lastLines(1)) == 1 &&
		len(p.lastLines(1+more)) == 1, "lines of %d ranks are kept", kept)
}

func TestEndOfStderrIsVisible(t *testing.T) {
	for _, tc := range []struct {
		name, steps string
		lines       int
		want        bool
	}{
		{"nothing", `1!a\n`, 1, false},
		{"the last line", `0!a\n`, 1, true},
		{"a line after it", `0!a\n 1:b\n`, 1, true},
		{"many lines after it", `0!a\n 1:` + strings.Repeat(`b\n`, 10), 1, false},
		{"more lines than it printed", `0!a\nb\n`, 3, false},
		{"all lines of a traceback", `0!` + strings.Repeat(`a\n`, 8), 8, true},
		{"two tracebacks at once", strings.Repeat(`0!a\n 1!b\n `, 8), 8, true},
		{"many tracebacks at once", strings.Repeat(`0!a\n 1!`+strings.Repeat(`b\n`, 5)+` `, 8), 8, false},
	} {
		_, p := playSteps(t, Printing{}, tc.steps)
		check.That(t, p.visible(0, tc.lines) == tc.want, "%s: %v", tc.name, !tc.want)
	}
	hidden := Printing{Format: Format{Show: func(int, int) bool { return false }}}
	_, p := playSteps(t, hidden, `0!a\n`)
	check.That(t, !p.visible(0, 1), "a line that was hidden counts as visible")
}
