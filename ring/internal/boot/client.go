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
	"strings"
	"time"
)

// KeySize is the length of a job's secret in bytes.
const KeySize = 32

const (
	answerLimit = 64 << 20 // a fence of 64 KiB records from a large job
	dialTimeout = 10 * time.Second
	keyTimeout  = 10 * time.Second // limit of one request for a missing value

	// Bounds of a text in JSON. The agent takes 1 KiB of the report of a loss and 4 KiB of a note.
	maxCause = 1<<10 - 64
	maxNote  = 4<<10 - 64
)

var errNotFound = errors.New("agent knows nothing under that name")

// Job describes the job and the caller's rank in it.
type Job struct {
	ID       string `json:"job"`
	Epoch    int    `json:"epoch"`
	Rank     int    `json:"rank"`
	Size     int    `json:"size"`
	Key      []byte `json:"key"` // secret of this epoch, KeySize bytes
	Location        // set only in elastic jobs, where it changes with each epoch
}

// Abort is the reason why the job ended early, and the error of every call that this
// interrupts.
type Abort struct {
	Rank  int    `json:"rank"` // failed rank, or -1
	Host  string `json:"host"`
	Cause string `json:"cause"`
}

func (a *Abort) Error() string {
	if a.Rank < 0 {
		return "job aborted: " + a.Cause
	}
	return fmt.Sprintf("job aborted: rank %d on %s: %s", a.Rank, a.Host, a.Cause)
}

// Client makes one rank's requests to its agent. Its methods are safe for concurrent use.
type Client struct {
	base   string
	token  string
	client *http.Client
}

// NewClient returns a client of the rank server at addr, a host:port on loopback. Token
// identifies the rank.
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

// Close drops idle connections. It does not interrupt calls.
func (c *Client) Close() { c.client.CloseIdleConnections() }

// Job returns the job and rank that the token identifies.
func (c *Client) Job(ctx context.Context) (Job, error) {
	body, err := c.call(ctx, http.MethodGet, "job", nil)
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

// Fence gives value to all ranks of the job and returns their values, by rank. It blocks
// until all have called Fence with the same name. If the job is aborted, the error is an
// [*Abort].
func (c *Client) Fence(ctx context.Context, name string, value []byte) ([][]byte, error) {
	body, err := c.call(ctx, http.MethodPost, "fence/"+url.PathEscape(name), value)
	if err != nil {
		return nil, fmt.Errorf("fence %s: %w", name, err)
	}
	var answer struct{ Values [][]byte }
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("fence %s: %w", name, err)
	}
	return answer.Values, nil
}

// Lost reports that the caller lost rank, and why. The launcher then aborts the job.
func (c *Client) Lost(ctx context.Context, rank int, cause string) error {
	return c.reportRank(ctx, "lost", rank, cause)
}

// Left reports that a call of the caller failed because rank had left what the two shared. The job
// goes on.
func (c *Client) Left(ctx context.Context, rank int, cause string) error {
	return c.reportRank(ctx, "left", rank, cause)
}

// AbortJob ends the job, for what rank has done.
func (c *Client) AbortJob(ctx context.Context, rank int, cause string) error {
	return c.reportRank(ctx, "abort", rank, cause)
}

func (c *Client) reportRank(ctx context.Context, what string, rank int, cause string) error {
	body, err := json.Marshal(struct {
		Rank  int    `json:"rank"`
		Cause string `json:"cause"`
	}{rank, clipped(cause, maxCause)})
	if err != nil {
		return err
	}
	if _, err := c.call(ctx, http.MethodPost, what, body); err != nil {
		return fmt.Errorf("report rank %d as %s: %w", rank, what, err)
	}
	return nil
}

// clipped returns a text, or its beginning if it has more than most bytes in JSON. It may quote
// what other ranks say, and the agent refuses a longer one.
func clipped(text string, most int) string {
	const end = "..."
	for whole := text; ; {
		quoted, err := json.Marshal(text)
		if err != nil || len(quoted) <= most {
			return text
		}
		whole = whole[:len(whole)*3/4]
		text = strings.ToValidUTF8(whole, "") + end
	}
}

// RankKey is a key for what a rank of an epoch says of itself: the agents and the launcher let no
// other rank put it. All ranks get it.
func RankKey(epoch, rank int, what string) string {
	return fmt.Sprintf("epoch/%d/rank/%d/%s", epoch, rank, what)
}

// kvPath is the path of a key. As one segment it stays as it is where a server cleans paths, which
// would make the same of a//b and a/b.
func kvPath(key string) string { return "kv/" + url.PathEscape(key) }

// Put sets the value of key for all ranks of the job.
func (c *Client) Put(ctx context.Context, key string, value []byte) error {
	if _, err := c.call(ctx, http.MethodPut, kvPath(key), value); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// Get returns the current value of key.
func (c *Client) Get(ctx context.Context, key string) (value []byte, found bool, err error) {
	value, err = c.call(ctx, http.MethodGet, kvPath(key), nil)
	if errors.Is(err, errNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get %s: %w", key, err)
	}
	return value, true, nil
}

// Wait returns the value of key as soon as it has one.
func (c *Client) Wait(ctx context.Context, key string) ([]byte, error) {
	for {
		value, err := c.call(ctx, http.MethodGet, kvPath(key)+"?wait="+
			keyTimeout.String(), nil)
		if err == nil {
			return value, nil
		}
		if !errors.Is(err, errNotFound) {
			return nil, fmt.Errorf("wait for %s: %w", key, err)
		}
	}
}

// Note shows the user a line about the caller.
func (c *Client) Note(ctx context.Context, text string) error { return c.note(ctx, text, false) }

// Stall shows the user that other ranks have not come to a collective of the caller.
func (c *Client) Stall(ctx context.Context, text string) error { return c.note(ctx, text, true) }

func (c *Client) note(ctx context.Context, text string, stall bool) error {
	body, err := json.Marshal(struct {
		Text  string `json:"text"`
		Stall bool   `json:"stall,omitempty"`
	}{clipped(text, maxNote), stall})
	if err != nil {
		return err
	}
	if _, err := c.call(ctx, http.MethodPost, "note", body); err != nil {
		return fmt.Errorf("tell the user %q: %w", text, err)
	}
	return nil
}

// WatchAbort blocks until the job is aborted and returns the reason, or nil if ctx ends
// first. A lost connection counts as an abort, since ranks do not outlive their agent.
func (c *Client) WatchAbort(ctx context.Context) *Abort {
	body, err := c.call(ctx, http.MethodGet, "abort", nil)
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

// call makes one request and returns the body of a successful answer.
func (c *Client) call(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.client.Do(req)
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
