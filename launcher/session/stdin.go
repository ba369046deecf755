package session

import (
	"io"
	"slices"

	"github.com/gorun/gorun/internal/net/wire"
)

// EndInput stops standard input for the host.
func (s *Session) EndInput() {
	if s.Input != nil {
		s.Input.Close()
	}
}

// FeedStdin copies standard input to hosts, limited by the smallest credit. It stops reading when
// no host reads input any more.
func FeedStdin(stdin io.Reader, hosts []*Session) {
	buf := make([]byte, 16<<10)
	for {
		room := len(buf)
		taken := make([]int, len(hosts)) // credit, by host
		for i, s := range hosts {
			if taken[i] = s.Input.Take(room); taken[i] > 0 {
				room = taken[i]
			}
		}
		var open []*Session
		for i, s := range hosts {
			if taken[i] > 0 {
				_ = s.Input.Add(taken[i] - room)
				open = append(open, s)
			}
		}
		if hosts = open; len(hosts) == 0 {
			return
		}
		n, err := stdin.Read(buf[:room])
		data := slices.Clone(buf[:n])
		for _, s := range hosts {
			if n > 0 {
				s.Out.send(wire.TypeStdin, 0, data)
			}
			if err != nil {
				s.Out.send(wire.TypeStdin, 0, nil)
			}
			if n > 0 {
				_ = s.Input.Add(room - n)
			} else {
				_ = s.Input.Add(wire.Cost(room))
			}
		}
		if err != nil {
			return
		}
	}
}

// Credit handles a credit frame for standard input: more credit, or 0 for no more input.
func (s *Session) Credit(f wire.Frame) error {
	n, err := f.Credit()
	switch {
	case err != nil:
		return err
	case s.Input == nil || f.Stream != 0:
		return &wire.FormatError{Reason: "credit for a stream that does not exist"}
	case n == 0:
		s.EndInput()
		return nil
	}
	return s.Input.Add(n)
}
