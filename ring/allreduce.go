package ring

// allReduce combines buf over all ranks, in place. See schedule.go for the
// algorithm. A chunk is combined in one order, that of the ranks it passes, and
// then copied, so all ranks get the same bits.
func (m *mesh) allReduce(buf []byte, t Type, op Op) error {
	count := len(buf) / t.size()
	chunk := func(i int) []byte {
		lo, hi := span(count, m.size, i)
		return buf[lo*t.size() : hi*t.size()]
	}
	step, half := 0, m.size-1

	// reduce-scatter: send a chunk, combine the one that comes
	for ; step < half; step++ {
		send, recv := schedule(m.rank, m.size, step)
		if err := m.combineStep(chunk(send), chunk(recv), t, op); err != nil {
			return err
		}
	}

	// the chunk that goes out first in the next half is finished here
	if op == Avg {
		finished, _ := schedule(m.rank, m.size, half)
		m.divide(t, chunk(finished), m.size)
	}

	// all-gather: send a finished chunk, keep the one that comes
	for ; step < 2*half; step++ {
		send, recv := schedule(m.rank, m.size, step)
		if err := m.copyStep(chunk(send), chunk(recv)); err != nil {
			return err
		}
	}
	return nil
}

// combineStep sends out to the next rank while what comes from the one before is
// combined into own, a segment at a time: a segment is combined while the next one
// is on its way.
func (m *mesh) combineStep(out, own []byte, t Type, op Op) error {
	for off := 0; off < max(len(out), len(own)); off += m.segment {
		m.next.Send(m.cut(out, off))
		part := m.cut(own, off)
		got := m.scratch[:len(part)]
		if err := m.recv(m.prevRank, m.prev, got); err != nil {
			return err
		}
		m.reduce(t, op, part, got)
	}
	return nil
}

// copyStep sends out to the next rank while in is filled from the one before.
func (m *mesh) copyStep(out, in []byte) error {
	m.next.Send(out)
	return m.recv(m.prevRank, m.prev, in)
}
