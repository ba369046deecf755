//go:build !race

package core

// simulatedJobs are as many as take a few seconds.
const simulatedJobs = 20_000
