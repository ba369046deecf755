// Package boot is a rank's client of its agent's rank server: the HTTP service on
// loopback through which a rank learns its job, meets the other ranks and hears
// that the job has failed.
package boot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"
)

// KeySize is the length of a job's secret in bytes.
const KeySize = 32

const (
	answerLimit = 64 << 20 // a fence of 64 KiB records from a large job
	dialTimeout = 10 * time.Second
	keyTimeout  = 10 * time.Second // of one request for a value that is not there yet
)

var errNotFound = errors.New("agent knows nothing under that name")

// Job is what the agent says about the job and the caller's place in it.
type Job struct {
	ID       string `json:"job"`
	Epoch    int    `json:"epoch"`
	Rank     int    `json:"rank"`
	Size     int    `json:"size"`
	Key      []byte `json:"key"` // secret of this epoch, KeySize bytes
	Location        // of an elastic job, as its ranks have another one in each epoch
}

// Abort says why the job has ended early. It is the error of every call that
// the end of the job interrupts.
type Abort struct {
	Rank  int    `json:"rank"` // who failed; -1 when it was no rank
	Host  string `json:"host"`
	Cause string `json:"cause"`
}

func (a *Abort) Error() string {
	if a.Rank < 0 {
		return "job aborted: " + a.Cause
	}
	return fmt.Sprintf("job aborted: rank %d on %s: %s", a.Rank, a.Host, a.Cause)
}

// Client speaks to one agent in the name of one rank. Its methods may be called
// from several goroutines.
type Client struct {
	base   string
	token  string
	client *http.Client
}

// NewClient returns a client of the agent that listens on addr, a host:port on
// loopback. Token is the rank's own.
func NewClient(addr, token string) *Client {
	dialer := &net.Dialer{Timeout: dialTimeout}
	dialer.SetMultipathTCP(false)
	return &Client{
		base:  "http://" + addr + "/v1/",
		token: token,
		// A proxy from the environment must not stand between a rank and its agent.
		client: &http.Client{Transport: &http.Transport{Proxy: nil, DialContext: dialer.DialContext}},
	}
}

// Close drops idle connections. It does not interrupt calls: their contexts do.
func (d *Client) Close() { d.client.CloseIdleConnections() }

// Job asks which job and rank the token stands for.
func (d *Client) Job(ctx context.Context) (Job, error) {
	body, err := d.call(ctx, http.MethodGet, "job", nil)
	if err != nil {
		return Job{}, fmt.Errorf("ask agent for the job: %w", err)
	}
	return decodeJob(body)
}

func decodeJob(body []byte) (Job, error) {
	var job Job
	if err := json.Unmarshal(body, &job); err != nil {
		return Job{}, fmt.Errorf("agent's description of the job: %w", err)
	}
	if len(job.Key) != KeySize {
		return Job{}, fmt.Errorf("agent's description of the job: key of %d bytes, want %d", len(job.Key), KeySize)
	}
	return job, nil
}

// Fence gives value to all ranks of the job and returns every rank's value,
// indexed by rank. It blocks until all have called Fence with the same name.
// An aborted job ends the wait with an [*Abort].
func (d *Client) Fence(ctx context.Context, name string, value []byte) ([][]byte, error) {
	body, err := d.call(ctx, http.MethodPost, "fence/"+(&url.URL{Path: name}).EscapedPath(), value)
	if err != nil {
		return nil, fmt.Errorf("fence %s: %w", name, err)
	}
	var answer struct{ Values [][]byte }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("fence %s: %w", name, err)
	}
	return answer.Values, nil
}

// Lost reports that the caller lost rank, and why, so that the launcher ends
// the whole job and every rank hears of it.
func (d *Client) Lost(ctx context.Context, rank int, cause string) error {
	body, err := json.Marshal(struct {
		Rank  int    `json:"rank"`
		Cause string `json:"cause"`
	}{rank, cause})
	if err != nil {
		return err
	}
	if _, err := d.call(ctx, http.MethodPost, "lost", body); err != nil {
		return fmt.Errorf("report rank %d as lost: %w", rank, err)
	}
	return nil
}

// Put leaves value under key for all ranks of the job, over what was there.
func (d *Client) Put(ctx context.Context, key string, value []byte) error {
	if _, err := d.call(ctx, http.MethodPut, "kv/"+(&url.URL{Path: key}).EscapedPath(), value); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// Get returns what is under key now.
func (d *Client) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	value, err = d.call(ctx, http.MethodGet, "kv/"+(&url.URL{Path: key}).EscapedPath(), nil)
	if errors.Is(err, errNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get %s: %w", key, err)
	}
	return value, true, nil
}

// Wait returns what is under key as soon as there is something.
func (d *Client) Wait(ctx context.Context, key string) ([]byte, error) {
	for {
		value, err := d.call(ctx, http.MethodGet, "kv/"+(&url.URL{Path: key}).EscapedPath()+"?wait="+keyTimeout.String(), nil)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, errNotFound) {
			return nil, fmt.Errorf("wait for %s: %w", key, err)
		}
	}
}

// Note tells the job's user a line about the caller.
func (d *Client) Note(ctx context.Context, text string) error {
	body, err := json.Marshal(struct {
		Text string `json:"text"`
	}{text})
	if err != nil {
		return err
	}
	if _, err := d.call(ctx, http.MethodPost, "note", body); err != nil {
		return fmt.Errorf("tell the user %q: %w", text, err)
	}
	return nil
}

// WatchAbort blocks until the job is aborted and returns why, or until ctx ends
// and returns nil. An agent that goes away without an answer has taken the job
// with it, so that is an abort too.
func (d *Client) WatchAbort(ctx context.Context) *Abort {
	body, err := d.call(ctx, http.MethodGet, "abort", nil)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return &Abort{Rank: -1, Cause: fmt.Sprintf("agent of this host is gone: %v", err)}
	}
	return decodeAbort(body)
}

func decodeAbort(body []byte) *Abort {
	a := &Abort{Rank: -1}
	if err := json.Unmarshal(body, a); err != nil {
		a.Cause = fmt.Sprintf("agent gave an unreadable reason: %v", err)
	}
	return a
}

// call does one request and returns the body of a good answer.
func (d *Client) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, d.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := d.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, answerLimit))
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusOK, http.StatusNoContent:
		return answer, nil
	case http.StatusGone:
		return nil, decodeAbort(answer)
	case http.StatusUnauthorized:
		return nil, errors.New("agent does not know this rank's token")
	case http.StatusNotFound:
		return nil, errNotFound
	case http.StatusConflict:
		return nil, errors.New("already done once by this rank")
	}
	return nil, fmt.Errorf("agent answered %s", resp.Status)
}
