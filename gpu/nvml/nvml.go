//go:build cgo

package nvml

import (
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gorun/gorun/gpu"
)

// List returns the GPUs the driver holds, in the order of their indices. Their
// NUMA nodes are not known here. It blocks as long as the driver does, and must
// not run twice at once.
func List() ([]gpu.Device, error) {
	return list(nvml.New())
}

// list reads the inventory from lib. Until Init has succeeded no other call may
// be made: the library's symbols are not there yet, and a missing one ends the
// process. The calls made here exist in every driver since 2013.
func list(lib nvml.Interface) (devices []gpu.Device, err error) {
	if ret := lib.Init(); ret == nvml.ERROR_LIBRARY_NOT_FOUND {
		return nil, errors.New("no NVIDIA driver: libnvidia-ml.so.1 cannot be loaded")
	} else if err := fault("start the NVIDIA management library", ret); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fault("stop the NVIDIA management library", lib.Shutdown())) }()

	count, ret := lib.DeviceGetCount()
	if err := fault("count the GPUs", ret); err != nil {
		return nil, err
	}
	devices = make([]gpu.Device, 0, count)
	for i := range count {
		d, err := describe(lib, i)
		if err != nil {
			return nil, fmt.Errorf("GPU %d: %w", i, err)
		}
		devices = append(devices, d)
	}
	return devices, nil
}

// describe asks for everything about one GPU. Only its handle and its PCI
// address must be there; the rest stays unknown where a device does not tell.
func describe(lib nvml.Interface, index int) (gpu.Device, error) {
	d := gpu.Device{Index: index, NUMANode: -1}
	handle, ret := lib.DeviceGetHandleByIndex(index)
	if err := fault("open it", ret); err != nil {
		return d, err
	}
	pci, ret := handle.GetPciInfo()
	if err := fault("read its PCI address", ret); err != nil {
		return d, err
	}
	d.BusID = fmt.Sprintf("%04x:%02x:%02x.0", pci.Domain, pci.Bus, pci.Device)
	if uuid, ret := handle.GetUUID(); ret == nvml.SUCCESS {
		d.UUID = uuid
	}
	if name, ret := handle.GetName(); ret == nvml.SUCCESS {
		d.Name = name
	}
	if memory, ret := handle.GetMemoryInfo(); ret == nvml.SUCCESS {
		d.MemoryBytes = memory.Total
	}
	return d, nil
}

// fault is the error that ret stands for, if any.
func fault(doing string, ret nvml.Return) error {
	if ret == nvml.SUCCESS {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, ret)
}
