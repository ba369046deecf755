package probe

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/gorun/gorun/internal/rankenv"
)

// maxFence bounds the answer to a fence.
const maxFence = 16 << 20

// errAlone is in the error of a fence that other hosts did not come to.
var errAlone = errors.New("the other hosts did not come")

// fence gives value to all probes through the agents, which the network between hosts cannot
// hinder, and returns the values of all by rank. It returns on all hosts at about the same time.
// Each fence has a name of its own.
func fence(ctx context.Context, self rankenv.Rank, name string, value any) ([]json.RawMessage, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+self.Agent+"/v1/fence/doctor/"+name,
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+self.Token)
	// Requests to the agent must bypass proxies from the environment.
	client := http.Client{Transport: &http.Transport{Proxy: nil, DisableKeepAlives: true}}
	answer, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errAlone, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: agent answered %s", errAlone, answer.Status)
	}
	var all struct{ Values [][]byte }
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxFence)).Decode(&all); err != nil {
		return nil, fmt.Errorf("%w: %w", errAlone, err)
	}
	values := make([]json.RawMessage, len(all.Values))
	for i, v := range all.Values {
		values[i] = v
	}
	return values, nil
}
