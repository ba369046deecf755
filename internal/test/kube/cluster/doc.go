// Package cluster makes a Kubernetes cluster of real components on this machine: etcd, API server,
// controller manager, scheduler and DNS, and nodes with kubelet, containerd and runc.
//
// All of it is in namespaces below one process, the cluster's init. So nothing listens on the
// machine's own addresses, and the kernel ends everything with that process. A shell waits for the
// end of the process that started the cluster, and removes the cgroups and files that are left.
package cluster
