package main

import (
	"context"
	"os"
	"path/filepath"
	"time"
)

// row is one kind of harm. do harms a job whose ranks train, and returns when; it may wait for
// other epochs first.
type row struct {
	name  string
	list  string // the hosts at first
	flags string
	size  int // of the first epoch
	do    func(ctx context.Context, j *job, ranks []stint) (time.Time, error)
	fits  func(size int) bool // the epoch that must come; nil: the job must end
	early bool                // the fault comes as soon as ranks have begun
}

func smaller(than int) func(int) bool { return func(size int) bool { return size < than } }
func exactly(n int) func(int) bool    { return func(size int) bool { return size == n } }

func rows() []row {
	const two = "f1:2\nf2:2\n"
	const three = "f1:1\nf2:1\nf3:1\n"
	const grown = "-np 2 --min-np 2 --max-np 4 DISCOVERY"
	return []row{
		{name: "a rank is killed: the others go on", list: two, flags: "-np 4 --min-np 1 HOSTS", size: 4,
			fits: smaller(4), do: killOne},
		{name: "all ranks of a host are killed: the others go on", list: two, flags: "-np 4 --min-np 1 HOSTS", size: 4,
			fits: exactly(2), do: killHost},
		{name: "a host is added: its rank's first step", list: "f1:1\nf2:1\n", flags: grown, size: 2, fits: exactly(3),
			do: relist(three)},
		{name: "a host is added, and the program takes 40 s to begin there", list: "f1:1\nf2:1\n", flags: grown,
			size: 2, fits: exactly(3), do: addSlow},
		{name: "a host is added while the first ranks begin", list: "f1:1\nf2:1\n", flags: grown, early: true,
			fits: exactly(3), do: relist(three)},
		{name: "a host is removed: the others go on", list: three, flags: "-np 3 --min-np 1 DISCOVERY", size: 3,
			fits: exactly(2), do: relist("f1:1\nf2:1\n")},
		{name: "a host goes silent: the others go on", list: three, flags: "-np 3 --min-np 1 HOSTS", size: 3,
			fits: exactly(2), do: cut},
		{name: "reset limit of 1, and a second rank is killed: the job ends", list: three,
			flags: "-np 3 --min-np 1 --reset-limit 1 HOSTS", size: 3, do: killTwice},
		{name: "a rank is killed in a job on one host: the others go on", list: "f1:2\n",
			flags: "-np 2 --min-np 1 --network-interfaces eth0 DISCOVERY", size: 2, fits: exactly(1), do: killLast},
	}
}

func killOne(_ context.Context, j *job, ranks []stint) (time.Time, error) {
	return time.Now(), j.kill(on("f2", ranks)[1])
}

func killLast(_ context.Context, j *job, ranks []stint) (time.Time, error) {
	return time.Now(), j.kill(ranks[len(ranks)-1])
}

func killHost(_ context.Context, j *job, ranks []stint) (time.Time, error) {
	at := time.Now()
	for _, s := range on("f2", ranks) {
		if err := j.kill(s); err != nil {
			return at, err
		}
	}
	return at, nil
}

func relist(list string) func(context.Context, *job, []stint) (time.Time, error) {
	return func(_ context.Context, j *job, _ []stint) (time.Time, error) { return time.Now(), j.list(list) }
}

func addSlow(_ context.Context, j *job, _ []stint) (time.Time, error) {
	if err := os.WriteFile(filepath.Join(j.folder, "slow"), nil, 0o600); err != nil {
		return time.Time{}, err
	}
	return time.Now(), j.list("f1:1\nf2:1\nf3:1\n")
}

func cut(ctx context.Context, j *job, _ []stint) (time.Time, error) {
	return time.Now(), j.c.Cut(ctx, "f3")
}

func killTwice(_ context.Context, j *job, ranks []stint) (time.Time, error) {
	if err := j.kill(on("f2", ranks)[0]); err != nil {
		return time.Time{}, err
	}
	left, err := j.await(limit, smaller(3))
	if err != nil {
		return time.Time{}, err
	}
	return time.Now(), j.kill(on("f3", left)[0])
}
