// Package stub plays thousands of hosts to one gorun. Each host is a real SSH server with an agent
// that speaks the real protocol, but starts no process: its ranks end as they are told. All hosts
// share one listener on loopback and one process, so the cost of a launcher can be measured without
// the hosts' own.
package stub
