//go:build !race

package ring_test

// raceEnabled says that the race detector watches, which makes everything slow.
const raceEnabled = false

// soon is how soon ranks must know here, beside others that use the cores: the goal is told.
const soon = 3 * told
