package output

import (
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

// longLine is a rank's line of size bytes.
func longLine(rank, size int) string {
	return strings.Repeat(string(rune('a'+rank)), size-1) + "\n"
}

// mixed adds the texts of several ranks in turns, in chunks of size bytes.
func mixed(p *Printer, size int, texts ...string) {
	for more := true; more; {
		more = false
		for rank, text := range texts {
			n := min(size, len(text))
			if n > 0 {
				p.Add(wire.OutputStream(rank, 1), []byte(text[:n]), ignore)
				more = true
			}
			texts[rank] = text[n:]
		}
	}
}

func TestLongLinesStayWhole(t *testing.T) {
	const chunk = 32 << 10
	prefixes := map[string]func(int, int, time.Time) []byte{"with prefixes": rankPrefix, "without prefixes": nil}
	for name, sizes := range map[string][]int{
		"one rank":            {1 << 20},
		"at the bound":        {maxLine, maxLine + 1, maxLine + chunk},
		"two long lines":      {1 << 20, 3 << 20},
		"short lines between": {1 << 20, 10, 20, 2 << 20, 30},
		"the longest":         {maxWhole, maxWhole},
	} {
		for kind, prefix := range prefixes {
			var texts []string
			want := map[string]int{}
			for rank, size := range sizes {
				text := strings.Repeat(longLine(rank, size), 2)
				texts = append(texts, text)
				begin := ""
				if prefix != nil {
					begin = fmt.Sprintf("%d> ", rank)
				}
				want[begin+longLine(rank, size)] = 2
			}
			got := printed(t, prefix, func(p *Printer, _ *fake.Terminal) { mixed(p, chunk, texts...) })
			for line := range strings.Lines(got) {
				if want[line]--; want[line] < 0 {
					t.Errorf("%s, %s: a line of %d bytes, %.10q", name, kind, len(line), line)
				}
			}
			for line, missing := range want {
				check.That(t, missing <= 0, "%s, %s: %d times no %.10q", name, kind, missing, line)
			}
		}
	}
}

// A stream that has the turn loses it when its rank stalls, pauses too often or writes too much.
// Until then the others' bytes are not acknowledged.
func TestTurnIsBounded(t *testing.T) {
	const later = stallTime / 2
	for name, tt := range map[string]struct {
		size  int
		goOn  func(p *Printer)
		early bool // the other rank's line is printed before goOn
		late  bool // it is printed after goOn
	}{
		"it goes on":      {maxLine, func(p *Printer) { write(p, "a") }, false, false},
		"a short line":    {maxLine - 1, func(*Printer) {}, true, true},
		"the line ends":   {maxLine, func(p *Printer) { write(p, "\n") }, false, true},
		"a pause":         {maxLine, func(p *Printer) { pauses(p, 1) }, false, false},
		"too many pauses": {maxLine, func(p *Printer) { pauses(p, maxPauses+1) }, false, true},
		"a stall":         {maxLine, func(*Printer) { time.Sleep(stallTime) }, false, true},
		"no stall":        {maxLine, func(*Printer) { time.Sleep(later) }, false, false},
		"above 16 MiB":    {maxWhole, func(*Printer) {}, true, true},
		"slowly":          {maxLine, func(p *Printer) { slowly(p, turnTime-stallTime) }, false, false},
		"slow, in pieces": {maxLine, func(p *Printer) { slowly(p, 2*stallTime); pauses(p, maxPauses+1) }, false, true},
		"too slowly":      {maxLine, func(p *Printer) { slowly(p, turnTime) }, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			p := NewPrinter(Printing{W: io.Discard, Failed: func(err error) { t.Error(err) }})
			defer p.Close()
			p.Add(wire.OutputStream(0, 1), []byte(strings.Repeat("a", tt.size)), ignore)
			var acknowledged atomic.Bool
			p.Add(wire.OutputStream(1, 1), []byte("b\n"), func(int) { acknowledged.Store(true) })
			synctest.Wait()
			early := acknowledged.Load()
			tt.goOn(p)
			synctest.Wait()
			if late := acknowledged.Load(); early != tt.early || late != tt.late {
				t.Errorf("%s: the other rank's line is printed before: %v, after: %v", name, early, late)
			}
		})
	}
}

func write(p *Printer, text string) { p.Add(wire.OutputStream(0, 1), []byte(text), ignore) }

func pauses(p *Printer, n int) {
	for range n {
		p.Pause(wire.OutputStream(0, 1), ignore)
	}
}

// slowly adds bytes of rank 0 for a time.
func slowly(p *Printer, last time.Duration) {
	for began := time.Now(); time.Since(began) < last; time.Sleep(stallTime / 4) {
		write(p, "a")
	}
}

// A rank that prints long lines a byte at a time holds the others up once.
func TestSlowStreamGetsOneTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPrinter(Printing{W: io.Discard, Failed: func(err error) { t.Error(err) }})
		defer p.Close()
		for line := range 3 {
			write(p, strings.Repeat("a", maxLine))
			var acknowledged atomic.Bool
			p.Add(wire.OutputStream(1, 1), []byte("b\n"), func(int) { acknowledged.Store(true) })
			synctest.Wait()
			check.That(t, acknowledged.Load() == (line > 0), "beside line %d: printed at once: %v", line,
				acknowledged.Load())
			slowly(p, turnTime)
			synctest.Wait()
			check.That(t, acknowledged.Load(), "beside line %d: not printed in %v", line, turnTime)
			write(p, "\n")
		}
	})
}
