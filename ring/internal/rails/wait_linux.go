package rails

import "golang.org/x/sys/unix"

// hangup is the event of an end that has closed its connection.
const hangup = unix.POLLRDHUP
