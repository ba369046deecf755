package launcher

import (
	"io"
	"slices"

	"github.com/gorun/gorun/internal/wire"
)

// StdinAll as Options.StdinRank gives the input to every rank.
const StdinAll = -1

// inputOf lists a host's ranks that read standard input.
func (o *Options) inputOf(h *PlannedHost) (ranks []int) {
	for _, r := range h.Ranks {
		if o.Stdin != nil && (o.StdinRank == StdinAll || o.StdinRank == r.Rank) {
			ranks = append(ranks, r.Rank)
		}
	}
	return ranks
}

// openInput begins to carry standard input to the hosts that have a rank which reads it.
func (j *job) openInput() {
	var readers []*session
	for _, s := range j.sessions {
		if len(j.opts.inputOf(s.host)) > 0 {
			s.input = wire.NewCredit()
			readers = append(readers, s)
		}
	}
	if len(readers) > 0 {
		go feed(j.opts.Stdin, readers) // ends with Stdin, which is the caller's
	}
}

// closeInput lets feed read no more.
func (j *job) closeInput() {
	for _, s := range j.sessions {
		s.endInput()
	}
}

// endInput takes the host out of those that standard input goes to.
func (s *session) endInput() {
	if s.input != nil {
		s.input.Close()
	}
}

// feed carries standard input to hosts, as far as all of them have room. It reads no more when
// nobody is left who takes it.
func feed(stdin io.Reader, hosts []*session) {
	buf := make([]byte, 16<<10)
	for {
		room := len(buf)
		taken := make([]int, len(hosts)) // credit, by host
		for i, s := range hosts {
			if taken[i] = s.input.Take(room); taken[i] > 0 {
				room = taken[i]
			}
		}
		var open []*session
		for i, s := range hosts {
			if taken[i] > 0 {
				_ = s.input.Add(taken[i] - room)
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
				s.out.send(wire.TypeStdin, 0, data)
			}
			if err != nil {
				s.out.send(wire.TypeStdin, 0, nil)
			}
			_ = s.input.Add(room - n)
		}
		if err != nil {
			return
		}
	}
}

// credit lets more of standard input go to a host, or no more of it.
func (s *session) credit(f wire.Frame) error {
	n, err := f.Credit()
	switch {
	case err != nil:
		return err
	case s.input == nil || f.Stream != 0:
		return &wire.FormatError{Reason: "credit for a stream that does not exist"}
	case n == 0:
		s.endInput()
		return nil
	}
	return s.input.Add(n)
}
