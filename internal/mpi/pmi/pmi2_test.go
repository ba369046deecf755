package pmi

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// send sends a message of PMI-2; receive compares the next one.
func (j *job) send(rank int, message string) {
	j.t.Helper()
	must.Get(io.WriteString(j.conns[rank], (&pmi2Codec{}).frame(message)))(j.t)
}

func (j *job) receive(rank int, want string) {
	j.t.Helper()
	_ = j.conns[rank].SetReadDeadline(time.Now().Add(5 * time.Second))
	got, err := (&pmi2Codec{}).read(j.lines[rank])
	must.That(j.t, err == nil && got == want, "rank %d received %q, %v; want %q", rank, got, err, want)
}

func (j *job) exchange(rank int, message, want string) {
	j.t.Helper()
	j.send(rank, message)
	j.receive(rank, want)
}

// begin2 makes a rank speak PMI-2.
func (j *job) begin2(rank int) {
	j.t.Helper()
	j.ask(rank, "cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0")
	j.exchange(rank, fmt.Sprintf("cmd=fullinit;pmirank=%d;threaded=FALSE;", rank),
		fmt.Sprintf("cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=%d;size=%d;appnum=0;debugged=FALSE;pmiverbose=FALSE;", rank, j.hosts[0].Size))
}

// The conversation of a program with Slurm's libpmi2, beside a rank of PMI-1: both have one store
// and one fence.
func TestConversationOfPMI2(t *testing.T) {
	j := newJob(t, 2, 1)
	j.begin2(0)
	j.begin2(1)
	j.ask(2, "cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	check.That(t, j.hosts[0].Inside(1), "a rank after fullinit is not inside")
	j.exchange(0, "cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=kvs_1;")
	j.exchange(0, "cmd=info-getjobattr;key=PMI_process_mapping;",
		"cmd=info-getjobattr-response;rc=0;found=TRUE;value=(vector,(0,1,2),(1,1,1));")
	j.exchange(0, "cmd=info-getjobattr;key=universeSize;", "cmd=info-getjobattr-response;rc=0;found=TRUE;value=3;")
	j.exchange(0, "cmd=info-getjobattr;key=unknown;", "cmd=info-getjobattr-response;rc=0;found=FALSE;")
	j.exchange(0, "cmd=kvs-put;thrid=0x7f;key=a;value=x;;y=;;;", "cmd=kvs-put-response;thrid=0x7f;rc=0;")
	j.exchange(1, "cmd=kvs-put;key=b;value=;", "cmd=kvs-put-response;rc=0;")
	j.exchange(1, "cmd=kvs-get;jobid=kvs_1;srcid=0;key=a;", "cmd=kvs-get-response;rc=0;found=FALSE;")
	j.ask(2, "cmd=put kvsname=kvs_1 key=c value=line", "cmd=put_result rc=0 msg=success")
	j.send(0, "cmd=kvs-fence;thrid=0x80;")
	j.send(1, "cmd=kvs-fence;")
	j.say(2, "cmd=barrier_in")
	j.receive(0, "cmd=kvs-fence-response;thrid=0x80;rc=0;")
	j.receive(1, "cmd=kvs-fence-response;rc=0;")
	j.hear(2, "cmd=barrier_out rc=0")
	j.exchange(1, "cmd=kvs-get;jobid=;srcid=-1;key=a;", "cmd=kvs-get-response;rc=0;found=TRUE;value=x;;y=;;;")
	j.exchange(0, "cmd=kvs-get;jobid=kvs_1;srcid=2;key=c;", "cmd=kvs-get-response;rc=0;found=TRUE;value=line;")
	j.exchange(0, "cmd=kvs-get;jobid=kvs_2;srcid=2;key=c;", "cmd=kvs-get-response;rc=-1;errmsg=unknown_job;")
	j.ask(2, "cmd=get kvsname=kvs_1 key=a", "cmd=get_result rc=0 msg=success value=x;y=;")

	j.exchange(0, "cmd=name-publish;name=ocean;port=tag#0$x;;y;infokeycount=0;", "cmd=name-publish-response;rc=0;")
	j.exchange(1, "cmd=name-publish;name=ocean;port=z;", "cmd=name-publish-response;rc=-1;errmsg=key_already_present;")
	j.exchange(1, "cmd=name-lookup;name=ocean;", "cmd=name-lookup-response;rc=0;port=tag#0$x;;y;value=tag#0$x;;y;")
	j.ask(2, "cmd=lookup_name service=ocean", "cmd=lookup_result port=tag#0$x;y info=ok rc=0 msg=success")
	j.exchange(1, "cmd=name-unpublish;name=ocean;", "cmd=name-unpublish-response;rc=0;")
	j.exchange(0, "cmd=name-lookup;name=ocean;", "cmd=name-lookup-response;rc=-1;errmsg=service_not_found;")

	j.exchange(0, "cmd=spawn;ncmds=1;subcmd=x;maxprocs=1;argc=0;",
		"cmd=spawn-response;rc=-1;errmsg=gorun_spawns_no_ranks_over_PMI-2;")
	j.exchange(0, "cmd=finalize;", "cmd=finalize-response;rc=0;")
	check.That(t, !j.hosts[0].Inside(0), "a rank after finalize is inside")
	j.send(1, "cmd=abort;isworld=TRUE;msg=why;; not;exitcode=42;")
	check.Equal(t, <-j.aborts, [2]int{1, 42}, "aborted")
}

// Attributes belong to a host, and a rank can wait for one.
func TestAttributesOfAHost(t *testing.T) {
	j := newJob(t, 2, 1)
	for rank := range 3 {
		j.begin2(rank)
	}
	j.send(1, "cmd=info-getnodeattr;key=seg;wait=TRUE;")
	j.exchange(0, "cmd=info-getnodeattr;key=seg;wait=FALSE;", "cmd=info-getnodeattr-response;rc=0;found=FALSE;")
	j.exchange(0, "cmd=info-putnodeattr;key=other;value=1;", "cmd=info-putnodeattr-response;rc=0;")
	j.exchange(0, "cmd=info-putnodeattr;key=seg;value=/dev/shm/x;", "cmd=info-putnodeattr-response;rc=0;")
	j.receive(1, "cmd=info-getnodeattr-response;rc=0;found=TRUE;value=/dev/shm/x;")
	j.exchange(2, "cmd=info-getnodeattr;key=seg;wait=FALSE;", "cmd=info-getnodeattr-response;rc=0;found=FALSE;")
	for i := range maxAttributes/maxValue + 1 {
		j.send(0, fmt.Sprintf("cmd=info-putnodeattr;key=k%d;value=%s;", i, strings.Repeat("x", maxValue)))
		answer, err := (&pmi2Codec{}).read(j.lines[0])
		must.That(t, err == nil && (i >= 1000 || !strings.Contains(answer, "errmsg")),
			"attribute %d: %q, %v", i, answer, err)
		if strings.Contains(answer, "errmsg") {
			return
		}
	}
	t.Error("a host keeps attributes without bound")
}

// A server refuses a request that breaks the protocol, and answers the next one.
func TestPMI2RefusesPolitely(t *testing.T) {
	j := newJob(t, 1)
	j.ask(0, "cmd=init pmi_version=2 pmi_subversion=0", "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0")
	j.exchange(0, "cmd=kvs-put;key=a;value=b;", "cmd=kvs-put-response;rc=-1;errmsg=fullinit_must_come_first;")
	j.exchange(0, "cmd=kvs-fence;", "cmd=kvs-fence-response;rc=-1;errmsg=fullinit_must_come_first;")
	check.That(t, !j.hosts[0].Inside(0), "inside before fullinit")
	j.exchange(0, "cmd=fullinit;",
		"cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=0;size=1;appnum=0;debugged=FALSE;pmiverbose=FALSE;")
	for _, bad := range []string{"", ";", "x", "cmd", "cmd=", "cmd=;", "a=b;", "cmd=job-getid", "cmd=job-getid;x",
		"cmd=job-getid;x=y", "cmd=job-getid;x=y;;", "cmd=job-getid;" + strings.Repeat("k", maxKey+1) + "=1;"} {
		j.send(0, bad)
		answer, err := (&pmi2Codec{}).read(j.lines[0])
		check.That(t, err == nil && strings.HasPrefix(answer, "cmd=unknown-response;rc=-1;errmsg="),
			"%q is answered %q, %v", bad, answer, err)
	}
	tooLong := "cmd=kvs-put-response;rc=-1;errmsg=key_or_value_too_long;"
	j.exchange(0, "cmd=kvs-put;key=;value=x;", tooLong)
	j.exchange(0, "cmd=kvs-put;key="+strings.Repeat("k", maxKey+1)+";value=x;", tooLong)
	j.exchange(0, "cmd=kvs-put;key=a;value="+strings.Repeat("x", maxValue+1)+";", tooLong)
	j.exchange(0, "cmd=kvs-put;key=a;value=x\ny;", tooLong)
	j.exchange(0, "cmd=name-publish;name=a\nb;port=c;", "cmd=name-publish-response;rc=-1;errmsg=bad_service_name;")
	for i := range maxPuts/maxValue + 1 {
		j.send(0, fmt.Sprintf("cmd=kvs-put;key=k%d;value=%s;", i, strings.Repeat("x", maxValue)))
		answer := must.Get((&pmi2Codec{}).read(j.lines[0]))(t)
		check.That(t, i != maxPuts/maxValue || strings.Contains(answer, "too_much_between_two_barriers"),
			"a rank puts without bound: %q", answer)
	}
	j.exchange(0, "cmd=nonsense x;", "cmd=nonsense_x-response;rc=-1;errmsg=gorun_does_not_serve_this_over_PMI-2;")
	j.exchange(0, "cmd=job-getid;", "cmd=job-getid-response;rc=0;jobid=kvs_1;")
}

// A length that is none, or too large, ends the conversation without an allocation of that size.
func TestLengthsOfPMI2(t *testing.T) {
	for _, bad := range []string{"abcdef", "-1    ", "+1    ", "0x10  ", "      ", "999999",
		fmt.Sprintf("%-6d", maxMessage+1), "12 3  ", "12"} {
		check.Error((&pmi2Codec{}).read(bufio.NewReader(strings.NewReader(bad+"cmd=x;")))).Any(t, bad, "is a length")
	}
	_, err := (&pmi2Codec{}).read(bufio.NewReader(strings.NewReader("")))
	check.That(t, err == io.EOF, "%v at the end", err)
	got, err := (&pmi2Codec{}).read(bufio.NewReader(strings.NewReader("6     cmd=x;more")))
	check.That(t, err == nil && got == "cmd=x;", "%q, %v", got, err)
}

func TestStrangersOfPMI2(t *testing.T) {
	host := unidentified()
	begin := func(second string) (*bufio.Reader, chan error) {
		conn, lines, end := connect(t, host, "cmd=init pmi_version=2 pmi_subversion=0\n")
		line, err := lines.ReadString('\n')
		must.That(t, err == nil && line == "cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\n",
			"%q, %v", line, err)
		must.Get(io.WriteString(conn, (&pmi2Codec{}).frame(second)))(t)
		return lines, end
	}
	lines, _ := begin("cmd=fullinit;srcid=1;threaded=FALSE;")
	want := "cmd=fullinit-response;rc=0;pmi-version=2;pmi-subversion=0;rank=1;size=2;appnum=3;debugged=FALSE;pmiverbose=FALSE;"
	got, err := (&pmi2Codec{}).read(lines)
	must.That(t, err == nil && got == want, "%q, %v; want %q", got, err, want)
	for _, bad := range []string{"cmd=fullinit;pmirank=1;", "cmd=fullinit;pmirank=7;", "cmd=fullinit;pmirank=-1;",
		"cmd=fullinit;", "cmd=kvs-fence;pmirank=0;", "x"} {
		_, end := begin(bad)
		check.That(t, <-end != nil, "%q was let in", bad)
	}
}

// Whatever a rank sends over PMI-2, it gets messages that its parser takes.
func FuzzPairs(f *testing.F) {
	f.Add("cmd=fullinit;pmirank=0;", "cmd=kvs-put;key=a;value=b;;c;")
	f.Add("cmd=fullinit;thrid=x;;;", "cmd=info-getjobattr;key=universeSize;")
	f.Add("cmd=abort;exitcode=1;", "cmd=name-publish;name=a;port=b;")
	f.Fuzz(func(t *testing.T, first, second string) {
		h := &Host{Name: "k", Size: 2, Programs: map[int]int{0: 0}}
		c := h.client(0)
		p := &pmi2Codec{}
		c.wire = p
		for _, message := range []string{"cmd=fullinit;", first, second, "cmd=kvs-get;key=a;"} {
			act, answers := p.step(c, message).(actReply)
			if !answers {
				continue
			}
			framed, err := p.read(bufio.NewReader(strings.NewReader(p.frame(act.line))))
			check.That(t, err == nil && framed == act.line,
				"%q is answered %q, which is read as %q, %v", message, act.line, framed, err)
			r, err := parsePairs(act.line)
			check.That(t, err == nil && strings.HasSuffix(r.command, "-response") && r.words["rc"] != "" &&
				len(act.line) <= 4<<10, "%q is answered %q: %v", message, act.line, err)
		}
	})
}
