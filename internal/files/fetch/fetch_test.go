package fetch

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

// link is a launcher's connection with an agent in this process.
type link struct {
	*wire.Reader
	queue  chan wire.Frame // to the agent
	cancel func()
}

func (*link) Name() string { return "f1" }

func (l *link) Send(t wire.Type, message any) {
	payload, _ := json.Marshal(message)
	if l.queue != nil {
		l.queue <- wire.Frame{Type: t, Payload: payload}
	}
}

func (*link) Piece([]byte) error { return errors.ErrUnsupported }

func (l *link) Next() (wire.Frame, error) {
	f, err := l.Reader.Next()
	if err == nil && f.Type == wire.TypeRefuse {
		err = wire.Handle(f, func(r wire.Refuse) error { return errors.New(r.What) })
	}
	return f, err
}

func (l *link) Cancel() { l.cancel() }

// world is a host with files, and a folder of the launcher.
type world struct {
	*testing.T
	home, dir string
	broken    int64 // bytes of the host after which its connection breaks; 0: it does not
}

func newWorld(t *testing.T) *world {
	top := t.TempDir()
	must.OK(t, os.Chmod(top, 0o755))
	w := &world{T: t, home: filepath.Join(top, "home"), dir: filepath.Join(top, "in/dir")}
	must.OK(t, os.Mkdir(w.home, 0o755))
	return w
}

// put writes a file of the host.
func (w *world) put(name, text string, mode fs.FileMode) {
	w.Helper()
	path := filepath.Join(w.home, name)
	must.OK(w, os.MkdirAll(filepath.Dir(path), 0o755))
	must.OK(w, os.WriteFile(path, []byte(text), mode))
	must.OK(w, os.Chmod(path, mode))
	must.OK(w, os.Chtimes(path, time.Unix(1e9, 5), time.Unix(1e9, 5)))
}

// bring brings files of the host.
func (w *world) bring(patterns ...string) (Got, error) {
	in, back := io.Pipe()
	queue := make(chan wire.Frame, 1000)
	to := io.Writer(back)
	if w.broken > 0 {
		to = &breaking{back, w.broken}
	}
	ended := make(chan error, 1)
	go func() {
		ask := <-queue
		var f wire.Fetch
		err := json.Unmarshal(ask.Payload, &f)
		if err == nil {
			err = Send(w.Context(), f, func() (wire.Frame, error) {
				f, more := <-queue
				if !more {
					return f, io.EOF
				}
				return f, nil
			}, wire.NewWriter(to), w.home)
		}
		if err != nil && !errors.Is(err, io.EOF) {
			_ = wire.NewWriter(back).SendMessage(wire.TypeRefuse, wire.Refuse{What: err.Error()})
		}
		back.Close()
		ended <- err
	}()
	got, err := Receive(&link{wire.NewReader(in), queue, func() { in.Close() }},
		wire.Fetch{From: []wire.FetchFrom{{Patterns: patterns}}}, w.open, relay.NoMeter{})
	close(queue)
	in.Close()
	<-ended
	return got, err
}

func (w *world) open(*List) (Folder, error) { return OpenFolder(w.dir) }

// breaking is a connection that breaks after some bytes.
type breaking struct {
	*io.PipeWriter
	left int64
}

func (b *breaking) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		b.Close()
		return 0, io.ErrClosedPipe
	}
	return b.PipeWriter.Write(p)
}

// tree lists what is below a folder: names, modes of files and folders, targets of links, and text.
func (w *world) tree(dir string) (all []string) {
	w.Helper()
	must.OK(w, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		info, err := d.Info()
		switch {
		case err != nil:
		case d.IsDir():
			rel = fmt.Sprintf("%s/ %o", rel, info.Mode().Perm())
		case d.Type() == fs.ModeSymlink:
			to, _ := os.Readlink(path)
			rel += " -> " + to
		default:
			text, _ := os.ReadFile(path)
			rel = fmt.Sprintf("%s %o %q", rel, info.Mode().Perm(), text[:min(len(text), 20)])
		}
		all = append(all, rel)
		return err
	}))
	return all
}

func TestMatchingFilesComeBack(t *testing.T) {
	w := newWorld(t)
	w.put("ckpt/a.pt", "a", 0o640)
	w.put("ckpt/b.pt", "b", 0o600)
	w.put("ckpt/.hidden", "h", 0o644)
	w.put("ckpt/deep/c.pt", "", 0o755)
	w.put("ckpt/x[1]", "x", 0o644)
	must.OK(t, os.Chmod(filepath.Join(w.home, "ckpt/deep"), 0o777))
	must.OK(t, os.Symlink("deep/c.pt", filepath.Join(w.home, "ckpt/latest")))
	must.OK(t, os.Symlink(filepath.Join(w.home, "ckpt/a.pt"), filepath.Join(w.home, "ckpt/deep/top")))
	must.OK(t, os.Symlink("/etc/passwd", filepath.Join(w.home, "ckpt/out")))
	must.OK(t, os.Symlink("ckpt/a.pt", filepath.Join(w.home, "named")))
	for name, tc := range map[string]struct {
		patterns []string
		want     []string // "": an error that has the last one
		missing  int
	}{
		"a file":               {[]string{"ckpt/a.pt"}, []string{"ckpt/ 755", `ckpt/a.pt 640 "a"`}, 0},
		"a pattern":            {[]string{"ckpt/*.pt"}, []string{"ckpt/ 755", `ckpt/a.pt 640 "a"`, `ckpt/b.pt 600 "b"`}, 0},
		"a pattern of names":   {[]string{"ckpt/x[1]"}, []string{"ckpt/ 755", `ckpt/x[1] 644 "x"`}, 0},
		"folders":              {[]string{"*/d?ep"}, []string{"ckpt/ 755", "ckpt/deep/ 755", `ckpt/deep/c.pt 755 ""`, "ckpt/deep/top -> ../a.pt"}, 0},
		"a link that is named": {[]string{"named"}, []string{`named 640 "a"`}, 0},
		"hidden files":         {[]string{"ckpt/.h*"}, []string{"ckpt/ 755", `ckpt/.hidden 644 "h"`}, 0},
		"the same twice":       {[]string{"ckpt/a.pt", "ckpt/a*"}, []string{"ckpt/ 755", `ckpt/a.pt 640 "a"`}, 0},
		"nothing":              {[]string{"ckpt/*.zip", "none/x"}, nil, 2},
		"all": {[]string{"ckpt"}, []string{"ckpt/ 755", `ckpt/.hidden 644 "h"`, `ckpt/a.pt 640 "a"`, `ckpt/b.pt 600 "b"`,
			"ckpt/deep/ 755", `ckpt/deep/c.pt 755 ""`, "ckpt/deep/top -> ../a.pt", "ckpt/latest -> deep/c.pt",
			`ckpt/x[1] 644 "x"`}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{T: t, home: w.home, dir: filepath.Join(w.dir, name)}
			for range 2 { // the second time nothing comes
				got := must.Get(w.bring(tc.patterns...))(t)
				check.Equal(t, len(got.Missing), tc.missing)
				if tc.want == nil {
					check.That(t, len(got.Entries) == 0, "%v", got.Entries)
					return
				}
				check.That(t, slices.Equal(w.tree(w.dir), tc.want), "%q", w.tree(w.dir))
			}
			got, err := w.bring(tc.patterns...)
			check.That(t, err == nil && got.Came == 0, "%d bytes came again, %v", got.Came, err)
		})
	}
}

func TestTwoFilesOfOneNameAreRefused(t *testing.T) {
	w := newWorld(t)
	w.put("a/x", "1", 0o644)
	w.put("b/x", "2", 0o644)
	_, err := find(wire.Fetch{From: []wire.FetchFrom{{Dir: "a", Patterns: wire.Texts{"x"}},
		{Dir: "b", Patterns: wire.Texts{"x"}}}}, w.home)
	check.That(t, err != nil && strings.Contains(err.Error(), "would be the same file"), "%v", err)
}

// A copy that broke goes on where it ended, and the file has its name only when it is whole.
// A host reports deep folders itself, in words for the user.
func TestDeepFoldersAreRefused(t *testing.T) {
	w := newWorld(t)
	w.put("a", "a", 0o644)
	f := finder{at: map[string]string{}, names: workdir.MaxNames}
	check.Error(f.match(w.home, "a")).Says(t, "names", "bring fewer folders")
}

// Another user's links from a folder to itself match part after part of a pattern. A thousand of
// them filled the memory.
func TestLinksToTheirFolderAreBounded(t *testing.T) {
	w := newWorld(t)
	for i := range 600 {
		must.OK(t, os.Symlink(".", filepath.Join(w.home, fmt.Sprint(i))))
	}
	var f finder
	check.Error(f.glob(w.home, "*/*/*")).Says(t, "match: bring fewer")
	check.That(t, f.seen < 2*maxEntries, "%d names were compared", f.seen)
	f.seen = maxSeen - 600*600
	check.Error(f.glob(w.home, "*/*x")).Says(t, "names were compared")
}

// Folders in each other are read one at a time, and what others put into each waits meanwhile.
func TestItemsThatWaitAreBounded(t *testing.T) {
	w := newWorld(t)
	w.put("d/a", "a", 0o644)
	f := finder{at: map[string]string{}, held: maxEntries}
	check.Error(f.match(w.home, "d")).Says(t, "match: bring fewer")
}

func TestBrokenCopyGoesOn(t *testing.T) {
	w := newWorld(t)
	text := strings.Repeat("0123456789abcdef", 200_000) // 13 chunks
	w.put("big", text, 0o644)
	w.broken = 2_000_000
	_, err := w.bring("big")
	check.That(t, err != nil, "the connection did not break")
	check.Error(os.Lstat(filepath.Join(w.dir, "big"))).Is(t, fs.ErrNotExist, "a part has the file's name")
	w.broken = 0
	got, err := w.bring("big")
	check.That(t, err == nil && got.Came > 0 && got.Came < 2_000_000, "%d bytes came, %v", got.Came, err)
	data := must.Get(os.ReadFile(filepath.Join(w.dir, "big")))(t)
	check.That(t, string(data) == text, "%d bytes", len(data))
	check.Equal(t, len(w.tree(w.dir)), 1, "files are left")
}

// Files that grow are copied as they were when they were listed.
func TestGrownFileIsCopiedAsListed(t *testing.T) {
	w := newWorld(t)
	w.put("log", "one two", 0o644)
	src := must.Get(relay.OpenFirst(filepath.Join(w.home, "log"), 3))(t)
	defer src.Close()
	check.Equal(t, src.Size(), int64(3))
	_, err := relay.OpenFirst(filepath.Join(w.home, "log"), 30)
	check.That(t, err != nil && strings.Contains(err.Error(), "shorter"), "%v", err)
}

// Nor does the content of another file, to which another user has made a link meanwhile, come by
// the name and with the mode of a listed one.
func TestReplacedFileIsNotCopied(t *testing.T) {
	w := newWorld(t)
	w.put("shared/log", "for all", 0o644)
	w.put("secret", "for this user", 0o600)
	f := must.Get(find(wire.Fetch{From: []wire.FetchFrom{{Patterns: wire.Texts{"shared"}}}}, w.home))(t)
	log := filepath.Join(w.home, "shared/log")
	must.OK(t, errors.Join(os.Remove(log), os.Symlink("../secret", log)))
	_, err := f.sources()[0].open()
	check.That(t, err != nil && strings.Contains(err.Error(), "was replaced"), "%v", err)
}

// Nor does what is in another folder come by the name and the mode of one that was listed.
func TestReplacedFolderIsNotRead(t *testing.T) {
	w := newWorld(t)
	w.put("shared/d/log", "for all", 0o644)
	w.put("private/log", "for this user", 0o644)
	d := filepath.Join(w.home, "shared/d")
	listed := must.Get(os.Lstat(d))(t)
	must.OK(t, errors.Join(os.RemoveAll(d), os.Symlink("../private", d)))
	f := &finder{at: map[string]string{}}
	err := f.walk(w.home, "shared/d", listed)
	check.That(t, err != nil && strings.Contains(err.Error(), "was replaced") && len(f.Entries) == 0, "%v, %v", err,
		f.Entries)
}

// A pipe in the place of a listed folder is not opened: whoever may write beside it would hold the
// host up.
func TestPipeInTheFoldersPlaceIsNotAwaited(t *testing.T) {
	w := newWorld(t)
	w.put("shared/d/log", "for all", 0o644)
	d := filepath.Join(w.home, "shared/d")
	listed := must.Get(os.Lstat(d))(t)
	must.OK(t, errors.Join(os.RemoveAll(d), syscall.Mkfifo(d, 0o600)))
	walked := make(chan error)
	go func() { walked <- (&finder{at: map[string]string{}}).walk(w.home, "shared/d", listed) }()
	for {
		select {
		case err := <-walked:
			check.Error(nil, err).Is(t, syscall.ENOTDIR)
			check.That(t, err != nil && strings.HasPrefix(err.Error(), "open "+d+": "), "%v", err)
			return
		default:
		}
		if writer, err := os.OpenFile(d, os.O_WRONLY|syscall.O_NONBLOCK, 0); err == nil { // it has a reader
			writer.Close()
			t.Errorf("the pipe is opened: %v", <-walked)
			return
		}
		runtime.Gosched()
	}
}

func TestFolderOthersMayWriteIsRefused(t *testing.T) {
	w := newWorld(t)
	must.OK(t, os.MkdirAll(w.dir, 0o755))
	must.OK(t, os.Chmod(w.dir, 0o777))
	w.put("a", "a", 0o644)
	for _, err := range []error{CheckFolder(w.dir), CheckFolder(filepath.Join(w.dir, "new/one"))} {
		check.That(t, err != nil && strings.Contains(err.Error(), "not safe"), "%v", err)
	}
	_, err := w.bring("a")
	check.That(t, err != nil && strings.Contains(err.Error(), "not safe"), "%v", err)
	check.Equal(t, len(w.tree(w.dir)), 0)

	// so is one below the folder, where what comes could be exchanged, or led elsewhere by a link
	must.OK(t, os.Chmod(w.dir, 0o755))
	w.put("d/e/a", "a", 0o644)
	below := filepath.Join(w.dir, "d")
	must.OK(t, os.Mkdir(below, 0o755))
	must.OK(t, os.Chmod(below, 0o777))
	_, err = w.bring("d")
	check.That(t, err != nil && strings.Contains(err.Error(), "others can change "+below), "%v", err)
	check.Equal(t, strings.Join(w.tree(w.dir), " "), "d/ 777")
}

func TestHostsHaveFoldersOfTheirOwn(t *testing.T) {
	for _, tc := range [][2][]string{
		{{"f1"}, {""}},
		{{"f1", "f2"}, {"f1", "f2"}},
		{{"f1", "F1", "f1"}, {"f1", "F1.2", "f1.3"}},
		{{"../x", "..", "a/b"}, {"_x", "host", "a_b"}},
	} {
		got := HostFolders(tc[0])
		check.That(t, slices.Equal(got, tc[1]), "%q: %q", tc[0], got)
	}
}

// hostile is what a host sends instead of its files.
type hostile []func(*wire.Writer)

// listed sends a list.
func listed(entries ...workdir.Entry) func(*wire.Writer) {
	return func(w *wire.Writer) { _ = (&List{Entries: entries}).write(lines{w}) }
}

func offered(o wire.Offer) func(*wire.Writer) {
	return func(w *wire.Writer) { _ = w.SendMessage(wire.TypeOffer, o) }
}

func piece(data string) func(*wire.Writer) {
	return func(w *wire.Writer) { _ = w.Send(wire.TypePiece, 0, []byte(data)) }
}

// A hostile host writes nothing outside the folder, nor more than it has announced.
func TestHostileHost(t *testing.T) {
	entry := func(path string, kind workdir.Kind, size int64, target string) workdir.Entry {
		return workdir.Entry{
			Path:   workdir.Name(path),
			Kind:   kind,
			Size:   size,
			Mode:   0o644,
			Target: workdir.Name(target),
		}
	}
	file := func(path string, size int64) workdir.Entry { return entry(path, workdir.File, size, "") }
	folder := func(path string) workdir.Entry { return entry(path, workdir.Dir, 0, "") }
	symlink := func(path, to string) workdir.Entry {
		e := entry(path, workdir.Link, 0, to)
		e.Mode = 0
		return e
	}
	sum := func(name string, data string) wire.Offer {
		path := filepath.Join(t.TempDir(), "f")
		must.OK(t, os.WriteFile(path, []byte(data), 0o600))
		src := must.Get(relay.Open(path))(t)
		defer src.Close()
		return src.Offer(wire.Place{Name: []byte(name)})
	}
	a := sum("a", "text")
	elsewhere := sum("a", "text")
	elsewhere.Dir = []byte("/tmp")
	asks := sum("a", "text")
	asks.Ask = true
	short := sum("a", "text")
	short.Sums = nil
	var deep []workdir.Entry
	for depth := range 2048 {
		deep = append(deep, folder(strings.Repeat("a/", depth)+"a"))
	}
	for i := range 1500 {
		deep = append(deep, symlink(fmt.Sprint(strings.Repeat("a/", 2000), i), "a"))
	}
	var many []workdir.Entry
	manyOffers := hostile{}
	ask := wire.Fetch{From: []wire.FetchFrom{{Patterns: wire.Texts{"*"}}}}
	long := strings.Repeat("x", 1<<20)
	for i := range maxAhead + 1 {
		name := fmt.Sprint("f", i)
		many = append(many, file(name, 4))
		manyOffers = append(manyOffers, offered(sum(name, "text")))
	}
	for name, tc := range map[string]struct {
		sends hostile
		want  string // in the error
	}{
		// TestCheckRefuses of internal/files/workdir has what a list must not hold.
		"a name above":    {hostile{listed(file("../a", 4))}, "leads out"},
		"a hidden file":   {hostile{listed(file(".bashrc", 4))}, "nobody has asked"},
		"a hidden folder": {hostile{listed(folder(".ssh"), file(".ssh/rc", 4))}, "nobody has asked"},
		"a link above, by another": {hostile{listed(folder("d"), symlink("d/up", ".."), symlink("d/out", "up/.."))},
			"a link to"},
		"a piece at once":     {hostile{listed(file("a", 4)), piece("text")}, "piece came"},
		"another file":        {hostile{listed(file("a", 4)), offered(sum("b", "text"))}, "was due"},
		"a file that is none": {hostile{listed(folder("a")), offered(a)}, ""},
		"a longer file":       {hostile{listed(file("a", 4)), offered(sum("a", "longer"))}, "was due"},
		"a file elsewhere":    {hostile{listed(file("a", 4)), offered(elsewhere)}, "was due"},
		"a question":          {hostile{listed(file("a", 4)), offered(asks)}, "was due"},
		"no sums":             {hostile{listed(file("a", 4)), offered(short)}, "with sums of 0 bytes"},
		"more bytes":          {hostile{listed(file("a", 4)), offered(a), piece("text and more")}, "was changed"},
		"other bytes":         {hostile{listed(file("a", 4)), offered(a), piece("xxxx")}, "was changed"},
		"too many offers":     {append(hostile{listed(many...)}, manyOffers...), "offer came"},
		"the end":             {hostile{listed(file("a", 4)), offered(a)}, "EOF"},
		"no list":             {hostile{piece("text")}, "piece came"},
		"a list that is none": {hostile{func(w *wire.Writer) { _ = w.Send(wire.TypeFolder, 0, []byte("x")) }}, "EOF"},
		"a list without end": {hostile{func(w *wire.Writer) {
			_ = (&List{Notes: []string{strings.Repeat("x", maxList)}}).write(lines{w})
		}}, "too long"},
		"a list of nothing without end": {hostile{func(w *wire.Writer) {
			zip := gzip.NewWriter(lines{w})
			_ = zip.Flush()
			nothing := bytes.Repeat([]byte{0, 0, 0, 0xff, 0xff}, wire.MaxData/5) // empty blocks of deflate
			for range maxList/len(nothing) + 1 {
				_, _ = lines{w}.Write(nothing)
			}
		}}, "too long"},
		"an empty part of a list": {hostile{func(w *wire.Writer) { _ = w.Send(wire.TypeFolder, 0, nil) }},
			"an empty folder came"},
		"an empty piece": {hostile{listed(file("a", 4)), offered(a), piece("")}, "an empty piece came"},
		"a list of millions": {hostile{func(w *wire.Writer) {
			zip := gzip.NewWriter(lines{w})
			_, _ = zip.Write([]byte(`{"Entries":[` + strings.Repeat("{},", maxValues) + "{}]}"))
			_ = zip.Close()
		}}, "values"},
		"more than there is room for": {hostile{listed(file("a", 1<<60))},
			"dir: f1 announces 1152921504606846976 bytes: no space left on device: the file system at "},
		"more than can be counted": {hostile{listed(file("a", 1<<62), file("b", 1<<62), file("c", 1<<62))},
			"dir: f1 announces 9223372036854775807 bytes: no space left on device: "},
		"a minute of opening folders": {hostile{listed(deep...)}, "names"},
		"a name of a megabyte":        {hostile{listed(file(long, 4))}, "a path of 1048576 bytes"},
		"a name that no host has":     {hostile{listed(folder(long[:256]))}, "a name of 256 bytes"},
		"a link of a megabyte":        {hostile{listed(symlink("a", long))}, "a path of 1048576 bytes"},
		"a kind of a megabyte":        {hostile{listed(entry("a", workdir.Kind(long), 4, ""))}, "unknown kind"},
		"another long name":           {hostile{listed(file("a", 4)), offered(sum(long, "text"))}, "was due"},
		"what it should":              {hostile{listed(file("a", 4)), offered(a), piece("te"), piece("xt")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.T = t
			var said bytes.Buffer
			for _, send := range tc.sends {
				send(wire.NewWriter(&said))
			}
			from := &link{Reader: wire.NewReader(&said), cancel: func() {}}
			got, err := Receive(from, ask, w.open, relay.NoMeter{})
			check.That(t, (err == nil) == (tc.want == ""), "%v", err)
			check.That(t, err == nil || strings.Contains(err.Error(), tc.want), "%v", err)
			check.That(t, err == nil || len(err.Error()) < 1000, "an error of %d bytes", len(fmt.Sprint(err)))
			check.That(t, len(got.Notes) <= maxNotes, "%d notes", len(got.Notes))
			top := filepath.Dir(filepath.Dir(w.dir))
			check.That(t, len(must.Get(os.ReadDir(top))(t)) <= 2, "%q", w.tree(top))
		})
	}
}

// A hostile host knows what a file is like that it has sent before. The file is not read in chunks
// of a size that gorun never offers: there may be any number of them.
func TestOffersOfFilesThatAreHere(t *testing.T) {
	w := newWorld(t)
	w.put("a", "text", 0o644)
	must.Get(w.bring("a"))(t)
	e := workdir.Entry{
		Path:  workdir.Name("a"),
		Kind:  workdir.File,
		Size:  4,
		Mode:  0o644,
		Mtime: time.Unix(1e9, 5).UnixNano(),
	}
	ask := wire.Fetch{From: []wire.FetchFrom{{Patterns: wire.Texts{"a"}}}}
	for _, chunk := range []int64{0, 1, -1, -1 << 63} {
		var said bytes.Buffer
		listed(e)(wire.NewWriter(&said))
		offered(wire.Offer{
			Place: wire.Place{Name: []byte("a")},
			Size:  4,
			Chunk: chunk,
		})(wire.NewWriter(&said))
		from := &link{Reader: wire.NewReader(&said), cancel: func() {}}
		_, err := Receive(from, ask, w.open, relay.NoMeter{})
		check.That(t, err != nil && strings.Contains(err.Error(), "in chunks of"), "chunks of %d bytes: %v", chunk, err)
	}
}

// An entry is one that a pattern names, is in a folder of that name, or is a folder that leads
// there.
func TestWhatWasAskedFor(t *testing.T) {
	for _, tc := range []struct {
		pattern, path string
		kind          workdir.Kind
		want          bool
	}{
		{"a", "a", workdir.File, true},
		{"a", "b", workdir.File, false},
		{"a", "a/b/.c", workdir.File, true},
		{"./a/", "a", workdir.Dir, true},
		{"x/../a", "a", workdir.Link, true},
		{".", ".any/thing", workdir.File, true},
		{"*", "a", workdir.File, true},
		{"*", ".a", workdir.File, false},
		{".*", ".a", workdir.File, true},
		{"*", "a/.b", workdir.File, true},
		{"a/*.pt", "a", workdir.Dir, true},
		{"a/*.pt", "a", workdir.File, false},
		{"a/*.pt", "a", workdir.Link, false},
		{"a/*.pt", "a/b.pt", workdir.File, true},
		{"a/*.pt", "a/b.py", workdir.File, false},
		{"a/*.pt", "b/b.pt", workdir.File, false},
		{"*/?", "ab/c", workdir.Dir, true},
		{"*/?", ".ab/c", workdir.Dir, false},
		{"x[1]", "x[1]", workdir.File, true},
		{"x[1]", "x1", workdir.File, true},
		{"x[1", "x[1", workdir.File, true},
		{"x[1", "x1", workdir.File, false},
	} {
		got := isAsked(workdir.Entry{Path: workdir.Name(tc.path), Kind: tc.kind}, tc.pattern)
		check.That(t, got == tc.want, "%q for %q, a %s: %v", tc.path, tc.pattern, tc.kind, got)
	}
}

// A link that comes takes the place of a file of its own name only.
func TestOtherFilesStayWhereALinkComes(t *testing.T) {
	w := newWorld(t)
	w.put("last/file", "", 0o644)
	must.OK(t, os.Symlink("file", filepath.Join(w.home, "last/link")))
	own := filepath.Join(w.dir, "last/.link.link.gorun")
	must.OK(t, os.MkdirAll(filepath.Dir(own), 0o755))
	must.OK(t, os.WriteFile(own, []byte("mine"), 0o644))
	must.Get(w.bring("last"))(t)
	check.Equal(t, string(must.Get(os.ReadFile(own))(t)), "mine")
	entries := must.Get(os.ReadDir(filepath.Dir(own)))(t)
	check.Equal(t, len(entries), 3)
}

// A link that is there already leads no file elsewhere.
func TestNothingIsWrittenThroughLinks(t *testing.T) {
	w := newWorld(t)
	w.put("d/a", "new", 0o644)
	outside := filepath.Join(filepath.Dir(w.home), "outside")
	must.OK(t, os.MkdirAll(outside, 0o755))
	must.OK(t, os.WriteFile(filepath.Join(outside, "a"), []byte("old"), 0o644))
	must.OK(t, os.MkdirAll(w.dir, 0o755))
	must.OK(t, os.Symlink(outside, filepath.Join(w.dir, "d")))
	_, err := w.bring("d")
	check.That(t, err != nil && strings.Contains(err.Error(), "is no folder here"), "%v", err)
	must.OK(t, os.Remove(filepath.Join(w.dir, "d")))
	must.OK(t, os.Mkdir(filepath.Join(w.dir, "d"), 0o755))
	must.OK(t, os.Symlink(filepath.Join(outside, "a"), filepath.Join(w.dir, "d/a")))
	_, err = w.bring("d")
	check.That(t, err == nil, "%v", err)
	old := must.Get(os.ReadFile(filepath.Join(outside, "a")))(t)
	check.Equal(t, string(old), "old")
	check.That(t, slices.Equal(w.tree(w.dir), []string{"d/ 755", `d/a 644 "new"`}), "%q", w.tree(w.dir))
}

func TestSilentHostIsGivenUp(t *testing.T) {
	in, back := io.Pipe()
	defer back.Close()
	silent := &link{wire.NewReader(in), make(chan wire.Frame, 9), func() { in.Close() }}
	r := &receiving{Host: silent, meter: relay.NoMeter{}, idle: time.Millisecond}
	_, err := r.receive(wire.Fetch{}, newWorld(t).open)
	check.That(t, err != nil && strings.Contains(err.Error(), "has sent nothing for 1ms"), "%v", err)
}
