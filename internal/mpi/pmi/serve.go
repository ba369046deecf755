package pmi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// Serve answers a rank over the socket that it inherited, until the rank closes it, or ctx ends and
// the caller closes it.
func (h *Host) Serve(ctx context.Context, conn io.ReadWriter, rank int) error {
	if err := h.take(rank); err != nil {
		return err
	}
	defer h.release(rank)
	return h.serveConn(ctx, h.client(rank), bufio.NewReaderSize(conn, maxLine), conn)
}

func (h *Host) client(rank int) *client {
	return &client{
		host:   h,
		rank:   rank,
		wire:   pmi1Codec{},
		inside: h.Inside(rank),
	}
}

// ServeUnidentified answers a rank that connected to PMI_PORT, after it has said
// which rank it is.
func (h *Host) ServeUnidentified(ctx context.Context, conn io.ReadWriter) error {
	in := bufio.NewReaderSize(conn, maxLine)
	line, err := pmi1Codec{}.read(in)
	if err != nil {
		return err
	}
	r, err := parse(line)
	if err != nil {
		return err
	}
	if r.command == "init" && r.words["pmi_version"] == "2" {
		return h.serveUnidentified2(ctx, line, in, conn)
	}
	rank, err := strconv.Atoi(r.words["pmiid"])
	if r.command != "initack" || err != nil {
		return fmt.Errorf("%.80q came where cmd=initack was due", line)
	}
	if err := h.take(rank); err != nil {
		return err
	}
	defer h.release(rank)
	if _, err := fmt.Fprintf(conn, "cmd=initack\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", h.Size,
		rank); err != nil {
		return err
	}
	return h.serveConn(ctx, h.client(rank), in, conn)
}

// serveUnidentified2 answers a rank that speaks PMI-2, whose second message says which rank it is.
func (h *Host) serveUnidentified2(ctx context.Context, line string, in *bufio.Reader, conn io.ReadWriter) error {
	c := h.client(-1)
	if err := h.answer(ctx, c, line, conn); err != nil {
		return err
	}
	message, err := c.wire.read(in)
	if err != nil {
		return err
	}
	rank, err := rankIn(message)
	if err != nil {
		return err
	}
	if err := h.take(rank); err != nil {
		return err
	}
	defer h.release(rank)
	c.inside = h.Inside(rank)
	c.rank = rank
	if err := h.answer(ctx, c, message, conn); err != nil {
		return err
	}
	return h.serveConn(ctx, c, in, conn)
}

func (h *Host) serveConn(ctx context.Context, c *client, in *bufio.Reader, out io.Writer) error {
	for {
		message, err := c.wire.read(in)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		if err := h.answer(ctx, c, message, out); err != nil {
			return err
		}
	}
}

// answer performs what a message asks for.
func (h *Host) answer(ctx context.Context, c *client, message string, out io.Writer) error {
	spoken := c.wire // the answer to a line that selects another codec uses the old one
	answer, err := h.act(ctx, c, spoken.step(c, message))
	if err != nil {
		return err
	}
	if c.rank >= 0 {
		h.setInside(c.rank, c.inside)
	}
	if answer != "" {
		_, err = io.WriteString(out, spoken.frame(answer))
	}
	return err
}

// act performs an action and returns the answer, or "".
func (h *Host) act(ctx context.Context, c *client, act any) (string, error) {
	switch act := act.(type) {
	case actReply:
		return act.line, nil
	case actBarrier:
		h.setInside(c.rank, c.inside)
		if err := h.barrier(ctx, c.rank, act.number, act.puts); err != nil {
			return "", err
		}
		return c.wire.barrier(), nil
	case actAbort:
		h.Aborted(c.rank, act.code) // the rank blocks until it is killed
	case actSpawn:
		if h.Spawn == nil || h.Spawn(ctx, c.rank, act.Spawn) != nil {
			return c.wire.notSpawned(), nil
		}
		return c.wire.spawned(act.Ranks()), nil
	case actPublish:
		return c.wire.published(h.publish(ctx, act)), nil
	case actWithdraw:
		return c.wire.withdrawn(h.withdraw(ctx, act.service)), nil
	case actLookup:
		port, err := h.lookup(ctx, act.service)
		if err != nil {
			port = ""
		}
		return c.wire.found(port), nil
	case actAttribute:
		value, found, err := h.attributes.get(ctx, act.key, act.wait)
		return c.wire.attribute(value, found), err
	}
	return "", nil
}
