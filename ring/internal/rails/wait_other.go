//go:build !linux

package rails

// hangup does not exist here.
const hangup = 0
