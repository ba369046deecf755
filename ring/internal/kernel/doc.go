// Package kernel combines, scales and copies arrays of numbers at the
// speed of the memory they lie in. It is the arithmetic below the collectives.
//
// It works on raw memory: pointers and counts, no slices of a known type. It
// allocates nothing, keeps no state and may be used by many goroutines at once.
// Pointers need no alignment. The memory must hold what the count says; exactly
// that much is read and written.
//
// # Tiers
//
// There is a plain Go tier, which is the reference, on amd64 two tiers in assembly, AVX2 with F16C
// and AVX-512 (F, BW, DQ, VL), and on arm64 one, NEON. [Detect] picks one. All tiers give the same
// bits for the same input, NaNs included, so ranks on unlike machines agree.
//
// # Rules for floating point
//
//   - [Set.Reduce] combines the sources in their order, element by element. F16
//     and BF16 are widened to float32, combined there over all sources, and
//     rounded once at the end.
//   - All rounding is to nearest, ties to even. Subnormal numbers are kept.
//   - Sum, Prod, Scale and Divide of a and b: the result is a made quiet if a is
//     NaN, else b made quiet if b is NaN. An invalid operation (inf-inf, 0*inf)
//     gives the NaN with the sign bit set and no payload.
//   - Min and Max of a and b: the result is a if a is NaN or comes first, else b.
//     A NaN is therefore propagated. -0 comes before +0.
//   - Narrowing a NaN keeps its sign and the payload bits that fit, and makes it
//     quiet. Widening F16 makes it quiet, widening BF16 leaves it as it is.
//   - One source is copied as it is, and so is scaling by 1 or dividing by 1.
package kernel
