package wire

import "sync"

// Credit is the sender's side of one bulk stream's flow control: how many
// bytes it may still send. Safe for concurrent use.
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

// Take waits until there is credit and takes at most limit bytes of it. It returns
// 0 once the credit is closed.
func (c *Credit) Take(limit int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.left == 0 && !c.closed {
		c.filled.Wait()
	}
	if c.closed {
		return 0
	}
	n := min(c.left, limit)
	c.left -= n
	return n
}

// Add gives n bytes back. More than was taken is a *FormatError: the peer
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
