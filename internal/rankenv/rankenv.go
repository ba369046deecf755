// Package rankenv encodes a rank's position in its job into environment
// variables, and decodes it again. The agent encodes a [Rank]; package ring
// decodes it.
//
// The GORUN_ names belong to gorun. The others repeat the same facts under the
// names that programs written for horovodrun, torchrun and mpirun read.
package rankenv

import (
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxAddrs is the maximum number of addresses in GORUN_ADDRS.
const MaxAddrs = 64

// Rank is the position of a process in its job.
type Rank struct {
	Job   string // job id, unique per launch
	Epoch int    // membership generation, 0 at start; elastic jobs count up

	Rank, Size           int // number in the job, 0 ≤ Rank < Size
	LocalRank, LocalSize int // number on this host
	CrossRank, CrossSize int // this host's index among the hosts that hold LocalRank, and their count
	Node, Nodes          int // this host's index among all hosts of the job, and their count

	Host string // the host's name as the user wrote it
	Addr string // IP address at which ranks of other hosts reach this one
	// Addrs are all IP addresses at which ranks of other hosts reach this one, best first;
	// the first is Addr. Environ reads an empty list as Addr alone; FromEnviron never returns
	// an empty list together with an Addr.
	Addrs []string

	Agent string // the rank server, host:port on loopback
	Token string // secret that identifies this rank to the rank server; never in argv or logs

	// Elastic means that the rank asks its agent for an epoch before it joins, and that its numbers
	// change between epochs. ElasticTimeout bounds the wait for enough slots.
	Elastic        bool
	ElasticTimeout time.Duration
	MaxRestarts    int // limit of restarts in a job that replaces all its processes, as torchrun does; else 0

	// Launcher is srun or flux if gorun stands for it: ranks get its variables too.
	Launcher string

	// Shares are the numbers of ranks of the job's programs, in rank order. Environ reads
	// an empty list as one program.
	Shares []int

	Network    Network
	MPI        MPI
	Rendezvous Rendezvous

	ResultFD int // the descriptor to which the rank writes its result, or 0
	GPUs     int // number of GPUs that the rank sees; 0: none, or unknown
}

// Network is how ranks use networks.
type Network struct {
	Encrypt   bool   // whether ranks encrypt the data that they send each other
	All       bool   // whether ring uses all networks that join two hosts
	Interface string // network interface that has Addr, or "" if unknown
	NCCL      string // value of NCCL_SOCKET_IFNAME, or "" if NCCL chooses
}

// MPI is where a rank of an MPI program finds its peers.
type MPI struct {
	// FD is the descriptor of the socket on which the rank speaks PMI-1. If it is 0, the rank
	// connects to Port, host:port, instead.
	FD   int
	Port string
	// OpenMPI4 is the descriptor of the library by which Open MPI up to 4.1 speaks PMI-1, or 0;
	// Flux is the job's number there, and Folder the folder in which its ranks share memory.
	OpenMPI4 int
	Flux     uint32
	Folder   string
}

// Rendezvous is where programs meet that do not use gorun's store.
type Rendezvous struct {
	MasterAddr string // IP address of rank 0's host
	MasterPort int    // port that the agent of rank 0 keeps free for it
	GlooPort   int    // this rank's port of Horovod's rendezvous on 127.0.0.1, or 0
}

// Environ encodes r as NAME=value strings in a fixed order.
func (r Rank) Environ() []string {
	n := strconv.Itoa
	env := []string{
		"GORUN_JOB_ID=" + r.Job,
		"GORUN_EPOCH=" + n(r.Epoch),
		"GORUN_RANK=" + n(r.Rank),
		"GORUN_SIZE=" + n(r.Size),
		"GORUN_LOCAL_RANK=" + n(r.LocalRank),
		"GORUN_LOCAL_SIZE=" + n(r.LocalSize),
		"GORUN_CROSS_RANK=" + n(r.CrossRank),
		"GORUN_CROSS_SIZE=" + n(r.CrossSize),
		"GORUN_HOSTNAME=" + r.Host,
		"GORUN_ADDR=" + r.Addr,
		"GORUN_ADDRS=" + strings.Join(r.candidates(), ","),
		"GORUN_AGENT=" + r.Agent,
		"GORUN_TOKEN=" + r.Token,

		"HOROVOD_RANK=" + n(r.Rank),
		"HOROVOD_SIZE=" + n(r.Size),
		"HOROVOD_LOCAL_RANK=" + n(r.LocalRank),
		"HOROVOD_LOCAL_SIZE=" + n(r.LocalSize),
		"HOROVOD_CROSS_RANK=" + n(r.CrossRank),
		"HOROVOD_CROSS_SIZE=" + n(r.CrossSize),
		"HOROVOD_HOSTNAME=" + r.Host,

		"RANK=" + n(r.Rank),
		"WORLD_SIZE=" + n(r.Size),
		"LOCAL_RANK=" + n(r.LocalRank),
		"LOCAL_WORLD_SIZE=" + n(r.LocalSize),
		"GROUP_RANK=" + n(r.Node),
		"GROUP_WORLD_SIZE=" + n(r.Nodes),
		"ROLE_NAME=default",
		"ROLE_RANK=" + n(r.Rank),
		"ROLE_WORLD_SIZE=" + n(r.Size),
		"TORCHELASTIC_RUN_ID=" + r.Job,
		"TORCHELASTIC_RESTART_COUNT=" + n(max(r.Epoch-1, 0)),
		"TORCHELASTIC_MAX_RESTARTS=" + n(r.MaxRestarts),
		"TORCHELASTIC_USE_AGENT_STORE=False", // rank 0 opens the store at MASTER_PORT

		"OMPI_COMM_WORLD_RANK=" + n(r.Rank),
		"OMPI_COMM_WORLD_SIZE=" + n(r.Size),
		"OMPI_COMM_WORLD_LOCAL_RANK=" + n(r.LocalRank),
		"OMPI_COMM_WORLD_LOCAL_SIZE=" + n(r.LocalSize),
	}
	env = append(env, r.tasks()...)
	env = append(env, r.programs()...)
	env = append(env, r.mpi()...)
	if r.Network.Encrypt {
		env = append(env, Encrypt+"=1")
	}
	if r.ResultFD != 0 {
		env = append(env, resultFD+"="+n(r.ResultFD))
	}
	if r.Elastic {
		env = append(env, elastic+"=1", "HOROVOD_ELASTIC=1", "HOROVOD_ELASTIC_TIMEOUT="+
			n(int(r.ElasticTimeout.Seconds())))
	}
	if r.Rendezvous.GlooPort != 0 {
		env = append(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR=127.0.0.1",
			"HOROVOD_GLOO_RENDEZVOUS_PORT="+n(r.Rendezvous.GlooPort))
	}
	return env
}

// Defaults encodes the part of r that the user may override: MASTER_ADDR, MASTER_PORT and the like
// apply only if the environment does not set them, since gorun does not depend on them and a
// firewall may leave only some ports open. Without an error file PyTorch logs a rank's exception.
func (r Rank) Defaults() (env []string) {
	env = []string{"TORCHELASTIC_ERROR_FILE=", "TORCHELASTIC_SIGNALS_TO_HANDLE=SIGTERM,SIGINT,SIGHUP,SIGQUIT",
		"TORCH_NCCL_ASYNC_ERROR_HANDLING=1"}
	if r.Rendezvous.MasterAddr != "" {
		env = append(env, "MASTER_ADDR="+r.Rendezvous.MasterAddr, "MASTER_PORT="+strconv.Itoa(r.Rendezvous.MasterPort))
		if !r.Elastic { // JAX cannot do with numbers of ranks that change
			env = append(env, r.jax()...)
		}
	}
	if r.MPI.Folder != "" {
		env = append(env, "OMPI_MCA_btl_vader_backing_directory="+r.MPI.Folder, "OMPI_MCA_orte_tmpdir_base="+
			r.MPI.Folder)
	}
	if r.Rendezvous.GlooPort != 0 {
		env = append(env, "HOROVOD_CONTROLLER=gloo", "HOROVOD_CPU_OPERATIONS=gloo")
	}
	if r.Network.Interface != "" {
		for _, name := range []string{"HOROVOD_GLOO_IFACE", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"} {
			env = append(env, name+"="+r.Network.Interface)
		}
	}
	if r.Network.All {
		env = append(env, "RING_RAILS=8") // ring's maximum
	}
	if r.Network.NCCL != "" {
		env = append(env, "NCCL_SOCKET_IFNAME="+r.Network.NCCL)
	}
	return env
}

// Encrypt is set to 1 if ranks encrypt what they send each other over networks.
const Encrypt = "GORUN_ENCRYPT"

// resultFD is the number of the descriptor to which a rank writes its result.
const resultFD = "GORUN_RESULT_FD"

// elastic is set to 1 if a rank's numbers may change between epochs.
const elastic = "GORUN_ELASTIC"

// mpi returns the variables of MPICH and its derivatives: PMI-1, and what their launchers set.
func (r Rank) mpi() []string {
	n := strconv.Itoa
	env := []string{"PMI_RANK=" + n(r.Rank), "PMI_SIZE=" + n(r.Size), "MPI_LOCALRANKID=" + n(r.LocalRank),
		"MPI_LOCALNRANKS=" + n(r.LocalSize)}
	if r.MPI.FD != 0 {
		env = append(env, "PMI_FD="+n(r.MPI.FD))
	}
	if r.MPI.Port != "" {
		env = append(env, "PMI_PORT="+r.MPI.Port, "PMI_ID="+n(r.Rank))
	}
	if r.MPI.OpenMPI4 != 0 { // Open MPI mistakes gorun for Flux, which starts ranks without a daemon
		env = append(env, "FLUX_JOB_ID="+n(int(r.MPI.Flux)), "FLUX_PMI_LIBRARY_PATH=/proc/self/fd/"+n(r.MPI.OpenMPI4))
	}
	if r.Addr != "" {
		env = append(env, "MPIR_CVAR_CH3_INTERFACE_HOSTNAME="+r.Addr)
	}
	return env
}

// tasks returns the variables in which scripts for srun and flux run look for the rank's numbers.
// Under other names they would make libraries believe in a scheduler.
func (r Rank) tasks() []string {
	n := strconv.Itoa
	switch r.Launcher {
	case "srun":
		return []string{"SLURM_PROCID=" + n(r.Rank), "SLURM_LOCALID=" + n(r.LocalRank), "SLURM_NODEID=" + n(r.Node),
			"SLURM_NTASKS=" + n(r.Size), "SLURM_NPROCS=" + n(r.Size)}
	case "flux":
		return []string{"FLUX_TASK_RANK=" + n(r.Rank), "FLUX_TASK_LOCAL_ID=" + n(r.LocalRank),
			"FLUX_JOB_SIZE=" + n(r.Size), "FLUX_JOB_NNODES=" + n(r.Nodes)}
	}
	return nil
}

// programs returns Open MPI's variables about the programs of a job. Lists are separated by spaces.
func (r Rank) programs() []string {
	shares := r.Shares
	if len(shares) == 0 {
		shares = []int{r.Size}
	}
	var sizes, firsts []string
	first := 0
	for _, share := range shares {
		sizes = append(sizes, strconv.Itoa(share))
		firsts = append(firsts, strconv.Itoa(first))
		first += share
	}
	return []string{"OMPI_NUM_APP_CTX=" + strconv.Itoa(len(shares)),
		"OMPI_APP_CTX_NUM_PROCS=" + strings.Join(sizes, " "), "OMPI_FIRST_RANKS=" + strings.Join(firsts, " ")}
}

// candidates returns r.Addrs, or Addr if the list is empty.
func (r Rank) candidates() []string {
	if len(r.Addrs) == 0 && r.Addr != "" {
		return []string{r.Addr}
	}
	return r.Addrs
}

// parseAddrs parses GORUN_ADDRS, whose first address must be addr.
func parseAddrs(list, addr string) ([]string, error) {
	addrs := strings.Split(list, ",")
	if len(addrs) > MaxAddrs {
		return nil, fmt.Errorf("GORUN_ADDRS lists %d addresses, at most %d are allowed", len(addrs), MaxAddrs)
	}
	for i, a := range addrs {
		if _, err := netip.ParseAddr(a); err != nil {
			return nil, fmt.Errorf("GORUN_ADDRS=%q: %q is not an IP address", list, a)
		}
		if slices.Contains(addrs[:i], a) {
			return nil, fmt.Errorf("GORUN_ADDRS=%q lists %s twice", list, a)
		}
	}
	if addrs[0] != addr {
		return nil, fmt.Errorf("GORUN_ADDRS=%q does not begin with GORUN_ADDR=%s", list, addr)
	}
	return addrs, nil
}

// FromEnviron decodes a Rank from the GORUN_ variables, with a lookup function such
// as os.LookupEnv. If GORUN_ADDRS is missing, GORUN_ADDR is the only address. ok is
// false if the process was not started by gorun; err names the variable that is
// missing or malformed.
func FromEnviron(lookup func(string) (string, bool)) (r Rank, ok bool, err error) {
	if _, ok := lookup("GORUN_RANK"); !ok {
		return Rank{}, false, nil
	}
	var errs []string
	text := func(name string) string {
		v, ok := lookup(name)
		if !ok {
			errs = append(errs, name+" is not set")
		}
		return v
	}
	num := func(name string) int {
		v := text(name)
		n, err := strconv.Atoi(v)
		if err != nil && v != "" {
			errs = append(errs, fmt.Sprintf("%s=%q is not a number", name, v))
		}
		return n
	}
	r = Rank{
		Job:       text("GORUN_JOB_ID"),
		Epoch:     num("GORUN_EPOCH"),
		Rank:      num("GORUN_RANK"),
		Size:      num("GORUN_SIZE"),
		LocalRank: num("GORUN_LOCAL_RANK"),
		LocalSize: num("GORUN_LOCAL_SIZE"),
		CrossRank: num("GORUN_CROSS_RANK"),
		CrossSize: num("GORUN_CROSS_SIZE"),
		Host:      text("GORUN_HOSTNAME"),
		Addr:      text("GORUN_ADDR"),
		Agent:     text("GORUN_AGENT"),
		Token:     text("GORUN_TOKEN"),
	}
	if len(errs) == 0 && (r.Rank < 0 || r.Size < 1 || r.Rank >= r.Size) {
		errs = append(errs, fmt.Sprintf("GORUN_RANK=%d does not fit GORUN_SIZE=%d", r.Rank, r.Size))
	}
	switch v, _ := lookup(Encrypt); v {
	case "", "0":
	case "1":
		r.Network.Encrypt = true
	default: // an unknown value must not turn encryption off
		errs = append(errs, fmt.Sprintf("%s=%q is neither 0 nor 1", Encrypt, v))
	}
	if v, _ := lookup(elastic); v == "1" {
		r.Elastic = true
	}
	r.Addrs = r.candidates()
	if list, _ := lookup("GORUN_ADDRS"); list != "" {
		var err error
		if r.Addrs, err = parseAddrs(list, r.Addr); err != nil {
			errs = append(errs, err.Error())
		}
	}
	if len(errs) > 0 {
		return r, true, fmt.Errorf("rank environment: %s", strings.Join(errs, "; "))
	}
	return r, true, nil
}

// Stale reports whether an inherited variable must not reach a rank, because it describes
// the job of another launcher or of an outer gorun, also one outside the container.
func Stale(name string) bool {
	name = Unprefixed(name)
	switch name {
	case "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
		"NODE_RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
		"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
		"HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME",
		"HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT",
		"GORUN_JOB_ID", "GORUN_EPOCH", "GORUN_RANK", "GORUN_SIZE", "GORUN_LOCAL_RANK", "GORUN_LOCAL_SIZE",
		"GORUN_CROSS_RANK", "GORUN_CROSS_SIZE", "GORUN_HOSTNAME", "GORUN_ADDR", "GORUN_ADDRS", "GORUN_AGENT",
		"GORUN_TOKEN", "GORUN_GUARD", Encrypt, resultFD, elastic, "HOROVOD_ELASTIC", "HOROVOD_ELASTIC_TIMEOUT",
		"FLUX_JOB_ID", "FLUX_PMI_LIBRARY_PATH",
		"FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE", "FLUX_JOB_NNODES",
		"OMPI_NUM_APP_CTX", "OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS", jaxFinds, jaxCoordinator,
		"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS",
		// the last two are srun's way to Intel MPI
		"MPI_LOCALRANKID", "MPI_LOCALNRANKS", "I_MPI_PMI_LIBRARY", "I_MPI_PMI":
		return true
	}
	if strings.HasPrefix(name, "PMIX_MCA_") {
		return false // a setting of the library
	}
	for _, p := range []string{"OMPI_COMM_WORLD_", "PMI_", "PMIX_", "TORCHELASTIC_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}

// UsePython makes a Python environment the one of a rank, as its script activate would: its
// programs come first.
func UsePython(env map[string]string, dir string) {
	path := filepath.Join(dir, "bin")
	if old := env["PATH"]; old != "" {
		path += string(filepath.ListSeparator) + old
	}
	env["PATH"] = path
	delete(env, "PYTHONHOME")
}

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
