//go:build race

package core

// simulatedJobs are as many as take a few seconds, with the race detector.
const simulatedJobs = 3_000
