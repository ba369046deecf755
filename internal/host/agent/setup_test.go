package agent

import (
	"cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/gorun/gorun/internal/files/relay"
	"github.com/gorun/gorun/internal/files/workdir"
	"github.com/gorun/gorun/internal/net/wire"
	"github.com/gorun/gorun/internal/test/check"
	"github.com/gorun/gorun/internal/test/files"
	"github.com/gorun/gorun/internal/test/must"
)

func TestAgentListsGPUsWithoutAJob(t *testing.T) {
	t.Parallel()
	box := files.GPUs(0)
	broken := fstest.MapFS{"proc/driver/nvidia/gpus/what/information": {Data: []byte("Model: A100\n")}}
	program := packed(t, "#!/bin/sh\necho '{\"devices\": [{\"index\": 0, \"bus_id\": \"0000:07:00.0\", \"name\": "+
		"\"by gorun-gpu\"}]}'\n")
	for name, tt := range map[string]struct {
		root    fstest.MapFS
		program []byte
		want    string
	}{
		"by the program that was sent": {box, program, "by gorun-gpu []"},
		"by /proc": {box, nil,
			"NVIDIA A100-SXM4-40GB [neither gorun-gpu nor nvidia-smi is there to ask the driver]"},
		"none": {fstest.MapFS{}, nil, ""},
		"that cannot be listed": {broken, nil,
			`refused: list GPUs with /proc/driver/nvidia: "what" is not a PCI address`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, "AGENT_TEST_ROOT="+lay(t, tt.root), "PATH=/no/nvidia-smi")
			h.answerHello()
			h.send(tt.program)
			h.tell(wire.TypeListGPUs, nil)
			h.until("an answer", func() bool { return h.gpus != nil || h.refuse != nil })
			got := ""
			switch {
			case h.refuse != nil:
				got = "refused: " + h.refuse.What
			case len(h.gpus.Devices) > 0:
				got = h.gpus.Devices[0].Name + " [" + strings.Join(h.gpus.Warnings, " ") + "]"
			}
			check.Equal(t, got, tt.want)
		})
	}
}

func TestUnitsAreCountedBeforeTheJob(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	h.answerHello()
	h.tell(wire.TypeCount, nil)
	h.until("the units", func() bool { return h.units != nil })
	for _, name := range []string{"socket", "numa", "l3cache", "l2cache", "core", "hwthread"} {
		check.That(t, h.units[name] >= 1 && h.units[name] <= h.units["hwthread"], "units %v", h.units)
	}
}

// Write, Next and Cancel make a host a [workdir.Agent].
func (h *host) Write(p []byte) (int, error) {
	for piece := range slices.Chunk(p, wire.MaxData) {
		if err := h.out.Send(wire.TypeFolder, 0, piece); err != nil {
			return 0, io.ErrClosedPipe
		}
	}
	return len(p), nil
}

func (h *host) Next() (wire.Frame, error) {
	select {
	case f := <-h.folder:
		return f, nil
	case <-h.gone:
		if h.refuse != nil {
			return wire.Frame{}, h.refuse
		}
		return wire.Frame{}, h.err
	}
}

func (h *host) Name() string                  { return "f1" }
func (h *host) Send(t wire.Type, message any) { _ = h.out.SendMessage(t, message) }
func (h *host) Piece(data []byte) error       { return h.out.Send(wire.TypePiece, 0, data) }
func (h *host) Cancel()                       { h.stdin.Close() }

// folderOf makes a folder with one file and scans it. A host sees another folder of that name
// unless shared.
func folderOf(t *testing.T, shared bool, content []byte) *workdir.Tree {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "file"), content, 0o644))
	tree := must.Get(workdir.Scan(dir, 10, 1<<30))(t)
	if old := filepath.Join(t.TempDir(), "old"); !shared {
		must.OK(t, errors.Join(os.Rename(dir, old), os.CopyFS(dir, os.DirFS(old))))
	}
	return tree
}

func newSender(t *testing.T, tree *workdir.Tree) *workdir.Sender {
	return workdir.NewSender(tree, "here", t.Logf, func(line string) { t.Error(line) }, relay.NoMeter{})
}

func TestAgentReceivesAFolderBeforeTheJob(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"a copy": false, "the folder itself": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home := t.TempDir()
			h := startHost(t, "HOME="+home)
			h.answerHello()
			tree := folderOf(t, shared, []byte("text"))
			sent, err := newSender(t, tree).Send(h, nil, func() {})
			must.That(t, err == nil && sent.Shared == shared && strings.HasPrefix(sent.Dir, home) != shared,
				"%+v, %v: %s", sent, err, h.said())
			job := script(1, "cat file")
			job.Programs[0].Wdir = wire.Text(cmp.Or(sent.Dir, tree.Dir))
			h.tell(wire.TypeJob, job)
			h.start()
			h.finish()
			check.Equal(t, h.printed(2, 1), "text", "the rank printed")
		})
	}
}

// TestAgentEndsInTheMiddleOfAFolder checks that nothing keeps an agent, which holds the copy's
// lock, and that its cage goes.
func TestAgentEndsInTheMiddleOfAFolder(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *host){
		"launcher lost": func(h *host) { h.stdin.Close() },
		"signal":        func(h *host) { kill(h.t, h.cmd.Process.Pid, syscall.SIGTERM) },
		"guard killed":  func(h *host) { kill(h.t, h.cmd.Process.Pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := startHost(t, "HOME="+t.TempDir())
			h.answerHello()
			var offer wire.Frame
			sender := newSender(t, folderOf(t, false, make([]byte, 1<<20)))
			stopped := errors.New("stopped")
			_, err := sender.Send(afterOffer{h, &offer, stopped}, nil, func() {})
			must.That(t, errors.Is(err, stopped) && offer.Type == wire.TypeWant,
				"%v, %v: %s", offer.Type, err, h.said())
			end(h)
			h.awaitEnd()
			must.Until(t, "the end of the cgroups", func() bool { return len(groupsOf(h.cmd.Process.Pid)) == 0 })
		})
	}
}

// afterOffer is a host whose launcher sends nothing after the offer.
type afterOffer struct {
	*host
	answer *wire.Frame
	err    error
}

func (a afterOffer) Next() (f wire.Frame, err error) {
	*a.answer, err = a.host.Next()
	return *a.answer, cmp.Or(err, a.err)
}

func (afterOffer) Cancel() {}
