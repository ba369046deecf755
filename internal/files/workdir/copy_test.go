package workdir

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// site is a folder and a host's home.
type site struct {
	t         *testing.T
	dir, home string
	as        func(Agent) Agent // wraps the launcher's connection to the host
}

func newSite(t *testing.T) *site {
	return &site{t, t.TempDir(), t.TempDir(), func(a Agent) Agent { return a }}
}

// must ends the test with the first error.
func (s *site) must(errs ...error) {
	s.t.Helper()
	must.OK(s.t, errors.Join(errs...))
}

func (s *site) write(name, text string) {
	s.t.Helper()
	s.must(os.MkdirAll(filepath.Dir(name), 0o755))
	s.must(os.WriteFile(name, []byte(text), 0o644))
}

func (s *site) local(name string) string { return filepath.Join(s.dir, name) }

func (s *site) scan() *Tree {
	s.t.Helper()
	tree, err := Scan(s.dir, DefaultFiles, DefaultBytes)
	s.must(err)
	tree.proofs = nil // a host here would see the folder itself
	return tree
}

func (s *site) remote(name string) string {
	return filepath.Join(s.home, ".cache/gorun/work", s.scan().CopyName("here"), name)
}

// stage stages the folder as it is. cut, if not 0, is after how many bytes the connection breaks.
func (s *site) stage(cut int64) (Sent, error) {
	s.t.Helper()
	return s.send(s.scan(), cut, func() {})
}

func (s *site) send(tree *Tree, cut int64, waiting func()) (Sent, error) {
	sender := NewSender(tree, "here", s.t.Logf, func(line string) { s.t.Error(line) }, relay.NoMeter{})
	return s.sendBy(sender, nil, cut, waiting)
}

func (s *site) sendBy(sender *Sender, addrs []netip.Addr, cut int64, waiting func()) (Sent, error) {
	in, feed := io.Pipe()
	out, say := io.Pipe()
	var from io.Reader = in
	if cut > 0 {
		from = io.MultiReader(io.LimitReader(in, cut), broken{})
	}
	var host sync.WaitGroup
	host.Go(func() {
		frames := wire.NewReader(from)
		to := wire.NewWriter(say)
		f, err := frames.Next()
		if err == nil {
			err = Receive(s.t.Context(), f.Payload, frames.Next, to, s.home)
		}
		if err != nil {
			_ = to.SendMessage(wire.TypeRefuse, wire.Refuse{What: err.Error()})
		}
		in.CloseWithError(io.ErrClosedPipe)
		say.Close()
	})
	agent := connection{
		in:     feed,
		out:    out,
		frames: wire.NewReader(out),
		to:     wire.NewWriter(feed),
	}
	defer host.Wait()
	defer agent.Cancel()
	return sender.Send(s.as(agent), addrs, waiting)
}

// connection is the launcher's end of two pipes.
type connection struct {
	in     io.WriteCloser
	out    io.Closer
	frames *wire.Reader
	to     *wire.Writer
}

func (c connection) Name() string { return "f1" }

// the end shows when the next frame is read
func (c connection) Send(t wire.Type, message any) { _ = c.to.SendMessage(t, message) }

func (c connection) Piece(p []byte) error { return c.to.Send(wire.TypePiece, 0, p) }

func (c connection) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, wire.MaxData) {
		if err := c.to.Send(wire.TypeFolder, 0, piece); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

func (c connection) Next() (wire.Frame, error) {
	f, err := c.frames.Next()
	if err == nil && f.Type == wire.TypeRefuse {
		err = wire.Handle(f, func(r wire.Refuse) error { return errors.New(r.What) })
	}
	return f, err
}

func (c connection) Cancel() {
	c.in.Close()
	c.out.Close()
}

// broken is a connection that is lost.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// mustStage stages and returns how many files went.
func (s *site) mustStage() Sent {
	s.t.Helper()
	sent, err := s.stage(0)
	s.must(err)
	left, _ := filepath.Glob(filepath.Join(s.home, ".cache/gorun/work/*.[np]*"))
	check.That(s.t, len(left) == 0, "left: %q", left)
	return sent
}

// wants checks the content of files of the copy; "" stands for no file.
func (s *site) wants(files map[string]string) {
	s.t.Helper()
	for name, text := range files {
		got, err := os.ReadFile(s.remote(name))
		check.That(s.t, (err == nil || text == "" && errors.Is(err, fs.ErrNotExist)) && string(got) == text,
			"%s holds %q, want %q: %v", name, got, text, err)
	}
}

func TestCopyFollowsTheFolder(t *testing.T) {
	s := newSite(t)
	long := strings.Repeat("long/", 60)
	for name, text := range map[string]string{"a": "one", "d/b": "two", "d/\xff\n%": "odd", long + "f": "deep"} {
		s.write(s.local(name), text)
	}
	s.must(os.Symlink("d/b", s.local("relative")), os.Symlink(s.local("a"), s.local("d/absolute")),
		os.Mkdir(s.local("empty"), 0o555),
		os.Chmod(s.local("a"), 0o751), syscall.Mkfifo(s.local("pipe"), 0o600))
	w := s.scan().Warnings
	check.That(t, len(w) == 1 && w[0] == s.local("pipe")+" is not staged: it is a named pipe", "warnings %q", w)
	sent := s.mustStage()
	check.That(t, sent.Files == 4 && sent.Bytes == 13 && sent.Dir == s.remote(""), "%+v", sent)
	s.wants(map[string]string{"relative": "two", "d/absolute": "one", "d/\xff\n%": "odd", long + "f": "deep"})
	for name, mode := range map[string]fs.FileMode{"a": 0o751, "empty": 0o755 | fs.ModeDir, "d": 0o755 | fs.ModeDir} {
		info, err := os.Stat(s.remote(name))
		check.That(t, err == nil && info.Mode() == mode, "%s: %v, %v", name, info.Mode(), err)
	}
	sent = s.mustStage()
	check.That(t, sent.Files == 0, "nothing has changed, and yet %+v", sent)
	// A new time alone sends nothing, and is taken over.
	later := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	s.must(os.Chtimes(s.local("a"), later, later), os.Chmod(s.local("d/b"), 0o600))
	sent = s.mustStage()
	check.That(t, sent.Files == 0, "%+v", sent)
	info, _ := os.Stat(s.remote("a"))
	check.That(t, info.ModTime().Equal(later), "the time is %v", info.ModTime())
	info, _ = os.Stat(s.remote("d/b"))
	check.Equal(t, info.Mode(), 0o600, "the mode is")
	s.must(os.RemoveAll(s.local("d")), os.Remove(s.local("relative")))
	s.write(s.local("d"), "a file now")
	s.write(s.local("empty/f"), "x")
	sent = s.mustStage()
	check.That(t, sent.Files == 2, "%+v", sent)
	s.wants(map[string]string{"d": "a file now", "relative": ""})
}

// named is a host whose pieces wait, and are counted.
type named struct {
	Agent
	name   string
	ready  <-chan struct{} // closed when pieces may go
	pieces *int
	heard  func(wire.Frame)
}

func (n named) Name() string { return n.name }

func (n named) Piece(p []byte) error {
	<-n.ready
	*n.pieces++
	return n.Agent.Piece(p)
}

func (n named) Next() (wire.Frame, error) {
	f, err := n.Agent.Next()
	n.heard(f)
	return f, err
}

// Two hosts lack the same files: the second takes them from the first. A third has another version
// of one file, and gets a pack of its own.
func TestHostsPassAFolderOn(t *testing.T) {
	first := newSite(t)
	random := make([]byte, 3*fewBytes)
	rand.Read(random)
	first.write(first.local("large"), string(random))
	first.write(first.local("d/small"), "text")
	third := &site{t, first.dir, t.TempDir(), first.as}
	third.mustStage()
	first.write(first.local("d/small"), "text 2")

	sender := NewSender(first.scan(), "here", t.Logf, func(line string) { t.Error(line) }, relay.NoMeter{})
	second := &site{t, first.dir, t.TempDir(), nil}
	joined := make(chan struct{})
	now := make(chan struct{})
	close(now)
	var pieces [2]int
	begun := make(chan struct{})
	first.as = func(a Agent) Agent {
		return named{a, "f1", joined, &pieces[0], func(f wire.Frame) {
			if p := new(wire.Passed); f.Type == wire.TypePassed && f.Decode(p) == nil && p.Feed {
				close(begun)
			}
		}}
	}
	second.as = func(a Agent) Agent {
		return named{a, "f2", now, &pieces[1], func(f wire.Frame) {
			if p := new(wire.Passed); f.Type == wire.TypePassed && f.Decode(p) == nil && p.From == 0 && p.Have == 0 {
				close(joined)
			}
		}}
	}
	addrs := []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	var work sync.WaitGroup
	work.Go(func() {
		sent, err := first.sendBy(sender, addrs, 0, nil)
		check.That(t, err == nil && sent.Files == 2 && sent.From == "", "the first: %+v, %v", sent, err)
	})
	<-begun
	work.Go(func() {
		sent, err := second.sendBy(sender, addrs, 0, nil)
		check.That(t, err == nil && sent.Files == 2 && sent.From == "f1", "the second: %+v, %v", sent, err)
	})
	sent, err := third.sendBy(sender, addrs, 0, nil)
	check.That(t, err == nil && sent.Files == 1, "the third: %+v, %v", sent, err)
	work.Wait()
	for _, s := range []*site{first, second, third} {
		s.wants(map[string]string{"large": string(random), "d/small": "text 2"})
	}
	check.That(t, pieces[0] != 0 && pieces[1] == 0 && len(sender.packs) == 0,
		"pieces %v, %d packs are left", pieces, len(sender.packs))
}

func TestCopyKeepsWhatRanksWrite(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"log", "state", "gone", "d/f", "both"} {
		s.write(s.local(name), "staged")
	}
	s.mustStage()
	for _, name := range []string{"log", "gone", "d/checkpoint", "own/x", "both"} {
		s.write(s.remote(name), "by a rank")
	}
	os.Remove(s.remote("state"))
	os.Remove(s.local("gone"))
	os.RemoveAll(s.local("d"))
	s.write(s.local("both"), "changed")
	sent := s.mustStage()
	check.That(t, sent.Files == 2, "%+v", sent)
	s.wants(map[string]string{"log": "by a rank", "gone": "by a rank", "d/checkpoint": "by a rank", "d/f": "",
		"own/x": "by a rank", "both": "changed", "state": "staged"})
	s.write(s.local("own"), "a file")
	_, err := s.stage(0)
	check.That(t, err != nil && strings.HasPrefix(err.Error(),
		s.remote("own")+" is a folder with files of earlier jobs"), "a folder in the way: %v", err)
	s.wants(map[string]string{"own/x": "by a rank"})
}

func TestCopyFollowsNoLinksOfRanks(t *testing.T) {
	s := newSite(t)
	s.write(s.local("d/e/f"), "staged")
	s.write(s.local("g"), "staged")
	s.mustStage()
	outside := t.TempDir()
	s.write(filepath.Join(outside, "e/f"), "precious")
	s.write(filepath.Join(outside, "g"), "precious")
	s.must(os.RemoveAll(s.remote("d")), os.Symlink(outside, s.remote("d")), os.Remove(s.remote("g")),
		os.Symlink(filepath.Join(outside, "g"), s.remote("g")))
	s.write(s.local("d/e/new"), "new")
	s.write(s.local("g"), "changed")
	s.mustStage()
	for _, name := range []string{"e/f", "g"} {
		text, _ := os.ReadFile(filepath.Join(outside, name))
		check.Equal(t, string(text), "precious", name, "outside holds")
	}
	list, _ := os.ReadDir(filepath.Join(outside, "e"))
	check.That(t, len(list) == 1, "outside now holds %v", list)
	s.wants(map[string]string{"d/e/f": "staged", "d/e/new": "new", "g": "changed"})
}

func TestTransferThatIsCutOff(t *testing.T) {
	for _, cut := range []int64{1, 100, 2000, 70_000, 150_000} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			s := newSite(t)
			texts := map[string]string{}
			for i, name := range []string{"a", "b", "c"} {
				random := make([]byte, 60_000+i) // it does not compress
				rand.Read(random)
				texts[name] = string(random)
			}
			for name, text := range texts {
				s.write(s.local(name), text)
			}
			check.Error(s.stage(cut)).Any(t, "no error")
			for name, text := range texts {
				got, err := os.ReadFile(s.remote(name))
				check.That(t, err != nil || string(got) == text, "half of %s is there", name)
			}
			// What has come is known to be staged.
			os.Remove(s.local("a"))
			texts["a"] = ""
			s.mustStage()
			s.wants(texts)
			left, _ := os.ReadDir(s.remote(""))
			check.That(t, len(left) == 2, "the copy has %v", left)
		})
	}
}

func TestCopyIsChangedByOneAtATime(t *testing.T) {
	must.HaveTime(t)
	s := newSite(t)
	s.write(s.local("a"), "text")
	s.mustStage()
	lock, err := os.OpenFile(s.remote("")+".lock", os.O_RDWR, 0)
	s.must(err)
	defer lock.Close()
	s.must(syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	s.write(s.local("a"), "text 2")
	waited := 0
	sent, err := s.send(s.scan(), 0, func() {
		if waited++; waited == 1 {
			s.wants(map[string]string{"a": "text"})
			syscall.Flock(int(lock.Fd()), syscall.LOCK_UN)
		}
	})
	check.That(t, err == nil && sent.Files == 1 && waited != 0, "%+v after %d notes: %v", sent, waited, err)
	s.wants(map[string]string{"a": "text 2"})
}

func TestHostThatSeesTheFolder(t *testing.T) {
	s := newSite(t)
	s.write(s.local("a"), "text")
	tree, err := Scan(s.dir, 10, 10)
	s.must(err)
	sent, err := s.send(tree, 0, nil)
	check.That(t, err == nil && sent.Shared, "%+v, %v", sent, err)
	list, _ := os.ReadDir(s.home)
	check.That(t, len(list) == 0, "the home has %v", list)
	tree.proofs[0].Inode++
	sent, err = s.send(tree, 0, nil)
	check.That(t, err == nil && !sent.Shared && sent.Files == 1, "%+v, %v", sent, err)
}

func TestFilesThatChangeMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(name string) error
		want   string
	}{
		"shorter": {func(name string) error { return os.Truncate(name, 1) }, "a became shorter while it was staged"},
		"gone":    {os.Remove, "no such file"},
		"a link": {func(name string) error {
			return errors.Join(os.Remove(name), os.Symlink("/etc/passwd", name))
		}, "too many levels of symbolic links"},
		"a pipe": {func(name string) error {
			return errors.Join(os.Remove(name), syscall.Mkfifo(name, 0o600))
		}, "a was a file when it was scanned"},
		"longer": {func(name string) error { return os.WriteFile(name, []byte("text and more"), 0o644) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			s.write(s.local("a"), "text")
			tree := s.scan()
			s.must(tc.change(s.local("a")))
			_, err := s.send(tree, 0, nil)
			check.That(t, (err == nil) == (tc.want == "") && (err == nil || strings.Contains(err.Error(), tc.want)),
				"%v", err)
			if tc.want == "" {
				s.wants(map[string]string{"a": "text"})
			}
		})
	}
}

func TestScanLimits(t *testing.T) {
	s := newSite(t)
	for i := range 5 {
		s.write(s.local(fmt.Sprint("many/", i)), "")
	}
	s.write(s.local("large/x"), strings.Repeat("x", 2000))
	for _, tc := range []struct {
		files int
		bytes int64
		want  string
	}{
		{6, 2000, ""},
		{6, 1999, " holds more than 2.0 kB, most of it in large/"},
		{5, 2000, " holds more than 5 files, most of it in many/"},
	} {
		_, err := Scan(s.dir, tc.files, tc.bytes)
		check.That(t, (err == nil) == (tc.want == "") && (err == nil || err.Error() == s.dir+tc.want),
			"%+v: %v", tc, err)
	}
}

func TestHostAnswersAreValidated(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"a", "d/b", "d/c"} {
		s.write(s.local(name), "text")
	}
	tree := s.scan() // a, d, d/b, d/c
	wants := func(more bool, files ...wire.WantedFile) func(w *wire.Writer) {
		return func(w *wire.Writer) { _ = w.SendMessage(wire.TypeWant, wire.Want{Files: files, More: more}) }
	}
	staged := func(dir string) func(w *wire.Writer) {
		return func(w *wire.Writer) { _ = w.SendMessage(wire.TypeStaged, wire.Staged{Dir: []byte(dir)}) }
	}
	taken := func(w *wire.Writer) {
		_ = w.SendMessage(wire.TypeOffered, wire.Offered{})
		_ = w.SendMessage(wire.TypePassed, wire.Passed{Have: 1 << 40})
	}
	refuse := func(w *wire.Writer) { _ = w.SendMessage(wire.TypeRefuse, wire.Refuse{What: "no space"}) }
	type says []func(w *wire.Writer)
	for name, tc := range map[string]struct {
		says says
		want string
	}{
		"nothing": {nil, "EOF"},
		"no frame": {says{func(w *wire.Writer) {
			_ = w.Send(wire.TypeWant, 0, []byte("x"))
		}}, "want message: invalid character"},
		"an error":                {says{refuse}, "no space"},
		"an error after the list": {says{wants(false, wire.WantedFile{Index: 0}), refuse}, "no space"},
		"the end without a list":  {says{staged("/copy")}, "staged in \"/copy\", which cannot be"},
		"no end":                  {says{wants(false), wants(false)}, "want came where staged was due"},
		"a long path":             {says{wants(false), staged("/" + strings.Repeat("x", 1<<20))}, "which cannot be"},
		"a relative copy":         {says{wants(false), staged("copy")}, "staged in \"copy\", which cannot be"},
		"an entry that is none":   {says{wants(false, wire.WantedFile{Index: 7})}, "wants entry 7 of 4"},
		"entry -1":                {says{wants(false, wire.WantedFile{Index: -1})}, "wants entry -1"},
		"a folder":                {says{wants(false, wire.WantedFile{Index: 1})}, "wants entry 1"},
		"a file twice": {says{wants(true, wire.WantedFile{Index: 2}),
			wants(false, wire.WantedFile{Index: 2})}, "wants entry 2"},
		"a sum of another length": {says{wants(false, wire.WantedFile{Index: 0, Sum: make([]byte, 64)})},
			"wants entry 0"},
		"a list without end": {says{wants(true), wants(true), wants(true)}, "EOF"},
		"nothing of a pack": {says{wants(false, wire.WantedFile{Index: 0}), staged("/copy")},
			"staged came where offered was due"},
		"more than the pack": {says{wants(false, wire.WantedFile{Index: 0}), taken}, "1099511627776 bytes"},
		"what it can":        {says{wants(true), wants(false), staged("/copy")}, ""},
		"that it sees the folder": {says{func(w *wire.Writer) {
			_ = w.SendMessage(wire.TypeStaged, wire.Staged{Shared: true})
		}}, ""},
		"that, but after the list": {says{wants(false), func(w *wire.Writer) {
			_ = w.SendMessage(wire.TypeStaged, wire.Staged{Shared: true, Dir: []byte("/copy")})
		}}, "cannot be"},
	} {
		var said bytes.Buffer
		for _, say := range tc.says {
			say(wire.NewWriter(&said))
		}
		sender := NewSender(tree, "here", t.Logf, func(line string) { t.Error(line) }, relay.NoMeter{})
		_, err := sender.Send(connection{
			in:     nopCloser{io.Discard},
			out:    nopCloser{},
			frames: wire.NewReader(&said),
			to:     wire.NewWriter(io.Discard),
		}, nil, func() {})
		check.That(t, (err == nil) == (tc.want == "") && (err == nil || strings.Contains(err.Error(), tc.want)),
			"%s: %v, want %q", name, err, tc.want)
	}
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

func TestLongListOfFilesIsSplit(t *testing.T) {
	var out bytes.Buffer
	files := make([]wire.WantedFile, 2*wantStep+1)
	for i := range files {
		files[i] = wire.WantedFile{Index: i, Sum: make([]byte, 32)}
	}
	must.OK(t, (&receiver{out: wire.NewWriter(&out)}).want(files))
	var got []wire.WantedFile
	for frames, more := wire.NewReader(&out), true; more; {
		f, err := frames.Next()
		var w wire.Want
		must.OK(t, errors.Join(err, f.Expect(wire.TypeWant, &w)))
		got = append(got, w.Files...)
		more = w.More
	}
	check.That(t, len(got) == len(files) && got[wantStep].Index == wantStep, "%d files of %d", len(got), len(files))
}
