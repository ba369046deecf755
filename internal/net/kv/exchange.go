package kv

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"
)

// Keys is the part of a store by which some of its users exchange values.
type Keys interface {
	Put(key string, value []byte) error
	Get(ctx context.Context, key string, wait time.Duration) (value []byte, found bool, err error)
}

// Forever is the wait for a key that lasts as long as the context.
const Forever = time.Duration(math.MaxInt64)

// maxExchanged bounds the values of one exchange that are put here, and those of all others: as
// much as a fence of the whole job may have. Who decodes them takes many times as much memory.
const maxExchanged = 8 << 20

// Exchange is a fence of some members by keys NAME/PART, with the name of each member: it puts the
// values of the members that are here, and returns those of all members, in their order. No other
// exchange has the names. Values of more than a bound are an error.
func Exchange(ctx context.Context, keys Keys, name func(member int) string, here map[int][]byte, members []int) (
	[][]byte, error) {
	if len(here) < len(members) {
		size := 0
		for _, value := range here {
			size += len(value)
		}
		if size > maxExchanged {
			return nil, errLarge
		}
		for member, value := range here {
			if err := putParts(keys, name(member), value); err != nil {
				return nil, err
			}
		}
	}
	values := make([][]byte, len(members))
	left := maxExchanged
	for i, member := range members {
		value, is := here[member]
		if !is {
			var err error
			if value, err = getParts(ctx, keys, name(member), left); err != nil {
				return nil, err
			}
			left -= len(value)
		}
		values[i] = value
	}
	return values, nil
}

var errLarge = errors.New("exchanged values of more than 8 MiB")

// putParts puts a value of any size in parts. The first byte of each says whether another follows.
func putParts(keys Keys, name string, value []byte) error {
	for part := 0; ; part++ {
		n := min(MaxValue-1, len(value))
		piece := append([]byte{0}, value[:n]...)
		if value = value[n:]; len(value) > 0 {
			piece[0] = 1
		}
		if err := keys.Put(name+"/"+strconv.Itoa(part), piece); err != nil || len(value) == 0 {
			return err
		}
	}
}

// getParts returns a value of at most so many bytes. The store bounds none: a hostile host may
// empty the parts that were read, and put others.
func getParts(ctx context.Context, keys Keys, name string, most int) (value []byte, err error) {
	for part := 0; ; part++ {
		piece, _, err := keys.Get(ctx, name+"/"+strconv.Itoa(part), Forever)
		if err == nil && len(piece) == 0 {
			err = errors.New("an exchanged value has an empty part")
		}
		if err == nil && len(value)+len(piece)-1 > most {
			err = errLarge
		}
		if err != nil {
			return nil, err
		}
		if value = append(value, piece[1:]...); piece[0] == 0 {
			return value, nil
		}
	}
}
