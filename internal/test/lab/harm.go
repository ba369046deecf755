package lab

import (
	"context"
	"fmt"
	"os/exec"
	"strconv"
)

// These methods harm the network or the disks of hosts made by [Namespaces], and undo it. They may
// be combined; closing the cluster ends all of them.

// Drop silently discards everything that one host sends to another: a partition in one direction.
// Either may be f0, the launcher's.
func (c *Cluster) Drop(ctx context.Context, from, to string) error {
	table := dropTable(from, to)
	return c.inNet(ctx, c.Host(to), fmt.Sprintf(
		"nft add table inet %[1]s && nft add chain inet %[1]s in '{ type filter hook input priority -300; }' && nft "+
			"add rule inet %[1]s in ip saddr %[2]s drop",
		table, c.Host(from).Addr))
}

// Undrop undoes Drop.
func (c *Cluster) Undrop(ctx context.Context, from, to string) error {
	return c.inNet(ctx, c.Host(to), "nft delete table inet "+dropTable(from, to))
}

func dropTable(from, to string) string { return "drop_" + from + "_" + to }

// Part silently cuts two hosts off from each other; they still reach all others.
func (c *Cluster) Part(ctx context.Context, a, b string) error {
	if err := c.Drop(ctx, a, b); err != nil {
		return err
	}
	return c.Drop(ctx, b, a)
}

// Unpart undoes Part.
func (c *Cluster) Unpart(ctx context.Context, a, b string) error {
	if err := c.Undrop(ctx, a, b); err != nil {
		return err
	}
	return c.Undrop(ctx, b, a)
}

// Reset breaks every TCP connection between two hosts, one of which may be f0: the program at
// either end learns that its connection was reset.
func (c *Cluster) Reset(ctx context.Context, a, b string) error {
	if err := c.inNet(ctx, c.Host(a), "ss -K -n dst "+c.Host(b).Addr); err != nil {
		return err
	}
	// Killing one end sends a RST, which a partition may swallow.
	return c.inNet(ctx, c.Host(b), "ss -K -n dst "+c.Host(a).Addr)
}

// Connected reports whether there is a TCP connection between two hosts, one of which may be f0.
func (c *Cluster) Connected(ctx context.Context, a, b string) bool {
	return c.inNet(ctx, c.Host(a), `[ -n "$(ss -Htn state established dst `+c.Host(b).Addr+`)" ]`) == nil
}

// Narrow limits a host's sending and receiving to kbit/s.
func (c *Cluster) Narrow(ctx context.Context, host string, kbit int) error {
	h := c.Host(host)
	// kB: 2 ms, so that at high rates the kernel need not cut what a socket sends into packets
	burst := max(16, kbit/8*2/1000)
	shape := "tc qdisc replace dev %s root tbf rate " + strconv.Itoa(kbit) + "kbit burst " + strconv.Itoa(burst) +
		"kb latency 400ms"
	if err := c.inNet(ctx, c.launch, fmt.Sprintf(shape, h.link(c))); err != nil {
		return err
	}
	return c.inNet(ctx, h, fmt.Sprintf(shape, "eth0"))
}

// Widen undoes Narrow.
func (c *Cluster) Widen(ctx context.Context, host string) error {
	h := c.Host(host)
	if err := c.inNet(ctx, c.launch, "tc qdisc del dev "+h.link(c)+" root"); err != nil {
		return err
	}
	return c.inNet(ctx, h, "tc qdisc del dev eth0 root")
}

// Disk mounts an empty file system of kib KiB over a directory of a host, which must exist there.
// Host f0 is the launcher's.
func (c *Cluster) Disk(ctx context.Context, host, dir string, kib int) error {
	h := c.Host(host)
	size := fmt.Sprintf("size=%dk,mode=0777", kib)
	cmd := exec.CommandContext(ctx, "nsenter", "-t", strconv.Itoa(h.holder), "-m", "mount", "-t", "tmpfs", "-o", size,
		"tmpfs", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("a disk of %d KiB at %s of %s: %w: %s", kib, dir, host, err, out)
	}
	return nil
}

// Lose discards a percentage of the packets that reach a host, at random.
func (c *Cluster) Lose(ctx context.Context, host string, percent int) error {
	return c.inNet(ctx, c.Host(host), fmt.Sprintf(
		"nft add table inet lose && nft add chain inet lose in '{ type filter hook input priority -300; }' && nft "+
			"add rule inet lose in numgen random mod 100 '<' %d drop", percent))
}

// Unlose undoes Lose.
func (c *Cluster) Unlose(ctx context.Context, host string) error {
	return c.inNet(ctx, c.Host(host), "nft delete table inet lose")
}
