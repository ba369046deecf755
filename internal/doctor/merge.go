package doctor

import (
	"math"
	"slices"
)

// Better returns the second of two looks with the better of both values wherever chance makes a value worse, and never better. What the second look left
// out is as in the first.
func Better(first, second Measured) Measured {
	hosts := map[string]Host{}
	for name, h := range second.Hosts {
		hosts[name] = better(first.Hosts[name], h)
	}
	second.Hosts = hosts
	type pair struct{ from, to string }
	before := map[pair]Link{}
	for _, l := range first.Links {
		before[pair{first.Names[l.From], first.Names[l.To]}] = l
	}
	links := make([]Link, 0, len(second.Links))
	for _, l := range second.Links {
		old, known := before[pair{second.Names[l.From], second.Names[l.To]}]
		usable := func(l Link) bool { return l.Error == "" && l.Stalled == "" }
		switch {
		case !known || !usable(old):
		case !usable(l):
			old.From, old.To = l.From, l.To
			l = old
		default:
			if old.RTT > 0 && old.RTT < l.RTT {
				l.RTT, l.Offset = old.RTT, old.Offset
			}
			l.Out, l.In = max(l.Out, old.Out), max(l.In, old.In)
			for side := range l.Sent {
				if old.Sent[side] > 0 && (l.Sent[side] == 0 || share(old.Resent[side], old.Sent[side]) < share(l.Resent[side], l.Sent[side])) {
					l.Sent[side], l.Resent[side] = old.Sent[side], old.Resent[side]
				}
			}
		}
		links = append(links, l)
	}
	again := map[pair]bool{}
	for _, l := range second.Links {
		again[pair{second.Names[l.From], second.Names[l.To]}], again[pair{second.Names[l.To], second.Names[l.From]}] = true, true
	}
	for _, l := range first.Links {
		from, to := first.Names[l.From], first.Names[l.To]
		if again[pair{from, to}] || second.Hosts[from].Error != "" || second.Hosts[to].Error != "" {
			continue
		}
		if l.From, l.To = slices.Index(second.Names, from), slices.Index(second.Names, to); l.From >= 0 && l.To >= 0 {
			links = append(links, l)
		}
	}
	second.Links = links
	return second
}

func better(first, second Host) Host {
	if a, b := first.Speed, second.Speed; a != nil && b != nil {
		second.Speed = &Speed{Copy: math.Max(a.Copy, b.Copy), Flops: math.Max(a.Flops, b.Flops), Share: math.Max(a.Share, b.Share)}
	}
	if second.Speed == nil && second.Finished {
		second.Speed = first.Speed
	}
	if a, b := first.Login, second.Login; a != nil && b != nil {
		l := *b
		l.Seconds = math.Min(a.Seconds, b.Seconds)
		second.Login = &l
	}
	if a, b := first.Facts, second.Facts; a != nil && b != nil {
		f := *b
		if f.Limits == nil { // it was not asked again
			f.Limits, f.Versions, f.Libc, f.Xids, f.Unasked = a.Limits, a.Versions, a.Libc, a.Xids, a.Unasked
		}
		f.Steal, f.DNS.Seconds = math.Min(a.Steal, b.Steal), math.Min(a.DNS.Seconds, b.DNS.Seconds)
		f.Disks = append([]Disk(nil), f.Disks...)
		for i := range f.Disks {
			if i < len(a.Disks) && a.Disks[i].Path == f.Disks[i].Path && a.Disks[i].Error == "" {
				f.Disks[i].Fsync = math.Min(f.Disks[i].Fsync, a.Disks[i].Fsync)
			}
		}
		second.Facts = &f
	}
	return second
}
