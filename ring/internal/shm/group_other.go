//go:build !linux

package shm

import (
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/gorun/gorun/ring/internal/kernel"
)

// Group has no ranks: ranks share memory on Linux only.
type Group struct{}

// Join returns a domain for each rank, and no Group.
func Join(_, size int, _ bool, _ Exchange, _ kernel.Set, _ *atomic.Bool) (g *Group, domains [][]int, err error) {
	for rank := range size {
		domains = append(domains, []int{rank})
	}
	return nil, domains, nil
}

func (*Group) Close() error { return nil }

func (*Group) ReduceInRankOrder()        {}
func (*Group) Announce(_, _ uint64)      {}
func (*Group) Waited() bool              { return false }
func (*Group) Assemble(_, _ uint64) bool { return false }
func (*Group) Prompt(_, _, _ int) bool   { return false }
func (*Group) Meanwhile(func() error)    {}
func (*Group) Barrier(uint64) error      { return errors.ErrUnsupported }
func (*Group) Broadcast(uint64, unsafe.Pointer, int, int) error {
	return errors.ErrUnsupported
}
func (*Group) AllGatherV(uint64, unsafe.Pointer, unsafe.Pointer, []Region) error {
	return errors.ErrUnsupported
}
func (*Group) AllReduce(uint64, kernel.Type, kernel.Op, unsafe.Pointer, unsafe.Pointer, int, int) error {
	return errors.ErrUnsupported
}
func (*Group) Reduce(uint64, kernel.Type, kernel.Op, unsafe.Pointer, unsafe.Pointer, int, int, int) error {
	return errors.ErrUnsupported
}
func (*Group) ReduceScatter(uint64, kernel.Type, kernel.Op, unsafe.Pointer, unsafe.Pointer, []Region, int) error {
	return errors.ErrUnsupported
}
func (*Group) Swap(uint64, int, unsafe.Pointer, int, int, unsafe.Pointer, int) error {
	return errors.ErrUnsupported
}
