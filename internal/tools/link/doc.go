// Package link emulates a network between the network namespaces of this machine: it delays, limits
// and drops frames, for each direction by itself. It stands in for tc's netem, which many kernels
// lack. It needs root and /dev/net/tun.
//
// Each host has a TAP interface whose frames this process carries. A frame passes three lines: that
// out of its sender, that from sender to receiver, and that into its receiver. So a rate of Out or
// In is shared by all others, as that of a network card is, and Path makes one pair of hosts unlike
// the rest.
//
//	network, err := link.New(seed)          // the seed decides which frames are lost
//	defer network.Close()                   // also ends the interfaces
//	f1, err := network.Join("/proc/PID/ns/net", "wan0", netip.MustParsePrefix("10.90.0.1/24"))
//	f2, err := network.Join("/proc/PID/ns/net", "wan0", netip.MustParsePrefix("10.90.0.2/24"))
//	f1.Out(link.Line{Delay: 5 * time.Millisecond, Rate: 100e6})
//	f1.In(link.Line{Rate: 100e6})
//	network.Path(f1, f2, link.Line{Loss: 0.02}) // f1 -> f2 only
//
// PID is any process of the host, such as Hosts[i].PID of a cluster of package lab. Lines may
// change at any time, and frames under way keep what they met. Ranks use the interface with `gorun
// --network-interface wan0`.
//
// Where no line loses frames, large TCP segments pass whole (TSO), so that a few hundred MB/s cost
// little. Such a frame counts with the headers of its packets, but arrives when its last byte does.
// [Network.Stats] tells how late frames were: that is this machine's doing, and belongs beside
// every figure.
package link
