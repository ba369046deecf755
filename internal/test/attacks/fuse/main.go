// Fuse mounts a file system in user space, as fusermount does for any user who asks: it shows the
// file SOURCE, or the files below it, at MOUNT as those of the user OWNER, in directories and files
// that nobody else can write. It serves as the user USER, who is the attacker, and calls the file
// system NAME; one that is called silent answers nothing, and one called mute no read. It prints
// "ready" when it is mounted, and ends when it is unmounted. It must start as root.
package main

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fuse:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 5 {
		return fmt.Errorf("expected SOURCE MOUNT OWNER USER NAME")
	}
	source := args[0]
	mount := args[1]
	owner, err := strconv.ParseUint(args[2], 10, 32)
	if err != nil {
		return err
	}
	user, err := strconv.Atoi(args[3])
	if err != nil {
		return err
	}
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open /dev/fuse: %w", err)
	}
	var top unix.Stat_t
	if err := unix.Stat(source, &top); err != nil {
		return err
	}
	options := fmt.Sprintf("fd=%d,rootmode=%o,user_id=%d,group_id=%d,allow_other", device, top.Mode&unix.S_IFMT, user,
		user)
	if err := unix.Mount(args[4], mount, "fuse.evil", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount at %s: %w", mount, err)
	}
	if err := syscall.Setgid(user); err != nil {
		return err
	}
	if err := syscall.Setuid(user); err != nil {
		return err
	}
	fmt.Println("ready")
	s := &server{
		device: device,
		owner:  uint32(owner),
		paths:  []string{source},
		silent: args[4] == "silent",
		mute:   args[4] == "mute",
	}
	return s.serve()
}
