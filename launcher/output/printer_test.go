package output

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

func rankPrefix(rank, _ int, _ time.Time) []byte { return fmt.Appendf(nil, "%d> ", rank) }

// printed hands a printer on w to do, on a clock that does not wait, and
// returns what stands on w in the end.
func printed(t *testing.T, prefix func(int, int, time.Time) []byte, do func(p *Printer, w *fake.Terminal)) string {
	t.Helper()
	var w fake.Terminal
	synctest.Test(t, func(t *testing.T) {
		p := NewPrinter(Printing{
			W:      &w,
			Format: Format{Prefix: prefix, LastMark: "\n"},
			Failed: func(err error) { t.Errorf("write: %v", err) },
		})
		do(p, &w)
		p.Close()
	})
	return w.String()
}

func ignore(int) {}

func TestPrinterPrintsWholeLines(t *testing.T) {
	for _, tc := range []struct {
		name, steps string
		want        string // ~ is the mark of a line that is cut
	}{
		{"one line", `0:a\n`, "0> a\n"},
		{"lines of one chunk", `0:a\nb\n`, "0> a\n0> b\n"},
		{"an empty line", `0:\n`, "0> \n"},
		{"nothing", ``, ""},
		{"whole lines of two ranks", `0:a\n 1:b\n`, "0> a\n1> b\n"},
		{"two ranks in the middle of lines", `0:a 1:b 0:c\n 1:d\n`, "0> ac\n1> bd\n"},
		{"an unfinished line is shown after a while", `0:ask? idle`, "0> ask?~\n"},
		{"it goes on where it stood", `0:ask? idle 0:yes\n`, "0> ask?yes\n"},
		{"another rank begins a line of its own", `0:ask? idle 1:b\n 0:yes\n`, "0> ask?~\n1> b\n0> yes\n"},
		{"two ranks ask", `0:ask? idle 1:who? idle 0:me\n 1:you\n`, "0> ask?~\n1> who?~\n0> me\n1> you\n"},
		{"unfinished at the end", `0:a\nb`, "0> a\n0> b~\n"},
		{"two last lines", `0:a 1:b`, "0> a~\n1> b~\n"},
		{"a bar that another rank ends", `0:1%\r 0:2% idle 1:b\n`, "0> 1%\r0> 2%\n1> b\n"},
		{"a progress bar", `0:1% 0:\r2%\r`, "0> 1%\r0> 2%\r\n"},
		{"\\r\\n in one chunk", `0:a\r\nb\n`, "0> a\r\n0> b\n"},
		{"\\r\\n across chunks", `0:a\r 0:\nb\n`, "0> a\r\n0> b\n"},
		{"\\r\\n across a pause", `0:a\r idle 0:\nb\n`, "0> a\r\n0> b\n"},
		{"\\r\\n that another rank parts", `0:a\r 1:b\n 0:\nc\n`, "1> b\n0> a\r\n0> c\n"},
		{"\\r, then an empty line", `0:a\r 0:\n\n`, "0> a\r\n0> \n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, mark := range []string{"", "~"} {
				got, _ := playSteps(t, Printing{Format: Format{
					Prefix: rankPrefix, CutMark: mark, LastMark: mark + "\n"}}, tc.steps)
				want := strings.ReplaceAll(tc.want, "~", mark)
				check.Equal(t, got, want, "with the mark", mark)
			}
		})
	}
}

// TestPrinterLeavesTheLastLineOpen has no end for a last line that a rank has not ended, as other
// launchers.
func TestPrinterLeavesTheLastLineOpen(t *testing.T) {
	for steps, want := range map[string]string{
		`0:a\nb`:          "0> a\n0> b",
		`0:a 1:b`:         "0> a\n1> b",
		`0:1%\r 0:2%\r`:   "0> 1%\r0> 2%\r",
		`0:ask? idle 1:b`: "0> ask?\n1> b",
	} {
		got, _ := playSteps(t, Printing{Format: Format{Prefix: rankPrefix}}, steps)
		check.Equal(t, got, want, steps)
	}
}

// TestPrinterKeepsAGrowingLineTogether has a rank whose line grows slowly, and another that prints
// all the while, on a terminal that blocks.
func TestPrinterKeepsAGrowingLineTogether(t *testing.T) {
	got := printed(t, rankPrefix, func(p *Printer, w *fake.Terminal) {
		for i := range 20 {
			p.Add(wire.OutputStream(0, 1), []byte("part,"), ignore)
			p.Add(wire.OutputStream(1, 1), []byte("line\n"), ignore)
			if i == 10 {
				w.Block(5 * time.Second)
			}
			time.Sleep(time.Second)
		}
		p.Add(wire.OutputStream(0, 1), []byte("end\n"), ignore)
	})
	want := strings.Repeat("1> line\n", 20) + "0> " + strings.Repeat("part,", 20) + "end\n"
	check.Equal(t, got, want, "got")
}

// TestPrinterKeepsRanksApart reads random output of many ranks back: every line
// on the terminal is one rank's, and each rank's text is whole.
func TestPrinterKeepsRanksApart(t *testing.T) {
	const ranks = 5
	rnd := rand.New(rand.NewPCG(5, 6))
	for round := range 30 {
		var sent [ranks]bytes.Buffer
		got := printed(t, rankPrefix, func(p *Printer, _ *fake.Terminal) {
			for range 200 {
				rank := rnd.IntN(ranks)
				text := randomText(rnd)
				sent[rank].WriteString(text)
				p.Add(wire.OutputStream(rank, 1), []byte(text), ignore)
				if rnd.IntN(10) == 0 {
					p.Pause(wire.OutputStream(rank, 1), ignore)
				}
			}
		})
		var read [ranks]bytes.Buffer
		for line := range strings.Lines(got) {
			m := regexp.MustCompile(`^([0-4])> ([a-z]*)\n$`).FindStringSubmatch(line)
			must.That(t, m != nil, "round %d: the line %q is nobody's", round, line)
			read[m[1][0]-'0'].WriteString(m[2])
		}
		for rank := range ranks {
			// Line ends may be added where a line is cut, so letters are compared.
			if want := strings.ReplaceAll(sent[rank].String(), "\n", ""); read[rank].String() != want {
				t.Fatalf("round %d, rank %d: got %q, want %q", round, rank, read[rank].String(), want)
			}
		}
	}
}

func randomText(rnd *rand.Rand) string {
	text := make([]byte, 1+rnd.IntN(12))
	for i := range text {
		text[i] = "abcdefgh\n"[rnd.IntN(9)]
	}
	return string(text)
}

func TestPrinterWithoutPrefixChangesNothing(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	data := make([]byte, 300<<10)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	got := printed(t, nil, func(p *Printer, _ *fake.Terminal) {
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+rnd.IntN(wireChunk))
			p.Add(wire.OutputStream(0, 1), rest[:n], ignore)
			rest = rest[n:]
			if rnd.IntN(4) == 0 {
				p.Pause(wire.OutputStream(0, 1), ignore)
			}
		}
	})
	check.That(t, got == string(data), "%d bytes came out of %d, not the same", len(got), len(data))
}

const wireChunk = 32 << 10

func TestPrinterReportsAFailedTerminalOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fake.Terminal{Err: errors.New("no terminal")}
		failures := 0
		credit := 0
		p := NewPrinter(Printing{W: w, Format: Format{Prefix: rankPrefix}, Failed: func(err error) {
			failures++
			check.That(t, errors.Is(err, w.Err), "failed(%v)", err)
		}})
		for range 50 {
			p.Add(wire.OutputStream(0, 1), bytes.Repeat([]byte("x\n"), 10_000), func(n int) { credit += n })
			synctest.Wait()
		}
		p.Close()
		check.That(t, failures == 1 && w.Writes == 1, "%d reports of %d failed writes, want 1 of 1", failures, w.Writes)
		check.That(t, credit == 50*20_000, "%d bytes of credit came back, want %d", credit, 50*20_000)
	})
}

func TestPrinterHoldsCreditWhileTheTerminalIsStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &fake.StuckTerminal{Release: make(chan struct{})}
		p := NewPrinter(Printing{W: w, Failed: func(err error) { t.Error(err) }})
		var mu sync.Mutex
		credit := 0
		sent := 0
		for range 40 {
			p.Add(wire.OutputStream(0, 1), bytes.Repeat([]byte("y\n"), wireChunk/2), func(n int) {
				mu.Lock()
				defer mu.Unlock()
				credit += n
			})
			sent += wireChunk
		}
		synctest.Wait() // add never blocks, so this is reached
		mu.Lock()
		check.That(t, credit <= 3*wireChunk, "%d bytes of credit returned though nothing could be written", credit)
		mu.Unlock()
		close(w.Release)
		p.Close()
		check.That(t, credit == sent && w.Text.Len() == sent,
			"%d written and %d of credit returned, want %d", w.Text.Len(), credit, sent)
	})
}

// A prompt must show though another rank prints all the time.
func TestPrinterShowsAPromptBesideABusyRank(t *testing.T) {
	printed(t, rankPrefix, func(p *Printer, w *fake.Terminal) {
		p.Add(wire.OutputStream(0, 1), []byte("name? "), ignore)
		for range 100 {
			p.Add(wire.OutputStream(1, 1), []byte("step\n"), ignore)
			p.Pause(wire.OutputStream(0, 1), ignore)
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		check.That(t, strings.Contains(w.String(), "name?"), "no prompt after 5 s")
	})
}
