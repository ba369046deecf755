package ring_test

import (
	"fmt"
	"testing"

	"github.com/gorun/gorun/internal/test/ringtest"
	"github.com/gorun/gorun/ring"
)

// everyRank allreduces mine(rank) on every rank and wants want everywhere.
func everyRank[T ring.Elem](t *testing.T, comms []*ring.Comm, op ring.Op, mine func(rank int) T, want T) {
	t.Helper()
	const n = 3001
	err := ringtest.Each(len(comms), func(rank int) error {
		buf := make([]T, n)
		for i := range buf {
			buf[i] = mine(rank)
		}
		if err := ring.AllReduce(ctx, comms[rank], buf, op); err != nil {
			return err
		}
		for i, v := range buf {
			if v != want {
				return fmt.Errorf("%v of %T: element %d is %v, want %v", op, v, i, v, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func integers[T int8 | uint8 | int16 | int32 | int64 | uint64](t *testing.T, comms []*ring.Comm) {
	t.Helper()
	value := func(rank int) T { return T(rank + 2) }
	everyRank(t, comms, ring.Sum, value, 9)
	everyRank(t, comms, ring.Avg, value, 3)
	everyRank(t, comms, ring.Min, value, 2)
	everyRank(t, comms, ring.Max, value, 4)
	everyRank(t, comms, ring.Prod, value, 24)
	everyRank(t, comms, ring.BAnd, value, 0)
	everyRank(t, comms, ring.BOr, value, 7)
	everyRank(t, comms, ring.BXor, value, 5)
}

func TestEveryType(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		comms := l.of(3).job(t).Join(t)
		integers[int8](t, comms)
		integers[uint8](t, comms)
		integers[int16](t, comms)
		integers[int32](t, comms)
		integers[int64](t, comms)
		integers[uint64](t, comms)
		everyRank(t, comms, ring.Sum, func(rank int) uint8 { return 100 }, 44) // wraps around
		everyRank(t, comms, ring.Sum, func(rank int) bool { return rank == 1 }, true)
		everyRank(t, comms, ring.BAnd, func(rank int) bool { return rank == 1 }, false)
		// 1, 2 and 4 as halves; their sum is 7 in both forms.
		everyRank(t, comms, ring.Sum, func(rank int) ring.F16 {
			return []ring.F16{0x3c00, 0x4000, 0x4400}[rank]
		}, 0x4700)
		everyRank(t, comms, ring.Sum, func(rank int) ring.BF16 {
			return []ring.BF16{0x3f80, 0x4000, 0x4080}[rank]
		}, 0x40e0)
		if err := ring.AllReduce(ctx, comms[0], make([]float32, 1), ring.BAnd); err == nil {
			t.Error("bits of floating point numbers were combined")
		}
		if err := ring.AllReduce(ctx, comms[0], make([]bool, 1), ring.Avg); err == nil {
			t.Error("bools were averaged")
		}
	})
}

func TestAllReduceIntoKeepsItsInput(t *testing.T) {
	onTransports(t, func(t *testing.T, l layout) {
		comms := l.of(3).job(t).Join(t)
		for _, n := range []int{0, 1, 5000, 300000} {
			err := ringtest.Each(3, func(rank int) error {
				src := make([]float32, n)
				dst := make([]float32, n)
				for i := range src {
					src[i] = float32(i%5 + rank)
				}
				if err := ring.AllReduceInto(ctx, comms[rank], dst, src, ring.Sum); err != nil {
					return err
				}
				for i := range src {
					if src[i] != float32(i%5+rank) || dst[i] != float32(3*(i%5)+3) {
						return fmt.Errorf("element %d of %d: %v from %v", i, n, dst[i], src[i])
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		buf := make([]float32, 8)
		if ring.AllReduceInto(ctx, comms[0], buf[:4], buf[2:6], ring.Sum) == nil ||
			ring.AllReduceInto(ctx, comms[0], buf[:4], buf[4:7], ring.Sum) == nil {
			t.Error("overlapping or unequal buffers were taken")
		}
	})
}

// The names are of messages, and the values of ring.h.
func TestConstantsHaveTheirNames(t *testing.T) {
	for value, want := range map[fmt.Stringer]string{
		ring.KindBarrier: "barrier", ring.KindBroadcast: "broadcast", ring.KindAllGather: "allgather",
		ring.KindAllReduce: "allreduce", ring.KindReduce: "reduce",
		ring.KindReduceScatter: "reduce-scatter", ring.KindGather: "gather", ring.KindScatter: "scatter",
		ring.KindAllToAll: "alltoall", ring.KindMessage: "message",
		ring.Float32: "float32", ring.Float64: "float64", ring.Float16: "float16", ring.BFloat16: "bfloat16",
		ring.Int8: "int8", ring.Uint8: "uint8",
		ring.Int16: "int16", ring.Int32: "int32", ring.Int64: "int64", ring.Uint64: "uint64", ring.Bool: "bool",
		ring.Sum: "sum", ring.Avg: "avg", ring.Min: "min", ring.Max: "max", ring.Prod: "prod", ring.BAnd: "band",
		ring.BOr: "bor", ring.BXor: "bxor",
	} {
		if got := value.String(); got != want {
			t.Errorf("%T %d is %q, want %q", value, value, got, want)
		}
	}
}
