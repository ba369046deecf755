package ring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/gorun/gorun/internal/net/secure"
	"github.com/gorun/gorun/internal/rankenv"
	"github.com/gorun/gorun/ring/internal/algorithms"
	"github.com/gorun/gorun/ring/internal/engine"
	"github.com/gorun/gorun/ring/internal/rails"
	"github.com/gorun/gorun/ring/internal/shm"
	"github.com/gorun/gorun/ring/internal/tcp"
)

// joinTimeout bounds how long started ranks take to connect.
const joinTimeout = 30 * time.Second

// spinFor is how long a rank with a processor of its own polls for bytes before it sleeps: a few
// times the duration of a small flow.
const spinFor = 50 * time.Microsecond

// maxHost bounds the name of a host in bytes. Each rank keeps those of all as long as the
// communicator.
const maxHost = 1 << 10

// exchange sends a value to all ranks of a communicator under construction, and returns the values
// of all, by rank.
type exchange func(name string, value []byte) ([][]byte, error)

// record describes a rank to all others.
type record struct {
	Host      string           `json:"host"`
	Addrs     []netip.AddrPort `json:"addrs"`
	Stripes   int              `json:"stripes"`
	Algorithm string           `json:"algorithm,omitempty"` // the only one, if not auto
	Network   string           `json:"network,omitempty"`
	Order     string           `json:"order,omitempty"`
	Guard     string           `json:"guard,omitempty"`
	Cert      []byte           `json:"cert,omitempty"` // fingerprint
	Rails     []secure.Rail    `json:"rails,omitempty"`
	MostRails int              `json:"most_rails,omitempty"` // if more than 1
}

// join makes c a member: the ranks find out which of them share memory, and connect to the others.
func (c *Comm) join(ctx context.Context, self secure.Identity, swap exchange) error {
	shared, domains, err := c.share(swap)
	if err != nil {
		return err
	}
	l := engine.NewLayout(c.Rank(), domains)
	if c.opts.transport == "shm" && !c.sharesHost(l) {
		err = errors.New("RING_TRANSPORT=shm, but the ranks of this host do not share memory")
	}
	var network *tcp.Net
	if err == nil && !l.Whole() {
		network, err = c.connect(ctx, self, l, swap)
	}
	if err != nil {
		if shared != nil {
			_ = shared.Close()
		}
		return err
	}
	f := engine.New(l, shared, network, c.opts.shard, c.opts.kernels)
	if c.opts.order == "rank" {
		f.ReduceInRankOrder()
	}
	if err := c.weigh(ctx, f, swap); err != nil {
		f.Close(false)
		return err
	}
	c.use(f)
	return nil
}

// weigh makes f choose algorithms by what its network costs. The ranks of a job measure that,
// unless the user says it; a part of a job has the costs of the whole.
func (c *Comm) weigh(ctx context.Context, f *engine.Fabric, swap exchange) error {
	if f.Whole() {
		return nil
	}
	if c.cost == nil && c.opts.network != "" {
		c.cost = &c.opts.cost
	}
	if c.cost == nil {
		stop := context.AfterFunc(ctx, f.Interrupt)
		own, err := f.Measure(uint64(c.self.Epoch), c.crowded())
		if !stop() && err != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
		samples, err := swap("cost", own.Encode())
		if err != nil {
			return err
		}
		cost, err := engine.Agree(samples)
		if err != nil {
			return err
		}
		c.cost = &cost
	}
	f.Tune(*c.cost, c.opts.algorithm)
	return nil
}

// costOf returns the costs among some ranks of c, or nil if they were not measured.
func (c *Comm) costOf(members []int) *algorithms.Cost {
	if c.cost == nil {
		return nil
	}
	cost := *c.cost
	if cost.Slowest = slices.Index(members, c.cost.Slowest); cost.Slowest < 0 {
		cost.Slowest = 0
		cost.Slow = cost.Beta
	}
	return &cost
}

// share finds the ranks that share memory. Ranks whose hosts have different names never do.
func (c *Comm) share(swap exchange) (*shm.Group, [][]int, error) {
	if c.Size() == 1 {
		return nil, [][]int{{0}}, nil
	}
	hosts, err := swap("host", []byte(c.self.Host))
	if err != nil {
		return nil, nil, err
	}
	c.hosts = make([]string, len(hosts))
	for rank, host := range hosts {
		if len(host) > maxHost {
			return nil, nil, fmt.Errorf("rank %d calls its host by a name of %d bytes: at most %d are allowed", rank,
				len(host), maxHost)
		}
		c.hosts[rank] = string(host)
	}
	offers := func(name string, value []byte) ([][]byte, error) {
		values, err := swap("shm/"+name, value)
		if name == "offer" {
			for rank := range values {
				if rank < len(c.hosts) && c.hosts[rank] != c.self.Host {
					values[rank] = nil
				}
			}
		}
		return values, err
	}
	return shm.Join(c.Rank(), c.Size(), c.opts.transport != "tcp", offers, c.opts.kernels, &c.broken)
}

// sharesHost reports whether all ranks of this host are in this rank's domain.
func (c *Comm) sharesHost(l engine.Layout) bool {
	for rank, host := range c.hosts {
		if host == c.self.Host && !l.Near(rank) {
			return false
		}
	}
	return true
}

// connect opens this rank's listeners, sends their addresses to all ranks, and connects to the
// partners of the common algorithms. Other ranks are connected to on demand.
func (c *Comm) connect(ctx context.Context, self secure.Identity, l engine.Layout, swap exchange) (*tcp.Net, error) {
	addrs, err := c.addresses()
	if err != nil {
		return nil, err
	}
	cfg := tcp.Config{
		Config: secure.Config{
			Stripes:    c.opts.stripes,
			Congestion: c.opts.congestion,
			Guard:      c.opts.guard,
			Sockets:    c.opts.sockets,
		},
		Kernels: c.opts.kernels,
		Compare: engine.Compare,
		Rails:   c.opts.rails,
	}
	if !c.crowded() {
		cfg.Spin = spinFor
	}
	network, err := tcp.Listen(ctx, addrs, cfg)
	if err != nil {
		return nil, err
	}
	met, err := c.meet(network, swap)
	if err == nil {
		err = network.Meet(self, met)
	}
	if err == nil {
		var expire context.CancelFunc
		ctx, expire = context.WithTimeout(ctx, joinTimeout)
		defer expire()
		err = network.Connect(ctx, l.Partners())
	}
	if err != nil {
		network.Interrupt()
		_ = network.Close() // the error that is known came first
		return nil, err
	}
	return network, nil
}

// crowded reports whether this host has more ranks than processors.
func (c *Comm) crowded() bool { return c.self.LocalSize > runtime.GOMAXPROCS(0) }

// addresses returns the addresses at which the launcher says this rank can be reached.
func (c *Comm) addresses() ([]netip.Addr, error) {
	texts := c.self.Addrs
	if len(texts) == 0 && c.self.Addr != "" {
		texts = []string{c.self.Addr}
	}
	if len(texts) == 0 && c.self.LocalSize == c.self.Size {
		texts = []string{"127.0.0.1"} // no other host connects
	}
	addrs := make([]netip.Addr, len(texts))
	for i, text := range texts {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return nil, fmt.Errorf("GORUN_ADDRS: %w", err)
		}
		if addr.IsUnspecified() {
			return nil, fmt.Errorf("GORUN_ADDRS: %s: a rank listens on one address, not on all", addr)
		}
		addrs[i] = addr
	}
	return addrs, nil
}

// meet sends this rank's record to every rank, and returns those of all.
func (c *Comm) meet(network *tcp.Net, swap exchange) ([]secure.Peer, error) {
	own := record{
		Host:    c.self.Host,
		Addrs:   network.Addrs(),
		Stripes: c.opts.stripes,
		Network: c.opts.network,
		Order:   c.opts.order,
		Guard:   c.opts.guard.String(),
	}
	if c.opts.algorithm != 0 {
		own.Algorithm = c.opts.algorithm.String()
	}
	var err error
	if c.opts.rails > 1 {
		own.MostRails = c.opts.rails
		if own.Rails, err = rails.Local(network.Addrs()); err != nil {
			return nil, fmt.Errorf("listing the network interfaces: %w", err)
		}
	}
	if c.opts.guard == secure.Encrypted {
		cert := network.Cert()
		own.Cert = cert[:]
	}
	mine, err := json.Marshal(own)
	if err != nil {
		return nil, err
	}
	values, err := swap("addr", mine)
	if err != nil {
		return nil, err
	}
	if len(values) != c.Size() {
		return nil, fmt.Errorf("got the addresses of %d ranks, want %d", len(values), c.Size())
	}
	peers := make([]secure.Peer, len(values))
	for rank, value := range values {
		var r record
		if err := json.Unmarshal(value, &r); err != nil {
			return nil, fmt.Errorf("address of rank %d: %w", rank, err)
		}
		// This rank keeps them all, and tries one after the other.
		if len(r.Addrs) > rankenv.MaxAddrs || len(r.Rails) > rankenv.MaxAddrs {
			return nil, fmt.Errorf("rank %d says that it listens on %d addresses, on %d of them for lanes: at most %d "+
				"are allowed", rank, len(r.Addrs), len(r.Rails), rankenv.MaxAddrs)
		}
		for _, set := range []struct{ name, mine, theirs string }{
			{"RING_STREAMS", fmt.Sprint(own.Stripes), fmt.Sprint(r.Stripes)},
			{"RING_RAILS", fmt.Sprint(max(own.MostRails, 1)), fmt.Sprint(max(r.MostRails, 1))},
			{"RING_NETWORK", strconv.Quote(own.Network), strconv.Quote(r.Network)},
			{"RING_ALGORITHM", strconv.Quote(own.Algorithm), strconv.Quote(r.Algorithm)},
			{"RING_ORDER", strconv.Quote(own.Order), strconv.Quote(r.Order)},
		} {
			if set.mine != set.theirs {
				return nil, fmt.Errorf("rank %d has %s=%s and rank %d %s: set it for all ranks, as with -x %s",
					c.Rank(), set.name, set.mine, rank, set.theirs, set.name)
			}
		}
		if r.Guard != own.Guard || len(r.Cert) != len(own.Cert) {
			return nil, fmt.Errorf("data of rank %d is %s and that of rank %d %s: set GORUN_ENCRYPT and "+
				"RING_CHECKSUM for all ranks, as gorun --encrypt and -x RING_CHECKSUM do",
				c.Rank(), own.Guard, rank, r.Guard)
		}
		peers[rank].Addrs = r.Addrs
		peers[rank].Rails = r.Rails
		copy(peers[rank].Cert[:], r.Cert)
	}
	return peers, nil
}

// use makes f the Comm's own. The end of the Comm interrupts and closes it, since other ranks may
// wait for a rank that makes no more calls.
func (c *Comm) use(f *engine.Fabric) {
	c.calls.fabric = f
	c.calls.lane = c.record.Lane(c.name, c.Size())
	if c.hosts == nil {
		c.hosts = slices.Repeat([]string{c.self.Host}, c.self.Size)
	}
	c.work.Add(1)
	context.AfterFunc(c.life, func() {
		defer c.work.Done()
		f.Interrupt()
		c.calls.Lock()
		defer c.calls.Unlock()
		c.leave()
	})
}
