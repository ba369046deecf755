package control

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gorun/gorun/internal/prose"
	"github.com/gorun/gorun/internal/usage"
)

// Client sends requests to a running job.
type Client struct {
	http *http.Client
	dir  string
	name string
}

func newClient(dir, name string) *Client {
	c := &Client{dir: dir, name: name}
	c.http = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) }}}
	return c
}

// Dial connects to the job.
func (c *Client) Dial(ctx context.Context) (net.Conn, error) { return dial(ctx, c.dir, c.name) }

// Get requests a path, such as /v1/job. The caller closes the body.
func (c *Client) Get(ctx context.Context, path string) (io.ReadCloser, error) {
	return c.do(ctx, http.MethodGet, path, nil)
}

// Post sends a message as JSON.
func (c *Client) Post(ctx context.Context, path string, message any) error {
	body, err := c.do(ctx, http.MethodPost, path, message)
	if err == nil {
		err = body.Close()
	}
	return err
}

// Ask sends a message as JSON and decodes the answer, of at most limit bytes.
func (c *Client) Ask(ctx context.Context, path string, message, answer any, limit int64) error {
	body, err := c.do(ctx, http.MethodPost, path, message)
	if err != nil {
		return err
	}
	defer body.Close()
	return json.NewDecoder(io.LimitReader(body, limit)).Decode(answer)
}

func (c *Client) do(ctx context.Context, method, path string, message any) (io.ReadCloser, error) {
	var body io.Reader
	if message != nil {
		text, err := json.Marshal(message)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, "http://gorun"+path, body)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode/100 != 2 {
		return nil, refusal(answer)
	}
	return answer.Body, nil
}

// AnswerError is an unsuccessful answer of a job's gorun.
type AnswerError struct {
	Status int // HTTP status
	Text   string
}

func (e *AnswerError) Error() string { return cmp.Or(e.Text, http.StatusText(e.Status)) }

// refusal reads an unsuccessful answer, and closes it.
func refusal(answer *http.Response) error {
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10))
	return &AnswerError{answer.StatusCode, strings.TrimSpace(string(text))}
}

// Job returns the description of the job.
func (c *Client) Job(ctx context.Context) (Job, error) { return c.describe(ctx, "/v1/job") }

// Wait waits for the end of the job and returns its description.
func (c *Client) Wait(ctx context.Context) (Job, error) { return c.describe(ctx, "/v1/wait") }

// untilDone is what a client waits for: until=done.
const untilDone = "done"

// WaitDone waits until the job's gorun has also written all files about it, such as its record.
func (c *Client) WaitDone(ctx context.Context) (Job, error) {
	return c.describe(ctx, "/v1/wait?until="+untilDone)
}

func (c *Client) describe(ctx context.Context, path string) (job Job, err error) {
	body, err := c.Get(ctx, path)
	if err != nil {
		return job, err
	}
	defer body.Close()
	err = json.NewDecoder(io.LimitReader(body, 256<<20)).Decode(&job)
	return job, err
}

// Stop requests the end of the job.
func (c *Client) Stop(ctx context.Context, stop Stop) error { return c.Post(ctx, "/v1/stop", stop) }

// Output streams records from a position on; -1 is the oldest kept record. With follow the stream
// continues until the job ends.
func (c *Client) Output(ctx context.Context, from int64, follow bool) (io.ReadCloser, error) {
	path := "/v1/output?"
	if from >= 0 {
		path += fmt.Sprintf("from=%d&", from)
	}
	if follow {
		path += "follow=1"
	}
	return c.Get(ctx, path)
}

// askTime bounds the wait for a job's description: its gorun may be stopped.
const askTime = 2 * time.Second

// ask returns the description of the job. A job that is about to end may close connections; the
// next request then fails with errDead or fs.ErrNotExist.
func (c *Client) ask(ctx context.Context) (job Job, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for range 50 {
		job, err = c.Job(ctx)
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) &&
			!errors.Is(err, syscall.EPIPE) {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return job, err
}

// Found is a job, with a Client if it runs on this machine.
type Found struct {
	Job
	Client *Client // nil: the job has ended, or belongs to another machine
}

// reachTime bounds the wait for a gorun that has not described its job within the time of a list.
// It may be busy, or stopped.
const reachTime = 20 * time.Second

// Reach fails for a job whose gorun runs and does not answer: what is asked of it next might wait
// without end.
func (f Found) Reach(ctx context.Context) error {
	if f.Client == nil || f.State != Unknown {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()
	if _, err := f.Client.Job(ctx); err != nil {
		return usage.Errorf("if it was stopped, kill -CONT of its process lets it go on",
			"job %s cannot be reached: its gorun does not answer: %w", f.ID, err)
	}
	return nil
}

// List returns the user's jobs in the order of their start: running ones, and with ended also those
// that ended in the last seven days. It removes sockets and folders of dead jobs.
func (p Place) List(ctx context.Context, ended bool) ([]Found, error) {
	var all []Found
	var ids []string
	for _, dir := range p.folders() {
		sockets, err := entries(dir)
		if err != nil {
			return nil, err
		}
		for _, e := range sockets {
			id, host, is := socketOf(e.Name())
			if !is || host != p.Host {
				continue
			}
			c := newClient(dir, e.Name())
			job, err := c.ask(ctx)
			switch {
			case errors.Is(err, errDead) || errors.Is(err, fs.ErrNotExist):
				continue
			case err != nil:
				job = Job{
					ID:      id,
					State:   Unknown,
					Machine: host,
					Cause:   "its gorun does not answer: " + err.Error(),
				}
			}
			ids = append(ids, id)
			if ended || job.State != Ended {
				all = append(all, Found{job, c})
			}
		}
	}
	state, err := p.state()
	if err != nil {
		return nil, err
	}
	if state != nil {
		defer state.Close()
		all, err = p.ended(state, all, ids, ended)
	}
	slices.SortStableFunc(all, func(a, b Found) int { return a.Began.Compare(b.Began) })
	return all, err
}

// ended adds to jobs that run, of which ids has those that were found, the ended ones if they are
// wanted, and those of other machines. It removes folders of dead jobs.
func (p Place) ended(state *os.File, all []Found, ids []string, wanted bool) ([]Found, error) {
	past, err := p.past(state, time.Now())
	if err != nil {
		return nil, err
	}
	for _, job := range slices.Backward(past) {
		if slices.Contains(ids, job.ID) {
			continue
		}
		ids = append(ids, job.ID)
		if wanted {
			all = append(all, Found{Job: job})
		}
	}
	detached := p.detached(state)
	for _, job := range detached {
		if slices.Contains(ids, job.ID) {
			continue
		}
		job.State = Unknown
		if job.Machine == p.Host {
			job.Cause = "its gorun was killed"
		} else {
			job.Cause = "it was started on " + job.Machine
		}
		if wanted || job.Machine != p.Host {
			all = append(all, Found{Job: job})
		}
	}
	prune(state, detached, runningIDs(all), time.Now())
	return all, nil
}

func runningIDs(all []Found) (ids []string) {
	for _, f := range all {
		if f.Client != nil {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// NoJobError reports that no job, or more than one, has the name.
type NoJobError struct {
	Name  string
	Among []string // jobs with that name; none: no such job
	Near  string   // name or id of a job that may be meant, or ""
}

func (e *NoJobError) Error() string {
	if len(e.Among) > 0 {
		return fmt.Sprintf("%d jobs are called %q: %s", len(e.Among), e.Name, strings.Join(e.Among, ", "))
	}
	return fmt.Sprintf("no job %q", e.Name)
}

// Hint returns the next command to type.
func (e *NoJobError) Hint() string {
	if len(e.Among) > 0 {
		return "use the id of one"
	}
	if e.Near != "" {
		return "did you mean " + prose.Quoted(e.Near) + "? gorun ps -a lists your jobs"
	}
	return "gorun ps -a lists your jobs of this machine and the last 7 days"
}

// Find returns the job with an id or name. Of several jobs with the name it returns the running
// one, else the last that ended. Nothing is the name of no job, also of those without one.
func (p Place) Find(ctx context.Context, name string) (Found, error) {
	all, err := p.List(ctx, true)
	if err != nil {
		return Found{}, err
	}
	var run, over []Found
	var names []string
	for _, f := range all {
		names = append(names, f.Name, f.ID)
		switch {
		case f.ID == name:
			return f, nil
		case f.Name != name || name == "":
		case f.Client != nil:
			run = append(run, f)
		default:
			over = append(over, f)
		}
	}
	switch {
	case len(run) > 1:
		return Found{}, &NoJobError{Name: name, Among: runningIDs(run)}
	case len(run) == 1:
		return run[0], nil
	case len(over) > 0:
		return over[len(over)-1], nil
	}
	return Found{}, &NoJobError{Name: name, Near: usage.Similar(name, names)}
}

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
		sockets, readErr := entries(dir)
		err = errors.Join(err, readErr)
		for _, e := range sockets {
			id, host, is := socketOf(e.Name())
			if is && host == p.Host && strings.HasPrefix(id, keeperPrefix) {
				all = append(all, Keeper{id, newClient(dir, e.Name())})
			}
		}
	}
	return all, err
}
