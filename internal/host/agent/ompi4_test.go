package agent

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/gorun/gorun/internal/net/wire"
)

// The memory that Open MPI's ranks share goes also when their agent is killed, and cannot remove
// it.
func TestOpenMPI4LeavesNothingWithoutItsAgent(t *testing.T) {
	t.Parallel()
	h := startHost(t)
	job := script(1,
		`d=$OMPI_MCA_btl_vader_backing_directory; echo shared >$d/vader_segment; echo $d; while :; do sleep 0.1; done`)
	job.MPI = wire.MPI{Way: wire.MPIOpenMPI4, OpenMPI4: []byte("library")}
	h.run(job)
	stream := wire.OutputStream(2, 1)
	h.until("the rank", func() bool { return strings.HasSuffix(string(h.output[stream]), "\n") })
	folder := strings.TrimSpace(h.printed(2, 1))
	defer os.RemoveAll(folder)
	if text, err := os.ReadFile(folder + "/vader_segment"); string(text) != "shared\n" || err != nil {
		t.Fatalf("%q, %v", text, err)
	}
	kill(t, h.hello.PID, syscall.SIGKILL)
	h.awaitEnd()
	h.stop()
	if _, err := os.Stat(folder); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}
