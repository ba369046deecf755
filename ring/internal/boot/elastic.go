package boot

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
)

// Location is what a rank of an elastic job learns of its place in an epoch, besides rank and size.
type Location struct {
	LocalRank int      `json:"local_rank"`
	LocalSize int      `json:"local_size"`
	CrossRank int      `json:"cross_rank"`
	CrossSize int      `json:"cross_size"`
	Addrs     []string `json:"addrs"`
}

// Park says that the rank has left an epoch, 0 if it was in none, and returns who it is in the next one, when that
// begins. A job that has no more epochs ends the wait with an [*Abort].
func (d *Client) Park(ctx context.Context, left int) (Job, error) {
	body, err := json.Marshal(struct {
		Left int `json:"left"`
	}{left})
	if err != nil {
		return Job{}, err
	}
	answer, err := d.call(ctx, http.MethodPost, "park", body)
	if err != nil {
		return Job{}, fmt.Errorf("wait for the epoch after %d: %w", left, err)
	}
	job, err := decodeJob(answer)
	if err == nil && (job.Epoch <= left || job.Rank < 0 || job.Rank >= job.Size) {
		err = fmt.Errorf("after epoch %d the agent let this process into epoch %d as rank %d of %d", left, job.Epoch, job.Rank, job.Size)
	}
	return job, err
}

// Joined says that the rank has found the others of its epoch.
func (d *Client) Joined(ctx context.Context) error {
	if _, err := d.call(ctx, http.MethodPost, "joined", nil); err != nil {
		return fmt.Errorf("tell agent that the ranks have met: %w", err)
	}
	return nil
}

// WatchInterrupt blocks until the ranks of an epoch are to ask for another one, as hosts have come or are to go, and
// returns true; or until ctx ends or the agent is gone, and returns false.
func (d *Client) WatchInterrupt(ctx context.Context, epoch int) bool {
	_, err := d.call(ctx, http.MethodGet, "interrupt?"+url.Values{"epoch": {strconv.Itoa(epoch)}}.Encode(), nil)
	return err == nil
}
