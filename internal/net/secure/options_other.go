//go:build !linux

package secure

import (
	"errors"
	"syscall"
)

func (c Config) control(bool) func(network, address string, raw syscall.RawConn) error {
	return func(string, string, syscall.RawConn) error {
		if c.Congestion != "" {
			return errors.New("TCP congestion control can be chosen on Linux only")
		}
		return nil
	}
}

func setOptions(int, Config, bool) error { return nil }
