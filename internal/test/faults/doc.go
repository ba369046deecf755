// Package faults harms running jobs and inspects the result from outside, never through the
// launcher under test, so that the launcher's own mistakes show. It works with any launcher.
//
// A [Job] is one command under test. A [Watch] is the oracle: it records the state before a job and
// judges the job after its fault by the invariants I1 to I8 of docs/reliability.md.
package faults
