package faults

import (
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/lab"
)

// A1: one rank exits 3, the others sleep. Goal: all gone within 0.5 s.
func TestA1RankExits(t *testing.T) {
	b := newBench(t, lab.MustLoopback(t, lab.Specs(2)...))
	for _, culprit := range []string{"0", "3"} {
		j, w := b.gorun("-np", "4", "-H", "f1:2,f2:2", "sh", "-c", `echo up; [ $RANK != `+culprit+` ] || { sleep 0.5; echo now; exit 3; }; exec sleep 300`)
		b.await(j, "the ranks", func() bool {
			return strings.Count(j.Out.String(), "up\n") == 4 && strings.Contains(j.Out.String(), "now")
		})
		b.judge(w, j, time.Now(), Expect{Codes: []int{3}, Cause: "rank " + culprit + " on f[12] .*exit code 3|rank " + culprit + " on f[12] exited", End: 1500 * time.Millisecond, Clean: 1500 * time.Millisecond})
	}
}
