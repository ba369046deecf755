// Package elastic decides the course of a job whose hosts come and go: which processes run where,
// which survive into which epoch, and when the job ends.
//
// A [Driver] is a pure state machine like the launcher's core: events with times in, actions out.
// It needs a [Tick] at least every second. Hosts come from a discovery [Script], whose output
// [Parse] reads and [Debouncer] filters.
//
// A slot is a host and a number on it, which a process keeps for life. A process is identified by
// its slot and the epoch that it was started for (Born).
//
// The caller carries the actions out, and owes the driver these events:
//   - [Ready] after a [Start], when the process waits for its epoch; or [Exited] or
//     [StartFailed].
//   - [Exited] once for the end of each process, whether by a [Stop] (TERM, grace, KILL) or not.
//   - [HostFenced] after a [Fence], when no process of the job can be alive on the host. Without
//     it the driver relies on the agents' lease and waits Config.Fence.
//   - [Joined] for each member after an [Announce], which admits parked processes with new
//     numbers and ready ones with those of their Start.
package elastic
