package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/fetch"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/deliver"
	"github.com/gorun/gorun/launcher/survey"
)

// parseBack reads HOSTS:FILE..., which come to dir. All have the same hosts.
func parseBack(words []string, dir string) (Request, error) {
	r := Request{Dir: dir}
	for i, word := range words {
		hosts, named, remote := cutHosts(word)
		if i == 0 {
			r.Hosts = hosts
		}
		if !remote || hosts != r.Hosts {
			return Request{}, usage.Errorf("copy one after the other", "%s and %s are not on the same hosts", words[0],
				word)
		}
		from, err := pattern(named)
		if err != nil {
			return Request{}, usage.Errorf(how, "%s: %w", word, err)
		}
		r.From = append(r.From, from)
	}
	r.single = len(words) == 1 && !strings.ContainsAny(words[0], meta) && !strings.HasSuffix(dir, "/")
	folder := dir
	if info, err := os.Stat(dir); err == nil && info.Mode().IsRegular() {
		if !r.single {
			return Request{}, severalError(dir)
		}
		r.replaces = true
		folder = filepath.Dir(dir)
	} else if err == nil {
		r.single = false
	}
	if err := fetch.CheckFolder(folder); err != nil {
		return Request{}, usage.Errorf(usage.Hint(err), "copy to %s: %w", dir, err)
	}
	return r, nil
}

// severalError is the error for files that would all become one.
func severalError(dir string) error {
	return usage.Errorf("name a folder", "copy to %s: it is a file, and several may come", dir)
}

// meta are the characters that make a part of a path a pattern.
const meta = `*?[\`

// pattern splits the path of files of a host into a folder and a pattern below it, whose names are
// kept here.
func pattern(named string) (wire.FetchFrom, error) {
	if named == "" || strings.Trim(named, "/") == "" {
		return wire.FetchFrom{}, errors.New("it does not say which files")
	}
	if _, err := path.Match(named, ""); err != nil {
		return wire.FetchFrom{}, fmt.Errorf("%q is not a pattern: %w", named, err)
	}
	parts := strings.Split(named, "/")
	first := 0
	for first < len(parts) && !strings.ContainsAny(parts[first], meta) {
		first++
	}
	for _, part := range parts[first:] {
		if part == ".." {
			return wire.FetchFrom{}, errors.New(".. cannot come after a pattern")
		}
	}
	if first == len(parts) { // a name
		if base := parts[first-1]; base == "." || base == ".." {
			return wire.FetchFrom{Dir: wire.Text(path.Clean(named)), Patterns: wire.Texts{"."}}, nil
		}
		dir, name := path.Split(path.Clean(named))
		return wire.FetchFrom{Dir: wire.Text(dir), Patterns: wire.Texts{name}}, nil
	}
	dir := strings.Join(parts[:first], "/")
	if first > 0 {
		dir += "/"
	}
	return wire.FetchFrom{Dir: wire.Text(dir), Patterns: wire.Texts{path.Clean(strings.Join(parts[first:], "/"))}}, nil
}

// openFor opens what the files of a host go to: a folder, or the file that a single one becomes.
func (r Request) openFor(found *fetch.List, dir string) (fetch.Folder, error) {
	if !r.single || !found.One() {
		if r.replaces {
			return fetch.Folder{}, fmt.Errorf("%s is a file, and a folder comes: name a folder", dir)
		}
		return fetch.OpenFolder(dir)
	}
	folder, err := fetch.OpenFolder(filepath.Dir(dir))
	folder.Name = filepath.Base(dir)
	return folder, err
}

// Bring copies files of hosts to this machine, into a folder for each host if there are several.
// The failed hosts are reported; the code is 1 if there are any.
func Bring(ctx context.Context, r Request, hosts []hostfile.Host, reach survey.Reach, console *ui.UI) (code int,
	err error) {
	began := time.Now()
	hosts = distinct(hosts)
	names := make([]string, len(hosts))
	for i, h := range hosts {
		names[i] = h.Name
	}
	folders := fetch.HostFolders(names)
	if r.replaces && len(hosts) > 1 {
		return 0, severalError(r.Dir)
	}
	r.single = r.single && len(hosts) == 1
	dir := func(i int) string { return filepath.Join(r.Dir, folders[i]) }
	var all fetch.Got
	var failed []launcher.HostError
	var local *fetch.LocalError
	brought := 0
	missing := false
	progress := ui.NewProgress(console, "copying")
	backs := deliver.FilesBack(ctx, hosts, wire.Fetch{From: r.From}, func(i int) fetch.Open {
		return func(found *fetch.List) (fetch.Folder, error) { return r.openFor(found, dir(i)) }
	}, reach, func(line string) { console.Warningf("%s", line) }, progress)
	progress.Close()
	for i, b := range backs {
		for _, note := range b.Notes {
			console.Warningf("%s: %s", b.Host.Name, note)
		}
		err := b.Err
		if err == nil {
			if len(b.Entries) > 0 {
				brought++
			}
			all.Files += b.Files
			all.Bytes += b.Bytes
			all.Came += b.Came
			console.Tracef("%s: %s, %s, in %s", b.Host.Name, prose.Count(b.Files, "file"), workdir.SizeText(b.Bytes),
				dir(i))
			if len(b.Missing) > 0 {
				missing = missing || strings.ContainsAny(strings.Join(b.Missing, ""), meta)
				err = fmt.Errorf("nothing is there that matches %s", strings.Join(b.Missing, " or "))
			}
		}
		if err != nil && !errors.As(err, &local) {
			failed = append(failed, launcher.HostError{Host: b.Host.Name, Err: err})
		}
	}
	if local != nil { // several hosts' files may meet it
		failed = append(failed, launcher.HostError{Host: fetch.ThisMachine, Err: local})
	}
	if brought > 0 {
		console.Notef("%s, %s, copied from %s to %s in %.1f s; %s came", prose.Count(all.Files, "file"),
			workdir.SizeText(all.Bytes), prose.Count(brought, "host"), r.Dir, time.Since(began).Seconds(),
			workdir.SizeText(all.Came))
	}
	if len(failed) == 0 {
		return 0, nil
	}
	console.ReportHosts(failed)
	if missing {
		console.Hintf("quote a pattern, so that gorun expands it on the hosts and not the shell here")
	}
	return 1, nil
}
