// Package faults does harm to running jobs and looks, from outside, at what
// becomes of them: never through the launcher under test, so that a launcher's own mistakes show. Any launcher can be looked at.
//
// A [Job] is one command under test, a [Watch] the oracle: it knows what was there before,
// and judges a job after its fault by the invariants that docs/reliability.md names I1 to I8.
package faults
