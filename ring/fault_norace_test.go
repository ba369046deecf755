//go:build !race

package ring_test

// raceEnabled says that the race detector watches, which makes everything slow.
const raceEnabled = false

// soon bounds the time until ranks know of a failure while other tests use the cores;
// failureDeadline is the goal.
const soon = 3 * failureDeadline
