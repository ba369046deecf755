package gloo

import (
	"encoding/binary"
	"errors"
	"slices"
)

// A rank publishes one record for each other rank, in their order: the address of the socket on
// which it awaits that rank (a sockaddr_storage, 128 bytes) and a sequence number of 8 bytes, which
// is -1. Most of those bytes are unused.
const recordSize = 136

// Kinds of packed records.
const (
	packedIPv4 = 4 // holds port and address
	packedIPv6 = 6 // holds port, flow, address and scope
	packedRaw  = 0 // holds the record unchanged
)

const (
	familyIPv4 = 2  // AF_INET
	familyIPv6 = 10 // AF_INET6
)

// pack drops the unused bytes of a rank's records.
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

// packedSize returns the bytes after the kind of a packed record.
func packedSize(kind byte) (size int, known bool) {
	switch kind {
	case packedIPv4:
		return 6, true
	case packedIPv6:
		return 26, true
	case packedRaw:
		return recordSize, true
	}
	return 0, false
}

// checkRecords reports whether packed holds exactly want records.
func checkRecords(packed []byte, want int) error {
	for ; want > 0 && len(packed) > 0; want-- {
		size, known := packedSize(packed[0])
		if !known || len(packed) <= size {
			return errCut
		}
		packed = packed[1+size:]
	}
	if want > 0 || len(packed) > 0 {
		return errCut
	}
	return nil
}

// unpack appends packed records, which check has accepted, to dst.
func unpack(dst, packed []byte) []byte {
	for len(packed) > 0 {
		kind := packed[0]
		size, _ := packedSize(kind)
		value := packed[1 : 1+size]
		packed = packed[1+size:]
		at := len(dst)
		dst = slices.Grow(dst, recordSize)[:at+recordSize]
		r := dst[at:]
		family := uint16(familyIPv4)
		switch kind {
		case packedRaw:
			copy(r, value)
			continue
		case packedIPv6:
			family = familyIPv6
		}
		clear(r)
		binary.LittleEndian.PutUint16(r, family)
		copy(r[2:], value)
		binary.LittleEndian.PutUint64(r[128:], ^uint64(0))
	}
	return dst
}

var errCut = errors.New("a rank's addresses came damaged")
