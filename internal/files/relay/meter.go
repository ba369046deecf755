package relay

// Meter hears of bytes that are to come, and of those that have come. It is safe for concurrent
// use.
type Meter interface {
	Expect(bytes int64) // fewer than 0 are not to come after all
	Add(bytes int64)
}

// NoMeter hears of nothing.
type NoMeter struct{}

// Expect does nothing.
func (NoMeter) Expect(int64) {}

// Add does nothing.
func (NoMeter) Add(int64) {}
