package plan

// Units of binding.
const (
	BindThread = "hwthread"
	BindCore   = "core"
	BindNode   = "numa"
	BindSocket = "socket"
)

// Binding is the binding policy of all hosts.
type Binding struct {
	To          string // one of the names above; "": ranks are not bound
	Each        int    // cores per rank, or hardware threads with BindThread; 0: not given
	Overload    bool   // ranks may share units
	IfSupported bool   // ranks stay unbound where the system forbids binding
	Near        bool   // unless they are bound otherwise, ranks run on the NUMA nodes of their GPUs
}

// GPUs is how GPUs are assigned to ranks. The zero value means automatic.
type GPUs struct {
	Leave   bool // GPUs are neither assigned nor inspected
	PerRank int  // for each rank; 0: automatic
}

// Placement is where a rank runs on its host.
type Placement struct {
	Rank    int
	CPUs    string // hardware threads, as the kernel lists them: 0-3,8; "": not bound
	Where   string // the same in words: cores 2-3 of socket 0
	Threads int    // OMP_NUM_THREADS as the agent sets it; 0: it does not
	// GPUs are those of the rank, by index, or by UUID where GPUs are partitioned.
	GPUs []string
}
