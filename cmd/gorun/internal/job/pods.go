package job

import (
	"context"
	"sync"
	"time"

	"github.com/gorun/gorun/cmd/gorun/internal/hosts"
	"github.com/gorun/gorun/cmd/gorun/internal/ui"
	"github.com/gorun/gorun/launcher"
)

const (
	// evictionTime is how long the end of a job waits for the reason. Kubelet gives it a second
	// after the end of the pod's processes.
	evictionTime = 5 * time.Second
	// followTime bounds how long a pod is followed whose host was lost, while the job goes on.
	followTime = time.Minute
)

// podEnds tells the user why the pod of a lost host has ended.
type podEnds struct {
	pods    *hosts.PodWatch
	console *ui.UI
	ctx     context.Context
	cancel  context.CancelFunc
	waiting sync.WaitGroup
	until   time.Time
}

func newPodEnds(pods *hosts.PodWatch, console *ui.UI) *podEnds {
	p := &podEnds{pods: pods, console: console}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

func (p *podEnds) Event(event launcher.Event) {
	lost, is := event.(launcher.HostLost)
	if !is {
		return
	}
	p.until = time.Now().Add(evictionTime)
	p.waiting.Go(func() {
		ctx, cancel := context.WithTimeout(p.ctx, followTime)
		defer cancel()
		if end := p.pods.End(ctx, lost.Host); end != "" {
			p.console.Notef("%s", end)
		}
	})
}

// End waits until the reasons are there, or late.
func (p *podEnds) End(ui.Outcome) {
	late := time.AfterFunc(time.Until(p.until), p.cancel)
	defer late.Stop()
	p.waiting.Wait()
}

func (p *podEnds) Close() {
	p.cancel()
	p.waiting.Wait()
}
