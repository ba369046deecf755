package control

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// records splits a stream of records.
func records(t *testing.T, stream []byte) (all []Record) {
	t.Helper()
	for r := NewRecordReader(bytes.NewReader(stream)); ; {
		rec, err := r.Next()
		if err == io.EOF {
			return all
		}
		must.OK(t, err)
		rec.Data = bytes.Clone(rec.Data)
		all = append(all, rec)
	}
}

// Whatever the sizes of records and reads, a reader gets every byte once, or a gap that says how
// many are missing.
func TestTailLosesNothingUnnoticed(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tail := NewTail(false)
	var at, added, seen int64
	for range 400 {
		for range random.IntN(60) {
			data := make([]byte, random.IntN(100<<10))
			tail.Add(time.Now(), 7, 2, data)
			pieces := max(1, (len(data)+maxRecord-1)/maxRecord)
			added += int64(len(data) + pieces*recordHead)
		}
		for range random.IntN(4) {
			stream, next := tail.Read(t.Context(), at, make([]byte, 0, random.IntN(300<<10)), false)
			at = next
			for _, r := range records(t, stream) {
				if r.FD == Gap {
					seen += r.Lost
					continue
				}
				must.That(t, r.Rank == 7 && r.FD == 2, "%+v", r)
				seen += int64(recordHead + len(r.Data))
			}
			must.That(t, seen == at, "at %d after %d bytes", at, seen)
		}
	}
	check.That(t, added == tail.end && tail.end-tail.start <= tailSize,
		"added %d, the tail has %d to %d", added, tail.start, tail.end)
}

func TestTailSurvivesWrongPositions(t *testing.T) {
	tail := NewTail(false)
	for range 100 {
		tail.Add(time.Now(), 1, 1, bytes.Repeat([]byte{0xff}, 1000))
	}
	for at := range int64(5000) {
		stream, next := tail.Read(t.Context(), at, nil, false)
		must.That(t, next > at && int64(len(stream)) <= tail.end, "%d: %d bytes, %d", at, len(stream), next)
	}
}

func TestReadWaitsForMore(t *testing.T) {
	tail := NewTail(false)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			stream, _ := tail.Read(context.Background(), 0, nil, true)
			check.That(t, len(stream) != 0, "nothing was read")
		})
	}
	tail.Add(time.Now(), 0, 1, []byte("x"))
	wg.Wait()
	wg.Go(func() {
		stream, _ := tail.Read(context.Background(), tail.end, nil, true)
		check.That(t, stream == nil, "%q after the end", stream)
	})
	tail.Close()
	wg.Wait()
}

// logOf writes a tail to a folder in small files, until it is closed.
func logOf(dir string, tail *Tail, size int64, failed func(error)) (wait func()) {
	l := &log{
		dir:    dir,
		tail:   tail,
		size:   size,
		failed: failed,
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.run(context.Background())
	}()
	return func() { tail.Close(); <-done }
}

func TestLogIsBoundedAndNamesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	must.OK(t, os.Chmod(dir, 0o700))
	tail := NewTail(true)
	wait := logOf(dir, tail, 100<<10, func(err error) { t.Error(err) })
	const lines = 3000
	for i := range lines {
		tail.Add(time.Now(), i, 1, bytes.Repeat([]byte{'x'}, 1000))
	}
	wait()
	files, err := logFiles(dir)
	must.That(t, err == nil && len(files) == segments, "%v, %v", files, err)
	var ranks []int
	next, err := ReadLog(dir, 0, func(r Record) error {
		check.That(t, r.FD != Gap, "a gap of %d bytes", r.Lost)
		ranks = append(ranks, r.Rank)
		return nil
	})
	check.That(t, err == nil && next == tail.end, "read to %d of %d, %v", next, tail.end, err)
	check.That(t, len(ranks) != 0 && len(ranks) != lines && ranks[len(ranks)-1] == lines-1 &&
		ranks[len(ranks)-1]-ranks[0] == len(ranks)-1,
		"%d ranks of %d", len(ranks), lines)
}

// A log that cannot be written costs its records, one message, and no time.
func TestLogOnAFullDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	tail := NewTail(true)
	failures := make(chan error, 100)
	wait := logOf(dir, tail, 100<<10, func(err error) { failures <- err })
	tail.Add(time.Now(), 1, 1, []byte("lost"))
	check.Error(<-failures).Is(t, os.ErrNotExist)
	for range 10000 {
		tail.Add(time.Now(), 1, 1, bytes.Repeat([]byte("lost"), 100))
	}
	must.Until(t, "the end of the log", func() bool { return tail.loggedAll() == nil })
	must.OK(t, os.Mkdir(dir, 0o700))
	tail.Add(time.Now(), 2, 1, []byte("kept"))
	wait()
	if len(failures) != 0 {
		t.Errorf("%d more failures, %v", len(failures), <-failures)
	}
	var kept []Record
	if _, err := ReadLog(dir, 0, func(r Record) error {
		kept = append(kept, r)
		return nil
	}); err != nil || len(kept) != 1 || kept[0].Rank != 2 {
		t.Errorf("%+v, %v", kept, err)
	}
}

// loggedAll returns an error while the log lacks records.
func (t *Tail) loggedAll() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.logged < t.end {
		return errors.New("not yet")
	}
	return nil
}

// A log that hangs holds output up once, and then costs records.
func TestLogThatHangs(t *testing.T) {
	tail := NewTail(true) // nobody takes its records
	for range 4 * tailSize / 1000 {
		tail.Add(time.Now(), 1, 1, make([]byte, 1000))
	}
	check.That(t, tail.stuck, "the log does not count as stuck")
	tail.took(tail.end)
	check.That(t, !tail.stuck, "the log still counts as stuck")
}
