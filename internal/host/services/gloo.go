package services

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"

	"github.com/gorun/gorun/internal/host/contain"
	"github.com/gorun/gorun/internal/mpi/gloo"
	"github.com/gorun/gorun/internal/net/admit"
	"github.com/gorun/gorun/internal/net/kv"
	"github.com/gorun/gorun/internal/net/wire"
)

// rendezvous serves Horovod's rendezvous to the ranks of this host.
type rendezvous struct {
	ports     map[int]int // by rank
	listeners []net.Listener
	host      *gloo.Host
	elastic   *gloo.Elastic // server of an elastic job, instead of host
	cancel    context.CancelFunc
	wg        sync.WaitGroup
}

// openRendezvous opens a port for each rank: Horovod's requests do not name the rank.
func openRendezvous(job wire.Job, relay *relay, epochs *epochs, addresses []wire.Address) (*rendezvous, error) {
	ctx, cancel := context.WithCancel(context.Background())
	d := &rendezvous{ports: map[int]int{}, host: gloo.NewHost(ctx, relay), cancel: cancel}
	if epochs != nil {
		d.elastic = gloo.NewElastic(ctx, relay, glooEpochs{epochs}, job.Epoch, func(addr netip.Addr) bool {
			return isOwn(addresses, addr)
		})
	}
	for _, r := range job.Ranks {
		listener, err := gloo.Listen()
		if err != nil {
			d.close()
			return nil, fmt.Errorf("open Horovod's rendezvous on loopback for rank %d: %w", r.Rank, err)
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
			var peers admit.Peers
			defer peers.Close()
			rank.Serve(listener, func(conn net.Conn) bool { return ownRank(&peers, conn) })
		})
	}
	return d, nil
}

func (d *rendezvous) close() {
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

// glooEpochs leads the rendezvous from epoch to epoch with the rank server.
type glooEpochs struct{ *epochs }

func (e glooEpochs) Park(ctx context.Context, left int) (gloo.Epoch, error) {
	info, err := e.epochs.Park(ctx, left)
	if err != nil {
		return gloo.Epoch{}, err
	}
	return gloo.Epoch{
		Number:    info.Epoch,
		Rank:      info.Rank,
		Size:      info.Size,
		LocalRank: info.Location.LocalRank,
		LocalSize: info.Location.LocalSize,
		CrossRank: info.Location.CrossRank,
		CrossSize: info.Location.CrossSize,
	}, nil
}

// Sever cuts connections of the rank and its descendants.
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
	e.epochs.Note(rank, kv.Note{Text: text})
}

// isOwn reports whether this host has an address.
func isOwn(own []wire.Address, addr netip.Addr) bool {
	return slices.ContainsFunc(own, func(a wire.Address) bool {
		return a.Prefix.IsValid() && a.Prefix.Addr().WithZone("") == addr.WithZone("").Unmap()
	})
}

// ownRank reports whether the job's user has the other end of a connection, or root, as which ranks
// in containers may run. Clients of Horovod and MPI have no token: where the kernel does not know
// the user, the connection is refused.
func ownRank(peers *admit.Peers, conn net.Conn) bool {
	uid, err := peers.UID(conn)
	return err == nil && admit.IsOwn(uid)
}
