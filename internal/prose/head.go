package prose

import "sync"

// Head keeps the first bytes of what another program says, which may be without end. It is safe for
// concurrent use.
type Head struct {
	Limit int    // bytes that it keeps
	Full  func() // if set, called with each write that brings more

	mu   sync.Mutex
	kept []byte
}

func (h *Head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	room := h.Limit - len(h.kept)
	if len(p) > room && h.Full != nil {
		h.Full()
	}
	h.kept = append(h.kept, p[:min(len(p), room)]...)
	return len(p), nil
}

// Bytes returns what it keeps. The caller does not change it.
func (h *Head) Bytes() []byte {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept
}
