package keep

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/gorun/gorun/internal/host/resident"
	"github.com/gorun/gorun/internal/net/wire"
)

// residentTimeout bounds the start of a resident agent.
const residentTimeout = 20 * time.Second

// Resident is a keeper's end of the resident agent of a host, which starts agents without a session
// of sshd for each.
type Resident struct {
	build  string
	client *resident.Client
	cancel context.CancelFunc
	ended  chan struct{}
}

// StartResident starts a resident agent of a build by a command on conn. command returns the
// command for the words that it gets.
func StartResident(ctx context.Context, conn Conn, build string, command func(args ...string) []string) (*Resident,
	error) {
	var raw [16]byte
	rand.Read(raw[:])
	nonce := hex.EncodeToString(raw[:])
	in, stdin := io.Pipe()
	stdout, out := io.Pipe()
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := &Resident{build: build, cancel: cancel, ended: make(chan struct{})}
	var ran error
	go func() {
		defer close(r.ended)
		ran = conn.Run(life, command(resident.Command, nonce), in, out, nil)
		out.CloseWithError(io.EOF)
		in.CloseWithError(io.ErrClosedPipe)
	}()
	late := time.AfterFunc(residentTimeout, cancel)
	stop := context.AfterFunc(ctx, cancel)
	_, err := wire.FindPreamble(stdout, nonce)
	if !late.Stop() || !stop() {
		err = errors.Join(err, fmt.Errorf("no answer within %v", residentTimeout))
	}
	if err == nil {
		r.client, err = resident.NewClient(pipes{stdout, stdin})
	}
	if err != nil {
		stdout.Close() // or the command, whose writes nobody takes any more, would not end
		r.Close()
		return nil, errors.Join(err, ran)
	}
	return r, nil
}

// Alive reports whether it can start agents.
func (r *Resident) Alive() bool { return r.client.Alive() }

// Preload has the host's later agents fork ranks from an interpreter that has imported modules
// as the ranks of a job would. printed is what the modules print.
func (r *Resident) Preload(ctx context.Context, modules []string, job wire.Job) (printed string, err error) {
	return r.client.Preload(ctx, resident.Preload{Modules: modules, Job: job})
}

// open returns a stream of package frames to a new agent. The caller closes it.
func (r *Resident) open(ctx context.Context) (net.Conn, error) { return r.client.Open(ctx) }

// Close ends the resident agent and the agents that it has started.
func (r *Resident) Close() {
	if r.client != nil {
		r.client.Close()
	}
	r.cancel()
	<-r.ended
}

// pipes is a stream of two pipes.
type pipes struct {
	*io.PipeReader
	stdin *io.PipeWriter
}

func (p pipes) Write(b []byte) (int, error) { return p.stdin.Write(b) }

func (p pipes) Close() error {
	p.stdin.Close()
	return p.PipeReader.Close()
}
