package rankenv

import (
	"net"
	"strconv"
	"strings"
)

// Variables that JAX reads. By the address of mpirun it takes a job for one of Open MPI, whose
// numbers of ranks it then uses.
const (
	jaxFinds       = "OMPI_MCA_orte_hnp_uri"
	jaxCoordinator = "JAX_COORDINATOR_ADDRESS"
	jaxDevices     = "JAX_LOCAL_DEVICE_IDS"
)

// jax returns the variables by which jax.distributed.initialize() needs no arguments. Open MPI
// itself ignores the address in its programs. JAX gives a process the GPU of its local rank, unless
// it is told that a process has all that it sees.
func (r Rank) jax() []string {
	at := net.JoinHostPort(r.Rendezvous.MasterAddr, strconv.Itoa(r.Rendezvous.MasterPort))
	scheme := "tcp://"
	if strings.Contains(r.Rendezvous.MasterAddr, ":") {
		scheme = "tcp6://"
	}
	env := []string{jaxFinds + "=0.0;" + scheme + at, jaxCoordinator + "=" + at}
	if r.GPUs > 0 && (r.LocalSize == 1 || r.GPUs < r.LocalSize) {
		var all []string
		for i := range r.GPUs {
			all = append(all, strconv.Itoa(i))
		}
		env = append(env, jaxDevices+"="+strings.Join(all, ","))
	}
	return env
}
