package agent

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"github.com/gorun/gorun/internal/net/wire"
)

// pumpBuffer is one read of a rank's output.
const pumpBuffer = 32 << 10

// streams connects the standard files of this host's ranks, and the files for their results, with
// the launcher.
type streams struct {
	out     *wire.Writer
	outputs []int          // output streams of each rank
	readers []int          // ranks that read the launcher's standard input
	drained func(rank int) // one of a rank's output streams has ended
	stdin   *stdin

	mu    sync.Mutex
	pumps map[uint32]*pump
	wg    sync.WaitGroup
}

func newStreams(job wire.Job, out *wire.Writer, drained func(rank int)) *streams {
	s := &streams{
		out:     out,
		outputs: outputsOf(job),
		readers: job.Stdin,
		drained: drained,
		stdin:   newStdin(out),
		pumps:   map[uint32]*pump{},
	}
	return s
}

// outputsOf returns the output streams of each rank of a job.
func outputsOf(job wire.Job) []int {
	if job.Results {
		return []int{wire.Stdout, wire.Stderr, wire.Result}
	}
	return []int{wire.Stdout, wire.Stderr}
}

// pipes are the files of one rank.
type pipes struct {
	theirs  []*os.File // standard input and the outputs, as the rank has them
	input   *os.File   // nil: the rank reads /dev/null
	outputs []*os.File
}

func (s *streams) open(rank int) (p *pipes, err error) {
	p = &pipes{}
	defer func() {
		if err != nil {
			p.closeTheirs()
			p.closeOurs()
		}
	}()
	var stdin *os.File
	if slices.Contains(s.readers, rank) {
		stdin, p.input, err = os.Pipe()
	} else {
		stdin, err = os.Open(os.DevNull)
	}
	p.theirs = append(p.theirs, stdin)
	for range s.outputs {
		if err != nil {
			return p, err
		}
		var read, write *os.File
		read, write, err = os.Pipe()
		p.outputs = append(p.outputs, read)
		p.theirs = append(p.theirs, write)
	}
	return p, err
}

// closeTheirs closes the rank's ends here, when the rank has them.
func (p *pipes) closeTheirs() { closeAll(p.theirs...) }

func (p *pipes) closeOurs() { closeAll(append(p.outputs, p.input)...) }

func closeAll(files ...*os.File) {
	for _, f := range files {
		f.Close() // nil for what was not opened
	}
}

// attach connects a started rank's input and output with the launcher.
func (s *streams) attach(rank int, pipes *pipes) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, file := range pipes.outputs {
		p := &pump{
			file:   file,
			stream: wire.OutputStream(rank, s.outputs[i]),
			credit: wire.NewCredit(),
			out:    s.out,
			lines:  s.outputs[i] != wire.Result,
		}
		s.pumps[p.stream] = p
		s.wg.Go(func() {
			p.run(make([]byte, pumpBuffer))
			s.drained(rank)
		})
	}
	if pipes.input != nil {
		s.wg.Go(s.stdin.attach(rank, pipes.input))
	}
}

// addCredit takes the launcher's credit for an output stream.
func (s *streams) addCredit(f wire.Frame) error {
	n, err := f.Credit()
	if err != nil {
		return err
	}
	s.mu.Lock()
	p := s.pumps[f.Stream]
	s.mu.Unlock()
	if p == nil {
		return &wire.FormatError{Reason: fmt.Sprintf("credit for stream %d, which does not exist", f.Stream)}
	}
	return p.credit.Add(n)
}

// rankEnded cuts the streams of a rank soon, which its children may hold open.
func (s *streams) rankEnded(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, fd := range s.outputs {
		if p := s.pumps[wire.OutputStream(rank, fd)]; p != nil {
			p.rankEnded()
		}
	}
	s.stdin.close(rank)
}

func (s *streams) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.pumps {
		p.credit.Close()
	}
}
