//go:build !race

package ring_test

// raceEnabled says that the race detector watches, which makes everything slow.
const raceEnabled = false

// soon is how soon ranks must know here.
const soon = told
