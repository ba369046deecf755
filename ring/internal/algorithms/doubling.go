package algorithms

import "github.com/gorun/gorun/ring/internal/flow"

// doubling exchanges whole vectors with partners at distance 1, 2, 4 … among as many
// members as make a power of two, the full ones. Each of the others, members 0, 2, 4 …,
// hands its vector to its neighbour before and gets the result after.
func (t *Team) doubling(sign *flow.Sign, r Reduction, dst, src []byte) error {
	full := pow2(t.Size())
	extra := t.Size() - full
	paired := t.me < 2*extra
	if paired && t.me%2 == 0 {
		f := t.begin(sign, t.me+1, flow.None)
		lead(f, src)
		if err := t.run(f); err != nil {
			return err
		}
		return t.take(sign, dst, t.me+1)
	}
	d := doubler{
		t:    t,
		sign: sign,
		r:    r,
		cur:  src,
		dst:  dst,
	}
	if paired {
		if err := d.combine(flow.None, t.me-1, false); err != nil {
			return err
		}
	}
	for distance := 1; distance < full; distance *= 2 {
		partner := place(t.me, extra) ^ distance
		if partner < extra {
			partner = 2*partner + 1
		} else {
			partner += extra
		}
		if err := d.combine(partner, partner, 2*distance == full); err != nil {
			return err
		}
	}
	if paired {
		return t.give(sign, dst, t.me-1)
	}
	return nil
}

// doubler is the vector of partial sums during a doubling.
type doubler struct {
	t        *Team
	sign     *flow.Sign
	r        Reduction
	cur, dst []byte
	second   bool // cur is in the second half of the scratch memory
}

// combine sends the vector to member to and combines it with that of member from. The
// last time the result goes to dst. Both ends put the lower member's vector first, so
// both get the same bits.
func (d *doubler) combine(to, from int, last bool) error {
	n := len(d.cur)
	room := d.t.room(2 * align(n))
	into := room[:n]
	if !d.second {
		into = room[align(n):][:n]
	}
	part := flow.Part{Into: into, With: d.cur, TheirsFirst: from < d.t.me}
	if last {
		if same(d.cur, d.dst) {
			copy(into, d.cur) // the sent vector must stay while the result arrives
			part.With = into
		}
		d.cur = part.With
		part.Into = d.dst
		part.Divisor = d.r.Divisor
	}
	f := d.t.begin(d.sign, to, from)
	if to != flow.None {
		lead(f, d.cur)
	}
	f.Recv = append(f.Recv, part)
	d.cur = part.Into
	d.second = !d.second
	return d.t.run(f)
}

// align rounds up to whole cache lines.
func align(n int) int { return (n + 63) &^ 63 }

// same reports whether a and b begin at the same place.
func same(a, b []byte) bool { return len(a) > 0 && len(b) > 0 && &a[0] == &b[0] }
