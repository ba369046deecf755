package doctor

import (
	"math"
	"slices"
)

// Better returns the first of two looks with what the second one says of what was in doubt: the
// better of both values wherever chance makes a value worse, and never better. Links in doubt that
// the second look left out say nothing.
func Better(first, second Measured, d Doubt) Measured {
	out := Measured{Names: first.Names, Hosts: map[string]Host{}}
	for name, h := range first.Hosts {
		if again, ok := second.Hosts[name]; ok {
			h = better(h, again)
		}
		out.Hosts[name] = h
	}
	doubted := map[[2]string]bool{}
	for _, p := range d.Pairs { // the first look counts for Partial pairs
		doubted[sorted(p)] = true
	}
	again := map[[2]string]Link{}
	for _, l := range second.Links {
		k := second.ends(l)
		l.From = slices.Index(out.Names, second.Names[l.From])
		l.To = slices.Index(out.Names, second.Names[l.To])
		if l.From >= 0 && l.To >= 0 {
			again[sorted(k)] = l
		}
	}
	for _, l := range first.Links {
		k := first.ends(l)
		if out.Hosts[k[0]].Error != "" || out.Hosts[k[1]].Error != "" {
			continue
		}
		now, measured := again[sorted(k)]
		switch {
		case measured:
			l = betterLink(l, now)
			delete(again, sorted(k))
		case doubted[sorted(k)] || slices.Contains(d.Linked, k[0]) || slices.Contains(d.Linked, k[1]):
			l.Doubted = true
		}
		out.Links = append(out.Links, l)
	}
	for _, l := range second.Links { // pairs that had not met before
		if now, left := again[sorted(second.ends(l))]; left {
			out.Links = append(out.Links, now)
		}
	}
	return out
}

// ends are the names of a link's hosts.
func (m Measured) ends(l Link) [2]string { return [2]string{m.Names[l.From], m.Names[l.To]} }

func sorted(pair [2]string) [2]string {
	return [2]string{min(pair[0], pair[1]), max(pair[0], pair[1])}
}

// betterLink returns the second measurement of a link with the better values of both.
func betterLink(old, l Link) Link {
	usable := func(l Link) bool { return l.Error == "" && l.Stalled == "" }
	switch {
	case !usable(old):
		return l
	case !usable(l):
		return old
	}
	if old.RTT > 0 && (l.RTT == 0 || old.RTT < l.RTT) {
		l.RTT = old.RTT
		l.Offset = old.Offset
	}
	l.Out = max(l.Out, old.Out)
	l.In = max(l.In, old.In)
	for side := range l.Sent {
		was := old.Sent[side]
		is := l.Sent[side]
		less := share(old.Resent[side], was) < share(l.Resent[side], is)
		if was > 4*is || was*4 > is && less { // with few segments, chance may spare them all
			l.Sent[side] = old.Sent[side]
			l.Resent[side] = old.Resent[side]
		}
	}
	return l
}

func better(first, second Host) Host {
	if second.Unexamined {
		return first
	}
	if first.Speed != nil && second.Speed != nil {
		a := first.Speed
		b := second.Speed
		second.Speed = &Speed{Copy: math.Max(a.Copy, b.Copy), Flops: math.Max(a.Flops, b.Flops),
			Share: math.Max(a.Share, b.Share)}
	}
	if second.Speed == nil && second.Finished {
		second.Speed = first.Speed
	}
	if first.Login != nil && second.Login != nil {
		l := *second.Login
		l.Seconds = math.Min(l.Seconds, first.Login.Seconds)
		second.Login = &l
	}
	if a := first.Facts; a != nil && second.Facts != nil {
		f := *second.Facts
		if f.Limits == nil { // limits and versions only in the first look
			f.Limits = a.Limits
			f.Versions = a.Versions
			f.Libc = a.Libc
			f.Xids = a.Xids
			f.Unasked = a.Unasked
		}
		f.Steal = math.Min(a.Steal, f.Steal)
		f.DNS.Seconds = math.Min(a.DNS.Seconds, f.DNS.Seconds)
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
