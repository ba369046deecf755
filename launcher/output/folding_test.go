package output

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

func foldedPrefix(ranks []int, _ time.Time) []byte { return fmt.Appendf(nil, "%v> ", ranks) }

func TestPrinterFoldsLines(t *testing.T) {
	for _, tc := range []struct {
		name, steps string
		want        string // ~ is the mark of a line that is cut
	}{
		{"of all ranks", `0:a\n 1:a\n 2:a\n`, "[0 1 2]> a\n"},
		{"of some ranks", `0:a\n 2:a\n idle idle 1:a\n`, "[0 2]> a\n1> a\n"},
		{"a prompt follows the lines before it", `0:a\n 0:ask? idle 1:a\n`, "0> a\n0> ask?~\n1> a\n"},
		{"a prompt is answered", `0:ask? idle 0:yes\n 1:a\n 2:a\n`, "0> ask?yes\n[1 2]> a\n"},
		{"a prompt is broken", `0:ask? idle 1:a\n 2:a\n idle idle 0:yes\n`, "0> ask?~\n[1 2]> a\n0> yes\n"},
		{"bars are not folded", `0:1%\r2%\r idle 1:1%\r2%\r idle`, "0> 1%\r0> 2%\r\n1> 1%\r1> 2%\r\n"},
		{"streams are not mixed", `0:a\n 1!a\n`, "0> a\n1> a\n"},
		{"at the end", `0:a\n 1:a\n 1:b`, "[0 1]> a\n1> b~\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fold := Folding{Prefix: foldedPrefix, On: [3]bool{1: true, 2: true}, Ranks: 3}
			how := Printing{Format: Format{Prefix: rankPrefix, CutMark: "~", LastMark: "~\n"}}
			how.Fold = fold
			got, _ := playSteps(t, how, tc.steps)
			check.Equal(t, got, tc.want, tc.steps)
		})
	}
}

// A line whose likes do not come is shown without more output.
func TestPrinterFoldsForAMoment(t *testing.T) {
	var w fake.Terminal
	synctest.Test(t, func(t *testing.T) {
		p := NewPrinter(Printing{
			W:      &w,
			Format: Format{Prefix: rankPrefix, Fold: Folding{Prefix: foldedPrefix, On: [3]bool{1: true}}},
			Failed: func(err error) { t.Errorf("write: %v", err) },
		})
		p.Add(wire.OutputStream(5, 1), []byte("a\n"), ignore)
		time.Sleep(250 * time.Millisecond)
		synctest.Wait()
		check.Equal(t, w.String(), "5> a\n", "after 250 ms")
		p.Close()
	})
}
