package ring

// broadcast passes root's buf down the ring, a segment at a time, up to the rank
// before root: a chain in which all ranks are at work once the first segments have
// come through.
func (m *mesh) broadcast(buf []byte, root int) error {
	place := (m.rank - root + m.size) % m.size
	first, last := place == 0, place == m.size-1
	for off := 0; off < len(buf); off += m.segment {
		part := m.cut(buf, off)
		if !first {
			if err := m.recv(m.prevRank, m.prev, part); err != nil {
				return err
			}
		}
		if !last {
			m.next.Send(part)
		}
	}
	return nil
}
