package kube

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gorun/gorun/internal/net/retry"
	"github.com/gorun/gorun/internal/net/untrusted"
)

// Watch follows the pods that a selector matches. It is safe for concurrent use.
type Watch struct {
	client   *Client
	selector string
	stop     context.CancelFunc
	ended    chan struct{}

	mu   sync.Mutex
	pods map[string]Pod
	past map[string]Pod // the latest of each name that has been deleted
	err  error          // error of the latest attempt; nil while changes come in
}

// errGone reports that the server no longer knows the changes since a version.
var errGone = errors.New("the changes since then are forgotten")

// Watch follows pods from a list and its version, until Close.
func (c *Client) Watch(selector string, pods []Pod, version string) *Watch {
	ctx, stop := context.WithCancel(context.Background())
	w := &Watch{
		client:   c,
		selector: selector,
		stop:     stop,
		ended:    make(chan struct{}),
		pods:     map[string]Pod{},
		past:     map[string]Pod{},
	}
	w.replace(pods)
	go func() {
		defer close(w.ended)
		w.follow(ctx, version)
	}()
	return w
}

// Close ends the watch.
func (w *Watch) Close() {
	w.stop()
	<-w.ended
}

// Pods returns the pods as they are now, in the order of their names, or why they are not known.
func (w *Watch) Pods() ([]Pod, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return nil, w.err
	}
	return slices.SortedFunc(maps.Values(w.pods), order), nil
}

// Last returns how a pod was last seen, which may have been deleted since.
func (w *Watch) Last(name string) (Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p, ok := w.pods[name]; ok {
		return p, true
	}
	p, ok := w.past[name]
	return p, ok
}

// Again returns how a pod was last seen, and not another one that has its name now.
func (w *Watch) Again(pod Pod) Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range []Pod{w.pods[pod.Name], w.past[pod.Name]} {
		if p.UID == pod.UID {
			return p
		}
	}
	return pod
}

// follow watches again and again. A server ends each watch after some minutes.
func (w *Watch) follow(ctx context.Context, version string) {
	pause := retry.Backoff(500*time.Millisecond, 30*time.Second)
	failures := 0
	for ctx.Err() == nil {
		last, err := w.once(ctx, version)
		version = last
		if errors.Is(err, errGone) {
			var pods []Pod
			if pods, version, err = w.client.List(ctx, w.selector); err == nil {
				w.replace(pods)
				retry.Wait(ctx, time.Second) // no busy loop with a server that forgets at once
			} else {
				version = "" // list again
			}
		}
		if err == nil {
			failures = 0
			continue
		}
		w.fail(err)
		wait, _ := pause(failures, err)
		failures++
		retry.Wait(ctx, wait)
	}
}

// once watches until the server ends the watch, and returns the latest version.
func (w *Watch) once(ctx context.Context, version string) (string, error) {
	if version == "" {
		return "", errGone
	}
	query := url.Values{
		"labelSelector":       {w.selector},
		"watch":               {"1"},
		"resourceVersion":     {version},
		"allowWatchBookmarks": {"1"},
		"timeoutSeconds":      {strconv.Itoa(int(watchTime / time.Second))},
	}
	ctx, cancel := context.WithTimeout(ctx, watchTime+answerTime)
	defer cancel()
	body, err := w.client.open(ctx, w.client.podsPath(), query)
	if refused, is := errors.AsType[*RefusedError](err); is && refused.Status == http.StatusGone {
		return "", errGone
	}
	if err != nil {
		return version, err
	}
	defer body.Close()
	w.fail(nil)
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxEvent)
	for lines.Scan() {
		changed, err := w.change(lines.Bytes())
		if err != nil {
			return "", err
		}
		version = changed
	}
	if err := lines.Err(); err != nil {
		return version, &UnreachableError{w.client.access.Server, err}
	}
	// The end of a watch without events must not become a loop without pauses.
	retry.Wait(ctx, 100*time.Millisecond)
	return version, nil
}

// change takes one event, and returns the version after it.
func (w *Watch) change(line []byte) (version string, err error) {
	var event struct {
		Type   string          `json:"type"`
		Object json.RawMessage `json:"object"`
	}
	var o object
	if err := untrusted.Unmarshal(line, maxValues, &event); err != nil {
		return "", fmt.Errorf("the API server %s does not answer as Kubernetes does: %w", w.client.access.Server, err)
	}
	if event.Type == "ERROR" {
		return "", errGone
	}
	if err := json.Unmarshal(event.Object, &o); err != nil {
		return "", fmt.Errorf("the API server %s does not describe a pod as Kubernetes does: %w",
			w.client.access.Server, err)
	}
	if event.Type == "BOOKMARK" {
		return o.Metadata.ResourceVersion, nil
	}
	pod, err := o.pod()
	if err != nil {
		return "", err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if event.Type == "DELETED" {
		delete(w.pods, pod.Name)
		w.remember(pod)
		return o.Metadata.ResourceVersion, nil
	}
	if _, known := w.pods[pod.Name]; !known && len(w.pods) >= maxPods {
		return "", fmt.Errorf("%q matches more than %d pods", w.selector, maxPods)
	}
	w.pods[pod.Name] = pod
	return o.Metadata.ResourceVersion, nil
}

// remember keeps a deleted pod for [Watch.Last].
func (w *Watch) remember(pod Pod) {
	if len(w.past) >= maxPods {
		clear(w.past)
	}
	pod.Ready = false
	pod.Over = true
	pod.Reason = cmp.Or(pod.Cause, "it has been deleted")
	w.past[pod.Name] = pod
}

// replace sets the pods to those of a complete list, and remembers the ones that are gone.
func (w *Watch) replace(pods []Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := w.pods
	w.pods = make(map[string]Pod, len(pods))
	for _, p := range pods {
		w.pods[p.Name] = p
	}
	for name, p := range before {
		if _, still := w.pods[name]; !still {
			w.remember(p)
		}
	}
}

func (w *Watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}
