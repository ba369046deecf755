package gloo

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/gorun/gorun/internal/pickle"
)

// Limits of a worker's registration.
const (
	maxPickle  = 32 << 10
	maxItems   = 1 << 10 // addresses
	maxKeySize = 1 << 10
)

var errPickle = errors.New("not what Python's pickle makes of addresses and a key")

// parseWorker parses a worker's registration: base64 of a pickled ({interface: [(address, port),
// ...]}, key).
func parseWorker(body []byte) (*worker, error) {
	if len(body) > maxPickle {
		return nil, fmt.Errorf("%w: %d bytes", errPickle, len(body))
	}
	text, err := base64.StdEncoding.DecodeString(string(body))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPickle, err)
	}
	if len(text) < 2 || text[0] != 0x80 || text[1] != 4 && text[1] != 5 {
		return nil, fmt.Errorf("%w: of neither protocol 4 nor 5", errPickle)
	}
	value, rest, err := pickle.Read(text, maxPickle)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errPickle, err)
	}
	first, second, isPair := pairIn(value)
	interfaces, isDict := first.(*pickle.Dict)
	key, isKey := second.([]byte)
	if !isPair || !isDict || !isKey || len(rest) > 0 || len(key) == 0 || len(key) > maxKeySize {
		return nil, errPickle
	}
	w := &worker{key: key}
	for _, name := range interfaces.Keys {
		addrs, isList := interfaces.Items[name].(*pickle.List)
		if !isList {
			return nil, errPickle
		}
		for _, a := range addrs.Items {
			at, is := addressIn(a)
			if !is || len(w.addrs) >= maxItems {
				return nil, errPickle
			}
			w.addrs = append(w.addrs, at)
		}
	}
	return w, nil
}

// pairIn returns the two values of an unpickled pair.
func pairIn(v any) (first, second any, is bool) {
	if pair, isList := v.(*pickle.List); isList && len(pair.Items) == 2 {
		return pair.Items[0], pair.Items[1], true
	}
	return nil, nil, false
}

// addressIn returns the address and port of an unpickled pair.
func addressIn(v any) (at netip.AddrPort, is bool) {
	first, second, _ := pairIn(v)
	host, isText := first.(string)
	port, isPort := second.(int64)
	addr, err := netip.ParseAddr(host)
	return netip.AddrPortFrom(addr, uint16(port)), isText && isPort && err == nil && port > 0 && port <= math.MaxUint16
}
