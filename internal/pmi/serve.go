package pmi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Serve answers a rank over the socket that it inherited, until the rank closes it, or ctx ends and the
// caller closes it.
func (h *Host) Serve(ctx context.Context, conn io.ReadWriter, rank int) error {
	if err := h.take(rank); err != nil {
		return err
	}
	defer h.release(rank)
	return h.talk(ctx, bufio.NewReaderSize(conn, maxLine), conn, rank)
}

// ServeUnidentified answers a rank that connected to PMI_PORT, after it has said
// which rank it is.
func (h *Host) ServeUnidentified(ctx context.Context, conn io.ReadWriter) error {
	lines := bufio.NewReaderSize(conn, maxLine)
	line, err := readLine(lines)
	if err != nil {
		return err
	}
	r, err := parse(line)
	if err != nil {
		return err
	}
	rank, err := strconv.Atoi(r.words["pmiid"])
	if r.command != "initack" || err != nil {
		return fmt.Errorf("%.80q came where cmd=initack was due", line)
	}
	if err := h.take(rank); err != nil {
		return err
	}
	defer h.release(rank)
	if _, err := fmt.Fprintf(conn, "cmd=initack\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", h.Size, rank); err != nil {
		return err
	}
	return h.talk(ctx, lines, conn, rank)
}

func (h *Host) talk(ctx context.Context, lines *bufio.Reader, w io.Writer, rank int) error {
	c := &client{host: h, rank: rank, inside: h.Inside(rank)}
	for {
		line, err := readLine(lines)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		answer, err := h.act(ctx, c, c.step(line))
		if err != nil {
			return err
		}
		h.setInside(rank, c.inside)
		if answer == "" {
			continue
		}
		if _, err := io.WriteString(w, answer+"\n"); err != nil {
			return err
		}
	}
}

// act performs an action and returns the line to answer, or "".
func (h *Host) act(ctx context.Context, c *client, act any) (string, error) {
	switch act := act.(type) {
	case actReply:
		return act.line, nil
	case actBarrier:
		h.setInside(c.rank, c.inside)
		if err := h.barrier(ctx, c.rank, act.number, act.puts); err != nil {
			return "", err
		}
		return "cmd=barrier_out rc=0", nil
	case actAbort:
		h.Aborted(c.rank, act.code) // the rank blocks until it is killed
	case actSpawn:
		if h.Spawn == nil || h.Spawn(ctx, c.rank, act.Spawn) != nil {
			return refuseSpawn().line, nil
		}
		return spawned(act.Ranks()).line, nil
	case actPublish:
		return h.publish(ctx, act).line, nil
	case actWithdraw:
		return h.withdraw(ctx, act.service).line, nil
	case actLookup:
		return h.answerLookup(ctx, act.service).line, nil
	}
	return "", nil
}

// readLine reads one line of at most maxLine bytes.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return "", fmt.Errorf("a line of more than %d bytes", maxLine)
	case errors.Is(err, io.EOF) && strings.TrimSpace(string(line)) != "":
		return "", io.ErrUnexpectedEOF
	}
	return string(line), err
}
