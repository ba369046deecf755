//go:build !amd64 && !arm64

package kernel

import "unsafe"

// runs reports whether this processor has what the tier needs.
func (t tier) runs() bool { return t == plain }

func (tier) reduce(_ Type, _ Op, _ unsafe.Pointer, _ []unsafe.Pointer, from, _ int) int { return from }

func (tier) scale(_ Type, _, _ unsafe.Pointer, _ float64, from, _ int) int { return from }

func (tier) divide(_ Type, _, _ unsafe.Pointer, _ int, from, _ int) int { return from }

func (tier) copyNT(_, _ unsafe.Pointer, from, _ int) int { return from }

func (tier) copyTwice(_, _, _ unsafe.Pointer, from, _ int) int { return from }
