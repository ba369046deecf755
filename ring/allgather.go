package ring

// allGather puts every rank's src into dst, in the order of ranks. Each rank's part
// travels around the ring once.
func (m *mesh) allGather(dst, src []byte) error {
	part := func(i int) []byte { return dst[i*len(src) : (i+1)*len(src)] }
	copy(part(m.rank), src)
	for step := range m.size - 1 {
		send, recv := schedule(m.rank, m.size, step)
		if err := m.copyStep(part(send), part(recv)); err != nil {
			return err
		}
	}
	return nil
}
