package wire

import "sync"

// FrameCost is what a frame of a bulk stream costs beside its bytes: more than a receiver needs to
// queue it. So what waits on one stream is bounded whatever the size of its frames.
const FrameCost = 256

// Cost is the credit that a frame with n bytes takes.
func Cost(n int) int { return FrameCost + n }

// Credit is the sender's side of one bulk stream's flow control: what its frames
// may still cost. Safe for concurrent use.
type Credit struct {
	mu     sync.Mutex
	filled sync.Cond
	left   int
	closed bool
}

// NewCredit returns a full Window of credit.
func NewCredit() *Credit {
	c := &Credit{left: Window}
	c.filled.L = &c.mu
	return c
}

// Take waits until there is credit for a frame with a byte, takes that of one with at most limit
// bytes, and returns how many bytes it may have. It returns 0 once the credit is closed.
func (c *Credit) Take(limit int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left <= FrameCost && !c.closed {
		c.filled.Wait()
	}
	if c.closed {
		return 0
	}
	n := min(c.left-FrameCost, limit)
	c.left -= Cost(n)
	return n
}

// Add gives n of credit back. More than was taken is a *FormatError: the peer
// returned credit it never had.
func (c *Credit) Add(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left+n > Window {
		return &FormatError{"more credit returned than was taken"}
	}
	c.left += n
	c.filled.Broadcast()
	return nil
}

// Close lets every waiting and later Take return 0.
func (c *Credit) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.filled.Broadcast()
}
