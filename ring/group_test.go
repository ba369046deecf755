package ring_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// Groups that overlap are made at once, only by their members, and work beside each other.
func TestGroups(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		comms := l.of(4).job(t).Join(t)
		groups := map[string][]int{"pair": {2, 0}, "odd": {1, 3}, "most": {3, 2, 1}, "all": {0, 1, 2, 3}, "one": {2}}
		type membership struct {
			name string
			at   int
		}
		var all []membership
		for name, ranks := range groups {
			for at := range ranks {
				all = append(all, membership{name, at})
			}
		}
		ringtest.All(t, len(all), func(i int) error {
			ranks := groups[all[i].name]
			name := all[i].name
			g, err := ring.Group(ctx, comms[ranks[all[i].at]], name, ranks)
			if err != nil {
				return err
			}
			if g.Rank() != all[i].at || g.Size() != len(ranks) {
				return fmt.Errorf("%s: rank %d of %d, want %d of %v", name, g.Rank(), g.Size(), all[i].at, ranks)
			}
			for range 10 {
				got := make([]int32, len(ranks))
				if err := ring.AllGather(ctx, g, got, []int32{int32(ranks[all[i].at])}); err != nil {
					return err
				}
				for at, rank := range ranks {
					if got[at] != int32(rank) {
						return fmt.Errorf("%s: gathered %v of ranks %v", name, got, ranks)
					}
				}
			}
			return nil
		})
	})
}

// Names that are alike as paths are different ones: no group takes the values of another, which may
// have ended.
func TestGroupsOfSimilarNames(t *testing.T) {
	comms := ringtest.NewJob(t, 2).Join(t)
	group := func(of []*ring.Comm, name string) []*ring.Comm {
		groups := make([]*ring.Comm, len(of))
		for late := range of { // the other one must not go on without it
			name := fmt.Sprint(name, late)
			came := make(chan struct{})
			time.AfterFunc(50*time.Millisecond, func() { close(came) })
			ringtest.All(t, len(of), func(i int) (err error) {
				if i == late {
					<-came
				}
				groups[i], err = ring.Group(ctx, of[i], name, []int{0, 1})
				if err == nil {
					err = ring.Barrier(ctx, groups[i])
				}
				return err
			})
		}
		return groups
	}
	a := group(comms, "a")
	_ = group(comms, "a1/b")
	_ = group(a, "b")
	for _, name := range []string{"x/", "/x/", "x//", "x/../x/", "./x/", "%2F", "../", "a?b#", "x\x00"} {
		_ = group(comms, name)
	}
}

// What is wrong with a group is said at once, and breaks nothing.
func TestGroupMistakes(t *testing.T) {
	comms := ringtest.NewJob(t, 3).Join(t)
	for want, ranks := range map[string][]int{"comes once": {0, 1, 1}, "from 0 to 2": {0, 3},
		"not among its ranks": {1, 2}} {
		check.Error(ring.Group(ctx, comms[0], "g", ranks)).Says(t, want, "ranks", ranks)
	}
	check.Error(ring.Group(ctx, comms[0], "", []int{0})).Any(t, "a group without a name")
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := ring.Group(short, comms[0], "late", []int{0, 2})
	check.That(t, errors.Is(err, context.DeadlineExceeded) &&
		strings.Contains(err.Error(), "rank 2 on testhost has not come"), "a member that does not come: %v", err)
	ringtest.All(t, 3, func(rank int) error { return ring.Barrier(ctx, comms[rank]) })
}

// The end of the job ends the wait for members, with an error that names the failed rank.
func TestGroupEndsWithTheJob(t *testing.T) {
	d := ringtest.NewJob(t, 2)
	comms := d.Join(t)
	within(t, failureDeadline, func() {
		time.AfterFunc(50*time.Millisecond, func() {
			d.Abort(ringtest.Abort{Rank: 1, Host: "testhost", Cause: "killed by a test"})
		})
		_, err := ring.Group(ctx, comms[0], "g", []int{0, 1})
		var peer *ring.PeerError
		check.That(t, errors.As(err, &peer) && peer.Rank == 1, "%v", err)
	})
}
