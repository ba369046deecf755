package pmix

import (
	"slices"
	"strconv"
	"strings"
)

// Layout maps the job's ranks to hosts and programs.
type Layout struct {
	Job      string   // name of the job, unknown to other users of the host
	Folder   string   // folder of this host for libpmix's files; the caller removes it
	Hosts    []string // hosts with ranks, in one order on all hosts
	Host     int      // index of this host in Hosts
	HostOf   []int    // index of each rank's host in Hosts, by rank
	Programs []int    // number of each rank's program, by rank
	Universe int      // MPI_UNIVERSE_SIZE, or 0

	world, parentWorld, parentRank int // 0: the job itself, which has no parent
}

// byHost lists the ranks of each host, ascending.
func (l *Layout) byHost() [][]int {
	ranks := make([][]int, len(l.Hosts))
	for rank, host := range l.HostOf {
		ranks[host] = append(ranks[host], rank)
	}
	return ranks
}

// frame describes the job to the helper.
func (l *Layout) frame(byHost [][]int) frame {
	locals := make([]int, len(l.HostOf))
	numbers := make([]int, len(l.Hosts))
	names := l.names()
	var used, lists []string // names and ranks of the hosts that have any
	list := func(host int) string {
		var texts []string
		for _, rank := range byHost[host] {
			texts = append(texts, strconv.Itoa(rank))
		}
		return strings.Join(texts, ",")
	}
	for host, ranks := range byHost {
		numbers[host] = len(used)
		for local, rank := range ranks {
			locals[rank] = local
		}
		if len(ranks) > 0 {
			used = append(used, names[host])
			lists = append(lists, list(host))
		}
	}
	f := newFrame(begin)
	here := byHost[l.Host]
	f.texts(l.Job, names[l.Host], l.Folder, strings.Join(used, ","), strings.Join(lists, ";"), list(l.Host))
	for _, n := range []int{l.world, l.parentWorld, l.parentRank, max(l.Universe, len(l.HostOf)), l.Host, len(l.HostOf),
		len(used), slices.Max(l.Programs) + 1, len(here)} {
		f.number(n)
	}
	for _, rank := range here {
		f.number(rank)
	}
	seen := map[int]int{}
	for rank, host := range l.HostOf {
		program := l.Programs[rank]
		for _, n := range []int{numbers[host], locals[rank], program, seen[program]} {
			f.number(n)
		}
		seen[program]++
	}
	return f
}

// names returns the hosts' names, made unique and free of the lists' separators.
func (l *Layout) names() []string {
	names := make([]string, len(l.Hosts))
	used := map[string]bool{}
	for i, host := range l.Hosts {
		names[i] = strings.Map(func(r rune) rune {
			if strings.ContainsRune(",;[]() \t\n", r) {
				return '_'
			}
			return r
		}, host)
		if used[names[i]] || names[i] == "" {
			names[i] += "-" + strconv.Itoa(i)
		}
		used[names[i]] = true
	}
	return names
}
