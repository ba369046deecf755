package main

// #include "failure.h"
import "C"

import (
	"context"
	"time"
	"unsafe"

	"github.com/gorun/gorun/ring"
)

//export goRingDeviceOpen
func goRingDeviceOpen(comm C.ring_comm, ordinal C.int32_t, options *C.ring_device_options, device *C.ring_device,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupComm(comm)
	var chosen C.ring_device_options
	switch {
	case err != nil:
	case device == nil:
		err = nowhere("device")
	case options == nil:
	case options.size < C.sizeof_ring_device_options:
		err = invalid("options without their size: set it to sizeof(ring_device_options), which is %d",
			C.sizeof_ring_device_options)
	default:
		chosen = *options
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	ctx, cancel := bounded(chosen.open_ms)
	defer cancel()
	d, err := ring.NewDevice(ctx, o.comm, int(ordinal), ring.WithDeviceTimeout(max(span(chosen.timeout_ms), 0)))
	if err != nil {
		return tell(failure, o, err)
	}
	*device = keep(&object{comm: o.comm, device: d})
	return C.RING_OK
}

//export goRingDeviceClose
func goRingDeviceClose(device C.ring_device, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupDevice(device)
	if err != nil {
		return tell(failure, nil, err)
	}
	if !o.requests.close() {
		return tell(failure, nil, missing(device))
	}
	return tell(failure, nil, o.device.Close())
}

//export goRingDeviceInfo
func goRingDeviceInfo(device C.ring_device, info *C.ring_device_info, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupDevice(device)
	if err == nil && (info == nil || info.size < C.sizeof_ring_device_info) {
		err = invalid("a ring_device_info without its size: set it to sizeof(ring_device_info), which is %d",
			C.sizeof_ring_device_info)
	}
	if err != nil {
		return tell(failure, nil, err)
	}
	info.native = 0
	if o.device.Native() {
		info.native = 1
	}
	putText(&info.how[0], C.size_t(len(info.how)), o.device.String())
	return C.RING_OK
}

// The stream is passed as an integer: CUDA's streams 1 and 2 are invalid pointers.
//
//export goRingDeviceRun
func goRingDeviceRun(device C.ring_device, stream C.uintptr_t, count C.size_t, calls *C.ring_call, scales *C.double,
	failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupDevice(device)
	switch {
	case err != nil:
		return tell(failure, nil, err)
	case count == 0:
		return C.RING_OK
	case count > slotMask:
		return tell(failure, o, invalid("a group of %d", uint64(count)))
	case calls == nil:
		return tell(failure, o, invalid("the calls are NULL"))
	}
	work := make([]ring.DeviceCall, count)
	for i := range work {
		call, err := callOf(calls, i)
		if err == nil {
			work[i].Collective, err = collective(call, o.comm.Size())
		}
		if err != nil {
			return tell(failure, o, err)
		}
		if scales != nil {
			work[i].Scale = float64(unsafe.Slice(scales, count)[i])
		}
	}
	return tell(failure, o, o.device.Do(context.Background(), ring.Stream(stream), work...))
}

//export goRingDeviceWait
func goRingDeviceWait(device C.ring_device, timeout C.int64_t, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupDevice(device)
	if err != nil {
		return tell(failure, nil, err)
	}
	ctx := context.Background()
	cancel := func() {}
	if timeout >= 0 {
		ctx, cancel = context.WithTimeout(ctx, max(span(timeout), time.Nanosecond))
	}
	defer cancel()
	return tell(failure, o, o.device.Wait(ctx))
}

//export goRingDeviceError
func goRingDeviceError(device C.ring_device, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupDevice(device)
	if err == nil {
		err = o.device.Err()
	}
	return tell(failure, o, err)
}

//export goRingSubmitDevice
func goRingSubmitDevice(queue C.ring_queue, ordinal C.int32_t, stream C.uintptr_t, count C.size_t, keys **C.char,
	calls *C.ring_call, ids *C.ring_request, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	return submitGroup(queue, count, keys, calls, ids, failure,
		func(q *ring.Queue, texts []string, work []ring.Collective) ([]ring.Ticket, error) {
			return q.SubmitDevice(nil, int(ordinal), ring.Stream(stream), texts, work)
		})
}
