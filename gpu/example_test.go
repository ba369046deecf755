package gpu_test

import (
	"fmt"

	"github.com/gorun/gorun/gpu"
)

// Two ranks of a host with four GPUs get two each. The GPUs of a rank are near each other: here 0
// and 2, and 1 and 3, have NVLinks.
func ExampleAssign() {
	devices := make([]gpu.Device, 4)
	for i := range devices {
		devices[i] = gpu.Device{Index: i, NUMANode: -1, NVLinks: map[int]int{(i + 2) % 4: 12}}
	}
	assigned, err := gpu.Assign(devices, gpu.Request{Ranks: 2, PerRank: 2})
	if err != nil {
		fmt.Println(err)
		return
	}
	for rank, share := range assigned.Shares {
		fmt.Printf("rank %d: CUDA_VISIBLE_DEVICES=%s\n", rank, share.Visible)
	}
	// Output:
	// rank 0: CUDA_VISIBLE_DEVICES=0,2
	// rank 1: CUDA_VISIBLE_DEVICES=1,3
}
