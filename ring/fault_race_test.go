//go:build race

package ring_test

// raceEnabled says that the race detector watches, which makes everything slow.
const raceEnabled = true

// soon is how soon ranks must know here: failureDeadline, and time for the detector.
const soon = 5 * failureDeadline
