package connect

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/test/check"
)

func TestFilesFor(t *testing.T) {
	for _, tt := range []struct {
		hosts int
		limit uint64
		want  string
	}{
		{256, 64, "connections to 256 hosts need about 344 open files, and gorun may have 64"},
		{256, 1024, ""},
		{20, 64, ""},
		{1, 20, "connections to 1 host need about 26 open files, and gorun may have 20"},
	} {
		got := ""
		if err := filesFor(tt.hosts, tt.hosts, tt.limit); err != nil {
			got = err.Error()
		}
		check.Equal(t, got, tt.want, tt.hosts, "hosts, limit", tt.limit)
	}
}

func TestReachable(t *testing.T) {
	hosts := func(slots ...int) (all []hostfile.Host) {
		for i, n := range slots {
			all = append(all, hostfile.Host{Name: fmt.Sprint("h", i), Slots: n})
		}
		return all
	}
	for _, tt := range []struct {
		hosts []hostfile.Host
		most  int
		limit uint64
		want  int
		need  uint64 // 0: there is enough
	}{
		{hosts(8, 8, 8), math.MaxInt, 30, 3, 0},
		{hosts(8, 8, 8), math.MaxInt, 29, 2, 30},
		{hosts(8, 9, 8), math.MaxInt, 30, 2, 32}, // the second takes two connections
		{hosts(8, 9, 8), 3, 30, 3, 0},            // of which three are enough
		{hosts(4096), math.MaxInt, 500, 0, 600},
		{nil, math.MaxInt, 10, 0, 24},
	} {
		got, short := Reachable(tt.hosts, tt.most, tt.limit)
		check.That(t, len(got) == tt.want && (short != nil) == (tt.need > 0) && (short == nil || short.Need == tt.need),
			"%v, at most %d, limit %d: %v, %v", tt.hosts, tt.most, tt.limit, got, short)
	}
}

func TestAbandonedTurnDoesNotWait(t *testing.T) {
	turns := NewTurns()
	abandoned := errors.New("abandoned")
	for range Limit {
		turns <- struct{}{}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(abandoned)
	if err := turns.Do(ctx, func() error { return nil }); !errors.Is(err, abandoned) {
		t.Errorf("err is %v", err)
	}
}
