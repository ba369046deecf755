package fetch

import (
	"cmp"
	"fmt"
	"io/fs"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gorun/gorun/internal/files/space"
	"github.com/gorun/gorun/internal/files/workdir"
)

// disk is a file system into which files come.
type disk struct {
	need    int64               // bytes of the files that come
	folders map[string][]string // names of the files that come, by folder
}

// checkRoom returns an error if the files of the list cannot fit. Without it a hostile host would
// fill the file system before the error, or keep the launcher waiting for a file that never ends.
// Files of these names that are here, and partial copies of earlier transfers, count as free room.
func (r *receiving) checkRoom() error {
	disks := map[uint64]*disk{}
	in := map[string]*disk{}
	for _, e := range r.got.Entries {
		if e.Kind != workdir.File {
			continue
		}
		folder := path.Dir(string(e.Path))
		d := in[folder]
		if d == nil {
			info, err := r.to.Stat(folder)
			if err != nil {
				return r.failed(folder, err)
			}
			device := uint64(info.Sys().(*syscall.Stat_t).Dev)
			if d = disks[device]; d == nil {
				d = &disk{folders: map[string][]string{}}
				disks[device] = d
			}
			in[folder] = d
		}
		d.need = sum(d.need, e.Size)
		d.folders[folder] = append(d.folders[folder], cmp.Or(r.to.Name, path.Base(string(e.Path))))
	}
	for _, d := range disks {
		if err := r.checkDisk(d); err != nil {
			return fmt.Errorf("%s announces %d bytes: %w", r.Name(), d.need, err)
		}
	}
	return nil
}

func (r *receiving) checkDisk(d *disk) error {
	free := int64(0)
	at := ""
	for folder := range d.folders {
		at = filepath.Join(r.to.Path, folder)
	}
	if space.Check(at, d.need) == nil {
		return nil
	}
	for folder, names := range d.folders {
		here, err := r.here(folder, names)
		if err != nil {
			return r.failed(folder, err)
		}
		free = sum(free, here)
	}
	return space.Check(at, d.need-free)
}

// here returns how many bytes of a folder the files of these names occupy, and those that earlier
// copies have left.
func (r *receiving) here(folder string, names []string) (bytes int64, err error) {
	all, err := fs.ReadDir(r.to.FS(), folder)
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	for _, entry := range all {
		left := strings.HasPrefix(entry.Name(), ".") && strings.Contains(entry.Name(), ".gorun")
		if _, comes := slices.BinarySearch(names, entry.Name()); !left && !comes {
			continue
		}
		if info, err := entry.Info(); err == nil && info.Mode().IsRegular() {
			bytes = sum(bytes, info.Sys().(*syscall.Stat_t).Blocks*512)
		}
	}
	return bytes, nil
}

// sum adds sizes, which a host chooses, without overflow.
func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
