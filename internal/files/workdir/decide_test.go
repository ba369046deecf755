package workdir

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/must"
)

func file(path string, size, mtime int64) Entry {
	return Entry{
		Path:  Name(path),
		Kind:  File,
		Size:  size,
		Mtime: mtime,
		Mode:  0o644,
	}
}

func folder(path string) Entry { return Entry{Path: Name(path), Kind: Dir, Mode: 0o755} }

func TestCompare(t *testing.T) {
	a := file("a", 1, 1)
	sum := []byte("sum of a")
	staged := Record{Entry: a, Sum: sum}
	executable := a
	executable.Mode = 0o755
	link := Entry{Path: "a", Kind: Link, Target: "b"}
	for name, tc := range map[string]struct {
		entries []Entry
		records []Record
		disk    []Entry
		want    string // remove, want, remode
	}{
		"new":                   {[]Entry{a}, nil, nil, "[] [{0 []}] []"},
		"unchanged":             {[]Entry{a}, []Record{staged}, []Entry{a}, "[] [] []"},
		"longer":                {[]Entry{file("a", 2, 2)}, []Record{staged}, []Entry{a}, "[] [{0 []}] []"},
		"another time":          {[]Entry{file("a", 1, 2)}, []Record{staged}, []Entry{a}, "[] [{0 sum of a}] []"},
		"another mode":          {[]Entry{executable}, []Record{staged}, []Entry{a}, "[] [] [0]"},
		"a rank has written it": {[]Entry{a}, []Record{staged}, []Entry{file("a", 9, 9)}, "[] [] []"},
		"both have written it": {[]Entry{file("a", 2, 2)}, []Record{staged}, []Entry{file("a", 9, 9)},
			"[] [{0 []}] []"},
		"a rank has removed it":      {[]Entry{a}, []Record{staged}, nil, "[] [{0 []}] []"},
		"a rank's file of that name": {[]Entry{a}, nil, []Entry{a}, "[] [{0 []}] []"},
		"was on its way": {[]Entry{a}, []Record{{Entry: a, Pending: true}}, []Entry{a},
			"[] [{0 []}] []"},
		"gone":                            {nil, []Record{staged}, []Entry{a}, "[a] [] []"},
		"gone, but a rank has written it": {nil, []Record{staged}, []Entry{file("a", 9, 9)}, "[] [] []"},
		"gone on both sides":              {nil, []Record{staged}, nil, "[] [] []"},
		"a rank's file stays":             {nil, nil, []Entry{a}, "[] [] []"},
		"gone with its folder": {nil, []Record{{Entry: folder("d")}, {Entry: file("d/f", 1, 1)}},
			[]Entry{folder("d"), file("d/f", 1, 1)}, "[d/f d] [] []"},
		"a folder has become a file": {[]Entry{file("d", 1, 1)}, []Record{{Entry: folder("d")},
			{Entry: file("d/f", 1, 1)}}, []Entry{folder("d"), file("d/f", 1, 1)}, "[d/f d] [{0 []}] []"},
		"a file has become a link":           {[]Entry{link}, []Record{staged}, []Entry{a}, "[a] [] []"},
		"a rank has put a link in its place": {[]Entry{a}, []Record{staged}, []Entry{link}, "[] [{0 []}] []"},
	} {
		t.Run(name, func(t *testing.T) {
			records := map[Name]Record{}
			disk := map[string]Entry{}
			for _, r := range tc.records {
				records[r.Path] = r
			}
			for _, e := range tc.disk {
				disk[string(e.Path)] = e
			}
			c := compare(tc.entries, records, func(path string) Entry { return disk[path] })
			var want []string
			for _, w := range c.want {
				text := "[]"
				if w.Sum != nil {
					text = string(w.Sum)
				}
				want = append(want, fmt.Sprintf("{%d %s}", w.Index, text))
			}
			got := fmt.Sprintf("%v %v %v", c.remove, want, c.remode)
			check.Equal(t, got, tc.want, "got")
			for path, r := range after(tc.entries, records, c) {
				asked := false
				for _, w := range c.want {
					asked = asked || tc.entries[w.Index].Path == path
				}
				check.That(t, r.Pending == asked, "%s: pending %v", path, r.Pending)
			}
		})
	}
}

func TestNamesKeepTheirBytes(t *testing.T) {
	for _, name := range []Name{"a", "a b/ü", "100%", "%41", "a\xff\xfe", "\n\t\"", "a+b", "\ufffd"} {
		text, err := json.Marshal(name)
		var back Name
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		check.That(t, err == nil && back == name, "%q: %s, %q, %v", name, text, back, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	link := func(path, target string) Entry { return Entry{Path: Name(path), Kind: Link, Target: Name(target)} }
	for want, entries := range map[string][]Entry{
		"":                         {folder("d"), file("d/f", 0, 0), link("d/l", "../d/f"), link("up", "d/..")},
		"clean path":               {file("./a", 0, 0)},
		`"": it is not`:            {file("", 0, 0)},
		`"a\x00": it is not`:       {file("a\x00", 0, 0)},
		`"../a": it leads out`:     {file("../a", 0, 0)},
		`"/a": it leads out`:       {file("/a", 0, 0)},
		`"..": it leads out`:       {folder("..")},
		"it comes twice":           {file("a", 0, 0), folder("a")},
		"its folder does not come": {file("d/f", 0, 0), folder("d")},
		`"l/f": its folder`:        {link("l", "d"), file("l/f", 0, 0)},
		"unknown kind":             {{Path: "a", Kind: "fifo"}},
		"size -1":                  {file("a", -1, 0)},
		"mode 4755":                {{Path: "a", Kind: File, Mode: 0o4755}},
		`to "../x", out`:           {link("l", "../x")},
		`to "/etc/passwd", out`:    {link("l", "/etc/passwd")},
		`to "", out`:               {link("l", "")},
		`to "d/../../x", out`:      {link("l", "d/../../x")},
	} {
		err := Check(entries)
		check.That(t, (err == nil) == (want == "") && (err == nil || strings.Contains(err.Error(), want)),
			"%v: %v, want %q", entries, err, want)
	}
}

func TestIgnore(t *testing.T) {
	list := must.Get(parseIgnore("# comment\n\n*.log\nbuild/\n/top\n docs/*.pdf \r\n[ab]x\n"))(t)
	for name, want := range map[string]bool{
		"a.log": true, "d/a.log": true, "a.logs": false, "build/": true, "d/build/": true, "build": false, "top": true,
		"d/top":      false,
		"docs/a.pdf": true, "d/docs/a.pdf": false, "docs/d/a.pdf": false, "ax": true, "cx": false, ".git/": true,
		"d/.git/": true, ".git": true, ".gitignore": false,
	} {
		path, dir := strings.CutSuffix(name, "/")
		check.Equal(t, list.matches(path, dir), want, name)
	}
	for text, want := range map[string]string{"a\n!b\n": `.gorunignore:2: "!b": ! cannot take`,
		"a/**": "** is not supported", "[a": "not a pattern", "/": "not a pattern"} {
		check.Error(parseIgnore(text)).Says(t, want, text)
	}
}

func TestSameFolder(t *testing.T) {
	now := time.Unix(1e9, 0)
	old := now.Add(-time.Hour).UnixNano()
	lately := now.UnixNano()
	top := proof{".", 1, old, old}
	a := proof{"a", 2, old, old}
	b := proof{"b", 3, old, old}
	changed := func(p proof, inode uint64, at int64) proof { return proof{p.Path, inode, at, at} }
	all := []proof{top, a, b}
	for name, tc := range map[string]struct {
		proofs, there []proof
		want          bool
	}{
		"the same":       {all, all, true},
		"nothing there":  {all, nil, false},
		"one is missing": {all, []proof{top, a}, false},
		"a copy":         {all, []proof{changed(top, 11, old), changed(a, 12, old+5), changed(b, 13, old+5)}, false},
		"a copy made just now": {all,
			[]proof{changed(top, 11, lately), changed(a, 12, lately), changed(b, 13, lately)}, false},
		"a twin made just now": {all,
			[]proof{changed(top, 1, lately), changed(a, 2, lately), changed(b, 3, lately)}, false},
		"a clone of the machine, changed since": {[]proof{top, changed(a, 2, old+5), b}, all, false},
		"a job writes a log there":              {all, []proof{top, a, changed(b, 3, lately)}, true},
		"a job replaces a file there":           {all, []proof{top, a, changed(b, 99, lately)}, true},
		"an empty folder":                       {all[:1], all[:1], true},
	} {
		got := same(tc.proofs, now, func(path string) (proof, bool) {
			for _, p := range tc.there {
				if string(p.Path) == path {
					return p, true
				}
			}
			return proof{}, false
		})
		check.That(t, got == tc.want, "%s: %v", name, got)
	}
}

func TestSizeText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 bytes", 999: "999 bytes", 1000: "1.0 kB", 999_949: "999.9 kB",
		999_960: "1.0 MB", 1 << 30: "1.1 GB", 1 << 60: "1152921.5 TB"} {
		check.Equal(t, SizeText(n), want, n)
	}
}
