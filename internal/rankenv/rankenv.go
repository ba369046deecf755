// Package rankenv is the environment a rank is born with: the launcher's side
// encodes a [Rank] into variables, the ring side decodes it again.
//
// The GORUN_ names are ours. The others are the names that programs written for
// horovodrun, torchrun and mpirun read; they say the same things again.
package rankenv

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxAddrs is the most addresses that GORUN_ADDRS may list.
const MaxAddrs = 64

// Rank is what one process of a job knows about its place in it.
type Rank struct {
	Job   string // job id, unique per launch
	Epoch int    // membership generation, 0 at start; elastic jobs count up

	Rank, Size           int // place in the job, 0 ≤ Rank < Size
	LocalRank, LocalSize int // place on this host
	CrossRank, CrossSize int // this host's index among the hosts that hold LocalRank, and their count
	Node, Nodes          int // this host's index among all hosts of the job, and their count

	Host string // the host's name as the user wrote it
	Addr string // IP address at which ranks of other hosts reach this one
	// Addrs are all IP addresses at which they may, best first: the first is Addr.
	// Environ takes an empty list for Addr alone, FromEnviron never returns one when
	// there is an Addr.
	Addrs []string

	Agent string // the agent's door, host:port on loopback
	Token string // secret that names this rank at the door; never in argv or logs

	Encrypt bool // what ranks send each other over networks

	// Elastic says that the rank's numbers hold for its first epoch, 1 or later; it asks its agent for the others. ElasticTimeout is how
	// long there may be too few slots.
	Elastic        bool
	ElasticTimeout time.Duration

	// Shares are the numbers of ranks of the job's programs, in the order of the ranks. Environ takes
	// an empty list for one program.
	Shares []int

	GlooPort  int    // this rank's own port of Horovod's rendezvous, on 127.0.0.1; 0: there is none
	Interface string // the network interface that has Addr, where it is known

	// NCCLInterfaces are those that NCCL should use, as NCCL_SOCKET_IFNAME has them; "": it is left to NCCL.
	NCCLInterfaces string

	// PMIFD is the number of the socket on which the rank speaks PMI-1; 0: it opens PMIPort, host:port, instead.
	PMIFD   int
	PMIPort string
	// OpenMPI4 is the number of the file that is Open MPI's library for PMI-1, Flux the job's number there, and OpenMPIFolder where
	// its ranks share memory; 0: the job has no programs of Open MPI 4's.
	OpenMPI4      int
	Flux          uint32
	OpenMPIFolder string

	MasterAddr string // IP address of rank 0's host, for programs that rendezvous by themselves
	MasterPort int    // a port that was free there at start
}

// Environ returns r as NAME=value strings, in a fixed order.
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
		"TORCHELASTIC_MAX_RESTARTS=0",
		"TORCHELASTIC_USE_AGENT_STORE=False", // rank 0 opens the store at MASTER_PORT

		"OMPI_COMM_WORLD_RANK=" + n(r.Rank),
		"OMPI_COMM_WORLD_SIZE=" + n(r.Size),
		"OMPI_COMM_WORLD_LOCAL_RANK=" + n(r.LocalRank),
		"OMPI_COMM_WORLD_LOCAL_SIZE=" + n(r.LocalSize),
	}
	env = append(env, r.programs()...)
	env = append(env, r.mpi()...)
	if r.Encrypt {
		env = append(env, Encrypt+"=1")
	}
	if r.Elastic {
		env = append(env, elastic+"=1", "HOROVOD_ELASTIC=1", "HOROVOD_ELASTIC_TIMEOUT="+n(int(r.ElasticTimeout.Seconds())))
	}
	if r.GlooPort != 0 {
		env = append(env, "HOROVOD_GLOO_RENDEZVOUS_ADDR=127.0.0.1", "HOROVOD_GLOO_RENDEZVOUS_PORT="+n(r.GlooPort))
	}
	return env
}

// Defaults are what r says in variables that are the user's to set: they count where nobody has. Where programs
// meet is nothing that gorun itself depends on, and some ports are open in a firewall.
func (r Rank) Defaults() (env []string) {
	if r.MasterAddr != "" {
		env = append(env, "MASTER_ADDR="+r.MasterAddr, "MASTER_PORT="+strconv.Itoa(r.MasterPort))
	}
	if r.OpenMPIFolder != "" {
		env = append(env, "OMPI_MCA_btl_vader_backing_directory="+r.OpenMPIFolder, "OMPI_MCA_orte_tmpdir_base="+r.OpenMPIFolder)
	}
	if r.GlooPort != 0 {
		env = append(env, "HOROVOD_CONTROLLER=gloo", "HOROVOD_CPU_OPERATIONS=gloo")
	}
	if r.Interface != "" {
		for _, name := range []string{"HOROVOD_GLOO_IFACE", "GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME"} {
			env = append(env, name+"="+r.Interface)
		}
	}
	if r.NCCLInterfaces != "" {
		env = append(env, "NCCL_SOCKET_IFNAME="+r.NCCLInterfaces)
	}
	return env
}

// Encrypt is set to 1 where ranks encrypt what they send each other over networks.
const Encrypt = "GORUN_ENCRYPT"

// elastic is set to 1 where a rank may have other numbers later.
const elastic = "GORUN_ELASTIC"

// mpi are the variables of MPICH and its kin: PMI-1, and what their launchers set.
func (r Rank) mpi() []string {
	n := strconv.Itoa
	env := []string{"PMI_RANK=" + n(r.Rank), "PMI_SIZE=" + n(r.Size), "MPI_LOCALRANKID=" + n(r.LocalRank), "MPI_LOCALNRANKS=" + n(r.LocalSize)}
	if r.PMIFD != 0 {
		env = append(env, "PMI_FD="+n(r.PMIFD))
	}
	if r.PMIPort != "" {
		env = append(env, "PMI_PORT="+r.PMIPort, "PMI_ID="+n(r.Rank))
	}
	if r.OpenMPI4 != 0 { // it takes us for Flux, whose way to start ranks needs no daemon of its own
		env = append(env, "FLUX_JOB_ID="+n(int(r.Flux)), "FLUX_PMI_LIBRARY_PATH=/proc/self/fd/"+n(r.OpenMPI4))
	}
	if r.Addr != "" {
		env = append(env, "MPIR_CVAR_CH3_INTERFACE_HOSTNAME="+r.Addr)
	}
	return env
}

// programs are Open MPI's variables about the programs of a job. Lists have spaces between their numbers.
func (r Rank) programs() []string {
	shares := r.Shares
	if len(shares) == 0 {
		shares = []int{r.Size}
	}
	var sizes, firsts []string
	first := 0
	for _, share := range shares {
		sizes, firsts = append(sizes, strconv.Itoa(share)), append(firsts, strconv.Itoa(first))
		first += share
	}
	return []string{"OMPI_NUM_APP_CTX=" + strconv.Itoa(len(shares)),
		"OMPI_APP_CTX_NUM_PROCS=" + strings.Join(sizes, " "), "OMPI_FIRST_RANKS=" + strings.Join(firsts, " ")}
}

// candidates are r.Addrs, or Addr where it stands alone.
func (r Rank) candidates() []string {
	if len(r.Addrs) == 0 && r.Addr != "" {
		return []string{r.Addr}
	}
	return r.Addrs
}

// parseAddrs reads GORUN_ADDRS, whose first address must be addr.
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

// FromEnviron reads a Rank back with lookup, usually os.LookupEnv. Only the
// GORUN_ names are read. GORUN_ADDRS may be missing; GORUN_ADDR is then the only
// address. ok is false when the process was not started by gorun; err says which
// variable is missing or malformed when it was.
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
		Job: text("GORUN_JOB_ID"), Epoch: num("GORUN_EPOCH"),
		Rank: num("GORUN_RANK"), Size: num("GORUN_SIZE"),
		LocalRank: num("GORUN_LOCAL_RANK"), LocalSize: num("GORUN_LOCAL_SIZE"),
		CrossRank: num("GORUN_CROSS_RANK"), CrossSize: num("GORUN_CROSS_SIZE"),
		Host: text("GORUN_HOSTNAME"), Addr: text("GORUN_ADDR"),
		Agent: text("GORUN_AGENT"), Token: text("GORUN_TOKEN"),
	}
	if len(errs) == 0 && (r.Rank < 0 || r.Size < 1 || r.Rank >= r.Size) {
		errs = append(errs, fmt.Sprintf("GORUN_RANK=%d does not fit GORUN_SIZE=%d", r.Rank, r.Size))
	}
	switch v, _ := lookup(Encrypt); v {
	case "", "0":
	case "1":
		r.Encrypt = true
	default: // in doubt nothing must travel in the clear
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

// Stale reports whether an inherited variable must not reach a rank: it would
// tell the rank of another launcher's job, or of an outer gorun, also one around the
// container.
func Stale(name string) bool {
	name = Unprefixed(name)
	switch name {
	case "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
		"NODE_RANK", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
		"HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE",
		"HOROVOD_CROSS_RANK", "HOROVOD_CROSS_SIZE", "HOROVOD_HOSTNAME",
		"HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT",
		"GORUN_JOB_ID", "GORUN_EPOCH", "GORUN_RANK", "GORUN_SIZE", "GORUN_LOCAL_RANK", "GORUN_LOCAL_SIZE",
		"GORUN_CROSS_RANK", "GORUN_CROSS_SIZE", "GORUN_HOSTNAME", "GORUN_ADDR", "GORUN_ADDRS", "GORUN_AGENT", "GORUN_TOKEN", "GORUN_GUARD", Encrypt, elastic, "HOROVOD_ELASTIC", "HOROVOD_ELASTIC_TIMEOUT",
		"FLUX_JOB_ID", "FLUX_PMI_LIBRARY_PATH",
		"OMPI_NUM_APP_CTX", "OMPI_APP_CTX_NUM_PROCS", "OMPI_FIRST_RANKS",
		"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NODEID", "SLURM_GTIDS",
		"MPI_LOCALRANKID", "MPI_LOCALNRANKS":
		return true
	}
	for _, p := range []string{"OMPI_COMM_WORLD_", "PMI_", "PMIX_", "TORCHELASTIC_"} {
		if strings.HasPrefix(name, p) {
			return true
		}
	}
	return false
}
