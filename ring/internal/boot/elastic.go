package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Location describes a rank in an epoch of an elastic job, in addition to rank and size.
type Location struct {
	LocalRank int      `json:"local_rank"`
	LocalSize int      `json:"local_size"`
	CrossRank int      `json:"cross_rank"`
	CrossSize int      `json:"cross_size"`
	Addrs     []string `json:"addrs"`
}

// Park reports that the rank left an epoch, or 0 for none, blocks until the next one begins, and
// returns its job and rank there. If the job has no further epoch, the error is an [*Abort].
func (c *Client) Park(ctx context.Context, left int) (Job, error) {
	body, err := json.Marshal(struct {
		Left int `json:"left"`
	}{left})
	if err != nil {
		return Job{}, err
	}
	answer, err := c.call(ctx, http.MethodPost, "park", body)
	if err != nil {
		return Job{}, fmt.Errorf("wait for the epoch after %d: %w", left, err)
	}
	job, err := decodeJob(answer)
	if err == nil && (job.Epoch <= left || job.Rank < 0 || job.Rank >= job.Size) {
		err = fmt.Errorf("after epoch %d the agent let this process into epoch %d as rank %d of %d", left, job.Epoch,
			job.Rank, job.Size)
	}
	return job, err
}

// Joined reports that the rank is connected to the others of its epoch.
func (c *Client) Joined(ctx context.Context) error {
	if _, err := c.call(ctx, http.MethodPost, "joined", nil); err != nil {
		return fmt.Errorf("tell agent that the ranks have met: %w", err)
	}
	return nil
}

// WatchInterrupt blocks until the ranks of an epoch should park because hosts come or leave, and
// returns true. It returns false if ctx ends or the agent is unreachable.
func (c *Client) WatchInterrupt(ctx context.Context, epoch int) bool {
	_, err := c.call(ctx, http.MethodGet, "interrupt?"+url.Values{"epoch": {strconv.Itoa(epoch)}}.Encode(), nil)
	return err == nil
}
