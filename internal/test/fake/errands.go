package fake

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"slices"
	"strings"

	"github.com/gorun/gorun/internal/net/wire"
)

// Number draws a number, perhaps one that nothing has.
func (s *Script) Number() int64 {
	return One[int64](s, 0, 1, 2, 3, 5, 100, -1, 1<<20, 1<<40, -1<<63, 1<<63-1)
}

// some draws a list of up to 2 values, rarely of many.
func some[T any](s *Script, draw func() T) (all []T) {
	for range s.Next(3) {
		all = append(all, draw())
	}
	if len(all) > 0 && s.Next(32) == 31 {
		all = slices.Repeat(all, 300)
	}
	return all
}

// fields are those of a message.
type fields map[string]any

// Errand sends what an agent may say to requests beside a job, of whatever kind they are.
func (s *Script) Errand(a *Agent) error {
	switch s.Next(12) {
	case 0:
		return a.Out.SendMessage(wire.TypeRefuse, wire.Refuse{Code: int(s.Number()), What: s.Text(), Remedy: s.Text()})
	case 1:
		return a.Out.SendMessage(wire.TypeGPUs, fields{"devices": some(s, s.device), "warnings": some(s, s.Text)})
	case 2:
		return a.Out.SendMessage(wire.TypeUnits, map[string]int64{"socket": s.Number(), s.Text(): s.Number()})
	case 3:
		return a.Out.SendMessage(wire.TypeOffered, fields{
			"Have":  s.Number(),
			"Addrs": some(s, func() string { return One(s, "10.0.0.1:4000", "127.0.0.1:22", "[fe80::1%x]:4000") }),
			"Cert":  make([]byte, One(s, 32, 0, 33)),
		})
	case 4, 5:
		return a.Out.SendMessage(wire.TypePassed, fields{
			"Have":   s.Number(),
			"Feed":   s.Flag(),
			"From":   s.Number(),
			"Blamed": One(s, nil, fields{"Member": s.Number(), "Why": s.Text(), "Lied": s.Flag()}),
			"Done":   s.Flag(),
			"Path":   []byte(s.Text()),
		})
	case 6:
		return a.Out.SendMessage(wire.TypeOffer, fields{
			"Name":  []byte(s.path()),
			"Size":  s.Number(),
			"Chunk": s.Number(),
			"Sums":  make([]byte, One(s, 32, 0, 31, 64)),
		})
	case 7:
		return a.Out.Send(wire.TypePiece, 0, []byte(s.Text()))
	case 8, 9:
		return a.Out.Send(wire.TypeFolder, 0, s.list())
	}
	return s.tell(a)
}

// path draws a path below a folder, or one that is none.
func (s *Script) path() string {
	return One(s, "f", "d", "d/f", "../f", "/f", "", ".", "d/../f", strings.Repeat("d/", 3000)+"f", Evil)
}

func (s *Script) device() fields {
	return fields{
		"index":     s.Number(),
		"minor":     s.Number(),
		"name":      s.Text(),
		"nvlinks":   map[int64]int64{s.Number(): s.Number()},
		"paths":     map[int64]int64{s.Number(): s.Number()},
		"mig":       some(s, func() fields { return fields{"profile": s.Text()} }),
		"processes": some(s, func() fields { return fields{"pid": s.Number()} }),
		"health":    One(s, nil, fields{"clock": s.Number(), "slowdowns": some(s, s.Text)}),
	}
}

// list draws a list of files that come, packed, or a part of one.
func (s *Script) list() []byte {
	entry := func() fields {
		return fields{
			"path":   s.path(),
			"kind":   One(s, "file", "file", "dir", "link", "x"),
			"size":   s.Number(),
			"mode":   s.Number(),
			"mtime":  s.Number(),
			"target": s.path(),
		}
	}
	text, _ := json.Marshal(fields{"Entries": some(s, entry), "Missing": some(s, s.Text), "Notes": some(s, s.Text),
		"Shared": s.Flag()})
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = zip.Write(text)
	_ = zip.Close()
	return packed.Bytes()[:packed.Len()*One(s, 2, 2, 1, 0)/2]
}

// tell sends a tell of an errand beside a job.
func (s *Script) tell(a *Agent) error {
	errand := uint32(Oddly(s, 1+s.Next(3), int(s.Number())))
	var data []byte
	var message any
	what := One(s, wire.TellOut, wire.TellOut, wire.TellOut, wire.TellErr, wire.TellCredit, wire.TellEnd, wire.TellEnd,
		wire.TellIn, wire.TellSize)
	switch {
	case s.Next(8) == 7:
		data = []byte(s.Text())
	case what == wire.TellCredit:
		data = binary.BigEndian.AppendUint32(nil, uint32(s.Number()))
	case what == wire.TellEnd:
		message = fields{"code": s.Number(), "error": s.Text(), "hint": s.Text()}
	case s.Flag():
		message = fields{"At": s.Number(), "Rank": fields{"Rank": s.Rank(), "State": s.Text(), "CPU": s.Number()}}
	case s.Flag():
		message = fields{"At": s.Number(), "Host": fields{"CPUs": s.Number(), "Busy": s.Number(), "Memory": s.Number()}}
	default:
		message = fields{"rank": s.Rank(), "host": s.Text(), "error": s.Text(), "moves": s.Number(),
			"threads": some(s, func() fields { return fields{"name": s.Text(), "frames": some(s, s.Text)} })}
	}
	if message != nil {
		data, _ = json.Marshal(message)
		if what == wire.TellOut && !s.Flag() {
			data = append(data, '\n')
		}
	}
	return a.Out.SendTell(errand, what, data[:min(len(data), wire.MaxTell)])
}
