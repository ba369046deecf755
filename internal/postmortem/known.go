package postmortem

// failure is a failure by the words in which a program of somebody else reports it. In its hint $1
// is the first group of the pattern, {host} the rank's host, {python} its interpreter, {there}
// where a name must exist, and {copy} how a file comes there.
type failure struct {
	pattern string // regular expression for a line
	hint    string
}

// known is the table of known failures. The first row that matches a line counts.
func known() []failure {
	const (
		stage   = "check the name of $1{there}"
		library = "$1 is not where {host} looks for libraries: install it there, or name its folder: " +
			"-x LD_LIBRARY_PATH=FOLDER"
		module = "{python} on {host} has no module $1: --stage-env DIR brings an environment that has it; " +
			"-x PYTHONPATH=FOLDER names a folder with your own modules"
		hang = "a rank did not take part in time: gorun stacks JOB shows which, while it hangs (--hang-timeout 5m " +
			"watches); a longer time-out is an argument of init_process_group"
		nccl = "-x NCCL_DEBUG=INFO makes NCCL say why; gorun doctor with the job's hosts tests their links, and " +
			"--network-interface chooses the network"
		network = "MASTER_ADDR and MASTER_PORT are rank 0's, which must run as long; gorun doctor with the job's " +
			"hosts tests their links, and --network-interface chooses the network"
		memory = "smaller batches, or fewer ranks for a GPU: --gpus-per-rank 1 gives each rank its own; nvidia-smi " +
			"on {host} shows what uses its memory"
		port = "another process of {host} has the port (ss -ltnp shows which): take MASTER_PORT, which is free in " +
			"each job, by SO_REUSEADDR, or port 0"
		shm = "/dev/shm of {host} is full or small (df -h /dev/shm): docker run --shm-size=8g, in Kubernetes an " +
			"emptyDir with medium Memory there"
		image    = "{copy}"
		carriage = "its lines end with carriage returns, as on Windows: sed -i 's/\\r$//' FILE"
		built    = "it was built for another kind of host: build it for that of {host}"
	)
	return []failure{
		// Python
		{`ModuleNotFoundError: No module named '([^']+)'`, module},
		{`ImportError: No module named '?([\w.]+)`, module},
		{`python[\d.]*: No module named '?([\w.]+)`, module},
		{`can't open file '?([^':]+)'?: \[Errno 2\]`, stage},
		{`ImportError: (\S+\.so[\w.]*): cannot open shared object file`, library},
		{`OSError: (\S+\.so[\w.]*): cannot open shared object file`, library},
		{`RuntimeError: can't start new thread`, "the user has too many processes and threads on {host}: ulimit -u there, or " +
			"-x OMP_NUM_THREADS=1"},

		// shared memory and disks
		{`unable to (?:allocate shared memory|write to file </torch)|out of shared memory|insufficient shared memory`, shm},
		{`(?:/dev/shm/\S+.*No space left on device|No space left on device.*/dev/shm/)`, shm},
		{`Error while creating shared memory segment`, shm},
		{`No space left on device:? '([^']+)'`, "the file system of $1 on {host} is full: df -h and df -i with that path there"},
		{`No space left on device|ENOSPC`, "a file system of {host} is full: df -h and df -i there show which"},
		{`Disk quota exceeded`, "the user's quota on {host} is used up: quota -s there"},
		{`Too many open files`, "the program may open too few files on {host}: ulimit -n there, in /etc/security/limits.conf, " +
			"or ulimit -n 65536 before gorun is started for ranks here"},

		// files
		{`FileNotFoundError: \[Errno 2\] No such file or directory: '([^']+)'`, stage},
		{`sh: (?:\d+: )?(?:\.: )?(?:cannot open|[Cc]an't open) '?([^':]+?)'?(?:: No such file.*)?$`, stage},
		{`^bash: (\S+): No such file or directory`, stage},
		{`PermissionError: \[Errno 13\] Permission denied: '([^']+)'`, "the user of the ranks may not use $1 on {host}: ls -ld " +
			"with that path there"},

		// GPUs
		{`CUDA out of memory|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY|RESOURCE_EXHAUSTED: Out of memory`, memory},
		{`No CUDA GPUs are available|Found no NVIDIA driver|no CUDA-capable device`, "gorun gpus -H {host} shows the GPUs and " +
			"the driver that gorun finds there; a container needs --nv or --gpus"},
		{`not compiled with CUDA enabled`, "the PyTorch of {python} on {host} is built without CUDA: --stage-env DIR brings " +
			"another"},
		{`invalid device ordinal`, "the rank has no GPU of that number: with --gpus-per-rank 1 it sees one, number 0, else " +
			"those of {host} by LOCAL_RANK"},
		{`CUDA driver version is insufficient|driver on your system is too old|forward compatibility was attempted`, "the driver of {host} is older than the " +
			"program's CUDA: gorun gpus -H {host} shows the driver"},

		// collectives
		{`Watchdog caught collective operation timeout`, hang},
		{`gloo.*Timed out waiting \d+ms|Application timeout caused pair closure`, hang},
		{`Timed out after \d+ seconds waiting for clients. (\d+)/(\d+) clients joined`, "only $1 of $2 ranks came to " +
			"init_process_group: gorun stacks JOB shows where the others are, and WORLD_SIZE is the number of ranks"},
		{`client socket has timed out after .* connect to \(([^,]+), (\d+)\)`, "nobody listens on port $2 of $1: " + network},
		{`connectFullMesh failed`, network},
		{`RuntimeError: Socket Timeout`, hang},
		{`NCCL error|ncclUnhandledCudaError|ncclSystemError|ncclInternalError|ncclRemoteError`, nccl},
		{`CoordinationService/RegisterTask|coordination service.*(?:DEADLINE|UNAVAILABLE|Deadline)`, "the rank did not " +
			"reach JAX's coordinator, rank 0, at JAX_COORDINATOR_ADDRESS: give jax.distributed.initialize() no " +
			"arguments, and see whether rank 0 runs: gorun stacks JOB"},
		{`(?i)address already in use|EADDRINUSE`, port},

		// containers
		{`could not open image ([^:]+): image format not recognized`, "$1 on {host} is no image: " + image},
		{`bad superblock for squashfs image|trying to read the squashfs image`, "the image on {host} is cut off or " +
			"damaged: " + image},
		{`could not open image ([^:]+): .* is not readable`, "the user of the ranks may not read the image $1 on {host}: " +
			"ls -l with that path there"},
		{`could not open image ([^:]+)`, "the image $1 is not on {host}: " + image + ", or keep it in a folder that all " +
			"hosts share"},
		{`failed to open /dev/fuse: Permission denied`, "a user needs /dev/fuse for an image that is a file: chmod 666 " +
			"/dev/fuse as root on {host}, or unpack it: apptainer build --sandbox FOLDER IMAGE"},
		{`Failed to create user namespace`, "{host} lets users make no namespaces, which Apptainer needs: as root sysctl " +
			"user.max_user_namespaces=10000 there, or install apptainer-suid"},
		{`no mapping entry found in /etc/subuid for (\S+)`, "--fakeroot needs numbers of users for $1 on {host}: as root " +
			"there usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $1"},
		{`Requesting capability set \w+ while permitted`, "root on {host} lacks capabilities, as in a container: write root " +
			"default capabilities = file into apptainer.conf there, or give -u"},
		{`mount source (\S+) doesn't exist`, "$1, which is to be bound into the container, is not on {host}: make it there, " +
			"or change --bind"},
		{`Unable to find image '([^']+)' locally|pull access denied for ([^,]+)`, "{host} has no image $1$2: docker pull " +
			"it there, after docker login if it is private"},
		{`FATAL:\s+"([^"]+)": executable file not found|exec: "([^"]+)": executable file not found`, "the image has no " +
			"$1$2 in its PATH: give the path that the program has in the container"},

		// loaders and shells
		{`error while loading shared libraries: ([^:]+): cannot open shared object file`, library},
		{`Error loading shared library ([^:]+): No such file`, library},
		{`version .(G?LIBC\w*_[\d.]+|CXXABI_[\d.]+). not found`, "it was built on a newer system than {host}, which lacks $1: " +
			"build it there, or on an older system"},
		{`symbol lookup error: .*undefined symbol: (\S+)`, "{host} loads another version of a library, without $1: ldd PROGRAM " +
			"there shows which; -x LD_LIBRARY_PATH=FOLDER puts another first"},
		{`env: .([^'’]+)\\r.: No such file`, carriage},
		{`\^M: bad interpreter`, carriage},
		{`env: .([^'’]+).: No such file`, "$1 is not in PATH on {host}: install it there, or name another in the first line " +
			"of the script"},
		{`(\S+): cannot execute binary file|Exec format error`, built},
		{`(\S+): cannot execute: required file not found`, "the interpreter or loader of $1 is not on {host}: head -c 100 $1 " +
			"and ldd $1 there name it"},
		{`(\S+): command not found$|sh: (?:\d+: )?(?:exec: )?(\S+): not found$`, "$1$2 is not in PATH on {host}: give its path, " +
			"or add its folder to PATH, which ranks get from here"},
		{`Illegal instruction`, built},
	}
}
