package prose

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Tail keeps the last bytes of what another program says, which may be without end. It is safe for
// concurrent use.
type Tail struct {
	size int
	mu   sync.Mutex
	kept []byte
	left int
}

// NewTail returns a Tail of size bytes.
func NewTail(size int) *Tail { return &Tail{size: size} }

func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if over := len(t.kept) - t.size; over > 0 {
		t.left += over
		t.kept = slices.Clone(t.kept[over:])
	}
	return len(p), nil
}

// String returns the last whole lines on one line, safe for a terminal, and says how much came
// before them.
func (t *Tail) String() string {
	end, left := t.End()
	if left == 0 {
		return Printable(end)
	}
	if _, lines, found := strings.Cut(end, "\n"); found && strings.TrimSpace(lines) != "" {
		left += len(end) - len(lines)
		end = lines // a whole first line
	}
	return fmt.Sprintf("(%d bytes left out) ... %s", left, Printable(end))
}

// End returns the last bytes written, and how many came before them.
func (t *Tail) End() (text string, left int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept), t.left
}
