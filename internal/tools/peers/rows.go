package main

import (
	"fmt"
	"strings"
	"time"
)

// row is a comparison with a goal: how many times as fast as the best peer, or as the plain socket,
// or as the sum of its rails, or as its links allow, ring shall be.
type row struct {
	name string
	settings
	goal float64
}

// rows returns those of the goals.
func rows() []row {
	shm := func(name, collective string, np int, low, high size, without string, goal float64) row {
		return row{name, settings{
			row:        name,
			collective: collective,
			transport:  "shm",
			np:         np,
			min:        low,
			max:        high,
			step:       4,
			runs:       5,
			streams:    1,
			without:    without,
		}, goal}
	}
	tcp := func(name, collective, transport string, np int, low, high size, step int, without string,
		goal float64) row {
		r := shm(name, collective, np, low, high, without, goal)
		r.transport = transport
		r.step = step
		return r
	}
	joined := func(name, rates string, goal float64) row {
		return row{name, settings{
			row:        name,
			collective: "allreduce",
			transport:  "veth",
			np:         2,
			min:        4 << 20,
			max:        64 << 20,
			step:       4,
			runs:       5,
			streams:    1,
			rails:      rates,
		}, goal}
	}
	slow := func(name string, slowest float64) row {
		return row{name, settings{
			row:        name,
			collective: "allreduce",
			transport:  "slow",
			np:         32,
			min:        8,
			max:        16 << 20,
			step:       2 << 20,
			runs:       3,
			streams:    1,
			pin:        true,
			links: links{
				hosts:   16,
				delay:   5 * time.Millisecond,
				mbit:    100,
				slowest: slowest,
			},
		}, 0.85}
	}
	return []row{
		shm("small-2", "allreduce", 2, 4, 256, "gloo", 1),
		// MPICH takes milliseconds with more ranks than processors
		shm("small-4", "allreduce", 4, 4, 1<<10, "mpich,gloo", 1),
		shm("allgather-2", "allgather", 2, 16<<20, 16<<20, "mpich", 2),
		shm("allgather-4", "allgather", 4, 16<<20, 16<<20, "mpich", 2),
		shm("reducescatter-2", "reducescatter", 2, 16<<20, 16<<20, "mpich", 2),
		shm("reducescatter-4", "reducescatter", 4, 16<<20, 16<<20, "mpich", 2),
		tcp("alltoall-8", "alltoall", "tcp", 8, 1<<20, 8<<20, 8, "", 1.5), // 1 MiB of each rank, and 1 MiB for each
		tcp("wire", "allreduce", "tcp", 2, 4<<20, 64<<20, 4, "openmpi,gloo", 0.92),
		tcp("wire-veth", "allreduce", "veth", 2, 4<<20, 64<<20, 4, "gloo", 0.92),
		joined("rails", "1gbit,1gbit", 0.95), // of the sum: 1.9 times one
		joined("rails-mixed", "1gbit,400mbit", 0.9),
		slow("delay", 0), // of what the links allow: 1.15 times their delays, and 0.85 of their rate
		slow("delay-slowest", 50),
	}
}

func names() (all []string) {
	for _, r := range rows() {
		all = append(all, r.name)
	}
	return all
}

func find(name string) (row, error) {
	for _, r := range rows() {
		if r.name == name {
			return r, nil
		}
	}
	return row{}, fmt.Errorf("-row %q: it must be %s", name, strings.Join(names(), ", "))
}
