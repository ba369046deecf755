// Command gorun-gpu prints the machine's GPUs as JSON: an object whose "devices" are [gpu.Device]
// values, with their health if its argument says so. Without a driver it prints one line to stderr
// and exits with status 1. gorun runs it where it is installed; it is a program of its own because
// it links the driver's library, which a static gorun cannot and should not.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/gorun/gorun/gpu"
	"github.com/gorun/gorun/gpu/nvml"
)

func main() {
	list := nvml.List
	if slices.Contains(os.Args[1:], gpu.HealthArgument) {
		list = nvml.Examine
	}
	os.Exit(run(list, os.Stdout, os.Stderr))
}

// run prints the inventory that list returns and returns the exit status.
func run(list func() ([]gpu.Device, error), stdout, stderr io.Writer) int {
	devices, err := list()
	if err == nil {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		err = out.Encode(gpu.Inventory{Devices: devices})
	}
	if err != nil {
		fmt.Fprintf(stderr, "gorun-gpu: %v\n", err)
		return 1
	}
	return 0
}
