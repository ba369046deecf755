package fold_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
	"github.com/gorun/gorun/launcher/output/fold"
)

// Lines are RANK:TEXT, "+" is a wait of 100 ms, and "!RANK" releases a rank's lines.
func TestFolder(t *testing.T) {
	for _, c := range []struct {
		name    string
		size    int
		numbers bool
		in, out string
	}{
		{name: "all ranks", size: 3, in: "0:a 2:a 1:a", out: "[0 1 2]a@0"},
		{name: "one rank is late", size: 3, in: "0:a 1:a + +", out: "[0 1]a@200"},
		{name: "a line that nobody else prints", size: 2, in: "0:a + + 1:a", out: "[0]a@200 [1]a@end"},
		{name: "unknown size", in: "0:a 1:a + 2:a +", out: "[0 1 2]a@200"},
		{name: "lines of a rank stay in order", size: 2, in: "0:a 0:b 1:b 1:a", out: "[0]a@end [0 1]b@end [1]a@end"},
		{name: "twice the same", size: 2, in: "0:a 0:a 1:a 1:a", out: "[0 1]a@0 [0 1]a@0"},
		{name: "twice by one rank", size: 2, in: "0:a 0:a + +", out: "[0]a@200 [0]a@200"},
		{name: "a whole group waits for the one before", size: 2, in: "0:x 0:a 1:a + +", out: "[0]x@200 [0 1]a@200"},
		{name: "released", size: 3, in: "1:z 0:a 1:a 2:b !0", out: "[1]z@0 [0 1]a@0 [2]b@end"},
		{name: "numbers differ", size: 2, in: "0:loss=0.31 1:loss=0.4", out: "[0]loss=0.31@end [1]loss=0.4@end"},
		{name: "numbers", size: 3, numbers: true, in: "0:loss=0.31 1:loss=0.4 2:loss=0.05",
			out: "[0 1 2]loss=0.05..0.4@0"},
		{name: "equal numbers", size: 2, numbers: true, in: "0:step=7;t=1.50s 1:step=7;t=1.5s",
			out: "[0 1]step=7;t=1.50s@0"},
		{name: "no numbers: names", size: 2, numbers: true, in: "0:f1 1:f2", out: "[0]f1@end [1]f2@end"},
		{name: "one rank's numbers", size: 1, numbers: true, in: "0:3/4", out: "[0]3/4@0"},
		{name: "a number beyond floats", size: 2, numbers: true, in: "0:" + strings.Repeat("9", 400) + " 1:1",
			out: "[0 1]1.." + strings.Repeat("9", 400) + "@0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			now := start
			at := ""
			var got []string
			f := fold.New(c.size, c.numbers, func(l fold.Line) {
				got = append(got, fmt.Sprintf("%v%s@%s", l.Ranks, l.Text, at))
			})
			for word := range strings.FieldsSeq(c.in) {
				var rank int
				var text string
				at = fmt.Sprint(now.Sub(start).Milliseconds())
				switch {
				case word == "+":
					now = now.Add(100 * time.Millisecond)
					at = fmt.Sprint(now.Sub(start).Milliseconds())
					f.Due(now)
				case word[0] == '!':
					fmt.Sscanf(word, "!%d", &rank)
					f.Release(rank)
				default:
					fmt.Sscanf(word, "%d:%s", &rank, &text)
					f.Add(rank, 1, []byte(text), now, now)
				}
			}
			at = "end"
			f.Flush()
			check.Equal(t, strings.Join(got, " "), c.out, c.in)
		})
	}
}

// Whatever ranks print, each line of each rank is written once, in the rank's order, and no line
// waits for longer than Wait.
func TestFolderKeepsAllLines(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		size := 1 + random.IntN(6)
		came := make([][]string, size)
		written := make([][]string, size)
		now := time.Unix(0, 0)
		f := fold.New(random.IntN(2)*size, false, func(l fold.Line) {
			waited := now.Sub(l.At)
			must.That(t, waited <= fold.Wait+10*time.Millisecond, "seed %d: %q waited for %v", seed, l.Text, waited)
			for _, rank := range l.Ranks {
				written[rank] = append(written[rank], string(l.Text))
			}
		})
		for range 300 {
			rank := random.IntN(size)
			text := string(rune('a'+random.IntN(4))) + "\n"
			came[rank] = append(came[rank], text)
			f.Add(rank, 1+random.IntN(2), []byte(text), now, now)
			now = now.Add(time.Duration(random.IntN(10)) * time.Millisecond)
			f.Due(now)
			if random.IntN(50) == 0 {
				f.Release(rank)
				must.That(t, slices.Equal(written[rank], came[rank]),
					"seed %d: lines of rank %d wait after their release", seed, rank)
			}
		}
		f.Flush()
		for rank := range size {
			must.That(t, slices.Equal(written[rank], came[rank]),
				"seed %d, rank %d: wrote %q of %q", seed, rank, written[rank], came[rank])
		}
	}
}

// At most 1 MiB of text waits.
func TestFolderIsBounded(t *testing.T) {
	now := time.Now()
	waiting := 0
	f := fold.New(2, false, func(l fold.Line) { waiting -= len(l.Text) })
	for i := range 100_000 {
		text := fmt.Appendf(nil, "%d%s\n", i, strings.Repeat("x", i%2000))
		waiting += len(text)
		must.That(t, f.Add(0, 1, text, now, now), "a short line was refused")
		must.That(t, waiting <= 1<<20, "%d bytes wait", waiting)
	}
	must.That(t, !f.Add(0, 1, make([]byte, 100_000), now, now), "a long line waits")
}

// Numbers that are longer in the lines of other ranks count, and are not kept when their line is
// written.
func TestLongNumbersAreBounded(t *testing.T) {
	now := time.Now()
	f := fold.New(64, true, func(fold.Line) {})
	var before, waiting, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 2048 {
		name := strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(i))
		for rank, number := range []string{"1", strings.Repeat("9", 8000), "0." + strings.Repeat("0", 7998)} {
			must.That(t, f.Add(rank, 1, []byte(name+" "+number), now, now), "a short line was refused")
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&waiting)
	f.Flush()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(f)
	const most = 4 << 20
	check.That(t, waiting.HeapAlloc < before.HeapAlloc+most, "%d MiB wait", (waiting.HeapAlloc-before.HeapAlloc)>>20)
	check.That(t, after.HeapAlloc < before.HeapAlloc+most, "%d MiB are kept", (after.HeapAlloc-before.HeapAlloc)>>20)
}

// Lines of any kind in any order leave no more than a few MiB behind.
func TestFolderKeepsLittleMemory(t *testing.T) {
	now := time.Now()
	f := fold.New(2, true, func(fold.Line) {})
	unique := 0
	add := func(lines int, text string) {
		for range lines {
			unique++
			word := strings.Map(func(r rune) rune { return r + 'a' - '0' }, fmt.Sprint(unique))
			must.That(t, f.Add(0, 1, []byte(word+" "+text), now, now), "a short line was refused")
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 { // the memory of long lines goes to short ones, and long ones get other memory
		add(4096, "x")
		add(128, "x")
		add(128, strings.Repeat("12 ", 2000))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(f)
	const most = 32 << 20
	check.That(t, after.HeapAlloc < before.HeapAlloc+most, "the folder keeps %d MiB",
		(after.HeapAlloc-before.HeapAlloc)>>20)
}

// The same holds for lines of many ranks.
func TestFolderKeepsLittleOfManyRanks(t *testing.T) {
	const ranks = 256
	now := time.Now()
	f := fold.New(ranks+1, false, func(fold.Line) {})
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for rank := range ranks {
		for line := range 4096 {
			must.That(t, f.Add(rank, 1, fmt.Append(nil, line), now, now), "a short line was refused")
		}
	}
	f.Flush()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(f)
	const most = 4 << 20
	check.That(t, after.HeapAlloc < before.HeapAlloc+most, "the folder keeps %d MiB",
		(after.HeapAlloc-before.HeapAlloc)>>20)
}
