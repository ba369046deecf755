package agent

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"

	"github.com/gorun/gorun/internal/contain"
	"github.com/gorun/gorun/internal/gloo"
	"github.com/gorun/gorun/internal/kv"
	"github.com/gorun/gorun/internal/wire"
)

// manyRanks is the size of a job in which ranks may need more descriptors than they get by default: Horovod opens
// a socket for each other rank, and three times over.
const manyRanks = 256

// glooDoor is where the ranks of this host find Horovod's rendezvous.
type glooDoor struct {
	ports     map[int]int // by rank
	listeners []net.Listener
	host      *gloo.Host
	elastic   *gloo.Elastic // instead of host, of a process of an elastic job
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

// openGloo opens a port for each rank: stock Horovod does not say who asks.
func (a *agent) openGloo() error {
	if a.job.Size > manyRanks {
		raiseDescriptors()
	}
	ctx, cancel := context.WithCancel(context.Background())
	d := &glooDoor{ports: map[int]int{}, host: gloo.NewHost(ctx, a.relay), cancel: cancel}
	if a.epochs != nil {
		d.elastic = gloo.NewElastic(ctx, a.relay, glooEpochs{a.epochs}, a.job.Epoch, func(addr netip.Addr) bool { return isOwn(a.addresses, addr) })
	}
	a.gloo = d
	for _, r := range a.job.Ranks {
		listener, err := gloo.Listen()
		if err != nil {
			d.close()
			a.door.Close()
			return fmt.Errorf("open Horovod's rendezvous on loopback for rank %d: %w", r.Rank, err)
		}
		d.listeners = append(d.listeners, listener)
		d.ports[r.Rank] = listener.Addr().(*net.TCPAddr).Port
		var rank interface {
			Serve(net.Listener, func(net.Conn) bool)
		} = d.host.Rank()
		if d.elastic != nil {
			rank = d.elastic
		}
		d.wg.Go(func() {
			var peers kv.Peers
			defer peers.Close()
			rank.Serve(listener, func(conn net.Conn) bool { return ownRank(&peers, conn) })
		})
	}
	return nil
}

// close ends all questions.
func (d *glooDoor) close() {
	d.cancel()
	for _, l := range d.listeners {
		l.Close()
	}
	d.wg.Wait()
	d.host.Wait()
	if d.elastic != nil {
		d.elastic.Wait()
	}
}

// glooEpochs has the rendezvous go from epoch to epoch as the door does.
type glooEpochs struct{ *epochs }

func (e glooEpochs) Park(ctx context.Context, left int) (gloo.Epoch, error) {
	info, err := e.epochs.Park(ctx, left)
	if err != nil {
		return gloo.Epoch{}, err
	}
	return gloo.Epoch{Number: info.Epoch, Rank: info.Rank, Size: info.Size, LocalRank: info.Place.LocalRank, LocalSize: info.Place.LocalSize,
		CrossRank: info.Place.CrossRank, CrossSize: info.Place.CrossSize}, nil
}

// Sever is for all processes below this one, which are the rank's.
func (e glooEpochs) Sever(addrs map[netip.AddrPort]bool) {
	var pids []int
	for _, p := range contain.Descendants(os.Getpid()) {
		pids = append(pids, p.PID)
	}
	sever(pids, addrs)
}

func (e glooEpochs) Note(text string) {
	e.mu.Lock()
	rank := e.own.Rank
	if e.current.Epoch > 0 {
		rank = e.current.Rank
	}
	e.mu.Unlock()
	e.epochs.Note(rank, text)
}

// isOwn reports whether this host has an address.
func isOwn(own []wire.Address, addr netip.Addr) bool {
	return slices.ContainsFunc(own, func(a wire.Address) bool {
		return a.Prefix.IsValid() && a.Prefix.Addr().WithZone("") == addr.WithZone("").Unmap()
	})
}

// ownRank reports whether the job's user has the other end of a connection, or root, which ranks in containers
// may be. Horovod's and MPI's clients have no token: where the kernel does not tell, nobody is let in.
func ownRank(peers *kv.Peers, conn net.Conn) bool {
	uid, err := peers.UID(conn)
	return err == nil && kv.Own(uid)
}

// raiseDescriptors has ranks start with as many descriptors as they may have. Go has raised the limit for this process
// already, and lowers it again for those that it starts, unless it is set by hand.
func raiseDescriptors() {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit) // at worst ranks have what they always have
	}
}
