package ring

// Stop keeps the queue's goroutine from its next cycle, as if the rank were stopped.
func (q *Queue) Stop() (goOn func()) {
	q.mu.Lock()
	return q.mu.Unlock
}
