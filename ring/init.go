package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/ring/internal/boot"
	"github.com/gorun/gorun/ring/internal/kernel"
	"github.com/gorun/gorun/ring/internal/shm"
	"github.com/gorun/gorun/ring/internal/tcp"
)

// joinTimeout bounds how long ranks that have all started take to link up.
const joinTimeout = 30 * time.Second

// Option changes how [Init] works.
type Option func(*options)

type options struct {
	lookup    func(string) (string, bool)
	segment   int
	transport string // auto, shm or tcp
	kernels   kernel.Set
}

// settings reads what the user may set for all programs: RING_TRANSPORT (auto,
// shm or tcp) and RING_SIMD (off, avx2 or avx512).
func (o *options) settings() error {
	o.transport, _ = o.lookup("RING_TRANSPORT")
	switch o.transport {
	case "":
		o.transport = "auto"
	case "auto", "shm", "tcp":
	default:
		return fmt.Errorf("ring: RING_TRANSPORT=%q: it must be auto, shm or tcp", o.transport)
	}
	limit, _ := o.lookup("RING_SIMD")
	var err error
	if o.kernels, err = kernel.Detect(limit); err != nil {
		return fmt.Errorf("ring: RING_SIMD: %w", err)
	}
	return nil
}

// WithEnviron makes Init read the rank's environment with lookup instead of
// [os.LookupEnv], so that several ranks can live in one process, as in tests.
func WithEnviron(lookup func(name string) (value string, ok bool)) Option {
	return func(o *options) { o.lookup = lookup }
}

// Init joins the job that this process was started for by gorun, and returns when
// all ranks have joined. A process that was not started by gorun is a world of one.
//
// Ctx bounds Init only. If the job fails in the meantime, so does Init, with a
// [*PeerError].
func Init(ctx context.Context, opts ...Option) (*Comm, error) {
	o := options{lookup: os.LookupEnv, segment: segmentSize}
	for _, opt := range opts {
		opt(&o)
	}
	if err := o.settings(); err != nil {
		return nil, err
	}
	place, launched, err := rankenv.FromEnviron(o.lookup)
	if err != nil {
		return nil, fmt.Errorf("ring: %w", err)
	}
	if !launched {
		return alone(o), nil
	}
	c := newComm(place)
	c.door = boot.NewDoor(place.Agent, place.Token)
	c.work.Go(c.watch)
	if err := c.join(ctx, o); err != nil {
		err = c.fail(ctx, "init", err)
		c.Close()
		return nil, err
	}
	return c, nil
}

func alone(o options) *Comm {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	c := newComm(rankenv.Rank{Size: 1, LocalSize: 1, CrossSize: 1, Host: host})
	c.group = linked{newMesh(0, 1, o.segment, nil, o.kernels)}
	return c
}

// watch waits for the job to fail, or for the Comm to end.
func (c *Comm) watch() {
	if abort := c.door.WatchAbort(c.life); abort != nil {
		c.end(c.aborted(abort))
	}
}

func (c *Comm) aborted(a *boot.Abort) error {
	return &PeerError{Rank: a.Rank, Host: a.Host, Cause: errors.New(a.Cause)}
}

// join makes c a member: it learns the job's key, opens its port, tells all
// ranks where it is, and links to those that it talks to.
func (c *Comm) join(ctx context.Context, o options) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(c.life, func() { cancel(context.Cause(c.life)) })
	defer stop()

	self, err := c.identify(ctx)
	if err != nil {
		return c.initError(err)
	}
	shared, err := c.joinShared(ctx, o)
	if shared || err != nil {
		return c.initError(err)
	}
	listener, err := c.listen(ctx)
	if err != nil {
		return c.initError(err)
	}
	defer listener.Close()
	peers, err := c.exchange(ctx, listener.Addr())
	if err != nil {
		return c.initError(err)
	}
	ctx, expire := context.WithTimeout(ctx, joinTimeout)
	defer expire()
	links, err := listener.Join(ctx, self, peers)
	if err != nil {
		return c.initError(err)
	}
	c.use(links, o)
	return nil
}

// joinShared makes the ranks a group that shares memory, when all of them are on
// one host and really do.
func (c *Comm) joinShared(ctx context.Context, o options) (joined bool, err error) {
	if o.transport == "tcp" || c.place.LocalSize < c.place.Size || c.place.Size == 1 {
		return false, nil
	}
	exchange := func(name string, value []byte) ([][]byte, error) {
		return c.door.Fence(ctx, fmt.Sprintf("ring/%d/shm/%s", c.place.Epoch, name), value)
	}
	c.share, err = shm.Join(c.place.LocalRank, c.place.LocalSize, exchange, o.kernels, &c.broken)
	if err != nil || c.share == nil {
		if err == nil && o.transport == "shm" {
			err = errors.New("RING_TRANSPORT=shm, but the ranks of this host do not share memory")
		}
		return false, err
	}
	c.hosts = slices.Repeat([]string{c.place.Host}, c.place.Size)
	c.group = local{c.share, c.place.Rank, c.place.Size}
	return true, nil
}

// identify asks the agent for the job's key, and checks that agent and
// environment speak of the same rank.
func (c *Comm) identify(ctx context.Context) (tcp.Identity, error) {
	job, err := c.door.Job(ctx)
	if err != nil {
		return tcp.Identity{}, err
	}
	p := c.place
	if job.ID != p.Job || job.Epoch != p.Epoch || job.Rank != p.Rank || job.Size != p.Size {
		return tcp.Identity{}, fmt.Errorf("agent knows rank %d of %d of job %s epoch %d, environment says rank %d of %d of job %s epoch %d",
			job.Rank, job.Size, job.ID, job.Epoch, p.Rank, p.Size, p.Job, p.Epoch)
	}
	return tcp.Identity{Job: job.ID, Epoch: job.Epoch, Rank: job.Rank, Size: job.Size, Key: job.Key}, nil
}

// listen opens this rank's port on the address that the launcher gave it.
func (c *Comm) listen(ctx context.Context) (*tcp.Listener, error) {
	text := c.place.Addr
	if text == "" && c.place.LocalSize == c.place.Size {
		text = "127.0.0.1" // nobody comes from another host
	}
	addr, err := netip.ParseAddr(text)
	if err != nil {
		return nil, fmt.Errorf("GORUN_ADDR: %w", err)
	}
	return tcp.Listen(ctx, addr)
}

// record is what a rank tells all others about itself.
type record struct {
	Addr netip.AddrPort `json:"addr"`
	Host string         `json:"host"`
}

// exchange tells every rank where this one is, and returns where those are that
// this one links to.
func (c *Comm) exchange(ctx context.Context, addr netip.AddrPort) ([]tcp.Peer, error) {
	mine, err := json.Marshal(record{addr, c.place.Host})
	if err != nil {
		return nil, err
	}
	values, err := c.door.Fence(ctx, fmt.Sprintf("ring/%d/addr", c.place.Epoch), mine)
	if err != nil {
		return nil, err
	}
	if len(values) != c.Size() {
		return nil, fmt.Errorf("agent gave the addresses of %d ranks, want %d", len(values), c.Size())
	}
	records := make([]record, len(values))
	c.hosts = make([]string, len(values))
	for rank, value := range values {
		if err := json.Unmarshal(value, &records[rank]); err != nil {
			return nil, fmt.Errorf("address of rank %d: %w", rank, err)
		}
		c.hosts[rank] = records[rank].Host
	}
	var peers []tcp.Peer
	seen := map[int]bool{}
	for _, round := range meetings(c.Rank(), c.Size()) {
		for _, rank := range round {
			if !seen[rank] {
				seen[rank] = true
				peers = append(peers, tcp.Peer{Rank: rank, Addr: records[rank].Addr})
			}
		}
	}
	return peers, nil
}

// use makes links the Comm's own. The end of the Comm interrupts them, even if it
// has come already.
func (c *Comm) use(links map[int]*tcp.Link, o options) {
	byRank := map[int]link{}
	for rank, l := range links {
		byRank[rank] = l
		c.links = append(c.links, l)
	}
	c.group = linked{newMesh(c.Rank(), c.Size(), o.segment, byRank, o.kernels)}
	all := c.links
	c.work.Add(1)
	context.AfterFunc(c.life, func() {
		defer c.work.Done()
		for _, l := range all {
			l.Interrupt()
		}
	})
}

// initError says what kind of failure err is: the job's, a rank's or our own.
func (c *Comm) initError(err error) error {
	var abort *boot.Abort
	var peer *tcp.PeerError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &abort):
		return c.aborted(abort)
	case errors.As(err, &peer):
		return &linkError{peer.Rank, peer.Err}
	case errors.As(err, new(*PeerError)):
		return err
	}
	return fmt.Errorf("ring: init: %w", err)
}
