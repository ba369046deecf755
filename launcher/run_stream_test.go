package launcher

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
)

func TestRunPassesOnWhatRanksTellEachOther(t *testing.T) {
	talk := func(a *fake.Agent) error {
		values := map[int][]byte{}
		for _, r := range a.Job.Ranks {
			values[r.Rank] = fmt.Append(nil, "v", r.Rank)
		}
		if err := a.Out.SendMessage(wire.TypeFence, wire.Fence{Name: "f", Values: values}); err != nil {
			return err
		}
		f, err := a.Expect(wire.TypeFenced)
		if err != nil {
			return err
		}
		var all wire.Fence
		if err := f.Decode(&all); err != nil {
			return err
		}
		if !reflect.DeepEqual(all, wire.Fence{Name: "f",
			Values: map[int][]byte{0: []byte("v0"), 1: []byte("v1"), 2: []byte("v2"), 3: []byte("v3")}}) {
			return fmt.Errorf("fenced %+v", all)
		}
		if a.Job.Ranks[0].Rank == 0 {
			time.Sleep(time.Second)
			if err := a.Out.SendMessage(wire.TypePut, wire.Put{Key: "k", Value: []byte("value")}); err != nil {
				return err
			}
			return succeed(a)
		}
		for id, want := range []wire.Value{{ID: 0, Found: true, Value: []byte("value")}, {ID: 1}} {
			get := wire.Get{ID: uint64(id), Key: []string{"k", "never"}[id], Wait: 5 * time.Second}
			if err := a.Out.SendMessage(wire.TypeGet, get); err != nil {
				return err
			}
			f, err := a.Expect(wire.TypeValue)
			if err != nil {
				return err
			}
			var v wire.Value
			if err := f.Decode(&v); err != nil || fmt.Sprint(v) != fmt.Sprint(want) {
				return fmt.Errorf("value %+v, %w", v, err)
			}
		}
		return succeed(a)
	}
	r, err := runOn(t, []*fake.Machine{serving(talk), serving(talk)}, nil)
	check.That(t, err == nil && r.Code() == 0 && r.took >= 6*time.Second && r.took <= 7*time.Second,
		"%+v (%v), %v, after %v", r, r.Cause, err, r.took)
}

// flood sends total bytes of a stream, as a pump does: within its credit.
func flood(a *fake.Agent, rank, fd, total int) error {
	left := wire.Window
	for sent := 0; sent < total; {
		n := min(32<<10, left-wire.FrameCost, total-sent)
		if n <= 0 {
			f, err := a.Expect(wire.TypeCredit)
			if err != nil {
				return err
			}
			back, err := f.Credit()
			if err != nil || f.Stream != wire.OutputStream(rank, fd) {
				return fmt.Errorf("credit for stream %d, %w", f.Stream, err)
			}
			left += back
			continue
		}
		if err := a.Print(rank, fd, strings.Repeat("z", n)); err != nil {
			return err
		}
		sent += n
		left = left - wire.Cost(n)
	}
	return nil
}

// TestRunCarriesOutputWithinItsCredit sends much more than a window, as a pump
// does: credit must come back, and every byte must arrive.
func TestRunCarriesOutputWithinItsCredit(t *testing.T) {
	const total = 5 * wire.Window
	talk := func(a *fake.Agent) error { return errors.Join(flood(a, 1, 2, total), succeed(a)) }
	dir := t.TempDir()
	r, err := runOn(t, []*fake.Machine{serving(talk)}, func(o *Options) {
		o.Prefix = nil
		o.OutputDir = dir
	})
	check.That(t, err == nil && r.Code() == 0 && r.Output == nil && r.out == strings.Repeat("z", total),
		"%d bytes of %d; %+v, %v", len(r.out), total, r, err)
	saved, err := os.ReadFile(filepath.Join(dir, "rank.1", "stderr"))
	check.That(t, err == nil && string(saved) == r.out, "%d bytes saved of %d, %v", len(saved), total, err)
}

// A job whose output nobody takes is stopped. Bytes that are written only after the ranks have
// ended count, too.
func TestRunStopsWhenNobodyTakesItsOutput(t *testing.T) {
	const full = "the job was stopped: its output cannot be written: no space left on device"
	for _, tc := range []struct {
		cause error
		says  string
		then  func(*fake.Agent) error
		code  int
		text  string
	}{
		{syscall.EPIPE, "hello\n", obey, 141, ""},
		{syscall.ENOSPC, "hello\n", obey, 125, full},
		{syscall.EIO, "hello\n", obey, 125, "the job was stopped: its output cannot be written: input/output error"},
		{syscall.ENOSPC, "hello", succeed, 125, full},
	} {
		talk := func(a *fake.Agent) error { return errors.Join(a.Print(0, 1, tc.says), tc.then(a)) }
		r, err := runOn(t, []*fake.Machine{serving(talk)}, func(o *Options) {
			o.Stdout = &fake.Terminal{Err: tc.cause}
		})
		text := ""
		if r.Output != nil {
			text = r.Output.Error()
		}
		check.That(t, err == nil && r.Code() == tc.code && text == tc.text, "%v: %q, %+v, %v", tc.cause, text, r, err)
	}
}
