package main

// #include "failure.h"
import "C"

import (
	"context"
	"errors"

	"github.com/gorun/gorun/ring"
)

//export goRingCheckHosts
func goRingCheckHosts(comm C.ring_comm, updated *C.int, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupHosts(comm, updated)
	if err != nil {
		return tell(failure, nil, err)
	}
	*updated = 0
	err = o.comm.CheckHosts(context.Background())
	if errors.Is(err, ring.ErrHostsUpdated) {
		*updated = 1
		err = nil
	}
	return tell(failure, o, err)
}

//export goRingHostsUpdated
func goRingHostsUpdated(comm C.ring_comm, updated *C.int, failure *C.ring_failure) (code C.int) {
	defer guard(&code, failure)
	o, err := lookupHosts(comm, updated)
	if err != nil {
		return tell(failure, nil, err)
	}
	*updated = 0
	if o.comm.HostsUpdated() {
		*updated = 1
	}
	return C.RING_OK
}

// lookupHosts is lookupComm for functions with a yes or no answer.
func lookupHosts(comm C.ring_comm, updated *C.int) (*object, error) {
	o, err := lookupComm(comm)
	if err == nil && updated == nil {
		err = nowhere("answer")
	}
	return o, err
}
