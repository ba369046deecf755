package kv

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// reserved returns the prefixes of names under which agents exchange data for MPI and Horovod, and
// ranks say something of themselves. Who reads such a name trusts what it holds.
func reserved() []string { return []string{"epoch/", "gloo/", "pmi/", "pmix/", "world/"} }

// Prefixes of names that go on with the index of the host that puts them.
const (
	meetings = "pmix/meeting/"
	worlds   = "world/"
)

// MeetingKey is the key of what a host brings to a meeting of hosts.
func MeetingKey(host int, meeting string) string {
	return fmt.Sprintf("%s%d/%s", meetings, host, meeting)
}

// WorldKey is the key of what a host brings to a fence of a world, for one of its ranks there.
func WorldKey(host, world int, fence string, rank int) string {
	return fmt.Sprintf("%s%d/%d/%s/%d", worlds, host, world, fence, rank)
}

// RankKey is the key of what a rank of an epoch, 0 in a job without epochs, says of itself. It is
// put by that rank alone, and read by all.
func RankKey(epoch, rank int, what string) string {
	return fmt.Sprintf("epoch/%d/rank/%d/%s", epoch, rank, what)
}

// owner is who may put a name: a kind, and which one of it; -1 is none.
type owner struct {
	kind        ownerKind
	host        int
	epoch, rank int
}

type ownerKind int

const (
	anyRank ownerKind = iota // also agents
	anyAgent
	oneAgent
	oneRank // and its agent
	theStore
)

// ownerOf decides who may put a name. The rank server asks it for a rank, and the launcher's store
// for a host.
func ownerOf(name string) owner {
	if !slices.ContainsFunc(reserved(), func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
		return owner{kind: anyRank}
	}
	if strings.HasPrefix(name, askers) {
		return owner{kind: theStore}
	}
	if _, by, is := pairOf(questions, name); is {
		return owner{kind: oneAgent, host: by}
	}
	if of, _, is := pairOf(answers, name); is {
		return owner{kind: oneAgent, host: of}
	}
	for _, prefix := range []string{meetings, worlds} {
		if rest, is := strings.CutPrefix(name, prefix); is {
			return owner{kind: oneAgent, host: firstOf(rest)}
		}
	}
	rest, _ := strings.CutPrefix(name, "epoch/")
	if epoch, rest, _ := strings.Cut(rest, "/"); strings.HasPrefix(rest, "rank/") {
		return owner{
			kind:  oneRank,
			epoch: firstOf(epoch),
			rank:  firstOf(strings.TrimPrefix(rest, "rank/")),
		}
	}
	return owner{kind: anyAgent}
}

// firstOf returns the number before the first slash, or -1.
func firstOf(name string) int {
	text, _, _ := strings.Cut(name, "/")
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// isPutBy reports whether a rank may put the name.
func (o owner) isPutBy(rank JobInfo) bool {
	return o.kind == anyRank || o.kind == oneRank && o.epoch == rank.Epoch && o.rank == rank.Rank
}

// isReadByRanks reports whether any rank may read the name.
func (o owner) isReadByRanks() bool { return o.kind == anyRank || o.kind == oneRank }

// RankOf returns the rank that alone may put a name, and its epoch.
func RankOf(name string) (epoch, rank int, is bool) {
	o := ownerOf(name)
	return o.epoch, o.rank, o.kind == oneRank
}
