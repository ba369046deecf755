package seat

import (
	"os"
	"slices"
	"time"

	"github.com/gorun/gorun/internal/net/sockets"
)

// AwaitOtherUser looks who listens on a port after listenTime, and then less and less often.
const (
	listenTime    = 250 * time.Millisecond
	maxListenTime = 8 * time.Second
)

// AwaitOtherUser waits until somebody listens on a TCP port of this host, or ended is closed. It
// returns the user if that is neither this one nor root.
func AwaitOtherUser(port int, ended <-chan struct{}) (uid uint32, found bool) {
	own := uint32(os.Getuid())
	for wait := listenTime; ; wait = min(wait*5/4, maxListenTime) {
		select {
		case <-time.After(wait):
		case <-ended:
			return 0, false
		}
		uids, err := Listeners(port)
		switch {
		case err != nil, slices.Contains(uids, own), slices.Contains(uids, 0):
			return 0, false
		case len(uids) > 0:
			return uids[0], true
		}
	}
}

// Listeners returns the users of the sockets that listen on a TCP port of this host, each as often
// as it has such sockets.
func Listeners(port int) (uids []uint32, err error) {
	kernel, err := sockets.Open()
	if err != nil {
		return nil, err
	}
	defer kernel.Close()
	all, err := kernel.Listeners(port)
	for _, s := range all {
		uids = append(uids, s.UID)
	}
	return uids, err
}
