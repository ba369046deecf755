package pmi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/fake"
	"github.com/gorun/gorun/internal/test/must"
)

// job is ranks dealt to hosts, each with a connection.
type job struct {
	t      *testing.T
	hosts  []*Host
	conns  []net.Conn
	lines  []*bufio.Reader
	aborts chan [2]int
	spawns chan Spawn
}

// newJob has perHost[i] ranks on host i.
func newJob(t *testing.T, perHost ...int) *job {
	j := &job{t: t, aborts: make(chan [2]int, 8), spawns: make(chan Spawn, 8)}
	var nodes []int
	for i, n := range perHost {
		for range n {
			nodes = append(nodes, i)
		}
	}
	store := fake.NewStore(len(nodes))
	for range perHost {
		j.hosts = append(j.hosts, &Host{
			Name:     "kvs_1",
			Size:     len(nodes),
			Mapping:  Mapping(nodes),
			Programs: map[int]int{},
			Store:    store,
			Aborted:  func(rank, code int) { j.aborts <- [2]int{rank, code} },
			Spawn: func(_ context.Context, _ int, s Spawn) error {
				j.spawns <- s
				if s.Ranks() > 4 {
					return errors.New("too many")
				}
				return nil
			},
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for rank, node := range nodes {
		j.hosts[node].Programs[rank] = 0
	}
	for rank, node := range nodes {
		ours, theirs := net.Pipe()
		j.conns = append(j.conns, theirs)
		j.lines = append(j.lines, bufio.NewReader(theirs))
		wg.Go(func() {
			err := j.hosts[node].Serve(ctx, ours, rank)
			check.That(t, err == nil || errors.Is(err, io.ErrClosedPipe), "rank %d: %v", rank, err)
		})
	}
	t.Cleanup(func() {
		for _, c := range j.conns {
			c.Close()
		}
		wg.Wait()
		cancel()
	})
	return j
}

func (j *job) say(rank int, line string) {
	j.t.Helper()
	must.Get(io.WriteString(j.conns[rank], line+"\n"))(j.t)
}

func (j *job) hear(rank int, want string) {
	j.t.Helper()
	_ = j.conns[rank].SetReadDeadline(time.Now().Add(5 * time.Second))
	line, err := j.lines[rank].ReadString('\n')
	got := strings.TrimSuffix(line, "\n")
	must.That(j.t, err == nil && got == want, "rank %d heard %q, %v; want %q", rank, got, err, want)
}

func (j *job) ask(rank int, line, want string) {
	j.t.Helper()
	j.say(rank, line)
	j.hear(rank, want)
}

// The conversation of an MPICH program, and all that may stand beside it.
func TestConversation(t *testing.T) {
	j := newJob(t, 2, 1)
	for rank := range 3 {
		j.ask(rank, "cmd=init pmi_version=1 pmi_subversion=1",
			"cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
		j.ask(rank, "cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024")
		j.ask(rank, "cmd=get_appnum", "cmd=appnum appnum=0")
		j.ask(rank, "cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_1")
		j.ask(rank, "cmd=get_universe_size", "cmd=universe_size size=3")
		j.ask(rank, "cmd=get kvsname=kvs_1 key=PMI_process_mapping",
			"cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))")
		j.ask(rank, fmt.Sprintf("cmd=put kvsname=kvs_1 key=P%d value=port#%d a  b ", rank, rank),
			"cmd=put_result rc=0 msg=success")
	}
	j.ask(2, "cmd=get kvsname=kvs_1 key=P0", "cmd=get_result rc=-1 msg=key_P0_not_found value=unknown")
	for round := range 3 {
		for rank := range 3 {
			j.say(rank, "cmd=barrier_in")
		}
		for rank := range 3 {
			j.hear(rank, "cmd=barrier_out rc=0")
		}
		for rank := range 9 {
			j.ask(rank/3, fmt.Sprintf("cmd=get kvsname=kvs_1 key=P%d", rank%3),
				fmt.Sprintf("cmd=get_result rc=0 msg=success value=port#%d a  b ", rank%3))
		}
		j.ask(0, fmt.Sprintf("cmd=put kvsname=kvs_1 key=round value=%d", round), "cmd=put_result rc=0 msg=success")
	}
	check.That(t, j.hosts[0].Inside(1), "rank 1 is not inside")
	j.ask(1, "cmd=finalize", "cmd=finalize_ack")
	check.That(t, !j.hosts[0].Inside(1) && j.hosts[0].Inside(0), "finalize counts for its own rank only")
}

func TestRefusals(t *testing.T) {
	j := newJob(t, 1)
	long := strings.Repeat("x", 1025)
	for _, tc := range [][2]string{
		{"cmd=init pmi_version=3 pmi_subversion=0", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1"},
		{"cmd=fly high=1", "cmd=fly_result rc=-1 msg=unknown_command"},
		{"nonsense", "cmd=unknown_command_result rc=-1 msg=a_line_without_a_command:_\"nonsense_n\""},
		{"cmd=put kvsname=other key=a value=b", "cmd=put_result rc=-1 msg=unknown_kvsname"},
		{"cmd=put kvsname=kvs_1 key=a value=" + long, "cmd=put_result rc=-1 msg=key_or_value_too_long"},
		{"cmd=put kvsname=kvs_1 key=" + long[:65] + " value=a", "cmd=put_result rc=-1 msg=key_or_value_too_long"},
		{"cmd=get kvsname=kvs_1 key=a\\b", "cmd=get_result rc=-1 msg=key_a_b_not_found value=unknown"},
		{"cmd=put kvsname=kvs_1 key=e value=", "cmd=put_result rc=0 msg=success"},
		{"cmd=get kvsname=kvs_1 key=e", "cmd=get_result rc=-1 msg=key_e_not_found value=unknown"},
	} {
		j.ask(0, tc[0], tc[1])
	}
	for i := range 60 { // 60 KiB between two barriers are too much
		want := "cmd=put_result rc=0 msg=success"
		if i >= 48 {
			want = "cmd=put_result rc=-1 msg=too_much_between_two_barriers"
		}
		j.ask(0, fmt.Sprintf("cmd=put kvsname=kvs_1 key=%d value=%s", i, long[:1000]), want)
		if want != "cmd=put_result rc=0 msg=success" {
			break
		}
	}
}

// programOf are the lines of one program of a spawn request.
func programOf(ranks, number, of int, more string) string {
	return fmt.Sprintf("mcmd=spawn\nnprocs=%d\nexecname=x y\ntotspawns=%d\nspawnssofar=%d\n%sendcmd", ranks, of, number,
		more)
}

func TestSpawnHasProgramsWordsAndValues(t *testing.T) {
	j := newJob(t, 1)
	const more = "arg1=cmd=finalize\narg2=\nargcnt=2\npreput_num=1\n" +
		"preput_key_0=PARENT_ROOT_PORT_NAME\npreput_val_0=tag=0$x y\n" +
		"info_num=1\ninfo_key_0=wdir\ninfo_val_0=/a b\n"
	j.say(0, programOf(2, 1, 2, more))
	j.say(0, programOf(1, 2, 2, "argcnt=0\n"))
	j.hear(0, "cmd=spawn_result rc=0 errcodes=0,0,0")
	want := Spawn{Programs: []Program{{Argv: []string{"x y", "cmd=finalize", ""}, Ranks: 2,
		Info: map[string]string{"wdir": "/a b"}}, {Argv: []string{"x y"}, Ranks: 1, Info: map[string]string{}}},
		Given: map[string]string{"PARENT_ROOT_PORT_NAME": "tag=0$x y"}}
	got := <-j.spawns
	check.That(t, reflect.DeepEqual(got, want), "got %+v\nwant %+v", got, want)
}

func TestSpawnIsRefusedPolitely(t *testing.T) {
	j := newJob(t, 1)
	for _, bad := range []string{programOf(5, 1, 1, ""), programOf(0, 1, 1, ""), programOf(-1, 1, 1, ""),
		programOf(1, 1, 1, "argcnt=1\n"),
		programOf(0, 1, 2, "") + "\n" + programOf(1, 2, 2, ""), "mcmd=spawn\nendcmd"} {
		j.say(0, bad)
		j.hear(0, "cmd=spawn_result rc=-1")
		j.ask(0, "cmd=get_appnum", "cmd=appnum appnum=0")
	}
	j.say(0, programOf(1, 1, 1, strings.Repeat("arg1="+strings.Repeat("x", 4000)+"\n", 100)))
	j.hear(0, "cmd=spawn_result rc=-1")
	got := <-j.spawns
	check.That(t, got.Ranks() == 5 && len(j.spawns) == 0, "%+v, and %d more requests", got, len(j.spawns))
}

func TestServices(t *testing.T) {
	j := newJob(t, 1, 1)
	j.ask(0, "cmd=lookup_name service=ocean", "cmd=lookup_result info=error rc=1 msg=service_not_found")
	j.ask(0, "cmd=publish_name service=ocean port=tag#0$x@y", "cmd=publish_result info=ok rc=0 msg=success")
	j.ask(1, "cmd=publish_name service=ocean port=z", "cmd=publish_result info=error rc=1 msg=key_already_present")
	j.ask(1, "cmd=lookup_name service=ocean", "cmd=lookup_result port=tag#0$x@y info=ok rc=0 msg=success")
	j.ask(0, "cmd=unpublish_name service=ocean", "cmd=unpublish_result info=ok rc=0 msg=success")
	j.ask(1, "cmd=unpublish_name service=ocean", "cmd=unpublish_result info=error rc=1 msg=service_not_found")
	j.ask(1, "cmd=lookup_name service=ocean", "cmd=lookup_result info=error rc=1 msg=service_not_found")
}

func TestAbort(t *testing.T) {
	j := newJob(t, 2)
	j.say(1, "cmd=abort exitcode=42 message=why not")
	check.Equal(t, <-j.aborts, [2]int{1, 42}, "aborted")
}

// Over PMI_PORT a rank says first who it is, with PMI-2 in its second message; nobody may be a rank
// that is somebody already.
func TestStrangers(t *testing.T) {
	must.HaveTime(t)
	host := unidentified()
	conn, lines, _ := connect(t, host, "cmd=initack pmiid=1\n")
	for _, want := range []string{"cmd=initack", "cmd=set size=2", "cmd=set rank=1", "cmd=set debug=0"} {
		line, err := lines.ReadString('\n')
		must.That(t, err == nil && line == want+"\n", "%q, %v; want %q", line, err, want)
	}
	fmt.Fprintln(conn, "cmd=get_appnum")
	line, _ := lines.ReadString('\n')
	check.Equal(t, line, "cmd=appnum appnum=3\n")
	for _, bad := range []string{"cmd=initack pmiid=1", "cmd=initack pmiid=7", "cmd=initack", "cmd=init pmiid=0", "x"} {
		_, _, end := connect(t, host, bad+"\n")
		check.That(t, <-end != nil, "%q was let in", bad)
	}
}

// unidentified is a host of two ranks, the second of program 3, which connect to it.
func unidentified() *Host {
	return &Host{
		Name:     "kvs_1",
		Size:     2,
		Programs: map[int]int{0: 0, 1: 3},
		Store:    fake.NewStore(2),
	}
}

// connect sends the first text of a connection to a host. end receives how the host ended it.
func connect(t *testing.T, h *Host, first string) (theirs net.Conn, lines *bufio.Reader, end chan error) {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { theirs.Close() })
	end = make(chan error, 1)
	go func() {
		end <- h.ServeUnidentified(t.Context(), ours)
		ours.Close()
	}()
	must.Get(io.WriteString(theirs, first))(t)
	return theirs, bufio.NewReader(theirs), end
}

func TestMapping(t *testing.T) {
	for _, tc := range []struct {
		nodes []int
		want  string
	}{
		{[]int{0}, "(vector,(0,1,1))"},
		{[]int{0, 0, 1, 1}, "(vector,(0,2,2))"},
		{[]int{0, 1, 0, 1}, "(vector,(0,2,1))"},
		{[]int{0, 0, 1}, "(vector,(0,1,2),(1,1,1))"},
		{[]int{0, 0, 1, 0}, "(vector,(0,1,2),(1,1,1),(0,1,1))"},
		{[]int{0, 0, 1, 1, 2, 0, 0, 1, 1, 2}, "(vector,(0,2,2),(2,1,1))"},
	} {
		check.Equal(t, Mapping(tc.nodes), tc.want, tc.nodes)
	}
	var odd []int
	for i := range 1000 {
		odd = append(odd, i*i%997)
	}
	got := Mapping(odd)
	check.That(t, got == "", "%d bytes are too long for a client", len(got))
}

// Whatever a rank sends, it gets lines that its parser takes, and others are unharmed.
func FuzzClient(f *testing.F) {
	f.Add("cmd=init pmi_version=1 pmi_subversion=1\ncmd=put kvsname=k key=a value=b c\ncmd=get kvsname=k key=a\n")
	f.Add("mcmd=spawn\nendcmd\ncmd=abort exitcode=1\ncmd=publish_name service=a port=b\n")
	f.Fuzz(func(t *testing.T, text string) {
		h := &Host{Name: "k", Size: 2, Programs: map[int]int{0: 0}}
		c := h.client(0)
		for line := range strings.Lines(text) {
			if _, lined := c.wire.(pmi1Codec); !lined || len(line) > maxLine {
				continue
			}
			switch act := c.wire.step(c, line).(type) {
			case actReply:
				check.That(t, strings.HasPrefix(act.line, "cmd=") &&
					!strings.ContainsAny(strings.TrimSuffix(act.line, "\n"), "\n\r") && len(act.line) <= 1100,
					"%q is answered %q", line, act.line)
			case actBarrier:
				bytes := 0
				for k, v := range act.puts {
					bytes += len(k) + len(v)
				}
				check.That(t, bytes <= maxPuts, "%d bytes for one barrier", bytes)
			}
		}
	})
}

// elsewhere is a store in which rank 1, on another host, has put a text into every fence.
type elsewhere struct {
	*fake.Store
	text string
}

func (s elsewhere) Fence(_ context.Context, _ string, _ int, value []byte) ([][]byte, error) {
	return [][]byte{value, []byte(s.text)}, nil
}

// A value of another host reaches no rank unless it fits into a line of PMI.
func TestValuesOfOtherHostsAreValidated(t *testing.T) {
	long := strings.Repeat("x", maxValue+1)
	for text, good := range map[string]bool{
		`{"k":"a  b "}`:                     true,
		`{"k":"a\nb"}`:                      false,
		`{"k":"a\ncmd=barrier_out rc=0\n"}`: false,
		`{"k":"a\u0000"}`:                   false,
		`{"k\n":"a"}`:                       false,
		`{"":"a"}`:                          false,
		`{"k":"` + long + `"}`:              false,
		`{"` + long + `":"a"}`:              false,
		`[]`:                                false,
	} {
		store := elsewhere{fake.NewStore(2), text}
		_ = store.Put(serviceKey("ocean"), []byte(text))
		_ = store.Put(serviceKey("lines"), []byte("port\ncmd=x"))
		_ = store.Put(serviceKey("long"), []byte(long))
		h := &Host{
			Name:     "kvs_1",
			Size:     2,
			Programs: map[int]int{},
			Store:    store,
		}
		err := h.barrier(t.Context(), 0, 1, nil)
		check.That(t, (err == nil) == good, "%.40q: %v", text, err)
		_, found := h.get("k")
		check.That(t, found == good, "%.40q is known: %v", text, found)
		for service, want := range map[string]string{"ocean": text, "lines": "", "long": ""} {
			if service == "ocean" && !serviceFits(service, text) {
				want = ""
			}
			port, err := h.lookup(t.Context(), service)
			check.That(t, port == want && err == nil, "%s is %.40q, %v", service, port, err)
		}
	}
}
