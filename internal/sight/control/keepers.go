package control

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// keeperPrefix is the prefix of keepers' ids, by which others find them without asking every job.
const keeperPrefix = "up-"

// Keeper is a Client of a gorun that keeps hosts connected.
type Keeper struct {
	ID string
	*Client
}

// Keepers returns the user's goruns on this machine that keep hosts. It only reads folders: a
// keeper may have ended without removing its socket.
func (p Place) Keepers() (all []Keeper, err error) {
	for _, dir := range p.folders() {
		entries, readErr := os.ReadDir(dir)
		if readErr != nil && !errors.Is(readErr, fs.ErrNotExist) {
			err = errors.Join(err, readErr)
		}
		for _, e := range entries {
			id, host, is := socketOf(e.Name())
			if is && host == p.Host && strings.HasPrefix(id, keeperPrefix) {
				all = append(all, Keeper{id, newClient(dir, e.Name())})
			}
		}
	}
	return all, err
}
