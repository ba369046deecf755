// Package files is gorun cp: it copies files of this machine to hosts, which pass them on among
// themselves, and files of hosts to this machine.
package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/hostfile"
	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
	"github.com/gorun/gorun/launcher"
	"github.com/gorun/gorun/launcher/deliver"
	"github.com/gorun/gorun/launcher/route"
	"github.com/gorun/gorun/launcher/survey"
)

// Request holds the arguments of gorun cp.
type Request struct {
	Names []string         // names of files of this machine; none: files come from hosts
	From  []wire.FetchFrom // files of hosts
	Hosts string           // value as of -H; "": flags or the environment give the hosts
	// Dir is the directory on hosts, "" for the home directory; or the one here to which files of
	// hosts come.
	Dir string
	// single reports that Dir is no folder here: it is the name of the one file that comes from one
	// host, or a folder that is missing. replaces: it is a file.
	single, replaces bool
}

const how = "for example: gorun cp data.tar f1,f2:/var/tmp, or gorun cp f1,f2:/var/tmp/ckpt ."

// Parse reads FILE... HOSTS:DIR, or HOSTS:FILE... DIR.
func Parse(words []string) (Request, error) {
	if len(words) == 0 {
		return Request{}, usage.Errorf(how, "no files given")
	}
	files := words[:len(words)-1]
	last := words[len(words)-1]
	hosts, dir, remote := cutHosts(last)
	switch {
	case !remote && slices.ContainsFunc(files, func(word string) bool { _, _, is := cutHosts(word); return is }):
		return parseBack(files, last)
	case !remote:
		return Request{}, usage.Errorf(how, "%q does not say where the files go: write HOSTS:DIR last", last)
	case len(files) == 0:
		return Request{}, usage.Errorf(how, "no file given before %s, nor a folder of this machine after it", last)
	}
	seen := map[string]string{}
	for _, name := range files {
		base := filepath.Base(name)
		if _, is := path.Split(dir); is == base || path.Ext(is) != "" && path.Ext(is) == path.Ext(base) {
			return Request{}, usage.Errorf("name the folder alone, or end its name with / if it is one",
				"%s is the name of a folder, in which %s would be %s", last, name, path.Join(dir, base))
		}
		if other, twice := seen[base]; twice {
			return Request{}, usage.Errorf("copy one of them first, and to another folder",
				"%s and %s would be the same file there", other, name)
		}
		seen[base] = name
	}
	return Request{Names: files, Hosts: hosts, Dir: dir}, nil
}

// cutHosts cuts HOSTS:PATH. A colon after a slash belongs to the path.
func cutHosts(word string) (hosts, path string, is bool) {
	head := word
	if slash := strings.IndexByte(word, '/'); slash >= 0 {
		head = word[:slash]
	}
	colon := strings.LastIndexByte(head, ':')
	if colon < 0 {
		return "", word, false
	}
	path = word[colon+1:]
	if strings.HasPrefix(path, "~/") || path == "~" {
		path = strings.TrimPrefix(path[1:], "/")
	}
	return word[:colon], path, true
}

func (r Request) open() (files []deliver.File, size int64, err error) {
	for _, name := range r.Names {
		source, err := relay.Open(name)
		if err != nil {
			closeAll(files)
			hint := ""
			switch {
			case errors.Is(err, fs.ErrNotExist):
				hint = usage.FileHint(name, "check the name; files come first, and HOSTS:DIR last")
				if _, _, remote := cutHosts(name); remote {
					hint = "one side is this machine: copy from hosts to a folder here first"
				}
			case errors.Is(err, relay.ErrFolder):
				hint = "pack it: tar cf FILE.tar " + prose.Quoted(name) + "; or start ranks in a copy of it: " +
					"gorun --stage " + prose.Quoted(name)
			}
			return nil, 0, usage.Errorf(hint, "%w", err)
		}
		info, err := source.Stat()
		if err != nil {
			return nil, 0, errors.Join(err, source.Close())
		}
		files = append(files, deliver.File{Source: source, Place: wire.Place{
			Dir:   []byte(r.Dir),
			Name:  []byte(filepath.Base(name)),
			Mode:  uint32(info.Mode().Perm()),
			Mtime: time.Duration(info.ModTime().UnixNano()),
		}})
		size += source.Size()
	}
	return files, size, nil
}

func closeAll(files []deliver.File) {
	for _, f := range files {
		_ = f.Source.Close() // it was only read
	}
}

// Copy copies the files to hosts. The failed hosts are reported; the code is 1 if there are any.
func Copy(ctx context.Context, r Request, hosts []hostfile.Host, network route.Network, reach survey.Reach,
	console *ui.UI) (code int, err error) {
	began := time.Now()
	files, size, err := r.open()
	if err != nil {
		return 0, err
	}
	defer closeAll(files)
	var whole int
	var fed int64
	var failed []launcher.HostError
	progress := ui.NewProgress(console, "copying")
	outcomes := deliver.Files(ctx, distinct(hosts), files, network, reach, func(line string) {
		console.Warningf("%s", line)
	}, progress)
	progress.Close()
	for _, o := range outcomes {
		for _, f := range o.Files {
			fed += f.Fed
			from := "this machine"
			if f.From != "" {
				from = f.From
			}
			if f.Had == size && len(files) == 1 {
				from = "itself: it had the file"
			}
			console.Tracef("%s: %s, from %s", o.Host.Name, f.Path, from)
		}
		if o.Err != nil {
			failed = append(failed, launcher.HostError{Host: o.Host.Name, Err: o.Err})
			continue
		}
		whole++
	}
	if whole > 0 {
		console.Notef("%s, %s, copied to %s in %.1f s; %s left this machine", prose.Count(len(files), "file"),
			workdir.SizeText(size), prose.Count(whole, "host"),
			time.Since(began).Seconds(), workdir.SizeText(fed))
	}
	if len(failed) > 0 {
		console.ReportHosts(failed)
		return 1, nil
	}
	return 0, nil
}

// distinct leaves out repeated hosts.
func distinct(hosts []hostfile.Host) (out []hostfile.Host) {
	for _, h := range hosts {
		same := func(o hostfile.Host) bool { return o.Name == h.Name && o.User == h.User && o.Port == h.Port }
		if !slices.ContainsFunc(out, same) {
			out = append(out, h)
		}
	}
	return out
}
