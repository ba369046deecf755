package gloo

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"
)

const (
	// noticeEvery is the interval of notices about changed hosts. A worker confirms a notice even
	// if nothing in it reacts yet: before its training function begins, and just after it has
	// restarted.
	noticeEvery = time.Second
	noticeTime  = 2 * time.Second // bound on one notice and its answer
	// deafAfter is the number of lost notices in a row after which the user gets a note.
	deafAfter = 10
	maxFrame  = 64 << 10 // bytes of a worker's answer
)

// worker is the address at which a process takes notices, and the key that authenticates them.
type worker struct {
	addrs []netip.AddrPort // addresses of the worker, best first
	key   []byte
}

// register records where the process takes notices.
func (e *Elastic) register(body []byte) {
	w, err := parseWorker(body)
	if err != nil {
		e.mu.Lock()
		again := e.noted
		e.noted = true
		e.mu.Unlock()
		if !again {
			e.epochs.Note(fmt.Sprintf("its Horovod does not say intelligibly where it is to be told of hosts that "+
				"come and go, and will not be told: %v", err))
		}
		return
	}
	w.addrs = e.reachable(w.addrs)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.worker = w
	close(e.changed)
	e.changed = make(chan struct{})
}

// reachable returns the worker's addresses that are on this host, and loopback last: the worker
// listens on all addresses.
func (e *Elastic) reachable(addrs []netip.AddrPort) (own []netip.AddrPort) {
	for _, a := range addrs {
		if a.Addr().IsLoopback() || e.local(a.Addr()) {
			own = append(own, a)
		}
	}
	if len(addrs) == 0 {
		return nil
	}
	loopback := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), addrs[0].Port())
	if slices.Contains(own, loopback) {
		return own
	}
	return append(own, loopback)
}

// notify asks the process of rank 0 to leave the epoch, repeatedly until it has left.
func (e *Elastic) notify(s *stay) {
	defer close(s.silent)
	select {
	case <-e.epochs.Interrupted(s.number):
	case <-s.ctx.Done():
		return
	}
	lost := 0
	for n := 1; ; n++ {
		e.mu.Lock()
		w := e.worker
		changed := e.changed
		e.mu.Unlock()
		if w != nil {
			// Not cancelled when the process leaves: a notice that was sent must be consumed first.
			err := w.send(e.ctx, stamp(s.number, n))
			if lost++; err == nil {
				lost = 0
			}
			if lost == deafAfter {
				e.epochs.Note(fmt.Sprintf("its Horovod does not take the notice that hosts have come or gone: %v", err))
			}
		}
		select {
		case <-s.ctx.Done():
			return
		case <-changed:
		case <-time.After(noticeEvery):
		}
	}
}

// stamp returns the time of an epoch's nth notice. Workers obey only notices that are later than
// any before, from any host, so it is no clock's time.
func stamp(epoch, n int) float64 { return float64(epoch) + float64(min(n, 1<<20-1))/(1<<20) }

// send sends the notice and waits until the worker confirms it.
func (w *worker) send(ctx context.Context, stamp float64) error {
	ctx, cancel := context.WithTimeout(ctx, noticeTime)
	defer cancel()
	failed := errors.New("it has no address")
	for _, addr := range w.addrs {
		if failed = w.tellAt(ctx, addr, stamp); failed == nil {
			return nil
		}
	}
	return failed
}

func (w *worker) tellAt(ctx context.Context, addr netip.AddrPort, stamp float64) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return err
	}
	defer conn.Close()
	limit, _ := ctx.Deadline()
	_ = conn.SetDeadline(limit)
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if _, err := conn.Write(seal(w.key, notice(stamp))); err != nil {
		return err
	}
	_, err = unseal(w.key, conn)
	return err
}

// notice returns a pickled HostsUpdatedRequest of Horovod that reports both added and removed
// hosts. After removed hosts alone workers skip the sync, for which new workers would wait forever.
func notice(stamp float64) []byte {
	b := []byte("\x80\x02chorovod.runner.elastic.worker\nHostsUpdatedRequest\n)\x81}(U\x09timestampG")
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(stamp))
	return append(b, "U\x03resK\x03ub."...)
}

// A frame between Horovod's processes is an HMAC-SHA256 of its body, the body's length and the
// body.
const frameHead = sha256.Size + 4

func seal(key, body []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(body)
	return append(binary.LittleEndian.AppendUint32(mac.Sum(nil), uint32(len(body))), body...)
}

var errFrame = errors.New("no answer of Horovod's")

// unseal reads a frame and checks that its sender has the key.
func unseal(key []byte, r io.Reader) (body []byte, err error) {
	var head [frameHead]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint32(head[sha256.Size:])
	if length > maxFrame {
		return nil, errFrame
	}
	body = make([]byte, length)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	if !hmac.Equal(seal(key, body)[:sha256.Size], head[:sha256.Size]) {
		return nil, errFrame
	}
	return body, nil
}
