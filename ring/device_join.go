package ring

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/ring/internal/nccl"
)

// attendance records which ranks have called NewDevice. Ranks that time out read it to name the
// missing ones.
type attendance struct {
	comm *Comm
	what string // its keys, as rankKey takes them
}

func (c *Comm) arrive(ctx context.Context) attendance {
	c.calls.Lock()
	r := attendance{c, fmt.Sprintf("device%s/%d", c.name, c.calls.splits)}
	c.calls.Unlock()
	if c.agent != nil && c.Size() > 1 {
		// without it this rank counts as missing, which matters only if the call times out
		_ = c.agent.Put(ctx, c.rankKey(c.Rank(), r.what), nil)
	}
	return r
}

// name adds the missing ranks to err if ctx has ended.
func (r attendance) name(ctx context.Context, err error) error {
	if ctx.Err() == nil || r.comm.agent == nil {
		return err
	}
	ask, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	var absent []string
	for rank := range r.comm.Size() {
		_, found, gerr := r.comm.agent.Get(ask, r.comm.rankKey(rank, r.what))
		if gerr != nil {
			return err
		}
		if !found && rank != r.comm.Rank() {
			absent = append(absent, fmt.Sprintf("rank %d on %s", r.comm.inJob(rank), r.comm.host(rank)))
		}
	}
	if len(absent) == 0 {
		return err
	}
	return fmt.Errorf("ring: device: %s has not come to it: %w",
		strings.Join(absent[:min(len(absent), maxNamed)], ", "), err)
}

// card describes a rank's device to the others, and later the result of its NCCL setup.
type card struct {
	state   uint8
	strict  bool // host memory will not do
	version int
	text    string // why it is not more
}

const (
	noGPU    = uint8(iota)
	hostOnly // a GPU and no NCCL
	hasNCCL
	gaveUp // because of another rank
)

const cardSize = 512

func (c card) encode() []byte {
	b := make([]byte, cardSize)
	b[0] = c.state
	if c.strict {
		b[1] = 1
	}
	binary.LittleEndian.PutUint32(b[4:], uint32(c.version))
	copy(b[8:], c.text)
	return b
}

func decodeCard(b []byte) card {
	text, _, _ := bytes.Cut(b[8:], []byte{0})
	return card{
		state:   b[0],
		strict:  b[1] == 1,
		version: int(binary.LittleEndian.Uint32(b[4:])),
		text:    string(text),
	}
}

// swapCards exchanges the cards of all ranks.
func (c *Comm) swapCards(ctx context.Context, mine card) ([]card, error) {
	all := make([]byte, cardSize*c.Size())
	if err := AllGather(ctx, c, all, mine.encode()); err != nil {
		return nil, err
	}
	cards := make([]card, c.Size())
	for rank := range cards {
		cards[rank] = decodeCard(all[cardSize*rank:])
	}
	return cards, nil
}

// decide returns whether NCCL is used, and if not, why. It depends only on the cards, so that all
// ranks agree. Where describes a rank.
func decide(cards []card, where func(rank int) string) (native bool, why string, err error) {
	strict := false
	for rank, c := range cards {
		strict = strict || c.strict
		switch {
		case c.state == noGPU:
			return false, "", fmt.Errorf("%w: %s: %s", ErrNoGPU, where(rank), c.text)
		case why != "":
		case c.state == hostOnly:
			why = fmt.Sprintf("%s: %s", where(rank), c.text)
		case cards[0].state == hasNCCL && c.version != cards[0].version:
			why = fmt.Sprintf("%s has another NCCL than %s: %s, %s", where(rank), where(0), c.text, cards[0].text)
		}
	}
	if why != "" && strict {
		return false, "", fmt.Errorf("ring: device: RING_DEVICE=nccl, and %s", why)
	}
	return why == "", why, nil
}

// open takes the GPU and NCCL, and connects to the other ranks of c.
func (d *Device) open(ctx context.Context, c *Comm, ordinal int) error {
	cards, err := c.swapCards(ctx, d.load(ordinal))
	if err != nil {
		return err
	}
	where := func(rank int) string { return fmt.Sprintf("rank %d on %s", c.inJob(rank), c.host(rank)) }
	native, why, err := decide(cards, where)
	if err != nil {
		return err
	}
	if !native {
		if mode, _ := c.opts.lookup("RING_DEVICE"); mode != "host" && c.Rank() == 0 && c.agent != nil {
			_ = c.agent.Note(ctx, "GPU buffers go through host memory, for "+why)
		}
		d.how = "host memory, for " + why
		if d.lib != nil {
			d.lib.Close()
			d.lib = nil
		}
		return d.startEvent()
	}
	d.how = d.lib.String()
	if err := d.startEvent(); err != nil {
		return err
	}
	return d.connect(ctx, c, where)
}

// load opens this rank's GPU and libraries, and describes them.
func (d *Device) load(ordinal int) card {
	lookup := d.comm.opts.lookup
	mode, _ := lookup("RING_DEVICE")
	mine := card{strict: mode == "nccl"}
	var err error
	if mode != "" && mode != "auto" && mode != "host" && mode != "nccl" {
		mine.text = fmt.Sprintf("RING_DEVICE=%q: it must be auto, host or nccl", mode)
		return mine
	}
	if d.gpu, err = nccl.OpenGPU(lookup, ordinal); err != nil {
		mine.text = err.Error()
		return mine
	}
	mine.state = hostOnly
	if mode == "host" {
		mine.text = "RING_DEVICE=host"
		return mine
	}
	if c := d.comm; c.opts.guard == secure.Encrypted && c.LocalSize() < c.Size() {
		mine.text = "NCCL would send data between hosts unencrypted, in spite of --encrypt"
		return mine
	}
	if d.lib, err = nccl.Find(lookup); err != nil {
		mine.text = err.Error()
		return mine
	}
	mine.state = hasNCCL
	mine.version = d.lib.Version
	mine.text = d.lib.String()
	return mine
}

func (d *Device) startEvent() (err error) {
	if d.event, err = d.gpu.NewEvent(); err != nil {
		return fmt.Errorf("ring: device: %w", err)
	}
	return nil
}

// connect makes NCCL's communicator. All ranks learn how it went for each.
func (d *Device) connect(ctx context.Context, c *Comm, where func(rank int) string) error {
	id := make([]byte, 1+nccl.IDSize)
	var err error
	if c.Rank() == 0 {
		var unique [nccl.IDSize]byte
		if unique, err = d.lib.UniqueID(); err == nil {
			id[0] = 1
			copy(id[1:], unique[:])
		}
	}
	if berr := Broadcast(ctx, c, id, 0); berr != nil {
		return berr
	}
	mine := card{state: hasNCCL}
	if id[0] == 1 {
		err = d.meet(ctx, [nccl.IDSize]byte(id[1:]))
	} else if err == nil {
		err = &calledOffError{0}
	}
	off := new(calledOffError)
	switch {
	case errors.As(err, &off):
		mine.state = gaveUp
	case err != nil:
		mine.state = noGPU
		mine.text = err.Error()
	}
	cards, err := c.swapCards(ctx, mine)
	if err != nil {
		return err
	}
	for rank, card := range cards {
		if card.state == noGPU {
			return fmt.Errorf("ring: device: %s: %s; give each rank a GPU of its own, or go through host memory with "+
				"-x RING_DEVICE=host", where(rank), card.text)
		}
	}
	if mine.state == gaveUp {
		return fmt.Errorf("ring: device: %s: it has called the start of NCCL off, and does not say why", where(off.by))
	}
	if slices.ContainsFunc(cards, func(c card) bool { return c.state == gaveUp }) {
		return errors.New("ring: device: the start of NCCL was called off on some ranks, and none says why")
	}
	return nil
}

// calledOffError reports that a rank on which NCCL does not come up has said so.
type calledOffError struct{ by int }

func (e *calledOffError) Error() string { return fmt.Sprintf("rank %d could not begin", e.by) }

// meet waits until NCCL on all ranks has come up. A rank on which it fails tells the others, which
// would otherwise wait: a key that all ranks await has its number, and it says the same in its own
// name. Without that the number is a lie.
func (d *Device) meet(ctx context.Context, id [nccl.IDSize]byte) (err error) {
	c := d.comm
	what := fmt.Sprintf("device%s/failed", d.comm.name) // another one for each NewDevice
	key := fmt.Sprintf("ring/%d/%s", c.self.Epoch, what)
	ctx, cancel := c.within(ctx)
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		if c.agent == nil || c.Size() == 1 {
			return
		}
		text, werr := c.agent.Wait(ctx, key)
		rank, nerr := strconv.Atoi(string(text))
		if werr != nil || nerr != nil || rank < 0 || rank >= c.Size() {
			return
		}
		if _, failed, gerr := c.agent.Get(ctx, c.rankKey(rank, what)); failed && gerr == nil {
			cancel(&calledOffError{rank})
		}
	}()
	defer func() {
		failed := err != nil && context.Cause(ctx) == nil
		cancel(nil)
		<-watching
		if failed && c.agent != nil {
			// otherwise they wait until their contexts end
			_ = c.agent.Put(c.life, c.rankKey(c.Rank(), what), nil)
			_ = c.agent.Put(c.life, key, []byte(strconv.Itoa(c.Rank())))
		}
	}()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.link, err = d.lib.Init(d.gpu, c.Size(), id, c.Rank()); err != nil {
		return err
	}
	var p pause
	for {
		switch r := d.link.State(); {
		case r == nccl.Success:
			return nil
		case r != nccl.InProgress:
			return d.link.Fault("init", r)
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
		p.wait()
	}
}
