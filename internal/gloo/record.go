package gloo

import (
	"encoding/binary"
	"errors"
	"slices"
)

// A rank publishes one record for each other rank, in their order: the address of the socket on which
// it awaits that rank (a sockaddr_storage, 128 bytes) and a sequence number of 8 bytes, which is -1. All
// but a few of those bytes mean nothing.
const recordSize = 136

// Kinds of packed records.
const (
	packedIPv4 = 4 // port, address
	packedIPv6 = 6 // port, flow, address, scope
	packedRaw  = 0 // as it came
)

const (
	familyIPv4 = 2  // AF_INET
	familyIPv6 = 10 // AF_INET6
)

// pack leaves out what means nothing in a rank's records.
func pack(body []byte) ([]byte, error) {
	if len(body)%recordSize != 0 {
		return nil, errors.New("the addresses are no whole number of records")
	}
	packed := make([]byte, 0, len(body)/recordSize*7)
	for len(body) > 0 {
		r := body[:recordSize]
		body = body[recordSize:]
		family := binary.LittleEndian.Uint16(r)
		switch plain := binary.LittleEndian.Uint64(r[128:]) == ^uint64(0); {
		case plain && family == familyIPv4:
			packed = append(append(packed, packedIPv4), r[2:8]...)
		case plain && family == familyIPv6:
			packed = append(append(packed, packedIPv6), r[2:28]...)
		default:
			packed = append(append(packed, packedRaw), r...)
		}
	}
	return packed, nil
}

// unpack appends to dst the records that were packed, want of them.
func unpack(dst, packed []byte, want int) ([]byte, error) {
	for range want {
		if len(packed) == 0 {
			return nil, errCut
		}
		kind, size := packed[0], 0
		switch kind {
		case packedIPv4:
			size = 6
		case packedIPv6:
			size = 26
		case packedRaw:
			size = recordSize
		default:
			return nil, errCut
		}
		if packed = packed[1:]; len(packed) < size {
			return nil, errCut
		}
		value := packed[:size]
		packed = packed[size:]
		at := len(dst)
		dst = slices.Grow(dst, recordSize)[:at+recordSize]
		r := dst[at:]
		clear(r)
		family := uint16(familyIPv4)
		switch kind {
		case packedRaw:
			copy(r, value)
			continue
		case packedIPv6:
			family = familyIPv6
		}
		binary.LittleEndian.PutUint16(r, family)
		copy(r[2:], value)
		binary.LittleEndian.PutUint64(r[128:], ^uint64(0))
	}
	if len(packed) > 0 {
		return nil, errCut
	}
	return dst, nil
}

var errCut = errors.New("a rank's addresses came damaged")
