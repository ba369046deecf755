package plan

// Units of binding.
const (
	BindThread = "hwthread"
	BindCore   = "core"
	BindL2     = "l2cache"
	BindL3     = "l3cache"
	BindNode   = "numa"
	BindSocket = "socket"
	BindList   = "cpu-list" // all cores that ranks may use
)

// Binding is the binding policy of all hosts.
type Binding struct {
	To          string // one of the names above; "": ranks are not bound
	Each        int    // cores per rank, or hardware threads with BindThread; 0: not given
	Overload    bool   // ranks may share units
	IfSupported bool   // ranks stay unbound where the system forbids binding
	Near        bool   // unless they are bound otherwise, ranks run on the NUMA nodes of their GPUs
	Soft        bool   // the mapping implies To: ranks stay unbound where cores are too few
	Over        string // the unit that ranks are dealt to; "": neighbours stay together
	Fill        int    // ranks that a unit of Over gets before the next; 0: one each in turn
	// BindCore: ranks are numbered in the order of cores; a larger unit: one on each in turn; "":
	// as dealt
	Number string
	Cores  string // the cores that ranks may use, in this order: 4,0-3; "": all
	CPUs   string // the hardware threads of each local rank in turn, by the kernel: 0-3,4-7+12; "": To counts
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
