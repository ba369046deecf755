package pmix

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gorun/gorun/internal/net/kv"
)

// fence exchanges the data of all hosts. The data of a host is divided among its ranks, as a rank
// may bring kv.MaxFence bytes. More is an error of the ranks here: others do not wait for it.
func (s *Server) fence(name string, data []byte) ([]byte, status) {
	here := s.byHost[s.layout.Host]
	tooMuch := len(data) > kv.MaxFence*len(here)
	if tooMuch {
		s.refuse(here[0], fmt.Sprintf("the ranks of this host bring %d bytes to a fence of PMIx, and get an error: "+
			"it takes %d of each", len(data), kv.MaxFence))
		data = nil
	}
	values := map[int][]byte{}
	for _, rank := range here {
		n := min(kv.MaxFence, len(data))
		values[rank] = data[:n]
		data = data[n:]
	}
	all, err := s.opts.Store.FenceAll(s.ctx, name, values)
	if err != nil || tooMuch {
		return nil, broken
	}
	var joined []byte
	for _, ranks := range s.byHost {
		for _, rank := range ranks {
			joined = append(joined, all[rank]...)
		}
	}
	return joined, done
}

// refuse tells the user of the first error alone: ranks may bring about any number.
func (s *Server) refuse(rank int, why string) {
	if s.opts.Refused != nil {
		s.refused.Do(func() { s.opts.Refused(rank, why) })
	}
}

// group is a set of ranks of the job and of worlds. Rank -1 stands for all ranks of a world.
type group []struct{ world, rank int }

// group reads the ranks of a collective call.
func (m *message) group() (g group) {
	for range m.count() {
		g = append(g, struct{ world, rank int }{m.number(), int(int32(m.number()))})
	}
	return g
}

// meeting names a collective call of a group. All hosts make a group's calls in the same order.
func (s *Server) meeting(g group) string {
	var text []string
	for _, of := range g {
		text = append(text, fmt.Sprintf("%d.%d", of.world, of.rank))
	}
	slices.Sort(text)
	name := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(text, " "))))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.meetings[name]++
	return name + "/" + strconv.Itoa(s.meetings[name])
}

// hosts lists the hosts of a group, ascending.
func (s *Server) hosts(g group) (hosts []int) {
	for _, of := range g {
		if of.rank >= 0 {
			hosts = append(hosts, s.where(of.world, of.rank))
		} else if s.where(of.world, 0) >= 0 { // it is known then
			s.mu.Lock()
			hosts = append(hosts, s.places[of.world].hostOf...)
			s.mu.Unlock()
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// meet waits for the hosts of all ranks of a group, and joins their data.
func (s *Server) meet(name string, g group, data []byte) (joined []byte, _ status) {
	hosts := s.hosts(g)
	if len(hosts) == 0 || hosts[0] < 0 {
		return nil, broken
	}
	key := func(host int) string { return kv.MeetingKey(host, name) }
	all, err := kv.Exchange(s.ctx, s.opts.Store, key, map[int][]byte{s.layout.Host: data}, hosts)
	if err != nil {
		return nil, broken
	}
	return slices.Concat(all...), done
}

// A host asks another for the data of one of its ranks by keys of the store, numbered for each pair
// of hosts.

// await waits for a value of the store. It fails with the store, or when the server closes.
func (s *Server) await(key string) ([]byte, error) {
	value, _, err := s.opts.Store.Get(s.ctx, key, kv.Forever)
	return value, err
}

// fetch returns the data of a rank on another host, as soon as the rank has committed some, with
// the named item if there is a name.
func (s *Server) fetch(world, rank int, item string) ([]byte, status) {
	of := s.where(world, rank)
	by := s.layout.Host
	question := fmt.Appendf(nil, "%d %d %s", world, rank, item)
	if of < 0 || len(question) > kv.MaxQuestion {
		return nil, notFound
	}
	s.mu.Lock()
	s.asked[of]++
	n := s.asked[of]
	s.mu.Unlock()
	if err := s.opts.Store.Put(kv.QuestionKey(of, by, n), question); err != nil {
		return nil, broken
	}
	data, err := s.await(kv.AnswerKey(of, by, n))
	switch {
	case err != nil:
		return nil, broken
	case len(data) == 0:
		return nil, notFound
	}
	return data, done
}

// maxAsked bounds the questions of one host that wait for an answer of this one.
const maxAsked = 256

// answerHosts answers the questions of other hosts, from the first one of each: few programs ask at
// all, and the job may have thousands of hosts.
func (s *Server) answerHosts() {
	for n := range len(s.layout.Hosts) {
		asker, err := s.await(kv.AskerKey(s.layout.Host, 1+n))
		if err != nil {
			return
		}
		by, err := strconv.Atoi(string(asker))
		if err != nil {
			return
		}
		s.wg.Go(func() { s.answerHost(by) })
	}
}

// answerHost passes one host's questions on to the helper, some at a time.
func (s *Server) answerHost(by int) {
	asked := make(chan struct{}, maxAsked)
	for n := 1; ; n++ {
		select {
		case asked <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		question, err := s.await(kv.QuestionKey(s.layout.Host, by, n))
		if err != nil {
			return
		}
		numbers := strings.SplitN(string(question), " ", 3)
		if len(numbers) < 3 {
			return
		}
		world, err1 := strconv.Atoi(numbers[0])
		rank, err2 := strconv.Atoi(numbers[1])
		if err1 != nil || err2 != nil || s.where(world, rank) != s.layout.Host {
			return
		}
		s.mu.Lock()
		s.wants++
		id := s.wants
		s.promised[id] = promise{kv.AnswerKey(s.layout.Host, by, n), asked}
		s.mu.Unlock()
		f := newFrame(want)
		f.number(id)
		f.number(world)
		f.number(rank)
		f.texts(numbers[2])
		if s.send(f) != nil {
			return
		}
	}
}

// deliver puts the data of a rank into the store, where the host that asked waits. Without data it
// gets an empty answer. What a rank has committed may be more than a value of the store.
func (s *Server) deliver(id int, good bool, data []byte) {
	s.mu.Lock()
	p, known := s.promised[id]
	delete(s.promised, id)
	s.mu.Unlock()
	if !good || len(data) > kv.MaxValue { // the launcher fails a host that puts more
		data = nil
	}
	if known {
		_ = s.opts.Store.Put(p.key, data) // the agent notices that the launcher is lost
		<-p.asked
	}
}

// nameKey returns the key of a published name. An empty value means not published.
func nameKey(name string) string { return "pmix/name/" + name }

// publish returns when ranks of all hosts see the names: the store answers requests in order.
func (s *Server) publish(names map[string][]byte) status {
	for name := range names {
		if _, found, err := s.find(name, 0); err != nil {
			return broken
		} else if found {
			return duplicate
		}
	}
	for name, value := range names {
		if err := s.opts.Store.Put(nameKey(name), value); err != nil {
			return broken
		}
	}
	for name := range names {
		if _, found, err := s.find(name, 0); err != nil || !found {
			return broken
		}
	}
	return done
}

func (s *Server) find(name string, wait time.Duration) (value []byte, found bool, err error) {
	value, found, err = s.opts.Store.Get(s.ctx, nameKey(name), wait)
	return value, found && len(value) > 0, err
}

// lookup returns the value of each name, empty for names that are not published.
func (s *Server) lookup(names []string, wait time.Duration) ([]byte, status) {
	var list frame
	end := time.Now().Add(wait)
	for _, name := range names {
		value, _, err := s.find(name, max(0, time.Until(end)))
		if err != nil {
			return nil, broken
		}
		list.text(value)
	}
	return list, done
}

func (s *Server) unpublish(names []string) status {
	for _, name := range names {
		if _, found, err := s.find(name, 0); err != nil {
			return broken
		} else if !found {
			return notFound
		}
		if err := s.opts.Store.Put(nameKey(name), nil); err != nil {
			return broken
		}
	}
	return done
}
